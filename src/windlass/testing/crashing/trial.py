"""A trial: a scenario in a world of its own, through the crashes that were planned for it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from windlass.errors import ConfigError
from windlass.testing.clock import virtual_clock
from windlass.testing.crashing.crash_point import CrashPoint
from windlass.testing.crashing.disk import Disk
from windlass.testing.crashing.life import Fate, Life, World
from windlass.testing.crashing.scenario import Scenario
from windlass.testing.crashing.write_names import WriteNames

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


class Trial:
    """Runs a scenario once."""

    def __init__(self, make: MakeScenario, disk: Disk, *, patience_s: float) -> None:
        self._make = make
        self._disk = disk
        self._patience_s = patience_s

    async def run(self, plan: tuple[str, ...] = ()) -> TrialReport:
        """Live, die at each planned point and live again; then check what the scenario promises."""
        scenario = await _made(self._make)
        world = World(scenario, self._disk, virtual_clock(), WriteNames(), self._patience_s)
        lives: list[Life] = []
        try:
            fate = await self._lives(world, plan, lives)
            seen, missed = tuple(lives[-1].fuse.seen), len(lives) <= len(plan)
            broken = await _broken(scenario, fate) if fate.kind == "ended" else None
            return TrialReport(scenario, fate, seen, missed, broken)
        finally:
            for life in lives:
                await life.bury()

    async def _lives(self, world: World, plan: tuple[str, ...], lives: list[Life]) -> Fate:
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
    raise ConfigError(
        f"kill_everywhere: found {found}, wanted a function that makes a Scenario: "
        "each crash point gets a world of its own",
        field="make",
        found=found,
    )


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
