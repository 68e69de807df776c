"""The bell: one look for all who watch, none while nothing does, and no trouble for the loop."""

# ruff: noqa: ASYNC240 - a file that is taken away is what one of them is about

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.runtime.turns import new_turn
from windlass.errors import StoreUnavailable
from windlass.stores.bell import PERIOD_S, Bell
from windlass.stores.memory import MemoryStore
from windlass.stores.sqlite import SqliteStore


class Timers:
    """Stands where the timers of a loop are; time goes by when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.set: list[Timer] = []
        self.delays: list[float] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._call_later)

    def _call_later(self, delay: float, callback: Callable[[], None], *_: Any) -> Timer:
        self.delays.append(delay)
        timer = Timer(self, callback)
        self.set.append(timer)
        return timer

    def pass_period(self) -> None:
        due, self.set = self.set, []
        for timer in due:
            timer.callback()


class Timer:
    def __init__(self, timers: Timers, callback: Callable[[], None]) -> None:
        self._timers = timers
        self.callback = callback

    def cancel(self) -> None:
        if self in self._timers.set:
            self._timers.set.remove(self)


class World:
    """A version to look at, which may fail, and those who were told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timers = Timers(monkeypatch)
        self.version = 1
        self.trouble: Exception | None = None
        self.let_go = 0
        self.told: list[str] = []
        self.bell = Bell(self._look, self._let_go)

    def _look(self) -> int:
        if self.trouble is not None:
            raise self.trouble
        return self.version

    def _let_go(self) -> None:
        self.let_go += 1

    def watch(self, name: str) -> Callable[[], None]:
        return self.bell.watch(lambda: self.told.append(name))

    def hear(self) -> list[str]:
        """Let a period pass, and return who was told in it."""
        self.timers.pass_period()
        told, self.told = self.told, []
        return told


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_a_bell_rings_at_first_and_then_when_something_was_written(world: World) -> None:
    world.watch("a")

    assert world.hear() == ["a"]
    assert world.hear() == []
    world.version += 3
    assert world.hear() == ["a"]
    assert world.hear() == []
    assert set(world.timers.delays) == {PERIOD_S}


async def test_there_is_one_look_in_a_period_however_many_watch(world: World) -> None:
    for number in range(300):
        world.watch(str(number))

    assert world.bell.looks == 0
    for _ in range(5):
        world.hear()
    assert world.bell.looks == 5
    assert len(world.timers.set) == 1


async def test_while_nothing_watches_nothing_is_looked_at_nor_held(world: World) -> None:
    leave_a, leave_b = world.watch("a"), world.watch("b")
    world.hear()

    leave_a()
    leave_a()
    assert (len(world.timers.set), world.let_go) == (1, 1)  # once before the first came
    leave_b()

    assert (len(world.timers.set), world.let_go) == (0, 2)
    world.watch("c")
    assert world.hear() == ["c"]


async def test_a_newcomer_is_told_although_nothing_was_written(world: World) -> None:
    world.watch("a")
    world.hear()

    world.watch("b")

    assert "b" in world.hear()


@pytest.mark.parametrize(
    "trouble", [OSError("gone"), apsw.FullError("full"), StoreUnavailable("deleted"), ValueError()]
)
async def test_a_look_that_fails_is_made_again_and_rings_when_it_succeeds(
    world: World, trouble: Exception
) -> None:
    world.watch("a")
    world.hear()
    world.trouble = trouble

    assert [world.hear(), world.hear()] == [[], []]
    assert world.let_go == 3  # the first, and after each look that failed
    world.trouble = None
    assert world.hear() == ["a"]  # what was written meanwhile is not known
    assert world.hear() == []


async def test_one_who_fails_to_be_told_keeps_no_other_from_it(world: World) -> None:
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    def fail() -> None:
        raise RuntimeError("no ears")

    world.bell.watch(fail)
    world.watch("b")

    assert world.hear() == ["b"]
    assert [str(report["exception"]) for report in reports] == ["no ears"]


async def test_nothing_rings_after_a_close(world: World) -> None:
    leave = world.watch("a")
    world.bell.close()

    assert world.timers.set == []
    leave()
    assert world.hear() == []


def test_a_loop_that_has_ended_does_not_keep_the_next_from_hearing() -> None:
    store = MemoryStore()

    async def life() -> int:
        rung = asyncio.Event()
        store.watch(rung.set)
        await rung.wait()
        return store._bell.looks

    assert [asyncio.run(life()), asyncio.run(life())] == [1, 2]


@pytest.fixture(params=["memory", "sqlite"])
async def opened(request: pytest.FixtureRequest, path: Path) -> MemoryStore | SqliteStore:
    store = MemoryStore() if request.param == "memory" else SqliteStore(path)
    await store.open()
    return store


async def test_a_store_looks_once_in_a_period_for_all_who_watch_it(
    opened: MemoryStore | SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers, told = Timers(monkeypatch), list[int]()
    for number in range(100):
        opened.watch(lambda number=number: told.append(number))  # type: ignore[misc]  # one for each
    timers.pass_period()
    told.clear()

    timers.pass_period()
    assert (told, opened._bell.looks) == ([], 2)
    await opened.accept("a", "t1", new_turn())
    timers.pass_period()
    assert (told, opened._bell.looks) == (list(range(100)), 3)

    await opened.close()
    assert timers.set == []


async def test_the_bell_of_a_file_that_is_taken_away_keeps_looking(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers, told = Timers(monkeypatch), list[str]()
    store.watch(lambda: told.append("a"))
    timers.pass_period()
    kept = path.rename(path.with_name("kept.db"))

    timers.pass_period()
    timers.pass_period()
    assert (told, store._bell.looks) == (["a"], 3)
    kept.rename(path)
    timers.pass_period()
    assert told == ["a", "a"]


async def test_a_store_that_is_not_open_has_no_bell(path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        SqliteStore(path).watch(lambda: None)
