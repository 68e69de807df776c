"""Signals of a process that its function did not get: those of another type, and those that came for a wait too late.

A function gives a wait up when it cancels the task that waits: another task won a race, say. The wait is closed in the unit
that records it. A signal may have answered the wait before; it is not lost.

Law. A signal that answered a wait which the function had given up is for the next wait of its name, before all that came
    later. A process that continues in another turn takes it along.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from windlass.journal.moments import ProcessAnswered
from windlass.journal.redaction import cleaned
from windlass.ports import NewItem, PostItem
from windlass.runtime.turn import Turn

_log = logging.getLogger("windlass")


class Signalled(NamedTuple):
    """How a wait for a signal ended, when it was to end at the latest, and where it was asked for."""

    answer: ProcessAnswered
    until_ms: int | None
    at: str


def pass_over(turn: Turn, name: str, signal: Signalled, why: str) -> None:
    """Note that a signal does not fit its type, which its sender did not know: the process waits on."""
    said = f"the signal {name} was passed over: {why}"
    turn.note_issue(said, "signal_refused", signal.at)
    if turn.is_live:
        _log.warning("process %s: %s", turn.request.overrides.get("process_id"), said)


class LeftSignals:
    """The waits for signals that a function gave up, and the signals that answered them all the same."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._waits: dict[str, list[str]] = {}
        self._n_returned = 0

    def __bool__(self) -> bool:
        return any(self._waits.values())

    def give_up(self, name: str, key: str) -> None:
        """Note that nothing waits for the answer of a wait any more."""
        self._waits.setdefault(name, []).append(key)

    async def look(self) -> None:
        """Find out which of these waits were answered before they were closed."""
        await self._turn.lane.durable()
        await self._turn.reload_waits()

    def take(self, name: str) -> ProcessAnswered | None:
        """Take the first signal of a name that was left, if there is one."""
        keys = self._waits.get(name, [])
        for key in keys:
            view = self._turn.waits[key]
            if view.state == "answered" and view.answer is not None:
                keys.remove(key)
                value, by = view.answer.value, view.answer.by
                return cleaned(ProcessAnswered(value=value, status="answered", by=by))
        return None

    async def return_all(self) -> None:
        """Put what was left back into the inbox, with the unit that ends the turn: the process continues in another."""
        if not self:
            return
        await self.look()
        turn, now_ms = self._turn, self._turn.services.clock.now_ms()
        for name in self._waits:
            while (left := self.take(name)) is not None:
                self._n_returned += 1
                content = {"name": name, "value": left.value, "by": left.by}
                item_id = f"{turn.ids.prefix}.returned.{self._n_returned}"
                item = NewItem(item_id=item_id, kind="signal", when="asked", content=content)
                errand = PostItem(session_id=turn.session_id, item=item, now_ms=now_ms)
                turn.lane.run_errand(errand)
