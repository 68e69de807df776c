"""What the journal of earlier drives says to the one that goes on.

Law 1. What the journal holds is the answer; nothing of it is run or shown again.
Law 2. If code and journal disagree about what was asked, nothing runs: the turn parks and a person decides.
Law 3. What an effect before the last recorded one left unrecorded was nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from windlass.errors import ReplayMismatch
from windlass.folds.answers import place_in, syncs_first
from windlass.journal import Claimed, DirectAnswered, JournalRow, RecordedMoment, TurnJournal, diff
from windlass.journal.commands import DirectCallCommand, as_written, body_of, read_command
from windlass.journal.keys import call_key
from windlass.journal.turn_journal import lost_lines
from windlass.ports import TurnView
from windlass.runtime.turn import Keyed, Turn
from windlass.runtime.turn_signals import ParkTurn

M = TypeVar("M", bound=RecordedMoment)
# What a turn's first effect may be recorded as. A call by a plugin may be made in any of them.


class Recovery:
    """The journal of a turn that earlier drives have begun."""

    def __init__(self, turn: Turn, view: TurnView, journal: TurnJournal) -> None:
        self._turn = turn
        self.journal = journal
        # Whether the turn has ended: then what is not recorded was nothing.
        self.is_over = view.state == "done"
        self.last_effect = 0
        # Whether the machine asks for an environment first, as far as the journal tells.
        self.syncs: bool | None = None
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
        place = place_in(row.key)
        if self.syncs is None:
            self.syncs = syncs_first(place)
        number = place[1].partition(".")[0]
        if number.isdigit():
            self.last_effect = max(self.last_effect, int(number))

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

    def check_same(self, row: JournalRow, asked: Keyed) -> None:
        """Let what is recorded stand for another request only if a person said so.

        Raises:
            ParkTurn: a person is asked, and has not answered yet.
            ReplayMismatch: the turn is only replayed.
        """
        turn = self._turn
        if row.digest == asked.digest or turn.services.on_mismatch == "accept":
            return
        # Digests of an earlier format are others than those of today, also of the same command.
        if row.command is not None and body_of(row.command) == asked.body:
            return
        tries = [view for view in turn.waits.values() if view.wait.kind == "mismatch"]
        answers = [view.answer for view in tries if view.state == "answered"]
        if any(answer is not None and answer.value == "accept" for answer in answers):
            return
        places = diff(row.command, read_command(as_written(asked.body)))
        if turn.is_replay:
            raise ReplayMismatch(
                f"{asked.key}: the journal holds another request", key=asked.key, diff=places
            )
        if not any(view.state == "open" for view in tries):
            turn.open_wait(
                "mismatch",
                about=asked.key,
                digest=f"{asked.digest}.{len(tries)}",
                title="The code asks for something else than the journal holds",
                detail={"key": asked.key, "diff": [msgspec.to_builtins(one) for one in places]},
            )
        raise ParkTurn
