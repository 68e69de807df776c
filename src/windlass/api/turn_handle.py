"""A turn that was accepted, or that begins with its stream: wait for it, watch it, cancel it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, TypeVar, get_args

from windlass.api.turn_options import EventHandler
from windlass.api.turn_result import TurnResult
from windlass.api.watcher import AT_END, Watcher
from windlass.api.watching import messages_so_far, turn_view
from windlass.errors import ConfigError, InvalidInput
from windlass.folds import Cursor, Place, read_cursor, write_cursor
from windlass.guards.limits import check_seconds
from windlass.kernel import Error, Event, HandedOff, Message, Outcome, Recovered, TurnEnded
from windlass.ports import CancelReceipt, NewTurn, TurnState, WaitKind
from windlass.ports.hand_off import MAX_HAND_OFFS, turn_after
from windlass.runtime.program import Output
from windlass.runtime.turn_record import TurnRecord

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

O = TypeVar("O")  # noqa: E741 - the output's type
ThroughParks: TypeAlias = bool | Collection[WaitKind]
"""Which parks a caller waits through: none, all, or those for waits of these kinds."""


_KINDS: tuple[WaitKind, ...] = get_args(WaitKind)


def kinds_of(through_parks: ThroughParks) -> Collection[WaitKind]:
    """Return the kinds of waits that a caller waits through.

    Raises:
        InvalidInput: it names a kind that does not exist.
    """
    if isinstance(through_parks, bool):
        return _KINDS if through_parks else ()
    if isinstance(through_parks, str) or not set(through_parks) <= set(_KINDS):
        wanted = f"True, False or a list of: {', '.join(_KINDS)}"
        raise InvalidInput(f"through_parks: wanted {wanted}", field="through_parks")
    return through_parks


class TurnHandle(Generic[O]):
    """One turn, by its session and id, wherever it runs. `session.submit` and `runtime.turn` return one.

    Where the turn hands its session off to another agent, the handle goes on with the turn of that one: its result,
    its events and its cancel are those of the last turn.

    Attributes:
        session_id: The session that the turn belongs to.
        id: What the caller named the turn, or what was made up for it.
    """

    def __init__(  # noqa: PLR0913 - what a caller knows of a turn beside its id
        self,
        admission: Admission,
        session_id: str,
        turn_id: str,
        *,
        output: Output | None = None,
        turn: NewTurn | None = None,
        issues: tuple[Error, ...] = (),
        live: str = "",
    ) -> None:
        self._admission = admission
        self._output = output
        self._turn = turn
        self._issues = issues
        self.session_id = session_id
        self.id = turn_id
        self._live = live

    @property
    def cursor(self) -> str:
        """A cursor from before the turn: `events(cursor)` and `session.observe(cursor)` show all of it, in any process."""
        return write_cursor(self.session_id, self._live, Place(self.id, ""))

    async def result(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the public name
        *,
        through_parks: ThroughParks = False,
    ) -> TurnResult[O]:
        """Wait until the turn is done, or parked with an unanswered wait.

        The result of a turn that handed off is that of the turn that followed; `followed` has those before it.

        Args:
            timeout: Seconds to wait; None waits for as long as it takes.
            through_parks: True waits until the turn is done, however often it parks on the way: somebody answers its
                waits, in this process or in another one, and waiting costs nothing until then. Kinds of waits, such as
                `["provider"]`, wait through parks for nothing but these.

        Raises:
            TimeoutError: it took longer. The turn goes on.
            EngineError: the runtime was closed while this waited. The turn goes on when one is opened.
        """
        check_seconds(timeout, field="timeout")
        through = kinds_of(through_parks) if through_parks else ()
        if timeout is None:
            result = await self._at_rest(through)
            return (
                result
                if type(result.outcome) is not HandedOff
                else await self._last(result, through)
            )
        async with asyncio.timeout(timeout):
            return await self._last(await self._at_rest(through), through)

    async def _last(self, result: TurnResult[O], through: Collection[WaitKind]) -> TurnResult[O]:
        """Wait for the turns that follow this one, which rested so; return the last result."""
        handle, followed = self, list[TurnResult[O]]()
        while (after := await handle._follower(result.outcome)) is not None:
            followed.append(result)
            handle = after
            result = await handle._at_rest(through)  # noqa: SLF001 - of the same class
        result.followed = tuple(followed)
        return result

    async def _at_rest(self, through: Collection[WaitKind] = ()) -> TurnResult[O]:
        """Wait for this turn alone."""
        admission = self._admission
        worker = admission.worker
        found = await admission.outcome(self.session_id, self.id, self._turn, through=through)
        so_far: tuple[Message, ...] = ()
        if not isinstance(found, TurnRecord):
            so_far = await messages_so_far(admission, self.session_id, self.id)
        output = self._output
        if output is None and worker.has_outputs:
            output = await self._agents_output()
        prices = worker.services.prices
        return TurnResult(found, output=output, so_far=so_far, prices=prices, issues=self._issues)

    async def _follower(self, outcome: Outcome | None, live: str = "") -> TurnHandle[O] | None:
        """Return the turn that follows this one, which ended so; None if none does.

        What the caller asked of the answer holds for that one, too.
        """
        after = await self._admission.follows(self.session_id, self.id, outcome)
        return None if after is None else self._beside(after, live)

    def _beside(self, turn_id: str, live: str = "") -> TurnHandle[O]:
        output, issues = self._output, self._issues
        return TurnHandle(
            self._admission, self.session_id, turn_id, output=output, issues=issues, live=live
        )

    async def _agents_output(self) -> Output | None:
        """Return the output shape of the turn's agent: of a turn that was queued, that may be another one by now."""
        worker, turn = self._admission.worker, self._turn
        programs = worker.programs
        if turn is not None and not worker.has_hand_offs and turn.agent in programs:
            return None if "compact" in turn.request.overrides else programs[turn.agent].output
        view = await turn_view(self._admission, self.session_id, self.id)
        asked = {} if view.request is None else view.request.overrides
        if "output" in asked or "compact" in asked or view.agent not in programs:
            return None
        return programs[view.agent].output

    async def cancel(self, reason: str = "") -> CancelReceipt:
        """Ask for the turn to end, or for the one that it handed off to; it may end by itself before.

        Args:
            reason: Goes into the outcome: `Stopped(reason="cancelled", detail=reason)`.
        """
        return await self._admission.cancel(self.session_id, self.id, reason)

    def events(self, cursor: str | None = None) -> AsyncGenerator[Event, None]:
        """Watch the turn until it ends or is parked: its facts, and live previews where it is driven in this process.

        Where it hands off, the events of the turns that follow come behind its own, until the last one ends or is parked.
        Leaving the loop does not end the turn. A turn that is not known raises before the first event.

        Args:
            cursor: The `cursor` of the last event that was seen, to go on behind it; without one, all of the turn.

        Raises:
            InvalidInput: the cursor is of another session or turn, or none at all.
        """
        begin = read_cursor(self.cursor if cursor is None else cursor, self.session_id)
        turn_id, n_before = self.id, 0
        while begin.place.turn_id != turn_id:
            if n_before == MAX_HAND_OFFS:
                raise InvalidInput.at("cursor", "one of another turn", "one of this turn's events")
            turn_id, n_before = turn_after(turn_id), n_before + 1
        return _watched(self if not n_before else self._beside(turn_id), begin)

    def _watcher(self) -> Watcher:
        """Return a watcher of this turn alone."""
        return Watcher(self._admission, self.session_id, only=self.id)

    async def messages(self) -> tuple[Message, ...]:
        """Return the turn's messages so far: committed ones, or a view of what the journal holds."""
        return await messages_so_far(self._admission, self.session_id, self.id)

    async def status(self) -> TurnState:
        """Return where the turn is: queued, running, parked, ready or done."""
        return (await turn_view(self._admission, self.session_id, self.id)).state


class TurnStream(Generic[O]):
    """A turn and its events: `async with session.stream(...) as turn: async for event in turn`.

    The turn begins on entry. Leaving ends the watching, never the turn.
    """

    def __init__(
        self, admission: Admission, session_id: str, begin: Callable[[], Awaitable[TurnHandle[O]]]
    ) -> None:
        self._admission = admission
        self._session_id = session_id
        self._begin = begin
        self._watcher: Watcher | None = None
        self._handle: TurnHandle[O] | None = None
        self._rested: TurnResult[O] | None = None

    async def __aenter__(self) -> Self:
        feed = self._admission.services.feeds.of(self._session_id)
        # Opened before the turn begins, so that no event is missed and the feed is not dropped meanwhile.
        first, begin = feed.read(), feed.cursor
        try:
            self._handle = await self._begin()
            turn_id = self._handle.id
            self._watcher = self._handle._watcher()  # noqa: SLF001 - of the same module
            self._watcher.begin_with(feed.read(begin, only=turn_id), Place(turn_id, ""))
        finally:
            first.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.close()

    @property
    def handle(self) -> TurnHandle[O]:
        """The turn itself."""
        if self._handle is None:
            raise ConfigError(
                "TurnStream: enter it first, `async with session.stream(...) as turn`",
                field="stream",
            )
        return self._handle

    @property
    def id(self) -> str:
        """The turn's id."""
        return self.handle.id

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the turn until it ends or is parked.

        Raises:
            WindlassError: the turn could not be driven.
        """
        handle, watcher = self.handle, self._watcher
        assert watcher is not None  # noqa: S101 - it is set with the handle
        return _until_it_rests(handle, watcher, self._keep)

    def _keep(self, result: TurnResult[O]) -> None:
        self._rested = result

    async def hand_to(self, on_event: EventHandler) -> TurnResult[O]:
        """Call a function with each event, one after the other; return the turn's result.

        What the function raises ends the watching and is raised here. The turn goes on.
        """
        async with aclosing(aiter(self)) as shown:
            async for event in shown:
                answer = on_event(event)
                if inspect.isawaitable(answer):
                    await answer
        assert self._rested is not None  # noqa: S101 - its events end when it rests
        return self._rested

    async def result(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the public name
        *,
        through_parks: ThroughParks = False,
    ) -> TurnResult[O]:
        """Wait for the turn, as `TurnHandle.result` does."""
        if self._rested is not None and not self._rested.parked:
            return self._rested
        return await self.handle.result(timeout, through_parks=through_parks)


async def _watched(handle: TurnHandle[O], cursor: Cursor) -> AsyncGenerator[Event, None]:
    """Yield the events of a turn behind a cursor until it ends or is parked, wherever it runs."""
    await handle.status()  # raises if there is no such turn
    watcher = handle._watcher()  # noqa: SLF001 - of the same module
    try:
        await watcher.begin(cursor)
        if watcher.has_gap:
            yield Recovered(view=await handle.messages(), cursor=handle.cursor)
        is_told = cursor.place.fact == AT_END
        async with aclosing(_until_it_rests(handle, watcher, is_told=is_told)) as shown:
            async for event in shown:
                yield event
    finally:
        watcher.close()


async def _until_it_rests(
    handle: TurnHandle[O],
    watcher: Watcher,
    keep: Callable[[TurnResult[O]], None] | None = None,
    *,
    is_told: bool = False,
) -> AsyncGenerator[Event, None]:
    """Yield the events of a turn, and of those that follow it, until the last ends or is parked; `keep` gets its result.

    `is_told`: the watcher has seen the end of the first turn already.
    """
    followed: list[TurnResult[O]] = []
    while True:
        async with aclosing(_of_one(handle, watcher, followed, is_told=is_told)) as shown:
            async for event in shown:
                yield event
        result = followed[-1]
        after = await handle._follower(result.outcome, watcher.live)  # noqa: SLF001 - see above
        if after is None:
            break
        # Opened before the other is closed, so that the feed is not dropped meanwhile.
        watching, is_told = after._watcher(), False  # noqa: SLF001 - see above
        await watching.begin(read_cursor(after.cursor, after.session_id))
        watcher.close()
        handle, watcher = after, watching
    watcher.close()
    result.followed = tuple(followed[:-1])
    if keep is not None:
        keep(result)


async def _of_one(
    handle: TurnHandle[O], watcher: Watcher, rested: list[TurnResult[O]], *, is_told: bool
) -> AsyncGenerator[Event, None]:
    """Yield the events of one turn until it ends or is parked; `rested` gets its result."""
    resting = asyncio.get_running_loop().create_task(handle._at_rest())  # noqa: SLF001 - see above
    resting.add_done_callback(lambda _: watcher.poke())
    try:
        is_over = False
        while not is_over and (event := await watcher.next(resting)) is not None:
            is_over = isinstance(event, TurnEnded)
            yield event
        result = await resting
        if not is_over and not is_told and result.outcome is not None:
            # Its journal is gone; how it ended is kept with the history.
            cursor = write_cursor(handle.session_id, "", Place(handle.id, AT_END))
            yield TurnEnded(outcome=result.outcome, cursor=cursor)
        rested.append(result)
    finally:
        resting.cancel()
        if resting.done() and not resting.cancelled():
            resting.exception()  # marks it as seen: a reader that reads to the end raises it
