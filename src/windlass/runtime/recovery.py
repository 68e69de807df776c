"""What the journal of earlier drives says to the one that goes on.

Law 1. What the journal holds is the answer; nothing of it is run or shown again.
Law 2. If code and journal disagree about what was asked, or where in the turn, nothing runs: the turn parks and a person
    decides.
Law 3. What an effect before the last recorded one left unrecorded was nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from windlass.errors import ReplayMismatch
from windlass.folds.answers import place_in, syncs_first
from windlass.journal import (
    Claimed,
    Difference,
    DirectAnswered,
    EffectKind,
    Emitted,
    Entry,
    EventAwaited,
    JournalRow,
    Recorded,
    RecordedMoment,
    TurnJournal,
    diff,
)
from windlass.journal.commands import (
    AwaitEventCommand,
    Command,
    DirectCallCommand,
    ProcessCommand,
    SleepCommand,
    ToolCallCommand,
    as_written,
    body_of,
    kind_of,
    read_command,
)
from windlass.journal.keys import call_key
from windlass.journal.moments import GIVEN_UP, CallReturned, ProcessAnswered, Slept
from windlass.journal.turn_journal import lost_lines
from windlass.kernel.effects import (
    Asked,
    CallModel,
    CallTools,
    RunCheckpoint,
    RunCode,
    SyncEnvironment,
)
from windlass.ports import TurnView
from windlass.ports.children import ChildEnd
from windlass.runtime.turn import Keyed, Turn
from windlass.runtime.turn_signals import CancelTurn, ParkTurn

M = TypeVar("M", bound=RecordedMoment)
# What an effect is recorded as, and what else says that it was that. Calls by tools and plugins, and waits, may be of any.
_KINDS: Mapping[type[Asked], EffectKind] = {
    CallModel: "model_call",
    CallTools: "tool_call",
    RunCode: "run_code",
    RunCheckpoint: "checkpoint",
    SyncEnvironment: "sync_environment",
}
_SAYS = {kind: kind for kind in _KINDS.values()} | {
    "model_hooks": "model_call",
    "tool_hooks": "tool_call",
}
# What is recorded only if something came of it.
_MAY_BE_NOTHING = ("checkpoint", "sync_environment")
# The place of an operation of a process: the number of its effect, and its position there.
_OPERATION = re.compile(r"\d+\.((?:b\d+\.)*\d+)")
_ENDS_OF_OPERATIONS = (CallReturned, Slept, ProcessAnswered)
_OPERATION_KINDS = ("tool_call", "sleep", "process")

_DISAGREE = "The code asks for something else than the journal holds"
_SLEEP = "a sleep"
# What an operation of a process is called; those that are not here have a name of their own.
_OPERATIONS = {
    "await": "a wait for",
    "start": "the start of",
    "read": "a recorded",
    "signal": "the signal",
}


class Recovery:
    """The journal of a turn that earlier drives have begun."""

    def __init__(self, turn: Turn, view: TurnView, journal: TurnJournal) -> None:
        self._turn = turn
        self.journal = journal
        # Whether the turn has ended: then what is not recorded was nothing.
        self.is_over = view.state == "done"
        self.last_effect = 0
        self._syncs: bool | None = None
        # By the number of each effect what it was: its iteration and kind.
        self._effects: dict[int, tuple[str, str]] = {}
        # By its place what each operation of a process was; those that the function has not asked for in this drive.
        self.operations: dict[str, str] = {}
        self._unasked: set[str] | None = None
        # The positions of those that have ended, in that order.
        self.ended_operations: list[str] = []
        self.given_up: set[str] = set()
        for row in journal.rows():
            self._count(row)
        # How often each call was claimed.
        entries = [entry for page in view.pages for entry in page.entries]
        self.claims: Mapping[str, int] = Counter(
            call_key(one.key) for one in entries if type(one) is Claimed
        )
        # What a process has told its observers, by key.
        self.emitted: Mapping[str, Emitted] = {
            one.key: one for one in entries if type(one) is Emitted
        }
        for key in self.emitted:
            self.operations[place_in(key)[1]] = "process"
        if self.operations:
            self.ended_operations, self.given_up = _ended_operations(entries)

    @classmethod
    def of(cls, turn: Turn, view: TurnView) -> Recovery | None:
        """Return what earlier drives of a turn left, if they left anything."""
        journal = view.journal()
        if journal.started is None and not journal.rows():
            return None
        return cls(turn, view, journal)

    def _count(self, row: JournalRow) -> None:
        command, outcome = row.command, row.outcome
        if isinstance(outcome, DirectAnswered) and isinstance(command, DirectCallCommand):
            self._turn.spent.count_direct(row.key, command, outcome)
        if row.reserved is not None or row.lost:
            self._turn.spent.count_lost(lost_lines(row))
        iteration, kind, effect_id, *_ = row.key.split("/")[3:]
        if self._syncs is None:
            self._syncs = syncs_first((kind, effect_id))
        number, is_inside, _ = effect_id.partition(".")
        if number.isdigit():
            effect = int(number)
            self.last_effect = max(self.last_effect, effect)
            if is_inside and kind in _OPERATION_KINDS and _OPERATION.fullmatch(effect_id):
                self.operations[effect_id] = kind
            elif kind in _SAYS:
                self._effects[effect] = iteration, _SAYS[kind]
        if is_inside and isinstance(outcome, (EventAwaited, ProcessAnswered)):
            self._count_child(row, outcome)

    def _count_child(self, row: JournalRow, answered: EventAwaited | ProcessAnswered) -> None:
        """Count what a child used whose answer is recorded."""
        turn, command = self._turn, row.command
        if isinstance(command, AwaitEventCommand):
            view = turn.waits.get(command.wait_key)
            if view is not None:
                turn.count_child(view.wait, answered.value)
        elif isinstance(command, ProcessCommand) and command.operation == "await":
            # A signal that is waited for names the process itself, and its value is the sender's.
            is_child = command.process_id != turn.session_id
            end = ChildEnd.of(answered.value) if is_child else None
            if end is not None and end.usage:
                turn.spent.count_child(row.key, end.usage)

    @property
    def syncs(self) -> bool | None:
        """Whether the turn asks for its environment before each iteration; None: the journal does not tell.

        Effects are numbered in the order in which the machine asks. So a turn that began one way stays so, whatever
        tools and plugins there are now: under other numbers no recorded answer would be found.
        """
        return self._syncs

    def answer_to(self, asked: Keyed, wanted: type[M]) -> M | None:
        """Return what was recorded for this, if it was.

        Raises:
            ParkTurn: something else was asked under this key; a person decides.
        """
        row = self.journal.row(asked.key)
        if row is None:
            return None
        self.check_same(row, asked)
        outcome = row.outcome
        assert outcome is None or isinstance(outcome, wanted)  # noqa: S101 - by its key
        return outcome

    def check_place(self, effect: Asked) -> None:
        """Let the machine ask for this only if the journal has it here, or goes no further.

        Raises:
            ParkTurn, ReplayMismatch: as of `check_same`.
        """
        kind, known = _KINDS[type(effect)], self._effects.get(effect.id)
        asked = str(self._turn.iteration), kind
        if known == asked:
            return
        if known is None and (kind in _MAY_BE_NOTHING or effect.id >= self.last_effect):
            return
        place = Difference(
            path="$.effect",
            change="added" if known is None else "changed",
            recorded=None if known is None else f"{known[1]} of iteration {known[0]}",
            found=f"{kind} of iteration {asked[0]}",
        )
        self._disagree(self._turn.key(kind, str(effect.id)), kind, lambda: (place,))

    def check_operation(self, at: str, kind: str, asked: Command | str) -> None:
        """Let a process ask for an operation of this kind only if the journal has no other at its place.

        `asked` is what it asks for: a command, or the name of an event.

        Raises:
            ParkTurn, ReplayMismatch: as of `check_same`.
        """
        if self._unasked is None:
            self._unasked = set(self.operations)
        self._unasked.discard(at)
        known = self.operations.get(at)
        if known is not None and known != kind:
            place = Difference(path="$.operation", change="changed", recorded=known, found=kind)
            said = f"operation {_position(at)}, {self._recorded(at)}: now {_named(asked)}"
            self._disagree(self._turn.key(kind, at), kind, lambda: (place,), said)

    def _recorded(self, at: str) -> str:
        """Return what the journal has at the place of an operation, in words."""
        kind, turn = self.operations[at], self._turn
        emitted = self.emitted.get(turn.key("process", at))
        if emitted is not None:
            return _named(emitted.name)
        row = turn.row(turn.key(kind, at, 0 if kind == "tool_call" else None))
        command = None if row is None else read_command(row.command)
        return kind if command is None else _named(command)

    @property
    def has_unasked(self) -> bool:
        """Whether the journal has operations that the process has not asked for."""
        return bool(self.operations if self._unasked is None else self._unasked)

    def check_emitted(self, told: Emitted, name: str) -> None:
        """Let a process tell this only if it is what the journal has at this place.

        Raises:
            ParkTurn, ReplayMismatch: as of `check_same`.
        """
        if told.name != name:
            place = Difference(path="$.name", change="changed", recorded=told.name, found=name)
            at = place_in(told.key)[1]
            said = f"operation {_position(at)}, {_named(told.name)}: now {_named(name)}"
            self._disagree(told.key, name, lambda: (place,), said)

    def check_all_asked(self) -> None:
        """Let a process end only if it has asked for every operation that the journal has.

        Raises:
            ParkTurn, ReplayMismatch: as of `check_same`.
        """
        left = self.operations if self._unasked is None else self._unasked
        for at in sorted(left):
            kind = self.operations[at]
            place = Difference(path="$.operation", change="removed", recorded=kind)
            said = f"operation {_position(at)}, {self._recorded(at)}: now nothing"
            self._disagree(self._turn.key(kind, at), kind, lambda place=place: (place,), said)  # type: ignore[misc]

    def check_same(self, row: JournalRow, asked: Keyed) -> None:
        """Let what is recorded stand for another request only if a person said so.

        Raises:
            ParkTurn: a person is asked, and has not answered yet.
            ReplayMismatch: the turn is only replayed.
        """
        if row.digest == asked.digest:
            return
        # Digests of an earlier format are others than those of today, also of the same command.
        if row.command is not None and body_of(row.command) == asked.body:
            return
        found = read_command(as_written(asked.body))
        said, at = "", place_in(asked.key)[1]
        if at in self.operations and row.command is not None and found is not None:
            recorded, now = _named(read_command(row.command) or found), _named(found)
            if recorded == now:
                now += " of another length" if now == _SLEEP else ", with other arguments"
            said = f"operation {_position(at)}, {recorded}: now {now}"
        self._disagree(asked.key, asked.digest, lambda: diff(row.command, found), said)

    def _disagree(
        self, key: str, digest: str, places: Callable[[], tuple[Difference, ...]], said: str = ""
    ) -> None:
        turn = self._turn
        if turn.services.on_mismatch == "accept":
            return
        tries = [view for view in turn.waits.values() if view.wait.kind == "mismatch"]
        answers = [view.answer for view in tries if view.state == "answered"]
        if any(answer is not None and answer.value == "accept" for answer in answers):
            return
        if turn.is_replay:
            raise ReplayMismatch(
                f"{key}: the journal holds another request", key=key, diff=places()
            )
        if turn.is_cancelled:  # what the code would do does not matter any more
            raise CancelTurn
        if not any(view.state == "open" for view in tries):
            turn.open_wait(
                "mismatch",
                about=key,
                digest=f"{digest}.{len(tries)}",
                title=f"{_DISAGREE}: {said}" if said else _DISAGREE,
                detail={"key": key, "diff": [msgspec.to_builtins(one) for one in places()]},
            )
        raise ParkTurn


def _position(at: str) -> str:
    """Return the position of an operation in its process, from its place in the turn."""
    return at.partition(".")[2]


def _named(asked: Command | str) -> str:
    """Return an operation of a process in words; a name is that of an event."""
    if isinstance(asked, str):
        return f"the event {asked}"
    if isinstance(asked, ToolCallCommand):
        return f"the step {asked.name}"
    if isinstance(asked, ProcessCommand):
        word = _OPERATIONS.get(asked.operation, f"a {asked.operation}")
        return f"{word} {asked.name}".rstrip()
    return _SLEEP if isinstance(asked, SleepCommand) else kind_of(asked)


def _ended_operations(entries: Iterable[Entry]) -> tuple[list[str], set[str]]:
    """Return the positions of operations whose ends are recorded, in that order, and of those that were given up.

    What the function gave up has no end to return: it is given up again.
    """
    ended, given_up = list[str](), set[str]()
    for one in entries:
        if type(one) is Recorded and isinstance(one.outcome, _ENDS_OF_OPERATIONS):
            kind, effect_id = place_in(one.key)[:2]
            found = _OPERATION.fullmatch(effect_id) if kind in _OPERATION_KINDS else None
            if found is None:
                continue
            if getattr(one.outcome, "status", "") == GIVEN_UP:
                given_up.add(found[1])
            else:
                ended.append(found[1])
    return ended, given_up
