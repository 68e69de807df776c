"""The turn in flight: all its state, and everything about it that needs no waiting.

Whatever performs an effect works through this object, so that there is one place where a key is made, one where
something is recorded, one where a wait is opened and one where an event is shown. What the journal of an earlier drive
has to say is in `recovery`, which is None for a turn that is new. There is one place where a turn leaves its journal and
meets the world, too (`go_live`); a turn that is only replayed stops there.

Length: it is the one object that everything works through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from windlass.guards.limits import check_limit
from windlass.guards.media import check_file, check_file_name, check_media_type
from windlass.guards.secret import REGISTERED
from windlass.journal import EventAwaited, JournalRow, RecordedMoment, TurnJournal, wait_key
from windlass.journal.commands import AwaitEventCommand, Command, effect_digest, kind_of
from windlass.journal.entries import (
    Attempt,
    Claimed,
    DriveBegan,
    DriveEnded,
    Emitted,
    Recorded,
    TurnStarted,
)
from windlass.journal.redaction import cleaned
from windlass.kernel import Event, ModelReply, Outcome, TurnIds, TurnMachine, canonical, events
from windlass.kernel.effects import Asked
from windlass.kernel.messages import Attachment, Message
from windlass.kernel.responses import Failure
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome, ToolSpec
from windlass.kernel.value import Json, set_field
from windlass.ports import TurnRequest, Wait, WaitAnswer, WaitKind, WaitView
from windlass.ports.children import child_usage_told, usage_in_answer
from windlass.runtime.feed import TurnFeed
from windlass.runtime.lane import Lane
from windlass.runtime.limits import TurnUsage
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.turn_signals import CancelTurn, JournalEnds, StopTurn

M = TypeVar("M", bound=RecordedMoment)


class Keyed(msgspec.Struct, frozen=True, gc=False):
    """A command under the key of its place in the turn: encoded once, and those bytes are hashed and stored."""

    key: str
    body: bytes

    @property
    def digest(self) -> str:
        """What a replay compares; nothing else needs it, so it is made where it is asked for."""
        return effect_digest(self.key, self.body)

    @property
    def written(self) -> Command:
        """The command as an entry carries it: the bytes themselves, which the page takes over as they are."""
        return msgspec.Raw(self.body)  # type: ignore[return-value]  # what `read_command` reads


class Recovery(Protocol):
    """What the journal of earlier drives says; see `runtime.recovery`."""

    journal: TurnJournal
    last_effect: int
    is_over: bool
    claims: Mapping[str, int]
    emitted: Mapping[str, Emitted]
    operations: dict[str, str]
    ended_operations: list[str]
    given_up: set[str]

    @property
    def has_unasked(self) -> bool: ...
    @property
    def syncs(self) -> bool | None: ...

    def answer_to(self, asked: Keyed, wanted: type[M]) -> M | None: ...
    def check_place(self, effect: Asked) -> None: ...
    def check_same(self, row: JournalRow, asked: Keyed) -> None: ...
    def check_operation(self, at: str, kind: str, asked: Command | str) -> None: ...
    def check_emitted(self, told: Emitted, name: str) -> None: ...
    def check_all_asked(self) -> None: ...


class ProvidedTools(Protocol):
    """The tools that providers bring; see `runtime.environments`."""

    async def look_up(self, turn: Turn) -> Failure | None: ...
    async def find(self, turn: Turn) -> None: ...


class Turn:
    """One turn, driven by one worker under one generation."""

    # What plugins let a child use that is one of so many about to begin, by plugin.
    allots: Callable[[int], dict[str, Json]] | None = None
    # How many of the calls under way are to begin a child and have not yet: they share what the turn has left.
    children_to_begin = 0
    # Whether a reply of it was large: then its commit is, too.
    is_large = False

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
        self.ids = TurnIds(self.session_id, turn_id)
        self.machine: TurnMachine | None = None
        self.recovery: Recovery | None = None
        self.started: TurnStarted | None = None
        self.deps: object = None
        self.toolbox = program.toolbox
        # What brings the tools of providers, if there are any.
        self.provided: ProvidedTools | None = None
        self.limits = program.limits
        self.spent = TurnUsage()
        self.waits: dict[str, WaitView] = {}
        self.issues: list[events.Error] = []
        self.blobs: list[str] = []
        self.remembered: dict[str, str | None] = {}
        self.unknown_calls: set[str] = set()
        self.unknown_edits: set[str] = set()
        # Whether any of its messages may refer to bytes that the store keeps.
        self.has_files = False
        self.tool_calls = 0
        self.completed: list[CompletedToolCall] = []
        self.last_reply: ModelReply | None = None
        # How the turn ends, if a plugin said so while a tool ran.
        self.over: Outcome | None = None
        # Whether what happens now is new. Before, the journal answers and nothing is shown.
        self.is_live = True
        # Whether it is only replayed: where it would go live, it stops.
        self.is_replay = False
        # Whether its worker was lost: observers then hold previews that came to nothing.
        self.is_recovered = False
        self.is_stopping = self.is_cancelled = False
        self.cancel_reason = ""
        # What the model is offered now.
        self.offered: tuple[ToolSpec, ...] = program.toolbox.specs
        self.system_prompt = ""
        self._n_before = memory.messages.length
        self._prefix = f"{self.session_id}/{turn_id}/{memory.head + 1}/"
        self._previews = 0
        self._has_drive_entry = False

    @property
    def iteration(self) -> int:
        """The iteration that the turn is in."""
        return 0 if self.machine is None else self.machine.iteration

    def messages_so_far(self) -> tuple[Message, ...]:
        """Return what the turn has said so far."""
        return () if self.machine is None else tuple(self.machine.messages[self._n_before :])

    def history_now(self) -> Sequence[Message]:
        """Return the frame's history, with what the turn has said so far."""
        return self.memory.messages if self.machine is None else self.machine.messages

    # ------------------------------------------------------------------ what earlier drives left

    @property
    def journal(self) -> TurnJournal | None:
        """The journal of earlier drives, if there were any."""
        return None if self.recovery is None else self.recovery.journal

    def row(self, key: str) -> JournalRow | None:
        """Return what the journal knows under a key."""
        return None if self.recovery is None else self.recovery.journal.row(key)

    def answer_to(self, asked: Keyed, wanted: type[M]) -> M | None:
        """Return what was recorded for this, if it was.

        Raises:
            ParkTurn: something else was asked under this key; a person decides.
        """
        return None if self.recovery is None else self.recovery.answer_to(asked, wanted)

    def was_passed(self, effect_id: int) -> bool:
        """Whether an earlier drive got beyond this effect: then what is not recorded of it was nothing."""
        recovery = self.recovery
        return recovery is not None and (recovery.is_over or effect_id < recovery.last_effect)

    def is_new(self, effect_id: int) -> bool:
        """Whether no earlier drive has begun with this effect."""
        return self.is_live or self.recovery is None or effect_id > self.recovery.last_effect

    # ------------------------------------------------------------------ keys

    def key(self, kind: str, effect_id: str, ordinal: int | None = None) -> str:
        """Return the key of an effect of the iteration that the turn is in, or of one call of it."""
        iteration = 0 if self.machine is None else self.machine.iteration
        key = f"{self._prefix}{iteration}/{kind}/{effect_id}"
        return key if ordinal is None else f"{key}/{ordinal}"

    def keyed(self, command: Command, effect_id: str, *, ordinal: int | None = None) -> Keyed:
        """Return a command under the key of its place in the turn."""
        key = self.key(kind_of(command), effect_id, ordinal)
        return Keyed(key, canonical.encode(command))

    # ------------------------------------------------------------------ recording

    def record(  # noqa: PLR0913 - what there is to say of an outcome
        self,
        asked: Keyed,
        outcome: RecordedMoment,
        *,
        claimed: bool = False,
        began_ms: int = 0,
        took_ms: int = 0,
        first_ms: int | None = None,
        attempts: tuple[Attempt, ...] = (),
    ) -> None:
        """Record an outcome; `claimed` says that its claim, with the command, is in the journal."""
        self.lane.add(
            Recorded(
                key=asked.key,
                outcome=outcome,
                command=None if claimed else asked.written,
                began_ms=began_ms,
                took_ms=took_ms,
                first_ms=first_ms,
                attempts=attempts,
            )
        )

    def claim(self, asked: Keyed, **more: Any) -> None:
        """Write down that this is about to run."""
        self.lane.add(
            Claimed(
                key=asked.key, command=asked.written, at_ms=self.services.clock.now_ms(), **more
            )
        )

    def go_live(self) -> None:
        """Leave replay: from here on things are new. Observers get the turn as it stands, then events.

        Raises:
            StopTurn: the worker stops.
            CancelTurn: the turn was cancelled; nothing new begins.
            JournalEnds: it is only replayed.
        """
        if self.is_stopping:
            raise StopTurn
        if self.is_cancelled:
            raise CancelTurn
        if not self.is_live:
            if self.is_replay:
                raise JournalEnds
            self.is_live = True
            self.begin_drive()
            if self.is_recovered:
                self.tell(events.Recovered(view=self.messages_so_far()), "0")

    def cancel(self, reason: str) -> None:
        """Begin nothing new from here on; the turn ends as cancelled. The first reason stands."""
        if not self.is_cancelled:
            self.is_cancelled, self.cancel_reason = True, reason

    def begin_drive(self) -> None:
        """Write down, with the first entry of this drive, who drives the turn from here on."""
        self._has_drive_entry = True
        services = self.services
        self.lane.ride(
            DriveBegan(
                worker=services.worker_id,
                at_ms=services.clock.now_ms(),
                place=services.place,
                build=self.program.build,
            )
        )

    async def park(self) -> None:
        """Park the turn behind all that was added, and end its feed here."""
        await self.lane.park(self._drive_ended("parked"))
        self.feed.end()

    async def give_up(self) -> None:
        """Write down what is done; another drive continues the turn."""
        ended = self._drive_ended("left")
        if ended is not None:
            self.lane.add(ended)
        await self.lane.durable()
        self.feed.end()

    def _drive_ended(self, why: Literal["parked", "left"]) -> DriveEnded | None:
        # A drive that wrote nothing leaves no trace: one may be woken again and again.
        if not self._has_drive_entry or self.lane.has_rider:
            return None
        return DriveEnded(at_ms=self.services.clock.now_ms(), why=why)

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
        wait = cleaned(
            Wait(
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
        )
        self.lane.open_wait(wait)
        view = self.waits[key] = WaitView(wait=wait)
        opened = events.WaitOpened(
            key=key, kind=kind, title=wait.title, call_id=call_id, expires_ms=expires_ms
        )
        self.tell_fact(opened, f"wait{len(self.waits)}")
        return view

    def wait_over(self, view: WaitView, effect_id: str) -> EventAwaited:
        """Record how a wait ended, once, and return it."""
        asked = self.keyed(AwaitEventCommand(wait_key=view.wait.key), effect_id)
        known = self.answer_to(asked, EventAwaited)
        if known is not None:
            return known
        wait = view.wait
        answer = view.answer or WaitAnswer(
            status="superseded" if view.state == "open" else view.state
        )
        outcome = cleaned(EventAwaited(status=answer.status, value=answer.value, by=answer.by))
        self.record(
            asked,
            outcome,
            claimed=self.row(asked.key) is not None,
            began_ms=answer.now_ms,
            took_ms=max(0, answer.now_ms - wait.created_ms),
        )
        self.tell_wait_over(wait, outcome.status, outcome.by)
        self.hear_child(wait, outcome.value)
        return outcome

    def tell_wait_over(self, wait: Wait, status: str, by: str | None = None) -> None:
        """Show how a wait ended."""
        resolved = events.WaitResolved(key=wait.key, kind=wait.kind, status=status, by=by)
        self.tell_fact(resolved, f"wait{self._number_of(wait)}.over")

    def hear_child(self, wait: Wait, value: Json) -> None:
        """Count and show what the child used that answered a wait with this."""
        if wait.kind != "child":
            return
        self.count_child(wait, value)
        total, number = self.spent.of_children(), self._number_of(wait)
        for at, told in enumerate(child_usage_told(wait, value, total), 1):
            self.tell_fact(told, f"wait{number}.used{at}")

    def count_child(self, wait: Wait, value: Json) -> None:
        """Count what the child used that answered a wait with this."""
        lines = usage_in_answer(wait, value)
        if lines:
            self.spent.count_child(wait.key, lines)

    def _number_of(self, wait: Wait) -> int:
        return list(self.waits).index(wait.key) + 1

    async def reload_waits(self) -> None:
        """Look again how the turn's waits stand; the turn is read only if one of them has its answer."""
        store = self.services.store
        found = await store.list_waits(session_id=self.session_id, turn_id=self.turn_id)
        still_open = {view.wait.key for view in found}
        if all(view.state != "open" or key in still_open for key, view in self.waits.items()):
            return
        stored = await store.load_turn(self.session_id, self.turn_id)
        if stored is not None:
            for view in stored.waits:
                self.waits[view.wait.key] = view
            if stored.cancel is not None:
                self.cancel(stored.cancel)

    # ------------------------------------------------------------------ showing

    def tell(self, event: Event, correlation: str = "") -> None:
        """Show a preview."""
        if self.is_live:
            self.feed.show(self._as_preview(event, correlation))

    def tell_from_thread(self, event: Event, correlation: str) -> None:
        """Show a preview from any thread."""
        if self.is_live:
            self.feed.show_threadsafe(self._as_preview(event, correlation))

    def tell_fact(self, event: Event, about: str, correlation: str = "") -> None:
        """Show a fact that is new once all that was added so far is durable.

        Its id follows from what it is `about`, so that every drive of the turn gives it the same one.
        """
        set_field(event, "id", self.ids.event(about))
        if correlation:
            set_field(event, "correlation_id", self.ids.correlation(correlation))
        self.feed.hold(event, until=self.lane.mark())

    def _as_preview(self, event: Event, correlation: str) -> Event:
        # It was made to be shown and has not been seen yet, so it may still be changed.
        if REGISTERED.secrets:
            event = cleaned(event)
        self._previews += 1
        prefix = self.ids.prefix
        set_field(event, "id", f"e_{prefix}.{self.generation}r{self._previews}")
        if correlation:
            set_field(event, "correlation_id", f"c_{prefix}.{correlation}")
        return event

    # ------------------------------------------------------------------ small things

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment:
        """Keep bytes for a tool or a plugin.

        Raises:
            LimitExceeded: there are too many of them.
            InvalidInput: no provider takes them, or their type or name is none.
        """
        check_limit("attachment_bytes", len(data), field="data")
        check_media_type(media_type, field="media_type")
        check_file_name(name, field="name")
        check_file(data, media_type, field="data")
        return await self.keep_bytes(data, media_type, name)

    async def keep_bytes(self, data: bytes, media_type: str, name: str | None) -> Attachment:
        """Put bytes into the store, for messages of this turn to refer to."""
        services = self.services
        ref = await services.store.put_blob(data, now_ms=services.clock.now_ms())
        self.blobs.append(ref)
        return Attachment(ref=ref, media_type=media_type, name=name, n_bytes=len(data))

    def take_blobs(self, outcome: ToolOutcome) -> tuple[str, ...]:
        """Return the digests of the bytes that an outcome refers to."""
        parts = (*outcome.content, *(outcome.shown or ()))
        return tuple(part.ref for part in parts if isinstance(part, Attachment))

    def note_issue(self, message: str, code: str, about: str = "0") -> events.Error:
        """Note something that readers of the result should know; `about` is the effect or call that it arose in."""
        return self.note(events.Error(message=REGISTERED.clean(message), code=code), about)

    def note(self, issue: events.Error, about: str = "0") -> events.Error:
        """Note an issue, once."""
        issue = issue.with_ids(self.ids, about)
        if all(one.id != issue.id for one in self.issues):
            self.issues.append(issue)
        return issue
