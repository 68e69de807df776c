"""The triggers of a runtime: emit events, see what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from os import urandom
from typing import TYPE_CHECKING, Any

from windlass.api.trigger import Delivering, Source
from windlass.errors import IdempotencyConflict, InvalidInput, SessionDeleted
from windlass.guards.limits import check_page
from windlass.kernel import FinishedValue, Json
from windlass.kernel.value import Value, thaw
from windlass.ports import SessionSummary, TurnState, TurnSummary
from windlass.ports.trigger import EmitReceipt
from windlass.ports.views import NO_PAGES
from windlass.runtime.emitting import (
    Emission,
    Emitter,
    is_name,
    name_of_source,
    source_agent,
    subscriber_agent,
)

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

_UNFINISHED: tuple[TurnState, ...] = ("queued", "running", "parked", "ready")
# Unfinished turns are counted up to this number.
_MOST = 1_000
_PAGE = 1_000
# From how many occurrences to read the subscribers of a source that other programs declare.
_RECENT = 20


class Occurrence(Value, kw_only=True):
    """An event that was emitted, and what became of it.

    Attributes:
        id: The id of the occurrence.
        source: The name of its source.
        session_id: The session of its turn.
        state: `done`: it is delivered to all subscribers that match; they may still be at work.
        key: The event's key; None if the event is so old that only its outcome is kept.
        event: The event as JSON; None if it is that old.
        delivered: The subscribers that get it.
        issues: What went wrong in matching.
        ended_ms: When it was delivered, in milliseconds since 1970, UTC.
    """

    id: str
    source: str
    session_id: str
    state: TurnState
    key: str | None = None
    event: Json = None
    delivered: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    ended_ms: int | None = None


class TriggerView(Value, kw_only=True):
    """A source of events.

    Attributes:
        source: Its name.
        subscribers: The names of its subscribers in this runtime. If only other programs declare the source, the
            subscribers that got one of its last 20 occurrences.
        last: Its last occurrence.
        pending: How many of its occurrences are not delivered yet, up to 1,000.
        working: How many deliveries to these subscribers have not ended yet, up to 1,000 each.
    """

    source: str
    subscribers: tuple[str, ...] = ()
    last: Occurrence | None = None
    pending: int = 0
    working: int = 0


class Triggers:
    """The sources and subscribers of a runtime."""

    def __init__(self, admission: Admission, delivering: Mapping[str, Delivering]) -> None:
        self._admission = admission
        self._delivering = delivering

    async def emit(
        self, source: Source[Any] | str, event: object, *, key: str | None = None
    ) -> EmitReceipt:
        """Store an event; see `Runtime.emit`."""
        services = self._admission.services
        store, now_ms = services.store, services.clock.now_ms()
        wanted = urandom(16).hex() if key is None else key
        emission = Emitter(store, services.sources).emission(source, event, wanted, now_ms=now_ms)
        errand = emission.errand
        (receipt,) = await store.run_errands((errand,), now_ms=now_ms)
        if receipt.code == IdempotencyConflict.code:
            raise IdempotencyConflict(
                "key: an event with this key and another payload was emitted before",
                field="key",
                wanted="the same payload, or another key",
            )
        if receipt.status == "dropped":
            raise InvalidInput(f"source: {receipt.reason}", field="source")
        if receipt.status == "done":
            self._admission.worker.kick(errand.session_id)
            return self._receipt("accepted", emission, errand.session_id)
        for session_id in (errand.session_id, *errand.known_in):
            view = await store.load_turn(session_id, errand.turn_id, since=NO_PAGES)
            if view is not None:
                return self._receipt("known", emission, session_id)
        return self._receipt("known", emission, errand.session_id)  # deleted between the two

    def _receipt(self, status: Any, emission: Emission, session_id: str) -> EmitReceipt:  # noqa: ANN401 - one of two
        return EmitReceipt(
            status=status,
            id=emission.errand.turn_id,
            session_id=session_id,
            known_until=emission.known_until(session_id),
        )

    async def list(self, *, everywhere: bool = False) -> tuple[TriggerView, ...]:
        """Return the sources that this runtime declares, by name.

        Args:
            everywhere: Whether to add sources that other programs declare, if the store has events of them.
        """
        names = {*self._delivering, *(await self._stored() if everywhere else ())}
        return tuple([await self._view(name) for name in sorted(names)])

    async def _stored(self) -> set[str]:
        """Return the sources that the store has events of."""
        store, after, found = self._admission.services.store, "", set[str]()
        while page := await store.list_sessions(kind="trigger", after=after, limit=_PAGE):
            found |= {name for one in page if (name := name_of_source(one.label)) is not None}
            after = page[-1].session_id
        return found

    async def _view(self, source: str) -> TriggerView:
        declared = self._delivering.get(source)
        last = await self.occurrences(source, limit=_RECENT if declared is None else 1)
        if declared is None:
            names = tuple(sorted({name for one in last for name in one.delivered}))
        else:
            names = tuple(one.name for one in declared.subscriptions)
        # In this order: an occurrence that is delivered between the two reads is counted at least once.
        pending = await self._unfinished(source_agent(source))
        working = [await self._unfinished(subscriber_agent(name)) for name in names]
        return TriggerView(
            source=source,
            subscribers=names,
            last=last[0] if last else None,
            pending=pending,
            working=sum(working),
        )

    async def _unfinished(self, agent: str) -> int:
        store, count = self._admission.services.store, 0
        for state in _UNFINISHED:
            count += len(await store.list_turns(state=state, agent=agent, limit=_MOST))
        return min(count, _MOST)

    async def occurrences(
        self, source: Source[Any] | str, *, limit: int = 100
    ) -> tuple[Occurrence, ...]:
        """Return the occurrences of a source, the newest first.

        Args:
            source: The source, or its name.
            limit: How many to return at most.
        """
        name = source.name if isinstance(source, Source) else source
        if not is_name(name):
            raise InvalidInput.at("source", repr(name)[:40], "a Source, or its name")
        check_page(limit)
        store, found = self._admission.services.store, list[Occurrence]()
        for session in await self._months(name):
            left = limit - len(found)
            if not left:
                break
            turns = await store.list_turns(session_id=session.session_id, limit=left)
            with suppress(SessionDeleted):  # between the two reads
                found += [await self._occurrence(name, turn) for turn in turns]
        return tuple(found)

    async def _months(self, source: str) -> tuple[SessionSummary, ...]:
        store = self._admission.services.store
        found = await store.list_sessions(kind="trigger", label=source_agent(source))
        return tuple(sorted(found, key=lambda one: one.created_ms, reverse=True))

    async def _occurrence(self, source: str, turn: TurnSummary) -> Occurrence:
        store = self._admission.services.store
        view = await store.load_turn(turn.session_id, turn.turn_id, since=NO_PAGES)
        said = {} if view is None or view.request is None else view.request.overrides
        outcome = None if view is None else view.outcome
        decided: dict[str, Any] = {}
        if isinstance(outcome, FinishedValue) and isinstance(outcome.value, dict):
            decided = outcome.value
        return Occurrence(
            id=turn.turn_id,
            source=source,
            session_id=turn.session_id,
            state=turn.state,
            key=said.get("key"),
            event=thaw(said.get("event")),
            delivered=tuple(decided.get("delivered", ())),
            issues=tuple(decided.get("issues", ())),
            ended_ms=turn.ended_ms,
        )
