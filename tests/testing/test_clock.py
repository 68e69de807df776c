"""The virtual clock: it stands until it is moved, and wakes whoever is due, in order."""

from __future__ import annotations

import asyncio

import pytest

from windlass.errors import InvalidInput
from windlass.ports.clock import Clock
from windlass.testing import VirtualClock, virtual_clock


async def sleeping(clock: Clock, seconds: float, name: str, woken: list[str]) -> None:
    await clock.sleep(seconds)
    woken.append(name)


def test_it_begins_where_it_is_told_and_stands_still() -> None:
    assert virtual_clock().now_ms() == 1_700_000_000_000
    assert virtual_clock(5).now_ms() == 5
    assert isinstance(virtual_clock(), VirtualClock)


def test_it_moves_by_what_is_asked_for() -> None:
    clock = virtual_clock(0)

    clock.advance(1.5)
    clock.advance(0)
    clock.advance(0.0005)
    clock.advance(0.0005)

    assert clock.now_ms() == 1_501


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_it_moves_forward_and_by_a_number(seconds: float) -> None:
    clock = virtual_clock(7)

    with pytest.raises(InvalidInput, match=r"^seconds: found .+, wanted 0 or more$"):
        clock.advance(seconds)

    assert clock.now_ms() == 7


async def test_sleepers_wake_in_due_order_and_not_before() -> None:
    clock = virtual_clock()
    woken: list[str] = []
    async with asyncio.TaskGroup() as group:
        for name, seconds in [("c", 3.0), ("a", 1.0), ("later", 3.001), ("b", 2.0), ("c too", 3.0)]:
            group.create_task(sleeping(clock, seconds, name, woken))
        await clock.until_asleep(5)

        clock.advance(3)
        await asyncio.sleep(0)
        assert woken == ["a", "b", "c", "c too"]
        assert clock.sleepers == 1

        clock.advance(0.0009)
        await asyncio.sleep(0)
        assert "later" not in woken

        clock.advance(0.0001)

    assert woken[-1] == "later"
    assert clock.sleepers == 0


@pytest.mark.parametrize("seconds", [1.1, 0.3, 2.2e-5, 4.35])
async def test_moving_by_what_one_slept_wakes_one(seconds: float) -> None:
    clock = virtual_clock()
    async with asyncio.TaskGroup() as group:
        group.create_task(clock.sleep(seconds))
        await clock.until_asleep()
        clock.advance(seconds)

    assert clock.sleepers == 0


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_time_to_sleep_still_lets_others_go_first(seconds: float) -> None:
    clock = virtual_clock()
    woken: list[str] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(sleeping(clock, seconds, "sleeper", woken))
        group.create_task(asyncio.sleep(0)).add_done_callback(lambda _: None)
        await asyncio.sleep(0)
        woken.append("other")

    assert woken == ["other", "sleeper"]


async def test_a_cancelled_sleeper_is_gone() -> None:
    clock = virtual_clock()
    async with asyncio.TaskGroup() as group:
        cancelled = group.create_task(clock.sleep(1))
        group.create_task(clock.sleep(2))
        await clock.until_asleep(2)
        cancelled.cancel()
        await asyncio.wait([cancelled])

        assert clock.sleepers == 1
        clock.advance(2)

    assert cancelled.cancelled()
    assert clock.sleepers == 0


async def test_one_may_wait_until_somebody_sleeps() -> None:
    clock = virtual_clock()
    seen: list[str] = []

    async def mover() -> None:
        await clock.until_asleep()
        seen.append("asleep")
        clock.advance(60)

    async with asyncio.TaskGroup() as group:
        group.create_task(mover())
        await asyncio.sleep(0)
        assert seen == []
        await clock.sleep(60)

    assert seen == ["asleep"]
    assert clock.now_ms() == 1_700_000_060_000


async def test_a_watcher_that_gave_up_is_forgotten() -> None:
    clock = virtual_clock()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await clock.until_asleep()

    async with asyncio.TaskGroup() as group:
        group.create_task(clock.sleep(1))
        await clock.until_asleep()
        clock.advance(1)


async def test_it_may_be_moved_and_read_from_another_thread() -> None:
    clock = virtual_clock(0)

    def move() -> int:
        clock.advance(2)
        return clock.now_ms()

    async with asyncio.TaskGroup() as group:
        group.create_task(clock.sleep(2))
        await clock.until_asleep()
        assert await asyncio.to_thread(move) == 2_000
