"""The tool calls of a turn: the calls of one reply run together, and their results keep the order of the calls.

Law 1. While one call waits for a person, its siblings run.
Law 2. When every call that has not ended waits, the turn parks; what was recorded stays recorded.
Law 3. A sequential tool's body runs while no other body does.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from windlass.kernel.effects import CallTools
from windlass.kernel.outcomes import Outcome
from windlass.kernel.responses import ToolsReturned
from windlass.kernel.tool_call import CompletedToolCall
from windlass.ports import WaitView
from windlass.runtime.around_tool import CallHooks
from windlass.runtime.hooks import Hooks
from windlass.runtime.model_call import ModelCalls
from windlass.runtime.tool_call import ToolCallRun
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import ParkTurn


class ToolCalls:
    """Performs the tool calls of one turn."""

    def __init__(self, turn: Turn, models: ModelCalls, hooks: Hooks | None) -> None:
        self._turn = turn
        self._models = models
        self._hooks = (
            hooks
            if hooks is not None and (hooks.plugins.has_tool_hooks or hooks.records_looks("tools"))
            else None
        )
        self._runs: list[ToolCallRun] = []
        self._batch: CallBatch | None = None
        # How the turn ends, if a plugin said so of one of its calls.
        self.ends: Outcome | None = None

    async def run(self, effect: CallTools) -> ToolsReturned:
        """Run the calls of one effect.

        Raises:
            ParkTurn: those that have not ended all wait.
        """
        turn, n_calls = self._turn, len(effect.calls)
        turn.tool_calls += n_calls
        batch = self._batch = CallBatch(turn, n_calls)
        for ordinal, call in enumerate(effect.calls):
            run = ToolCallRun(turn, self._models, batch, call, effect.id, ordinal)
            if self._hooks is not None:
                run.hooks = CallHooks(self._hooks, call, effect.id, ordinal, n_calls)
            self._runs.append(run)
        results = (await run.run(),) if n_calls == 1 else await self._together(self._runs)
        turn.completed += results
        if self._hooks is not None:
            self._fold(self._runs)
        if turn.over is not None:
            self.ends = self.ends or turn.over
        self._batch = None
        self._runs = []
        return ToolsReturned(id=effect.id, results=results)

    def _fold(self, runs: list[ToolCallRun]) -> None:
        """Apply what plugins changed around these calls, in call order, whichever ended first."""
        assert self._hooks is not None  # noqa: S101 - the caller looked
        for run in runs:
            assert run.hooks is not None  # noqa: S101 - each has them, or none
            for patches in run.hooks.patches:
                self._hooks.states.apply(patches)
            self.ends = self.ends or run.hooks.ends

    async def _together(self, runs: list[ToolCallRun]) -> tuple[CompletedToolCall, ...]:
        # Every call ends by itself: one that parks or fails takes none of its siblings along.
        ended = await asyncio.gather(*(self._one(run) for run in runs), return_exceptions=True)
        results = tuple(one for one in ended if isinstance(one, CompletedToolCall))
        if len(results) == len(ended):
            return results
        errors = [one for one in ended if isinstance(one, BaseException)]
        serious = [error for error in errors if not isinstance(error, ParkTurn)]
        raise (serious or errors)[0]

    async def _one(self, run: ToolCallRun) -> CompletedToolCall:
        try:
            return await run.run()
        except ParkTurn:
            raise
        except BaseException:
            if self._batch is not None:
                self._batch.ended()
            raise

    def wake(self) -> None:
        """Make calls that wait look for their answers."""
        if self._batch is not None:
            self._batch.wake()

    def interrupted(self) -> tuple[CompletedToolCall, ...]:
        """Return the results of the effect under way, as the turn ends before all are there."""
        found = (run.interrupted() for run in self._runs)
        return tuple(one for one in found if one is not None)


class CallBatch:
    """The calls of one effect, together: which run, which wait, and when only waiting is left."""

    __slots__ = ("_gate", "_news", "_running", "_turn", "is_alone")

    def __init__(self, turn: Turn, n_calls: int) -> None:
        self._turn = turn
        self.is_alone = n_calls == 1
        self._running = n_calls
        self._news: asyncio.Event | None = None
        self._gate = None if self.is_alone else _BodyGate(turn.limits.max_parallel)

    def wake(self) -> None:
        """Make calls that wait look again."""
        if self._news is not None:
            self._news.set()

    def ended(self) -> None:
        """Note that a call has its result."""
        self._running -= 1
        self.wake()

    async def barrier(self) -> None:
        """Wait until all that was added is durable; siblings that are ready join the same unit."""
        if not self.is_alone:
            await asyncio.sleep(0)
        elif self._turn.lane.commit_now():
            return
        await self._turn.lane.durable()

    async def answered(self, key: str) -> WaitView:
        """Wait until a wait has its answer.

        Raises:
            ParkTurn: all the other calls wait as well, or have ended.
        """
        turn = self._turn
        news = self._news = self._news or asyncio.Event()
        self._running -= 1
        news.set()
        while turn.waits[key].state == "open":
            news.clear()
            if self._running == 0:
                news.set()
                raise ParkTurn
            await news.wait()
            await turn.reload_waits()
        self._running += 1
        return turn.waits[key]

    def body(self, *, alone: bool) -> AbstractAsyncContextManager[None] | None:
        """Return what a body has to hold while it runs; None: nothing, there is no other."""
        return None if self._gate is None else _Slot(self._gate, alone=alone)


class _BodyGate:
    """Admits so many bodies at a time, or one that is to run alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bodies = 0
        self.has_exclusive = False
        self.changed = asyncio.Event()


class _Slot(AbstractAsyncContextManager[None]):
    """Room to run in, from when it is free until its body has ended."""

    def __init__(self, gate: _BodyGate, *, alone: bool) -> None:
        self._gate = gate
        self._alone = alone

    async def __aenter__(self) -> None:
        gate = self._gate
        limit = 1 if self._alone else gate.limit
        # Nothing else runs between the last look and the taking.
        while gate.has_exclusive or gate.bodies >= limit:
            gate.changed.clear()
            await gate.changed.wait()
        gate.bodies += 1
        gate.has_exclusive = self._alone

    async def __aexit__(self, *_: object) -> None:
        gate = self._gate
        gate.bodies -= 1
        gate.has_exclusive = False
        gate.changed.set()
