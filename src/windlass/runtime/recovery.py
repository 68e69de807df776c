"""What the journal of earlier drives says to the one that goes on.

Law 1. What the journal holds is the answer; nothing of it is run or shown again.
Law 2. If code and journal disagree about what was asked, or where in the turn, nothing runs: the turn parks and a person
    decides.
Law 3. What an effect before the last recorded one left unrecorded was nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from windlass.errors import ReplayMismatch
from windlass.folds.answers import syncs_first
from windlass.journal import (
    Claimed,
    Difference,
    DirectAnswered,
    EffectKind,
    JournalRow,
    RecordedMoment,
    TurnJournal,
    diff,
)
from windlass.journal.commands import DirectCallCommand, as_written, body_of, read_command
from windlass.journal.keys import call_key
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
from windlass.runtime.turn import Keyed, Turn
from windlass.runtime.turn_signals import ParkTurn

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
        for row in journal.rows():
            self._count(row)
        # How often each call was claimed.
        entries = (entry for page in view.pages for entry in page.entries)
        self.claims: Mapping[str, int] = Counter(
            call_key(one.key) for one in entries if type(one) is Claimed
        )

    @classmethod
    def of(cls, turn: Turn, view: TurnView) -> Recovery | None:
        """Return what earlier drives of a turn left, if they left anything."""
        journal = view.journal()
        if journal.started is None and not journal.rows():
            return None
        return cls(turn, view, journal)

    def _count(self, row: JournalRow) -> None:
        spent = self._turn.spent
        if isinstance(row.command, DirectCallCommand) and isinstance(row.outcome, DirectAnswered):
            spent.count_direct(row.key, row.command, row.outcome)
        if row.reserved is not None or row.lost:
            spent.count_lost(lost_lines(row))
        iteration, *place = row.key.split("/")[3:]
        if self._syncs is None:
            self._syncs = syncs_first(tuple(place))
        number = place[1].partition(".")[0]
        if number.isdigit():
            self.last_effect = max(self.last_effect, int(number))
            if place[0] in _SAYS:
                self._effects[int(number)] = iteration, _SAYS[place[0]]

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
        self._disagree(
            asked.key,
            asked.digest,
            lambda: diff(row.command, read_command(as_written(asked.body))),
        )

    def _disagree(
        self, key: str, digest: str, places: Callable[[], tuple[Difference, ...]]
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
        if not any(view.state == "open" for view in tries):
            turn.open_wait(
                "mismatch",
                about=key,
                digest=f"{digest}.{len(tries)}",
                title="The code asks for something else than the journal holds",
                detail={"key": key, "diff": [msgspec.to_builtins(one) for one in places()]},
            )
        raise ParkTurn
