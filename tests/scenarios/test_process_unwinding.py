"""A process that is let go of: whatever its function makes of that, nothing is done twice and nothing is lost."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from contextlib import suppress
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage, until
from windlass import Process, ProcessContext, ProcessHandle, Runtime, process
from windlass.errors import ProcessEnded, ProcessFailed
from windlass.runtime import process_run

HOUR_S = 3_600


async def is_asleep(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).state == "waiting"


async def result_after_an_hour(stage: Stage, function: Process[Any]) -> object:
    """Start a process, let it park, let an hour pass, and return what it returns."""
    async with stage.runtime(processes=[function]) as rt:
        handle = await rt.processes.start(function, id="p")
        await until(lambda: is_asleep(handle))
        stage.later(HOUR_S, rt)
        return await handle.result(timeout=HANGS_S)


# --- what a function does while it is unwound ------------------------------------------------------------


async def test_a_function_that_swallows_everything_is_parked_all_the_same(stage: Stage) -> None:
    swallowed: list[str] = []

    @process
    async def stubborn(ctx: ProcessContext[Any]) -> str:
        for _ in range(100):
            try:
                await ctx.sleep(HOUR_S)
            except BaseException as error:  # noqa: BLE001 - as some do
                swallowed.append(type(error).__name__)
            else:
                return "slept"
        return "swallowed"

    assert await result_after_an_hour(stage, stubborn) == "slept"
    assert swallowed == ["Unwinding"] * 100


async def test_a_task_that_only_waits_for_others_is_unwound_without_a_word(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    @process
    async def nested(ctx: ProcessContext[Any]) -> str:
        async def both() -> None:
            await asyncio.gather(ctx.sleep(HOUR_S), ctx.sleep(HOUR_S / 2))

        await asyncio.wait([asyncio.create_task(both())])
        return "slept"

    assert await result_after_an_hour(stage, nested) == "slept"
    gc.collect()  # asyncio says of a task when it is freed that nothing has retrieved its exception
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize("error", [None, ValueError(), asyncio.CancelledError()])
def test_what_else_asyncio_has_to_say_is_still_told(error: BaseException | None) -> None:
    given = None if error is None else (type(error), error, None)
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "Task", (), given)
    assert logging.getLogger("asyncio").filter(record)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_run, "_GRACE_S", 0.01)


@pytest.mark.usefixtures("impatient")
async def test_a_function_that_will_not_end_holds_up_no_worker(stage: Stage) -> None:
    may_end = asyncio.Event()

    @process
    async def stuck(ctx: ProcessContext[Any]) -> str:
        try:
            await ctx.sleep(HOUR_S)
        finally:
            while not may_end.is_set():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait_for(may_end.wait(), HANGS_S)
        return "slept"

    async with stage.runtime(processes=[stuck]) as rt:
        handle = await rt.processes.start(stuck, id="p")
        await until(lambda: is_asleep(handle))
        may_end.set()
        stage.later(HOUR_S, rt)
        assert await handle.result(timeout=HANGS_S) == "slept"


async def test_a_finally_runs_whenever_it_is_unwound_and_its_steps_only_at_the_end(
    stage: Stage,
) -> None:
    seen: list[str] = []

    @process
    async def careful(ctx: ProcessContext[Any]) -> str:
        try:
            await ctx.sleep(HOUR_S)
        finally:
            await asyncio.sleep(0)
            seen.append("released")
            await ctx.step(seen.append, "closed")
        return "slept"

    assert await result_after_an_hour(stage, careful) == "slept"
    assert seen == ["released", "released", "closed"]


async def test_only_a_cancel_looks_like_one(stage: Stage) -> None:
    seen: list[str] = []

    @process
    async def watchful(ctx: ProcessContext[Any]) -> None:
        try:
            await ctx.sleep(HOUR_S)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async with stage.runtime(processes=[watchful]) as rt:
        handle = await rt.processes.start(watchful, id="p")
        await until(lambda: is_asleep(handle))
        assert seen == []
        await handle.cancel("enough")
        await until(lambda: _is_over(handle))
    assert seen == ["cancelled"]


async def _is_over(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).is_over


async def test_a_function_that_cancels_its_own_task_has_failed(stage: Stage) -> None:
    @process
    async def selfish(ctx: ProcessContext[Any]) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await ctx.sleep(HOUR_S)

    async with stage.runtime(processes=[selfish]) as rt:
        handle = await rt.processes.start(selfish, id="p")
        with pytest.raises(ProcessFailed, match="cancelled its own task"):
            await handle.result(timeout=HANGS_S)


async def test_an_exception_that_is_none_fails_the_process_and_not_its_worker(stage: Stage) -> None:
    class Odd(BaseException):
        pass

    @process
    async def odd(ctx: ProcessContext[Any]) -> None:
        await ctx.emit("here")
        raise Odd("no")

    async with stage.runtime(processes=[odd]) as rt:
        handle = await rt.processes.start(odd, id="p")
        with pytest.raises(ProcessFailed, match="Odd: no"):
            await handle.result(timeout=HANGS_S)


async def test_a_task_that_outlives_its_function_does_nothing_more(stage: Stage) -> None:
    go, seen = asyncio.Event(), list[str]()
    tasks: list[asyncio.Task[None]] = []

    @process
    async def careless(ctx: ProcessContext[Any]) -> object:
        async def later() -> None:
            await go.wait()
            await ctx.step(seen.append, "late")

        tasks.append(asyncio.create_task(later()))
        return await ctx.step(str, "done")

    async with stage.runtime(processes=[careless]) as rt:
        handle = await rt.processes.start(careless, id="p")
        assert await handle.result(timeout=HANGS_S) == "done"
        go.set()
        await asyncio.wait(tasks, timeout=HANGS_S)
    assert seen == []
    assert isinstance(tasks[0].exception(), ProcessEnded)


async def test_a_parked_process_is_not_in_memory(stage: Stage) -> None:
    refs: list[weakref.ref[Any]] = []

    @process
    async def small(ctx: ProcessContext[Any]) -> None:
        refs.append(weakref.ref(ctx))
        await asyncio.gather(ctx.sleep(HOUR_S), ctx.sleep(2 * HOUR_S))

    async with stage.runtime(processes=[small]) as rt:
        handle = await rt.processes.start(small, id="p")
        await until(lambda: is_asleep(handle))
        await until(lambda: _is_gone(refs))
        assert not [one for one in asyncio.all_tasks() if "process" in one.get_name()]


async def _is_gone(refs: list[weakref.ref[Any]]) -> bool:
    gc.collect()
    return all(ref() is None for ref in refs)


# --- what asyncio has to offer ---------------------------------------------------------------------------------


async def test_a_timeout_of_asyncio_does_not_outlive_the_drive(stage: Stage) -> None:
    @process
    async def hurried(ctx: ProcessContext[Any]) -> str:
        async with asyncio.timeout(HANGS_S):
            await ctx.sleep(HOUR_S)
        return "slept"

    assert await result_after_an_hour(stage, hurried) == "slept"


async def test_a_step_that_the_function_cuts_off_corrupts_nothing(stage: Stage) -> None:
    began = asyncio.Event()

    async def forever() -> None:
        began.set()
        await asyncio.Event().wait()

    @process
    async def hurried(ctx: ProcessContext[Any]) -> object:
        step = asyncio.create_task(ctx.step(forever))
        await ctx.sleep(HOUR_S)
        step.cancel()
        with suppress(asyncio.CancelledError):
            await step
        return await ctx.step(str, "cut off")

    async with stage.runtime(processes=[hurried]) as rt:
        handle = await rt.processes.start(hurried, id="p")
        await began.wait()
        await until(lambda: _has_waits(handle, rt))
        stage.later(HOUR_S, rt)
        assert await handle.result(timeout=HANGS_S) == "cut off"


async def _has_waits(handle: ProcessHandle[Any], rt: Runtime[Any]) -> bool:
    stored = await rt._services.store.load_turn(handle.session_id, "run")
    return stored is not None and bool(stored.waits)


async def test_tasks_of_a_group_park_and_go_on(stage: Stage) -> None:
    @process
    async def grouped(ctx: ProcessContext[Any]) -> list[object]:
        async def one(name: str, seconds: int) -> object:
            await ctx.sleep(seconds)
            return await ctx.step(str, name)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(name, at)) for at, name in enumerate("abc", start=100)]
        return [task.result() for task in tasks]

    assert await result_after_an_hour(stage, grouped) == ["a", "b", "c"]


async def test_a_task_of_a_group_can_go_on_as_another_turn(stage: Stage) -> None:
    @process
    async def grouped(ctx: ProcessContext[Any], page: int = 1) -> int:
        async def go_on() -> None:
            await ctx.step(str, "x")
            ctx.continue_as(page=page + 1)

        if page < 3:
            async with asyncio.TaskGroup() as group:
                group.create_task(go_on())
        return page

    async with stage.runtime(processes=[grouped]) as rt:
        handle = await rt.processes.start(grouped, id="p")
        assert await handle.result(timeout=HANGS_S) == 3


async def test_a_shielded_step_is_done_once(stage: Stage) -> None:
    seen: list[str] = []

    @process
    async def shielded(ctx: ProcessContext[Any]) -> str:
        await asyncio.shield(ctx.step(seen.append, "done"))
        await ctx.sleep(HOUR_S)
        return "slept"

    assert await result_after_an_hour(stage, shielded) == "slept"
    assert seen == ["done"]


async def test_a_task_that_the_function_does_not_wait_for_has_its_own_record(stage: Stage) -> None:
    seen: list[str] = []

    @process
    async def beside(ctx: ProcessContext[Any]) -> str:
        aside = asyncio.create_task(ctx.step(seen.append, "aside"))
        await ctx.step(seen.append, "first")
        await ctx.sleep(HOUR_S)
        await aside
        return "slept"

    assert await result_after_an_hour(stage, beside) == "slept"
    assert sorted(seen) == ["aside", "first"]


async def test_turns_that_are_begun_together_are_different_ones(stage: Stage) -> None:
    places: list[str] = []

    @process
    async def both(ctx: ProcessContext[Any]) -> list[str]:
        async def place() -> None:
            places.append(ctx._host.derived_session("child"))
            await ctx.step(str, "x")

        await asyncio.gather(place(), place())
        return []

    async with stage.runtime(processes=[both]) as rt:
        handle = await rt.processes.start(both, id="p")
        assert await handle.result(timeout=HANGS_S) == []
    assert len(set(places)) == 2


async def test_the_body_of_a_step_may_not_ask_for_operations(stage: Stage) -> None:
    @process
    async def nested(ctx: ProcessContext[Any]) -> str:
        async def body() -> None:
            await ctx.sleep(HOUR_S)

        await ctx.step(body)
        return "never"

    async with stage.runtime(processes=[nested]) as rt:
        handle = await rt.processes.start(nested, id="p")
        with pytest.raises(ProcessFailed, match="the body of a step asked for an operation"):
            await handle.result(timeout=HANGS_S)
