"""Replaying a turn: how far its journal leads with the code that is here, found out without doing anything.

A replay is the turn's own loop (`Performer`) over a recorded turn. Where the turn would go live, the replay stops: that is
the frontier. It tells whether the code still asks what the journal answers, and what the turn has said and decided so far.

Law 1. Nothing is asked but the journal: no model, tool, hook, policy, person, provider, deps or instructions.
    The function of a process is run, up to the frontier: its operations have nothing but the journal, it has no deps, and
    what it does beside its operations it does here too, as in every drive.
Law 2. Nothing is written, shown or read: what a replay is given is all that it has. There is no store behind it, no time
    passes in it, and what it is given stays as it was.
Law 3. Up to the frontier a replay and a recovery are the same code. Only where recovery would ask a person about a
    mismatch does a replay report it.

What ends a turn from outside (a plugin, its clock) is in no entry of its journal: its commit alone says so. So of a
finished turn that was stopped like that, the committed outcome is the answer at the frontier.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Literal, NoReturn, TypeAlias, cast

import msgspec

from windlass.errors import InvalidInput, ReplayMismatch, WindlassBug
from windlass.journal import Difference, Entry, TurnJournal, TurnStarted
from windlass.kernel import Message, Outcome, Value
from windlass.kernel.outcomes import Stopped
from windlass.kernel.states import WaitingCheckpoint, WaitingCode, WaitingModel, WaitingTools
from windlass.ports import Clock, SessionView, Store, TurnView
from windlass.runtime.ending import Ending
from windlass.runtime.feed import TurnFeed
from windlass.runtime.hooks import Hooks
from windlass.runtime.lane import Lane
from windlass.runtime.performer import Performer
from windlass.runtime.program import Program
from windlass.runtime.recovery import Recovery
from windlass.runtime.services import Feeds, OnMismatch, Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.starting import missing_code
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import messages_in
from windlass.runtime.turn_signals import ReplayBlocked
from windlass.runtime.turn_start import plugin_names

ReplayState: TypeAlias = Literal["ends", "goes_on", "differs", "blocked"]


class Replayed(Value, kw_only=True):
    """How far the journal of a turn leads.

    state: `ends`: the turn has come to its outcome, or would. `goes_on`: the journal ends before the turn does; from
        here on it would be live. `differs`: code and journal disagree about what is asked. `blocked`: it cannot be
        replayed here, `why` says what is missing.
    effects: how many effects the journal has answered.
    at: the replay key where it stopped: of what would be done next, or of what differs.
    messages: what the turn has said up to there.
    outcome: how it ends.
    is_same: of a finished turn, whether outcome and messages are those that were committed.
    diff: where the recorded request and that of the code part.
    """

    state: ReplayState
    effects: int = 0
    at: str = ""
    messages: tuple[Message, ...] = ()
    outcome: Outcome | None = None
    is_same: bool | None = None
    diff: tuple[Difference, ...] = ()
    why: str = ""


async def replay(
    program: Program,
    view: TurnView,
    session: SessionView | SessionMemory,
    *,
    on_mismatch: OnMismatch = "park",
) -> Replayed:
    """Replay a turn as far as its journal leads.

    Args:
        program: The agent that the turn is of, as it is now.
        view: The turn, with its whole journal.
        session: Its session, with the history that the turn began with: the frame that was open then, at least. Turns
            that came later are passed over.
        on_mismatch: As of a runtime: `accept` lets what is recorded stand for what the code asks.

    Raises:
        InvalidInput: the view lacks a part of the journal, or the session lacks a part of that history.
        JournalCorrupt: the journal contradicts itself.
    """
    if view.since:
        raise InvalidInput.at("view.since", view.since, "0, the whole journal")
    if view.is_reclaimed:
        return Replayed(state="blocked", why="Its journal is not kept any more")
    journal = view.journal()
    if journal.started is None:
        return Replayed(state="goes_on")
    memory = _memory_before(session, journal.started.history)
    return await _Replay(program, view, journal, memory, on_mismatch).run(journal.started)


class _Replay:
    """One turn, being replayed."""

    def __init__(
        self,
        program: Program,
        view: TurnView,
        journal: TurnJournal,
        memory: SessionMemory,
        on_mismatch: OnMismatch,
    ) -> None:
        assert view.request is not None  # noqa: S101 - it is kept as long as the journal
        nothing = _Nothing()
        services = Services(
            store=cast("Store", nothing),
            clock=cast("Clock", _StandingClock()),
            feeds=cast("Feeds", nothing),
            on_mismatch=on_mismatch,
        )
        turn = self._turn = Turn(
            services,
            program,
            memory,
            view.turn_id,
            request=view.request,
            lane=_NoLane(services.store, view.session_id, view.turn_id, generation=view.generation),
            feed=cast("TurnFeed", nothing),
            generation=view.generation,
        )
        turn.is_replay, turn.is_live = True, False
        turn.waits = {one.wait.key: one for one in view.waits}
        if view.cancel is not None:
            turn.cancel(view.cancel)
        turn.recovery = Recovery(turn, view, journal)
        self._journal = journal
        # What the turn added to its session, if it has ended.
        self._page = view.page

    async def run(self, started: TurnStarted) -> Replayed:
        """Replay it."""
        turn = self._turn
        missing = missing_code(turn, started)
        if missing is not None:
            return Replayed(state="blocked", why=missing.title)
        hooks = Hooks(turn, turn.program.plugins)
        hooks.states.apply(started.patches)
        hooks.use(plugin_names(started))
        performer = Performer(turn, started, hooks)
        try:
            outcome = performer.outcome if await performer.run() else None
            outcome = self._as_decided(started, outcome)
            if outcome is None:
                return self._stopped(performer, "goes_on", self._next_key(performer))
            if not performer.machine.is_done:
                performer.finish(outcome)
            ending = Ending(turn, started, hooks)
            ending.recorded(outcome)
            return self._ended(outcome, messages_in(ending.nodes(outcome)))
        except ReplayBlocked as blocked:
            return Replayed(state="blocked", why=str(blocked))
        except ReplayMismatch as mismatch:
            return self._stopped(performer, "differs", mismatch.key, mismatch.diff)
        finally:
            hooks.close()

    def _as_decided(self, started: TurnStarted, outcome: Outcome | None) -> Outcome | None:
        """Return how the turn ended, if plugins or its clock may have ended it otherwise than the machine would."""
        if self._page is None or not isinstance(self._page.outcome, Stopped):
            return outcome
        committed = self._page.outcome
        by_clock = committed.reason == "limit" and self._turn.limits.max_seconds is not None
        return committed if started.plugins or by_clock else outcome

    # ------------------------------------------------------------------ what is told of it

    def _ended(self, outcome: Outcome, messages: tuple[Message, ...]) -> Replayed:
        page, is_same = self._page, None
        if page is not None:
            is_same = outcome == page.outcome and messages == messages_in(page.nodes)
        return Replayed(
            state="ends",
            effects=self._answered(None),
            messages=messages,
            outcome=outcome,
            is_same=is_same,
        )

    def _stopped(
        self,
        performer: Performer,
        state: ReplayState,
        at: str,
        diff: tuple[Difference, ...] = (),
    ) -> Replayed:
        return Replayed(
            state=state,
            effects=self._answered(performer),
            at=at,
            messages=messages_in(performer.machine.records),
            is_same=None if self._page is None else False,
            diff=diff,
        )

    def _answered(self, performer: Performer | None) -> int:
        """Return how many effects the journal has answered, up to the one that the machine waits for."""
        state = None if performer is None else performer.machine.snapshot().state
        last = getattr(state, "effect_id", None)
        numbers = {
            row.key.split("/", 6)[5].partition(".")[0]
            for row in self._journal.rows()
            if row.is_recorded
        }
        return sum(
            number.isdigit() and int(number) > 0 and (last is None or int(number) < last)
            for number in numbers
        )

    def _next_key(self, performer: Performer) -> str:
        """Return the key of what the turn would do next: the first that the journal does not answer."""
        state, turn = performer.machine.snapshot().state, self._turn
        effect_id = str(getattr(state, "effect_id", ""))
        if isinstance(state, WaitingModel):
            return self._first_open(
                turn.key(kind, effect_id) for kind in ("model_call", "model_hooks")
            )
        if isinstance(state, WaitingTools):
            calls = range(len(state.calls))
            keys = [turn.key("tool_call", effect_id, ordinal) for ordinal in calls]
            shown = [f"{turn.key('tool_hooks', effect_id, ordinal)}/presented" for ordinal in calls]
            return self._first_open([*keys, *shown])
        if isinstance(state, WaitingCode):
            assert performer.process is not None  # noqa: S101 - its driver runs code
            return performer.process.frontier
        is_checkpoint = isinstance(state, WaitingCheckpoint)
        return turn.key("checkpoint" if is_checkpoint else "sync_environment", effect_id)

    def _first_open(self, keys: Iterable[str]) -> str:
        rows = ((key, self._journal.row(key)) for key in keys)
        return next((key for key, row in rows if row is None or not row.is_recorded), "")


# ---------------------------------------------------------------------- what it is given


def _memory_before(session: SessionView | SessionMemory, head: int) -> SessionMemory:
    """Return a session as a turn found it that began behind so many others."""
    if isinstance(session, SessionMemory):
        if session.head != head:
            raise InvalidInput.at("session.head", session.head, f"{head}, as the turn found it")
        return copy(session)
    n_left_out = session.head - len(session.pages)
    pages = session.pages[: max(0, head - n_left_out)]
    has_all = n_left_out == 0 or head == 0 or bool(pages and pages[0].is_beginning)
    if head > session.head or not has_all:
        found = f"turns {n_left_out + 1} to {session.head}"
        raise InvalidInput.at("session.pages", found, f"the history up to turn {head}")
    return SessionMemory.of(msgspec.structs.replace(session, head=head, pages=pages))


class _Nothing:
    """Stands where a drive has its store and its feed: a replay never gets there."""

    def __getattr__(self, name: str) -> NoReturn:
        raise WindlassBug(f"a replay asked for {name}")


class _StandingClock(_Nothing):
    """A clock that stands still: no turn is over its time here."""

    def now_ms(self) -> int:
        return 0


class _NoLane(Lane):
    """Takes nothing."""

    def add(self, entry: Entry, blobs: Iterable[str] = ()) -> None:
        """Drop an entry: a call without a result, as its turn is cancelled, or a result that no plugin looks at."""
