"""What a function may do wrong, and what its process comes to then."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage, until
from windlass import Process, ProcessContext, ProcessHandle, Runtime, process
from windlass.errors import ProcessFailed, StepUnknown, ToolError, ToolFailed, ToolTimeout
from windlass.guards.secret import Secret, register_secret


async def outcome(rt: Runtime[Any], one: Process[Any], **args: object) -> Any:  # noqa: ANN401 - JSON
    return await (await rt.processes.start(one, args=args)).result(timeout=HANGS_S)


async def failure(rt: Runtime[Any], one: Process[Any], **args: object) -> str:
    handle = await rt.processes.start(one, args=args)
    with pytest.raises(ProcessFailed) as raised:
        await handle.result(timeout=HANGS_S)
    status = await handle.status()
    assert (status.state, status.value) == ("failed", None)
    assert str(raised.value) == f"process {handle.id}: failed: {status.error}"
    return status.error


async def test_what_a_function_raises_or_returns_ends_its_process_in_words(stage: Stage) -> None:
    @process
    async def odd(ctx: ProcessContext[Any], what: str) -> object:
        if what == "raises":
            raise LookupError("no such customer")
        if what == "silent":
            raise KeyError
        if what == "secret":
            raise ValueError("the key is sk-very-secret-0123456789")
        return {"object": object(), "nan": float("nan"), "set": {1}}[what]

    register_secret(Secret("sk-very-secret-0123456789"))
    async with stage.runtime(processes=[odd]) as rt:
        assert await failure(rt, odd, what="raises") == "LookupError: no such customer"
        assert await failure(rt, odd, what="silent") == "KeyError"
        assert "sk-very-secret" not in await failure(rt, odd, what="secret")
        assert "cannot be kept" in await failure(rt, odd, what="object")
        assert "cannot be kept" in await failure(rt, odd, what="nan")


async def test_long_values_are_kept_whole_and_come_back_after_a_restart(stage: Stage) -> None:
    text, calls = "\x1bäö " * 500_000, list[int]()

    def fetch() -> dict[str, Any]:
        calls.append(1)
        return {"text": text, "n": 2**60}

    @process
    async def long(ctx: ProcessContext[Any]) -> list[Any]:
        found = await ctx.step(fetch)
        await ctx.sleep(60)
        return [found["text"] == text, found["n"], len(found["text"])]

    async with stage.runtime(processes=[long]) as rt:
        handle = await rt.processes.start(long, id="l")
        await until(lambda: _waits(handle))
    stage.clock.advance(60)
    async with stage.runtime(processes=[long]) as rt:
        assert await rt.processes.get("l").result(timeout=HANGS_S) == [True, 2**60, 2_000_000]
    assert calls == [1]


async def _waits(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).state == "waiting"


async def test_steps_fail_as_their_contracts_say(stage: Stage) -> None:
    runs: list[str] = []

    async def slow() -> None:
        runs.append("slow")
        await asyncio.Event().wait()

    def not_begun() -> None:
        runs.append("not begun")
        raise ToolError("the line is busy", not_started=True)

    async def flaky() -> str:
        runs.append("flaky")
        if runs.count("flaky") < 3:
            raise OSError("again")
        return "at last"

    async def unknown_value() -> object:
        return object()

    @process
    async def steps(ctx: ProcessContext[Any]) -> list[str]:
        found: list[str] = []
        soon, later = 0.01, HANGS_S  # a plain function runs in a thread, which may begin late
        for work, effect, timeout in (
            (slow, "once", soon),
            (slow, "idempotent", soon),
            (not_begun, "once", later),
        ):
            try:
                await ctx.step(work, effect=effect, timeout=timeout)  # type: ignore[arg-type]  # a contract
            except (ToolTimeout, ToolFailed, StepUnknown) as error:
                found.append(f"{type(error).__name__} {error.field}")
        try:
            await ctx.step(unknown_value)
        except ToolFailed as error:
            found.append(str(error)[:48])
        found.append(await ctx.step(flaky, effect="idempotent", retries=2))
        return found

    async with stage.runtime(processes=[steps]) as rt:
        found = await outcome(rt, steps)
    assert found == [
        "StepUnknown slow",
        "ToolTimeout slow",
        "ToolFailed not_begun",
        "unknown_value: It returned what cannot be kept: ",
        "at last",
    ]
    assert runs == ["slow", "slow", "not begun", "flaky", "flaky", "flaky"]


async def test_a_step_is_given_what_it_was_called_with_and_sync_ones_run_in_threads(
    stage: Stage,
) -> None:
    class Shop:
        def __init__(self) -> None:
            self.name = "shop"

        def sell(self, what: str, *, price: int) -> list[Any]:
            return [self.name, what, price, threading.current_thread() is threading.main_thread()]

    @process
    async def sells(ctx: ProcessContext[Any]) -> list[Any]:
        shop = Shop()
        return [
            await ctx.step(shop.sell, "tea", price=3),
            await ctx.step(lambda: 5),
            await ctx.step(sum, [1, 2, 3], name="add up!"),
        ]

    @process
    async def unfit(ctx: ProcessContext[Any]) -> object:
        return await ctx.step(print, object())

    async with stage.runtime(processes=[sells, unfit]) as rt:
        assert await outcome(rt, sells) == [["shop", "tea", 3, False], 5, 6]
        assert "args: found" in await failure(rt, unfit)


async def test_a_thousand_operations_are_replayed(stage: Stage) -> None:
    runs: list[int] = []

    @process
    async def busy(ctx: ProcessContext[Any]) -> int:
        for number in range(500):
            await ctx.step(runs.append, number, effect="idempotent")
            await ctx.emit("at", number)
        await ctx.sleep(60)
        return len(runs)

    async with stage.runtime(processes=[busy]) as rt:
        handle = await rt.processes.start(busy, id="b")
        await until(lambda: _waits(handle), within_s=HANGS_S)
        stage.later(60, rt)
        assert await handle.result(timeout=HANGS_S) == 500
        assert (await handle.status()).record == {"at": 499}
    assert runs == list(range(500))


async def test_tasks_inside_tasks_keep_their_places_over_a_restart(stage: Stage) -> None:
    runs: list[str] = []

    async def note(name: str) -> str:
        runs.append(name)
        return name

    @process
    async def tree(ctx: ProcessContext[Any]) -> list[Any]:
        async def leaf(name: str) -> str:
            first = await ctx.step(note, f"{name}.first")
            await ctx.sleep(60)
            return f"{first} {await ctx.step(note, f'{name}.second')}"

        async def pair(name: str) -> list[str]:
            return list(await asyncio.gather(leaf(f"{name}1"), leaf(f"{name}2")))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(pair(name)) for name in "ab"]
        return [task.result() for task in tasks]

    async with stage.runtime(processes=[tree]) as rt:
        handle = await rt.processes.start(tree, id="t")
        await until(lambda: _waits(handle))
        assert len((await handle.status()).waits) == 4
    stage.clock.advance(60)
    async with stage.runtime(processes=[tree]) as rt:
        found = await rt.processes.get("t").result(timeout=HANGS_S)
    assert found == [
        ["a1.first a1.second", "a2.first a2.second"],
        ["b1.first b1.second", "b2.first b2.second"],
    ]
    assert len(runs) == len(set(runs)) == 8


async def test_one_branch_that_fails_fails_the_group_and_cancels_the_others(stage: Stage) -> None:
    @process
    async def group(ctx: ProcessContext[Any]) -> str:
        async def fails() -> None:
            await ctx.sleep(60)
            raise ValueError("too late")

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fails())
                tasks.create_task(ctx.wait("never"))
        except ExceptionGroup as errors:
            return str(errors.exceptions[0])
        return ""

    async with stage.runtime(processes=[group]) as rt:
        handle = await rt.processes.start(group, id="g")
        await until(lambda: _waits(handle))
        stage.later(60, rt)
        assert await handle.result(timeout=HANGS_S) == "too late"


async def test_a_task_that_is_left_behind_ends_with_its_function(stage: Stage) -> None:
    ended: list[str] = []

    @process
    async def leaves(ctx: ProcessContext[Any]) -> str:
        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        left = asyncio.create_task(forever())
        await ctx.step(asyncio.sleep, 0, name="moment")
        return f"done {left.done()}"

    async with stage.runtime(processes=[leaves]) as rt:
        assert await outcome(rt, leaves) == "done False"
        await until(lambda: not rt._worker.driving)
    assert ended in ([], ["cancelled"])


async def test_a_function_may_await_what_is_not_recorded_at_its_own_risk(stage: Stage) -> None:
    desk, began = Desk(is_open=False), list[int]()

    @process
    async def foreign(ctx: ProcessContext[Any]) -> str:
        began.append(1)
        await desk.work()
        await ctx.sleep(60)
        return "done"

    async with stage.runtime(processes=[foreign]) as rt:
        handle = await rt.processes.start(foreign)
        await desk.entered.wait()
        assert (await handle.status()).state == "running"
        desk.gate.set()
        await until(lambda: _waits(handle))
        stage.later(60, rt)
        assert await handle.result(timeout=HANGS_S) == "done"
    assert len(began) == 2
    assert len(desk.runs) == 2


async def test_a_function_that_swallows_everything_is_let_go_of_all_the_same(stage: Stage) -> None:
    seen: list[str] = []

    @process
    async def greedy(ctx: ProcessContext[Any]) -> str:
        try:
            await ctx.sleep(60)
        except BaseException as error:  # noqa: BLE001 - that is the point
            seen.append(type(error).__name__)
            return "swallowed"
        return "slept"

    async with stage.runtime(processes=[greedy]) as rt:
        handle = await rt.processes.start(greedy)
        await until(lambda: _waits(handle))
        stage.later(60, rt)
        assert await handle.result(timeout=HANGS_S) == "slept"
    assert seen == ["Unwinding"]


async def test_operations_outside_the_function_are_refused(stage: Stage) -> None:
    kept: list[ProcessContext[Any]] = []

    @process
    async def keeps(ctx: ProcessContext[Any]) -> None:
        kept.append(ctx)

    async with stage.runtime(processes=[keeps]) as rt:
        await outcome(rt, keeps)
        await until(lambda: not rt._worker.driving)
        with pytest.raises(Exception, match="process has ended"):
            await kept[0].step(print)
