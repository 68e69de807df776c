"""A life: one process of a scenario, from its start to its end or its death. A trial: all lives of one run.

A life is a thread with an event loop of its own. When it dies, the thread stops where it is, in the middle of
whatever it did: no `finally`, no `except`, no other task of it runs on, as in a process that was killed. It is
cleared away when the scenario is over and its checks are made.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from windlass.api.runtime import Runtime
from windlass.errors import ConfigError
from windlass.ports import Store
from windlass.testing.clock import VirtualClock, virtual_clock
from windlass.testing.crashing.crash_point import Buried, CrashPoint, Fuse
from windlass.testing.crashing.crashing_effects import CrashingEffects, ThreadBodies
from windlass.testing.crashing.crashing_store import CrashingStore, WriteNames
from windlass.testing.crashing.disk import Disk, Ending, read_ending
from windlass.testing.crashing.scenario import Rehearsal, Scenario

_BURIAL_S = 2.0


class World(NamedTuple):
    """What outlives a process."""

    scenario: Scenario
    disk: Disk
    clock: VirtualClock
    names: WriteNames
    patience_s: float


class Fate(NamedTuple):
    """What became of a life."""

    kind: Literal["ended", "crashed", "raised", "hung"]
    result: object = None
    ending: Ending | None = None
    error: BaseException | None = None


class Life:
    """One process of a scenario; it dies `at` a crash point, if it gets there."""

    def __init__(self, world: World, at: str | None) -> None:
        self._world = world
        self.fuse = Fuse(at, self._crash)
        self._bodies = ThreadBodies()
        self._store: CrashingStore | None = None
        self._here = asyncio.get_running_loop()
        self._fate: asyncio.Future[Fate] = self._here.create_future()
        self._gone: asyncio.Future[None] = self._here.create_future()
        self._there: asyncio.AbstractEventLoop | None = None
        self._burial = threading.Event()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._work,), name="windlass-life", daemon=True
        )

    async def fate(self) -> Fate:
        """Live until the end of the program, or until death."""
        self._thread.start()
        await asyncio.wait({self._fate}, timeout=self._world.patience_s)
        return self._fate.result() if self._fate.done() else Fate("hung")

    async def bury(self) -> None:
        """Clear away the thread that is left. What it does from now on has no effect."""
        self.fuse.is_burnt = True
        there = self._there
        if there is None:
            return
        with self._in_silence(there):
            with suppress(RuntimeError):  # it ended by itself, and its loop is closed
                there.call_soon_threadsafe(_cancel_all, there)
            self._burial.set()
            await asyncio.wait({self._gone}, timeout=_BURIAL_S)
        if self._gone.done():
            self._thread.join()

    @contextmanager
    def _in_silence(self, there: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Keep what it complains about from people: it is dead."""
        there.set_exception_handler(lambda _loop, _context: None)
        logger = logging.getLogger("windlass")

        def is_alive(record: logging.LogRecord) -> bool:
            return record.thread != self._thread.ident

        logger.addFilter(is_alive)
        try:
            yield
        finally:
            logger.removeFilter(is_alive)

    # ------------------------------------------------------------------ in its own thread

    def _work(self) -> None:
        try:
            fate = asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            fate = Fate("raised", error=error)
        self._tell(self._fate, fate)
        self._tell(self._gone, None)

    async def _live(self) -> Fate:
        self._there = asyncio.get_running_loop()
        world = self._world
        store = await world.disk.open()
        try:
            async with self._runtime(store) as runtime:
                result = await Rehearsal(world.scenario, runtime, world.clock).play()
            return Fate("ended", result, await read_ending(store))
        finally:
            await world.disk.close(store)

    def _runtime(self, store: Store) -> Runtime[Any]:
        scenario = self._world.scenario
        self._store = crashing = CrashingStore(store, self.fuse, self._world.names)
        effects = CrashingEffects(self.fuse, self._bodies)
        return Runtime(
            *map(effects.agent, scenario.made_agents()),
            store=cast("Store", crashing),
            clock=self._world.clock,
            deps=scenario.deps,
            approve=scenario.approve,
            processes=[effects.process(one) for one in scenario.processes()],
            **scenario.settings,
        )

    def _crash(self, _point: CrashPoint) -> None:
        self._bodies.wait(self._world.patience_s)
        self._world.disk.lose(self._store.workers if self._store is not None else ())
        self._tell(self._fate, Fate("crashed"))
        self._burial.wait()
        raise Buried

    def _tell(self, future: asyncio.Future[Any], value: object) -> None:
        tell: Callable[[], None] = lambda: None if future.done() else future.set_result(value)  # noqa: E731 - one line
        with suppress(RuntimeError):  # the test was given up, and its loop is closed
            self._here.call_soon_threadsafe(tell)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


MakeScenario: TypeAlias = Callable[[], Scenario | Awaitable[Scenario]]


class TrialReport(NamedTuple):
    """What became of a trial. `seen` are the crash points of its last process; `missed`: it was not crashed as planned."""

    scenario: Scenario
    fate: Fate
    seen: tuple[CrashPoint, ...] = ()
    missed: bool = False
    broken: BaseException | None = None

    @property
    def error(self) -> BaseException | None:
        """Why it did not come to a good end in itself."""
        return self.fate.error or self.broken


async def run_trial(
    make: MakeScenario, disk: Disk, plan: tuple[str, ...] = (), *, patience_s: float
) -> TrialReport:
    """Live, die at each planned point and live again; then check what the scenario promises."""
    scenario = await _made(make)
    world = World(scenario, disk, virtual_clock(), WriteNames(), patience_s)
    lives: list[Life] = []
    try:
        fate = await _live_on(world, plan, lives)
        seen, missed = tuple(lives[-1].fuse.seen), len(lives) <= len(plan)
        broken = await _broken(scenario, fate) if fate.kind == "ended" else None
        return TrialReport(scenario, fate, seen, missed, broken)
    finally:
        for life in lives:
            await life.bury()


async def _live_on(world: World, plan: tuple[str, ...], lives: list[Life]) -> Fate:
    for at in (*plan, None):
        lives.append(Life(world, at))
        fate = await lives[-1].fate()
        if fate.kind != "crashed":
            return fate
    raise AssertionError("a life without a planned death crashed")


async def _made(make: MakeScenario) -> Scenario:
    made = make() if callable(make) else make
    scenario = await made if inspect.isawaitable(made) else made
    if isinstance(scenario, Scenario) and callable(make):
        return scenario
    found = type(scenario).__name__
    wanted = "a function that makes a Scenario: each crash point gets a world of its own"
    raise ConfigError.at("make", found, wanted)


async def _broken(scenario: Scenario, fate: Fate) -> BaseException | None:
    """Return what the scenario's own check has to say against it."""
    if scenario.check is None:
        return None
    try:
        said = scenario.check(fate.result)
        if inspect.isawaitable(said):
            said = await said
    except Exception as error:  # noqa: BLE001 - a check may raise anything
        return error
    return AssertionError("check returned False") if said is False else None


def told(error: BaseException) -> str:
    """Return an error in one line; an assertion without words by the line that it stands on."""
    words = str(error)
    if not words and error.__traceback__ is not None:
        words = traceback.extract_tb(error.__traceback__)[-1].line or ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
