"""The tool calls of a turn: each effect's calls together, results in call order."""

from __future__ import annotations

import asyncio

from windlass.kernel.effects import CallTools
from windlass.kernel.outcomes import Outcome
from windlass.kernel.responses import ToolsReturned
from windlass.kernel.tool_call import CompletedToolCall
from windlass.runtime.around_tool import CallHooks
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.hooks import Hooks
from windlass.runtime.model_calls import ModelCalls
from windlass.runtime.tool_call_run import ToolCallRun
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import ParkTurn


class ToolCalls:
    """Performs the tool calls of one turn."""

    def __init__(self, hand: Turn, models: ModelCalls, hooks: Hooks) -> None:
        self._hand = hand
        self._models = models
        self._hooks = hooks
        self._runs: list[ToolCallRun] = []
        self._batch: CallBatch | None = None
        # How the turn ends, if a plugin said so of one of its calls.
        self.ends: Outcome | None = None

    async def run(self, effect: CallTools) -> ToolsReturned:
        """Run the calls of one effect.

        Raises:
            ParkTurn: those that have not ended all wait.
        """
        hand = self._hand
        hand.tool_calls += len(effect.calls)
        batch = self._batch = CallBatch(hand, len(effect.calls))
        self._runs = runs = [
            ToolCallRun(
                hand,
                self._models,
                batch,
                call,
                effect_id=effect.id,
                ordinal=ordinal,
                hooks=self._hooks_of(effect, ordinal),
            )
            for ordinal, call in enumerate(effect.calls)
        ]
        results = (await runs[0].run(),) if batch.is_alone else await self._together(runs)
        hand.completed += results
        self._fold(runs)
        self._runs, self._batch = [], None
        return ToolsReturned(id=effect.id, results=results)

    def _hooks_of(self, effect: CallTools, ordinal: int) -> CallHooks | None:
        if not self._hooks.plugins.has_tool_hooks and not self._hooks.records_looks("tools"):
            return None
        call = effect.calls[ordinal]
        return CallHooks(self._hooks, call, effect.id, ordinal, len(effect.calls))

    def _fold(self, runs: list[ToolCallRun]) -> None:
        """Let what plugins changed around these calls hold, in call order, whichever ended first."""
        for run in runs:
            if run.hooks is None:
                continue
            for patches in run.hooks.patches:
                self._hooks.states.apply(patches)
            self.ends = self.ends or run.hooks.ends
        self.ends = self.ends or self._hand.over

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
        """Let calls that wait look for their answers."""
        if self._batch is not None:
            self._batch.wake()

    def interrupted(self) -> tuple[CompletedToolCall, ...]:
        """Return the results of the effect under way, as the turn ends before all are there."""
        found = (run.interrupted() for run in self._runs)
        return tuple(one for one in found if one is not None)
