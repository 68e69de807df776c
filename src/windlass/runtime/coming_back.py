"""A call that comes back: its body raised `Again`, and runs once more when a timer runs out.

Each time opens a wait of kind `timer`, numbered from 1. The end of the timer is recorded before the body runs again, so a
crash cannot start the body too early.

Law 1. A call whose timer has not run out does not run, whatever its contract says.
Law 2. The recorded end of a timer counts as one attempt that began, like a claim. So attempts keep counting across
    crashes.
"""

from __future__ import annotations

from windlass.journal import RUNS_AGAIN
from windlass.journal.commands import Contract
from windlass.kernel import PendingToolCall
from windlass.ports import WaitView
from windlass.ports.tool import Again
from windlass.runtime.turn import Turn

MAX_TIMES = 1_000
"""How often one call may come back."""


class ComingBack:
    """The timers of one call that asked to run again."""

    __slots__ = ("_call", "_place", "_turn")

    def __init__(self, turn: Turn, call: PendingToolCall, place: str) -> None:
        self._turn = turn
        self._call = call
        self._place = place

    def _timers(self) -> list[WaitView]:
        """Return the call's timers in order. This does not look them up by key, because a replay cannot make keys."""
        waits = self._turn.waits.values()
        return [one for one in waits if one.wait.call_id == self._call.call_id and _is_own(one)]

    def _effect_id(self, number: int) -> str:
        return f"{self._place}.again{number}"

    def _is_over(self, number: int) -> bool:
        row = self._turn.row(self._turn.key("await_event", self._effect_id(number)))
        return row is not None and row.is_recorded

    @property
    def times(self) -> int:
        """How often the body has asked to come back so far."""
        return len(self._timers())

    @property
    def times_over(self) -> int:
        """How often earlier drives ran the body again."""
        times = self.times
        return times if not times or self._is_over(times) else times - 1

    @property
    def is_away(self) -> bool:
        """Whether a timer keeps the call from running."""
        times = self.times
        return times > 0 and not self._is_over(times)

    def refusal(self, contract: Contract) -> str:
        """Return why the body may not run again; empty if it may."""
        if contract not in RUNS_AGAIN:
            return f"It raised Again, and a tool with the effect {contract} is not run twice."
        if self.times >= MAX_TIMES:
            return f"It asked to run again more than {MAX_TIMES} times."
        return ""

    def open(self, again: Again) -> None:
        """Open the timer of the next time."""
        turn, number, name = self._turn, self.times + 1, self._call.name
        reason = f": {again.reason}" if again.reason else ""
        turn.open_wait(
            "timer",
            about=f"again/{self._place}",
            digest=str(number),
            title=f"{name} runs again{reason}",
            detail={"tool": name, "again": number, "reason": again.reason},
            call_id=self._call.call_id,
            expires_ms=turn.services.clock.now_ms() + int(again.after * 1000),
        )

    def view(self) -> WaitView:
        """Return the timer of the last time."""
        return self._timers()[-1]

    def record_over(self, view: WaitView) -> None:
        """Record that the time has come: the body may run."""
        self._turn.wait_over(view, self._effect_id(self.times))


def _is_own(view: WaitView) -> bool:
    """Whether a wait is one of these timers; a call may have other timers."""
    detail = view.wait.detail
    return view.wait.kind == "timer" and isinstance(detail, dict) and "again" in detail
