"""Triggers: sources of events, and functions that events are delivered to."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

from windlass.api.process import Process
from windlass.api.process_context import ProcessContext
from windlass.errors import ArgsInvalid, ConfigError, InvalidInput
from windlass.guards.text import words_of
from windlass.journal import ProcessCommand
from windlass.kernel import Json
from windlass.kernel.value import thaw
from windlass.ports import Model, Store, TurnInfo, TurnRequest
from windlass.ports.trigger import DEDUPE_MS
from windlass.runtime.emitting import (
    Delivery,
    DeliveryPlace,
    is_busy,
    is_name,
    ordered_place,
    place_of,
    plain_event,
    source_agent,
    subscriber_agent,
)
from windlass.runtime.process_host import Made
from windlass.runtime.program import Program
from windlass.tools.arguments import converted
from windlass.tools.schema import schema_of_hint

if TYPE_CHECKING:
    from windlass.runtime.process_host import ProcessHost

E = TypeVar("E")
OrderBy = str | Callable[[Any], object]
_NAME_WISH = "an id of at most 64 characters"
_MAX_DEDUPE = timedelta(days=366)
_WAIT_S = 1.0


class Source(Generic[E]):
    """Where events come from, and what they look like.

    Args:
        name: The name of the source; the same in every process.
        payload: The type of its events: a dataclass, a `msgspec.Struct`, a pydantic model, or any other type that tools
            take. Without one, events are any JSON.
        dedupe: How long at least windlass remembers the key of an event: the same key is the same event.
        order_by: A field of the payload, or a function of it. Events with the same value are delivered to a subscriber
            one after the other, in order; without it, in parallel.

    Raises:
        ConfigError: an argument is not valid; names the field.
    """

    @overload
    def __init__(
        self: Source[Any],
        name: str,
        payload: None = None,
        *,
        dedupe: timedelta = ...,
        order_by: OrderBy | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        payload: type[E],
        *,
        dedupe: timedelta = ...,
        order_by: OrderBy | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        payload: type[E] | None = None,
        *,
        dedupe: timedelta = timedelta(milliseconds=DEDUPE_MS),
        order_by: OrderBy | None = None,
    ) -> None:
        if not is_name(name):
            raise ConfigError.at("Source.name", repr(name)[:40], _NAME_WISH)
        if not isinstance(dedupe, timedelta) or not timedelta() <= dedupe <= _MAX_DEDUPE:
            shown = dedupe if isinstance(dedupe, timedelta) else type(dedupe).__name__
            raise ConfigError.at("Source.dedupe", shown, "a timedelta of up to 366 days")
        if order_by is not None and not isinstance(order_by, str) and not callable(order_by):
            wanted = "a field of the payload, or a function of it"
            raise ConfigError.at("Source.order_by", type(order_by).__name__, wanted)
        self.name = name
        self.payload = payload
        self.dedupe = dedupe
        self.order_by = order_by
        self._schema = {} if payload is None else schema_of_hint(payload, field="Source.payload")
        fields = self._schema.get("properties")
        if isinstance(order_by, str) and isinstance(fields, dict) and order_by not in fields:
            wanted = f"a field of the payload: {', '.join(fields)}"
            raise ConfigError.at("Source.order_by", order_by, wanted)

    @property
    def dedupe_ms(self) -> int:
        """How long at least the key of an event is known."""
        return self.dedupe // timedelta(milliseconds=1)

    def plain(self, event: object) -> Json:
        """Return an event as JSON, checked.

        Args:
            event: An object of the payload's type, or JSON that fits it.

        Raises:
            InvalidInput: it does not fit; names the field.
        """
        found = plain_event(event)
        self.typed(found)
        return found

    def typed(self, event: Json) -> E:
        """Return an event as the payload's type.

        Args:
            event: The event as JSON.

        Raises:
            InvalidInput: it does not fit; names the field.
        """
        if self.payload is None:
            return thaw(event)  # type: ignore[no-any-return]  # any JSON
        try:
            found = converted("event", event, self.payload, self._schema)
        except ArgsInvalid as error:
            # Where arguments are checked, places are called args.event; here there are no arguments.
            words = str(error).replace("args.event", "event")
            field = (error.field or "event").replace("args.event", "event")
            raise InvalidInput(words, field=field, found=error.found, wanted=error.wanted) from None
        return found  # type: ignore[return-value]  # what `converted` makes

    def order_key(self, event: E) -> str | None:
        """Return the order key of an event: events with the same key are delivered in order; None: this event waits for none.

        Args:
            event: The event, as the payload's type.
        """
        by = self.order_by
        if by is None:
            return None
        if callable(by):
            found = by(event)
        else:
            found = event[by] if isinstance(event, dict) else getattr(event, by)
        return None if found is None else str(found)


class Subscription(Process[Any]):
    """A function that the events of a source are delivered to. `@on` makes one.

    Attributes:
        name: The name of the subscriber.
        source: The source of its events.
        where: Says which events it gets; None: all.
    """

    noun = "on"

    def __init__(
        self,
        source: Source[Any],
        fn: Callable[..., Awaitable[object]],
        where: Callable[[Any], object] | None,
        name: str | None,
    ) -> None:
        super().__init__(fn, name=name)
        if not is_name(self.name):
            raise ConfigError.at("on.name", repr(self.name)[:40], _NAME_WISH)
        if len(self._parameters.hints) != 1:
            found = f"{len(self._parameters.hints) + 1} parameters"
            raise ConfigError.at(f"on {self.name}", found, "two: the context and the event")
        if where is not None and (not callable(where) or inspect.iscoroutinefunction(where)):
            raise ConfigError.at("on.where", type(where).__name__, "a plain function of the event")
        self.source = source
        self.where = where

    @property
    def program_name(self) -> str:
        """The name of the program that runs its deliveries."""
        return subscriber_agent(self.name)

    async def _run(self, host: ProcessHost) -> object:
        asked = host.turn.request.overrides
        ctx: ProcessContext[Any] = ProcessContext(host, host.turn.turn_id, self)
        if "args" in asked:  # it continued with another event
            (event,) = self._converted(asked["args"]).values()
        else:
            event = self.source.typed(asked.get("event"))
        return await self._fn(ctx, event)


def on(
    source: Source[E], *, where: Callable[[E], object] | None = None, name: str | None = None
) -> Callable[[Callable[[ProcessContext[Any], E], Awaitable[object]]], Subscription]:
    """Deliver the events of a source to an async function of a `ProcessContext` and the event.

    Args:
        source: Where the events come from.
        where: A plain function of the event; the subscriber gets the events for which it returns true.
        name: The name of the subscriber; by default the function's name.
    """
    if not isinstance(source, Source):
        raise ConfigError.at("on.source", type(source).__name__, "a Source")
    return lambda fn: Subscription(source, fn, where, name)


# ---------------------------------------------------------------------- matching


class _Match(NamedTuple):
    """The subscribers that get an event, each with the session of its delivery; and what went wrong in matching."""

    places: dict[str, DeliveryPlace]
    issues: list[str]


class Delivering(Process[Json]):
    """Delivers the occurrences of one source: each to the subscribers that match, in one unit."""

    noun = "trigger"
    is_short = True

    def __init__(self, source: Source[Any]) -> None:
        super().__init__(self._deliver, name=source.name)
        self.source = source
        self.subscriptions: list[Subscription] = []

    @property
    def program_name(self) -> str:
        """The name of the program that drives its occurrences."""
        return source_agent(self.source.name)

    def compiled(
        self,
        find_model: Callable[[str], Model | None],
        model: Model,
        deps: Callable[[TurnInfo], Any] | None,  # noqa: ARG002 - they are the subscribers'
    ) -> Program:
        """Return it as a runtime drives it."""
        return super().compiled(find_model, model, None)

    async def _run(self, host: ProcessHost) -> Json:
        ctx: ProcessContext[Any] = ProcessContext(host, host.turn.turn_id, self)
        return await self._deliver(ctx, host)

    async def _deliver(self, ctx: ProcessContext[Any], host: Any) -> Json:  # noqa: ANN401 - a hint that tools read
        """Deliver one occurrence; return who gets it. One unit records the decision and the deliveries."""
        await self._behind_earlier_months(ctx, host)
        turn, said = host.turn, host.turn.request.overrides
        request = TurnRequest(overrides={name: said[name] for name in ("source", "key", "event")})
        now_ms = turn.services.clock.now_ms()
        delivery = Delivery(self.source.name, turn.session_id, turn.turn_id, request, now_ms)

        async def deliver(_: str) -> Made:
            places, issues = await self._match(turn.services.store, delivery)
            errands = tuple(delivery.to(name, place) for name, place in places.items())
            return {"delivered": list(places), "issues": issues}, errands

        command = ProcessCommand(operation="trigger", process_id=self.source.name)
        decided = await host.act(command, deliver)
        for at, issue in enumerate(decided["issues"]):
            turn.note_issue(str(issue), "trigger_failed", f"trigger.{at}")
        return decided

    async def _behind_earlier_months(self, ctx: ProcessContext[Any], host: ProcessHost) -> None:
        """If the source has an order, wait until the occurrences of earlier months are delivered."""
        if self.source.order_by is None or host.turn.memory.head:
            return
        earlier = partial(self._is_earlier_busy, host)
        while await ctx.step(earlier, effect="pure", name="earlier_months"):
            await ctx.sleep(_WAIT_S)

    async def _is_earlier_busy(self, host: ProcessHost) -> bool:
        store, own = host.turn.services.store, host.turn.session_id
        found = await store.list_sessions(kind="trigger", label=source_agent(self.source.name))
        mine = next(one for one in found if one.session_id == own)
        earlier = [one for one in found if one.created_ms < mine.created_ms]
        return any([await is_busy(store, one) for one in earlier])

    async def _match(self, store: Store, delivery: Delivery) -> _Match:
        """Return who gets an event. If one `where` raises, the other subscribers still get their deliveries."""
        match = _Match({}, [])
        try:
            event = self.source.typed(delivery.request.overrides["event"])
        except InvalidInput as error:
            match.issues.append(f"source {self.source.name}: {error}")
            return match
        try:
            order_key = self.source.order_key(event)
        except Exception as error:  # noqa: BLE001 - the function is the user's
            match.issues.append(f"order_by of {self.source.name}: {_raised(error)}")
            order_key = None
        for one in self.subscriptions:
            try:
                if one.where is not None and not one.where(event):
                    continue
            except Exception as error:  # noqa: BLE001 - the function is the user's
                match.issues.append(f"where of {one.name}: {_raised(error)}")
                continue
            match.places[one.name] = (
                place_of(store.secret, delivery, one.name)
                if order_key is None
                else await ordered_place(store, delivery, one.name, order_key)
            )
        return match


def _raised(error: Exception) -> str:
    return f"{type(error).__name__}: {words_of(error)[:200]}".rstrip(": ")


def grouped(triggers: Sequence[object]) -> dict[str, Delivering]:
    """Return what delivers the events of each source, by the source's name. A subscriber brings its source.

    Raises:
        ConfigError: an entry is neither; or two sources or two subscribers have the same name.
    """
    found: dict[str, Delivering] = {}
    for at, one in enumerate(triggers):
        field = f"Runtime.triggers[{at}]"
        if not isinstance(one, (Source, Subscription)):
            wanted = "a Source, or a function with @on"
            raise ConfigError.at(field, type(one).__name__, wanted)
        source = one if isinstance(one, Source) else one.source
        mine = found.setdefault(source.name, Delivering(source))
        if mine.source is not source:
            raise ConfigError.at(field, f"two sources called {source.name}", "each name once")
        if isinstance(one, Subscription):
            if any(one.name == other.name for other in subscriptions_in(found)):
                raise ConfigError.at(field, f"two subscribers called {one.name}", "each name once")
            mine.subscriptions.append(one)
    return found


def subscriptions_in(delivering: Mapping[str, Delivering]) -> tuple[Subscription, ...]:
    """Return all subscribers."""
    return tuple(one for each in delivering.values() for one in each.subscriptions)
