"""A rehearsal: one process plays the program until nothing is left to do, and answers what it waits for."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from windlass.api.runtime import Runtime
from windlass.api.turn_result import TurnResult
from windlass.errors import SessionParked
from windlass.testing.clock import VirtualClock
from windlass.testing.crashing.scenario import Scenario

_MAX_ROUNDS = 100
_A_MOMENT_S = 0.001


class Rehearsal:
    """The program of a scenario in one process. Time passes only while all wait for it."""

    def __init__(self, scenario: Scenario, runtime: Runtime[Any], clock: VirtualClock) -> None:
        self._scenario = scenario
        self._runtime = runtime
        self._clock = clock

    async def play(self) -> object:
        """Run the program; return what it returned when nothing was left to wait for."""
        result = await self._run(None)
        for _ in range(_MAX_ROUNDS):
            await self._settle()
            if not await self._go_on():
                return _raised(result)
            await self._settle()
            result = await self._run(result)
        raise AssertionError(f"the scenario still waits after {_MAX_ROUNDS} rounds of answers")

    async def _run(self, before: object) -> object:
        if isinstance(before, TurnResult):
            # The turn that was parked: a turn without an id would be another one, run again.
            return await self._runtime.turn(before.session_id, before.turn_id).result()
        try:
            return await self._scenario.run(self._runtime)
        except SessionParked as parked:
            return parked

    async def _settle(self) -> None:
        """Wait until nothing is driven, and nothing is there to be driven."""
        engine = self._runtime._engine  # noqa: SLF001 - a test's way in
        while engine.driving or await self._has_work():
            engine.kick()
            await asyncio.sleep(_A_MOMENT_S)

    async def _has_work(self) -> bool:
        runtime = self._runtime
        agents = tuple(runtime._programs)  # noqa: SLF001 - a test's way in
        store = runtime._services.store  # noqa: SLF001 - a test's way in
        due = await store.due(self._clock.now_ms(), agents=agents)
        return bool(due.turns or due.waits) or any(one.active is None for one in due.inboxes)

    async def _go_on(self) -> bool:
        """Answer what is waited for, or let time pass until something has waited too long."""
        runtime, answer = self._runtime, self._scenario.answer
        waits = await runtime.waits()
        if answer is not None:
            for wait in waits:
                said = answer(runtime, wait)
                if inspect.isawaitable(said):
                    await said
        left = await runtime.waits()
        if {wait.key for wait in left} != {wait.key for wait in waits}:
            return True
        soonest_ms = min(
            (wait.expires_ms for wait in left if wait.expires_ms is not None), default=None
        )
        if soonest_ms is None:
            return False
        self._clock.advance(max(0, soonest_ms - self._clock.now_ms()) / 1000)
        # A lease that nobody could renew meanwhile: for its thread no time has passed.
        services = runtime._services  # noqa: SLF001 - a test's way in
        services.store.renew(services.worker_id, until_ms=services.until_ms())
        return True


def _raised(result: object) -> object:
    if isinstance(result, SessionParked):
        raise result
    return result
