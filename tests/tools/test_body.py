"""User code behind one door: threads, context variables, and exceptions that would end the program."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tests.limits import HANGS_S
from windlass.errors import ToolError, ToolFailed
from windlass.ports.tool import ToolContext
from windlass.tools import tool
from windlass.tools.threads import _IDLE

CTX = ToolContext(deps=None)
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


async def ran(fn: Callable[..., object]) -> object:
    return await tool(fn).run(CTX, {})


async def test_a_sync_function_runs_in_a_thread_with_the_context_of_its_caller() -> None:
    def look() -> tuple[int, str]:
        seen = WHO.get()
        WHO.set("changed")
        return threading.get_ident(), seen

    WHO.set("me")
    found = await ran(look)

    assert isinstance(found, tuple)
    assert found[0] != threading.get_ident()
    assert found[1] == "me"
    assert WHO.get() == "me"


async def test_an_async_function_runs_in_the_loop() -> None:
    async def look() -> int:
        return threading.get_ident()

    assert await ran(look) == threading.get_ident()


async def test_sync_functions_run_beside_each_other_and_the_loop() -> None:
    """Each waits for all the others: one thread, or a pool of a few, would never end."""
    n_calls = 40
    barrier = threading.Barrier(n_calls + 1, timeout=HANGS_S)

    def meet() -> int:
        return barrier.wait()

    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(ran(meet)) for _ in range(n_calls)]
        await asyncio.to_thread(barrier.wait)

    assert len({call.result() for call in calls}) == n_calls


async def test_a_thread_is_used_again() -> None:
    def who() -> int:
        return threading.get_ident()

    threads = {await ran(who) for _ in range(50)}

    assert len(threads) < 50


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_what_would_end_the_program_ends_the_call(error: BaseException, kind: str) -> None:
    def leave() -> None:
        raise error

    async def leave_later() -> None:
        raise error

    with pytest.raises(ToolFailed) as caught:
        await ran(leave if kind == "sync" else leave_later)

    assert "the function raised " + type(error).__name__ in str(caught.value)
    assert caught.value.field in {"tool leave", "tool leave_later"}


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_what_the_body_raises_is_raised(kind: str) -> None:
    def fail() -> None:
        raise ToolError("busy", not_started=True)

    async def fail_later() -> None:
        fail()

    with pytest.raises(ToolError, match="busy") as caught:
        await ran(fail if kind == "sync" else fail_later)

    assert caught.value.not_started


async def test_a_stop_iteration_is_a_failure_and_not_an_end() -> None:
    def stop() -> None:
        next(iter(()))

    with pytest.raises(ToolFailed, match="the function raised StopIteration"):
        await ran(stop)


async def never() -> None: ...


async def test_a_returned_coroutine_is_closed_and_named() -> None:
    """Warnings are errors here: a coroutine that nobody awaits would fail the test."""

    def forgot() -> object:
        return never()

    async def forgot_again() -> object:
        return never()

    for fn in (forgot, forgot_again):
        with pytest.raises(ToolFailed, match="returned a coroutine instead of a result"):
            await ran(fn)


async def test_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    async def confused() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ToolFailed, match="its task was not cancelled"):
        await ran(confused)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    """The idle threads of the parent are not there: a call that was given to one would never end."""

    def work() -> str:
        return "done"

    asyncio.run(ran(work))
    while not _IDLE:  # a thread is idle a moment after its result is there
        os.sched_yield()
    child = os.fork()
    if child == 0:
        signal.alarm(int(HANGS_S))
        os._exit(asyncio.run(ran(work)) != "done")
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_cancelled_call_ends_at_once_whatever_its_thread_does(kind: str) -> None:
    begun, release = threading.Event(), threading.Event()

    def block() -> str:
        begun.set()
        release.wait(HANGS_S)
        return "too late"

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.get_running_loop().create_task(ran(block if kind == "sync" else wait))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


def test_a_body_that_never_returns_does_not_keep_the_program_alive() -> None:
    program = """
import asyncio, threading
from windlass.ports.tool import ToolContext
from windlass.tools import tool

@tool
def hang() -> None:
    threading.Event().wait()

async def main():
    try:
        async with asyncio.timeout(0.05):
            await hang.run(ToolContext(deps=None), {})
    except TimeoutError:
        print("gave up")

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANGS_S, check=True
    )

    assert (done.stdout, done.stderr) == ("gave up\n", "")


def test_a_thread_that_ends_after_its_loop_is_closed_says_nothing() -> None:
    release = threading.Event()

    def block() -> None:
        release.wait(HANGS_S)

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(ran(block))
        await asyncio.sleep(0)
        task.cancel()

    before = set(threading.enumerate())
    asyncio.run(main())
    release.set()

    assert all(thread.daemon for thread in set(threading.enumerate()) - before)
