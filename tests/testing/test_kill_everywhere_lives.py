"""A life that is crashed stands still at once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.test_project_files import run_example, text_of
from tests.limits import HANGS_S
from tests.testing.shops import Bank, refund, shop
from windlass import Runtime, ToolContext, tool
from windlass.testing import CrashFound, calls, kill_everywhere, say

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guides/test-crashes.md"


async def test_a_dead_body_runs_no_further_not_even_its_finally() -> None:
    @tool(effect="idempotent")
    async def tidy(ctx: ToolContext[Bank], order: str) -> str:
        """Note when it begins and when it is tidied up."""
        ctx.deps.log.append("begin")
        try:
            await asyncio.sleep(0)
        finally:
            ctx.deps.log.append("tidy")
        return order

    def two_begin_one_tidies(bank: Bank, _result: object) -> bool:
        return bank.log in (["begin", "tidy"], ["begin", "begin", "tidy"])

    report = await kill_everywhere(shop(tidy, check=two_begin_one_tidies), only="inside")

    assert len(report.points) == 1


async def test_a_dead_program_runs_no_further_either() -> None:
    def make_log() -> Any:  # noqa: ANN401 - a scenario
        log: list[str] = []

        async def program(rt: Runtime[Any]) -> None:
            log.append("begin")
            try:
                await rt.session("s").run("Refund o1.", turn_id="t1")
            finally:
                log.append("end")

        wanted = (["begin", "end"], ["begin", "begin", "end"])
        return shop(refund, run=program, check=lambda _bank, _result: log in wanted)()

    report = await kill_everywhere(make_log, only="write 2")

    assert len(report.points) == 2


async def test_a_crash_waits_for_bodies_in_threads() -> None:
    """No thread can be stopped half way, and one that ran on would be seen by the next process."""

    def scenario() -> Any:  # noqa: ANN401 - a scenario
        began, go = threading.Event(), threading.Event()

        @tool(effect="idempotent")
        async def quick(ctx: ToolContext[Bank]) -> str:
            """Let the slow one go, and wait."""
            assert began.wait(HANGS_S)
            go.set()
            await asyncio.sleep(0)
            return "quick"

        @tool(effect="idempotent")
        def slow(ctx: ToolContext[Bank]) -> str:
            """Work on while the process dies."""
            began.set()
            go.wait(HANGS_S)
            sum(range(300_000))
            ctx.deps.log.append("slow has ended")
            return "slow"

        def deps_log(bank: Bank) -> Bank:
            bank.log.append("a process begins")
            return bank

        bank = Bank()
        make = shop(
            quick,
            slow,
            replies=[calls(("slow", {}), ("quick", {})), say("done")],
            deps=lambda _info: deps_log(bank),
            check=lambda _bank, _result: bank.log in wanted,
        )
        begins, ends = "a process begins", "slow has ended"
        wanted = ([begins, ends], [begins, ends, begins, ends])
        return make()

    report = await kill_everywhere(scenario, only="inside quick")

    assert len(report.points) == 1


async def test_a_program_that_hangs_after_a_crash_is_found() -> None:
    """A lock in the world that only the dead process could have released."""

    @tool(effect="idempotent")
    async def locked(ctx: ToolContext[Bank], order: str) -> str:
        """Hold a lock that outlives the process."""
        if ctx.deps.log:
            await asyncio.Event().wait()
        ctx.deps.log.append("locked")
        await asyncio.sleep(0)
        ctx.deps.log.clear()
        return order

    make = shop(locked, check=lambda _bank, _result: True)

    with pytest.raises(CrashFound, match=r"did not end within 0\.3 s"):
        await kill_everywhere(make, only="inside", timeout=0.3)


async def test_what_the_program_raises_after_a_crash_is_told() -> None:
    def scenario() -> Any:  # noqa: ANN401 - a scenario
        starts: list[int] = []

        async def program(rt: Runtime[Any]) -> Any:  # noqa: ANN401 - a TurnResult
            starts.append(1)
            return await rt.session("s").run(f"Attempt {len(starts)}.", turn_id="t1")

        return shop(refund, run=program)()

    with pytest.raises(CrashFound, match="raised IdempotencyConflict") as found:
        await kill_everywhere(scenario, only="after write 2")

    assert type(found.value.__cause__).__name__ == "IdempotencyConflict"


async def test_nothing_is_left_behind_and_nothing_is_complained_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for store in ("memory", "sqlite"):
        await kill_everywhere(shop(refund), store=store, max_points=5)

    assert [thread.name for thread in threading.enumerate() if "life" in thread.name] == []
    assert caplog.records == []


async def test_a_test_that_is_given_up_leaves_no_life_behind() -> None:
    began = asyncio.Event()
    here = asyncio.get_running_loop()

    async def program(rt: Runtime[Any]) -> None:
        here.call_soon_threadsafe(began.set)
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(kill_everywhere(shop(refund, run=program)))
        await began.wait()
        task.cancel()

    assert [thread.name for thread in threading.enumerate() if "life" in thread.name] == []


def test_the_guide_shows_what_its_example_really_says(tmp_path: Path) -> None:
    done = run_example(PAGE, tmp_path)

    assert done.returncode == 0, done.stderr
    said = done.stdout.rstrip("\n")
    assert said
    assert f"```text\n{said}\n```" in text_of(PAGE)
