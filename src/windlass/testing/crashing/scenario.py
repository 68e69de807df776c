"""A scenario: a program with agents, what has to be true when it is over, and how one process plays it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from windlass.api.agent import Agent
from windlass.api.process import Process
from windlass.api.runtime import Runtime
from windlass.api.turn_result import TurnResult
from windlass.errors import ConfigError, SessionParked
from windlass.ports import Wait
from windlass.testing.clock import VirtualClock

Agents: TypeAlias = Agent[Any, Any] | Sequence[Agent[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A program, as a process runs it from its start; after a crash it is started again from there.

    Attributes:
        agents: Makes the agents, with their models: called in each process, for objects die with it.
        run: The program. What it returns is shown to `check`. Give turns a `turn_id`: the program will be run again.
        deps: As `Runtime(deps=...)`.
        approve: As `Runtime(approve=...)`.
        answer: Answers a wait, as `lambda rt, wait: rt.approve(wait.key)`. Waits that it leaves alone run out, if
            they can.
        check: What must hold at the end, whatever died on the way. Raises, or returns False, if it does not. In a
            test this is called in the test's own event loop.
        allow_unknown: Whether a crash may leave it unknown if a tool acted, as the contract "once" says.
        processes: Makes the processes; like `agents`, called in each process of the operating system.
        settings: Further settings of the Runtime, such as `{"models": [...]}`.
    """

    agents: Callable[[], Agents]
    run: Callable[[Runtime[Any]], Awaitable[Any]]
    deps: Callable[..., Any] | None = None
    approve: Callable[[Wait], bool | Awaitable[bool]] | None = None
    answer: Callable[[Runtime[Any], Wait], object] | None = None
    check: Callable[[Any], object] | None = None
    allow_unknown: bool = True
    processes: Callable[[], Sequence[Process[Any]]] = tuple
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would outlive a crash, or could not be called."""
        if isinstance(self.agents, (Agent, list, tuple)):
            wanted = "a function that makes them: a process that is started again has new ones"
            raise ConfigError.at("Scenario.agents", "agents", wanted)
        for name in ("agents", "processes", "run"):
            if not callable(getattr(self, name)):
                found = type(getattr(self, name)).__name__
                raise ConfigError.at(f"Scenario.{name}", found, "a function")
        for name in ("store", "clock", "deps", "approve", "worker", "processes"):
            if name in self.settings:
                told = f"Scenario.settings: found {name}, which the scenario itself gives"
                raise ConfigError(told, field=f"Scenario.settings.{name}")

    def made_agents(self) -> Sequence[Agent[Any, Any]]:
        """Return new agents."""
        made = self.agents()
        return (made,) if isinstance(made, Agent) else tuple(made)


_MAX_ROUNDS = 100
_A_MOMENT_S = 0.001


class Rehearsal:
    """The program of a scenario in one process. Time passes only while all wait for it."""

    def __init__(self, scenario: Scenario, runtime: Runtime[Any], clock: VirtualClock) -> None:
        self._scenario = scenario
        self._runtime = runtime
        self._clock = clock
        self._was_answered = False

    async def play(self) -> object:
        """Run the program; return what it returned when nothing was left to wait for."""
        result = await self._run(None)
        for _ in range(_MAX_ROUNDS):
            await self._settle()
            # What it was told is parked may have been answered since: while it still ran.
            is_late = self._was_answered and _is_parked(result)
            if not await self._go_on() and not is_late:
                return _raised(result)
            self._was_answered = False
            await self._settle()
            result = await self._run(result)
        raise AssertionError(f"the scenario still waits after {_MAX_ROUNDS} rounds of answers")

    async def _run(self, before: object) -> object:
        """Run the program; while it waits for a turn that is parked, answer what that waits for, or move the clock."""
        program = asyncio.get_running_loop().create_task(self._program(before))
        try:
            while not program.done():
                await asyncio.wait({program}, timeout=_A_MOMENT_S)
                if await self._is_stuck():
                    self._was_answered = await self._go_on() or self._was_answered
                    self._runtime._worker.kick()  # noqa: SLF001 - a test's way in
            return program.result()
        finally:
            program.cancel()

    async def _is_stuck(self) -> bool:
        """Whether the program waits for a parked turn, and nothing is there to be driven."""
        engine = self._runtime._worker  # noqa: SLF001 - a test's way in
        if not engine.resting.has_idle_callers or engine.driving:
            return False
        return not await self._has_work() and engine.resting.has_idle_callers

    async def _program(self, before: object) -> object:
        if isinstance(before, TurnResult):
            # The turn that was parked: a turn without an id would be another one, run again.
            return await self._runtime.turn(before.session_id, before.turn_id).result()
        try:
            return await self._scenario.run(self._runtime)
        except SessionParked as parked:
            return parked

    async def _settle(self) -> None:
        """Wait until nothing is driven, and nothing is there to be driven."""
        engine = self._runtime._worker  # noqa: SLF001 - a test's way in
        while engine.driving or await self._has_moved():
            engine.kick()
            await asyncio.sleep(_A_MOMENT_S)

    async def _has_moved(self) -> bool:
        """Whether something is there to be driven, or something was written while that was asked.

        A turn that begins and ends in between is seen neither before nor after.
        """
        store = self._runtime._services.store  # noqa: SLF001 - a test's way in
        before = (await store.changes(None)).mark
        # A turn that was claimed a moment ago is not due any more, and not driven yet.
        if await self._has_work() or await store.list_turns(state="running", limit=1):
            return True
        return before != (await store.changes(None)).mark

    async def _has_work(self) -> bool:
        runtime = self._runtime
        agents = tuple(runtime._programs)  # noqa: SLF001 - a test's way in
        store = runtime._services.store  # noqa: SLF001 - a test's way in
        due = await store.due(self._clock.now_ms(), agents=agents)
        return bool(due.turns or due.waits) or any(one.active is None for one in due.inboxes)

    async def _go_on(self) -> bool:
        """Answer the open waits, or move the clock to the first one that expires; say whether that changed anything."""
        runtime, answer = self._runtime, self._scenario.answer
        # Children answer for themselves.
        waits = [wait for wait in await runtime.waits() if wait.kind != "child"]
        if answer is not None:
            for wait in waits:
                said = answer(runtime, wait)
                if inspect.isawaitable(said):
                    await said
        left = await runtime.waits()
        if not {wait.key for wait in waits} <= {wait.key for wait in left}:
            return True
        ends_ms = [wait.expires_ms for wait in left if wait.expires_ms is not None]
        if not ends_ms:
            return False
        self._clock.advance(max(0, min(ends_ms) - self._clock.now_ms()) / 1000)
        # The worker could not renew its lease meanwhile: for its thread no time has passed.
        services = self._runtime._services  # noqa: SLF001 - a test's way in
        services.store.renew(services.worker_id, until_ms=services.until_ms())
        return True


def _is_parked(result: object) -> bool:
    return isinstance(result, SessionParked) or (isinstance(result, TurnResult) and result.parked)


def _raised(result: object) -> object:
    if isinstance(result, SessionParked):
        raise result
    return result
