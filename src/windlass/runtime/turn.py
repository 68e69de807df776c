"""A turn in a worker's hand: its journal, its lane, its waits, and what may be shown of it.

Everything that performs an effect works through this, so that there is one place where a key is made, one where the
journal answers, and one where something is recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from windlass.journal import (
    AwaitEventCommand,
    Claimed,
    Command,
    DirectAnswered,
    DirectCallCommand,
    EffectSubject,
    Entry,
    Envelope,
    EventAwaited,
    Invocation,
    JournalRow,
    Recorded,
    RecordedMoment,
    Scope,
    TurnJournal,
    TurnStarted,
    diff,
    kind_of,
    replay_key,
    wait_key,
)
from windlass.journal.keys import call_key
from windlass.journal.turn_journal import lost_lines
from windlass.kernel import events
from windlass.kernel.events import Event
from windlass.kernel.ids import TurnIds
from windlass.kernel.messages import Attachment, Message
from windlass.kernel.model_call import ModelReply
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome, ToolSpec
from windlass.kernel.value import Json, set_field
from windlass.ports import TurnRequest, Wait, WaitAnswer, WaitKind, WaitView
from windlass.ports.waits import AnswerStatus
from windlass.runtime.feed import TurnFeed
from windlass.runtime.lane import Lane
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.turn_signals import CancelTurn, ParkTurn, StopTurn
from windlass.runtime.turn_usage import TurnUsage

M = TypeVar("M")


class Turn:
    """One turn, driven by one worker under one generation."""

    def __init__(  # noqa: PLR0913 - each is a part of what it is
        self,
        services: Services,
        program: Program,
        memory: SessionMemory,
        turn_id: str,
        *,
        request: TurnRequest,
        lane: Lane,
        feed: TurnFeed,
        generation: int,
    ) -> None:
        self.services = services
        self.program = program
        self.memory = memory
        self.session_id = memory.session_id
        self.turn_id = turn_id
        self.request = request
        self.lane = lane
        self.feed = feed
        self.generation = generation
        self.turn_index = memory.head + 1
        self.ids = TurnIds(self.session_id, turn_id)
        self.iteration = 0
        self.deps: object = None
        self.toolbox = program.toolbox
        self.limits = program.limits
        self.started: TurnStarted | None = None
        self.journal: TurnJournal | None = None
        self.attempts: dict[str, int] = {}
        self.waits: dict[str, WaitView] = {}
        self.issues: list[events.Error] = []
        self.blobs: list[str] = []
        self.remembered: dict[str, str | None] = {}
        self.unknown_calls: set[str] = set()
        self.unknown_edits: set[str] = set()
        self.tool_calls = 0
        self.completed: list[CompletedToolCall] = []
        self.last_reply: ModelReply | None = None
        self.spent = TurnUsage()
        # How the turn ends, if a plugin said so while a tool ran.
        self.over: Outcome | None = None
        # Whether what happens now is new. Before, the journal answers and nothing is shown.
        self.is_live = True
        # Whether its worker was lost: whoever watched it then has previews that came to nothing.
        self.is_recovered = False
        self.is_leaving = False
        self.is_cancelled = False
        # What the turn has said so far, and with all that came before in its frame; its runner knows.
        self.messages_so_far: Callable[[], tuple[Message, ...]] = tuple
        self.history_now: Callable[[], Sequence[Message]] = lambda: memory.messages
        # What the model is offered now.
        self.offered: tuple[ToolSpec, ...] = program.toolbox.specs
        self.system_prompt = ""
        self._last_recorded = 0
        self._shown = 0
        self._scope = Scope(
            session_id=self.session_id, turn_id=turn_id, turn_index=self.turn_index, iteration=0
        )

    # ------------------------------------------------------------------ what is known already

    def recover(self, journal: TurnJournal, waits: tuple[WaitView, ...]) -> None:
        """Take up what earlier workers left."""
        self.waits = {view.wait.key: view for view in waits}
        if journal.started is None and not journal.rows():
            return
        self.journal = journal
        self.is_live = False
        for row in journal.rows():
            self._count_direct(row)
            self._count_lost(row)
            number = row.key.split("/")[5].partition(".")[0]
            if number.isdigit():
                self._last_recorded = max(self._last_recorded, int(number))

    def _count_direct(self, row: JournalRow) -> None:
        if isinstance(row.command, DirectCallCommand) and row.outcome is not None:
            assert isinstance(row.outcome, DirectAnswered)  # noqa: S101 - by its command
            self.spent.count_direct(row.key, row.command, row.outcome)

    def _count_lost(self, row: JournalRow) -> None:
        if row.reserved is not None or row.lost:
            self.spent.count_lost(lost_lines(row))

    def provider_waits(self, key: str) -> list[Wait]:
        """Return the waits for a provider that did not answer this call."""
        return [
            view.wait
            for view in self.waits.values()
            if view.wait.kind == "provider" and view.wait.detail == {"key": key}
        ]

    def was_passed(self, effect_id: int) -> bool:
        """Whether the turn was already beyond this effect: then what is not recorded of it was nothing."""
        return effect_id < self._last_recorded

    def envelope(
        self, command: Command, effect_id: str, *, call_ordinal: int | None = None
    ) -> Envelope:
        """Return what asks the world for something, under the key of its place in the turn."""
        scope = self._scope
        if scope.iteration != self.iteration:
            # Only the count is another one: nothing has to be checked again.
            scope = self._scope = scope.__copy__()  # type: ignore[attr-defined]  # msgspec does not declare it
            set_field(scope, "iteration", self.iteration)
        kind = kind_of(command)
        invocation = Invocation(
            scope=scope,
            subject=EffectSubject(effect_id=effect_id, kind=kind),
            replay_key=replay_key(scope, kind, effect_id, call_ordinal=call_ordinal),
        )
        return Envelope(invocation=invocation, command=command)

    def row(self, key: str) -> JournalRow | None:
        """Return what the journal knows under a key."""
        return None if self.journal is None else self.journal.row(key)

    def answer_to(self, envelope: Envelope, wanted: type[M]) -> M | None:
        """Return what was recorded for this, if it was.

        Raises:
            ParkTurn: something else was asked under this key; a person decides.
        """
        row = None if self.journal is None else self.journal.row(envelope.key)
        if row is None:
            return None
        if row.digest != envelope.digest():
            self.check_accepted(row, envelope)
        outcome = row.outcome
        assert outcome is None or isinstance(outcome, wanted)  # noqa: S101 - by its key
        return outcome

    def check_accepted(self, row: JournalRow, envelope: Envelope) -> None:
        """Let what is recorded stand for another request only if somebody said so.

        Raises:
            ParkTurn: nobody has; a person is asked.
        """
        if self.services.on_mismatch == "accept":
            return
        tries = [view for view in self.waits.values() if view.wait.kind == "mismatch"]
        if any(view.state == "answered" and _value(view) == "accept" for view in tries):
            return
        open_ones = [view for view in tries if view.state == "open"]
        if not open_ones:
            places = [msgspec.to_builtins(one) for one in diff(row.command, envelope.command)]
            self.open_wait(
                "mismatch",
                about=envelope.key,
                digest=f"{envelope.digest()}.{len(tries)}",
                title="The code asks for something else than the journal holds",
                detail={"key": envelope.key, "diff": places},
            )
        raise ParkTurn

    # ------------------------------------------------------------------ writing down

    def add(self, *entries: Entry) -> None:
        """Add entries to the journal; nobody waits."""
        self.lane.add(*entries)

    def record(self, envelope: Envelope, outcome: RecordedMoment, *, claimed: bool = False) -> None:
        """Record an outcome."""
        self.lane.add(Recorded.of(envelope, outcome, claimed=claimed))

    def go_live(self) -> None:
        """From here on things are new: observers get the turn as it stands, then events."""
        if self.is_leaving:
            raise StopTurn
        if self.is_cancelled:
            raise CancelTurn
        if not self.is_live:
            self.is_live = True
            if self.is_recovered:
                self.tell_fact(events.Recovered(view=self.messages_so_far()), "0")

    # ------------------------------------------------------------------ waits

    def wait_key(self, about: str, digest: str) -> str:
        """Return the key of the wait about something of this digest: no other turn has the same."""
        place = f"{self.session_id}/{self.turn_id}/"
        if not about.startswith(place):  # a replay key does
            about = f"{place}{about}"
        return wait_key(self.services.store.secret, about, digest)

    def open_wait(  # noqa: PLR0913 - what a wait is made of
        self,
        kind: WaitKind,
        *,
        about: str,
        digest: str,
        title: str,
        detail: Json = None,
        call_id: str | None = None,
        expires_ms: int | None = None,
    ) -> WaitView:
        """Open a wait, or return it as it stands if it is there."""
        key = self.wait_key(about, digest)
        known = self.waits.get(key)
        if known is not None:
            return known
        wait = Wait(
            key=key,
            kind=kind,
            session_id=self.session_id,
            turn_id=self.turn_id,
            call_id=call_id,
            title=title,
            detail=detail,
            created_ms=self.services.clock.now_ms(),
            expires_ms=expires_ms,
        )
        self.lane.open_wait(wait)
        view = self.waits[key] = WaitView(wait=wait)
        self.tell_fact(
            events.WaitOpened(
                key=key, kind=kind, title=title, call_id=call_id, expires_ms=expires_ms
            )
        )
        return view

    def wait_over(self, view: WaitView, effect_id: str) -> EventAwaited:
        """Record how a wait ended, once, and return it."""
        envelope = self.envelope(AwaitEventCommand(wait_key=view.wait.key), effect_id)
        known = self.answer_to(envelope, EventAwaited)
        if known is not None:
            return known
        answer = view.answer or WaitAnswer(status=_ended(view))
        outcome = EventAwaited(status=answer.status, value=answer.value, by=answer.by)
        self.record(envelope, outcome, claimed=self.row(envelope.key) is not None)
        self.tell_fact(
            events.WaitResolved(
                key=view.wait.key, kind=view.wait.kind, status=answer.status, by=answer.by
            )
        )
        return outcome

    async def ask_approver(self, wait: Wait) -> None:
        """Let whoever answers approvals in this process answer one."""
        approver = self.services.approve
        if approver is None:
            return
        try:
            said = approver(wait)
            allows = await said if inspect.isawaitable(said) else said
        except Exception as error:  # noqa: BLE001 - whoever decides and fails has allowed nothing
            self.note_issue(f"approve= raised {type(error).__name__}", "policy_failed")
            allows = False
        # Anything but a plain yes is a no.
        status: AnswerStatus = "answered" if allows is True else "rejected"
        answer = WaitAnswer(status=status, by="approver", now_ms=self.services.clock.now_ms())
        await self.services.store.resolve_wait(wait.key, answer)
        await self.reload_waits()

    async def reload_waits(self) -> None:
        """Look again how the turn's waits stand; the turn is read only if one of them has its answer."""
        store = self.services.store
        found = await store.list_waits(session_id=self.session_id, turn_id=self.turn_id)
        still_open = {view.wait.key for view in found}
        if all(view.state != "open" or key in still_open for key, view in self.waits.items()):
            return
        turn = await store.load_turn(self.session_id, self.turn_id)
        if turn is not None:
            for view in turn.waits:
                self.waits[view.wait.key] = view
            self.is_cancelled = self.is_cancelled or turn.cancel is not None

    # ------------------------------------------------------------------ showing

    def show(self, event: Event) -> None:
        """Show what the machine said: it has its id already."""
        if not self.is_live:
            return
        if event.preview:
            self.feed.show(event)
        else:
            self.feed.hold(event, until=self.lane.mark())

    def tell(self, event: Event, correlation: str = "") -> None:
        """Show a preview."""
        if self.is_live:
            self.feed.show(self._stamped(event, correlation))

    def tell_from_thread(self, event: Event, correlation: str) -> None:
        """Show a preview from whatever thread."""
        if self.is_live:
            self.feed.show_threadsafe(self._stamped(event, correlation))

    def tell_fact(self, event: Event, correlation: str = "") -> None:
        """Show a fact, once all that was added so far is durable."""
        if self.is_live:
            self.feed.hold(self._stamped(event, correlation), until=self.lane.mark())

    def _stamped(self, event: Event, correlation: str) -> Event:
        # It was made to be shown, and nobody has seen it yet.
        self._shown += 1
        set_field(event, "id", self.ids.event(f"{self.generation}r{self._shown}"))
        if correlation:
            set_field(event, "correlation_id", self.ids.correlation(correlation))
        return event

    def take_blobs(self, outcome: ToolOutcome) -> tuple[str, ...]:
        """Return the digests of the bytes that an outcome refers to."""
        if not outcome.content and not outcome.shown:
            return ()
        parts = (*outcome.content, *(outcome.shown or ()))
        return tuple(part.ref for part in parts if isinstance(part, Attachment))

    def note_issue(self, message: str, code: str) -> events.Error:
        """Note something that whoever reads the result should know."""
        return self.note(events.Error(message=message, code=code))

    def note(self, issue: events.Error) -> events.Error:
        """Note an issue, once."""
        if issue not in self.issues:
            self.issues.append(issue)
        return issue

    def claim_count(self, key: str) -> int:
        """Return how often the call of this key was claimed before."""
        return self.attempts.get(key, 0)

    def count_claims(self, entries: tuple[Entry, ...]) -> None:
        """Count the claims of a page of the journal."""
        for entry in entries:
            if isinstance(entry, Claimed):
                key = call_key(entry.key)
                self.attempts[key] = self.attempts.get(key, 0) + 1


def _ended(view: WaitView) -> AnswerStatus:
    return "superseded" if view.state == "open" else view.state


def _value(view: WaitView) -> Json:
    return None if view.answer is None else view.answer.value
