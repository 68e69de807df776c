"""The tool calls of a turn: the calls of one reply run together, and their results keep the order of the calls.

Law 1. While one call waits for a person, its siblings run.
Law 2. When every call that has not ended waits, the turn parks; what was recorded stays recorded.
Law 3. A sequential tool's body runs while no other body does.
"""

from __future__ import annotations

import asyncio

from windlass.kernel import CallTools, CompletedToolCall, Outcome, ToolsReturned
from windlass.runtime.agent_call import AgentCallRun
from windlass.runtime.around_tool import CallHooks
from windlass.runtime.background import BackgroundCallRun
from windlass.runtime.call_batch import CallBatch
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
        # Whether some tools are agents, or run in the background; providers may bring such tools.
        self._has_kinds = turn.toolbox.has_kinds or turn.provided is not None
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
            kind = self._kind(call.name) if self._has_kinds else ToolCallRun
            run = kind(turn, self._models, batch, call, effect.id, ordinal)
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

    def _kind(self, name: str) -> type[ToolCallRun]:
        """Return what runs a call of a tool. A tool that is not here yet, a provider brings when the turn goes live."""
        turn = self._turn
        toolbox = turn.toolbox
        if name in toolbox.agents:
            return AgentCallRun
        may_come = turn.provided is not None and toolbox.get(name) is None
        return BackgroundCallRun if may_come or name in toolbox.background else ToolCallRun

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
