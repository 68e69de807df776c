"""The log beside an open file is deleted or replaced: noticed at the next write, and nothing is acknowledged after that."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.runtime.turns import UNTIL_MS, new_turn
from windlass import Runtime
from windlass.errors import StoreUnavailable, UnknownSession
from windlass.stores.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]

CHILD = """
import asyncio, os, signal, sys
from windlass import Agent, Runtime
from windlass.errors import StoreUnavailable
from windlass.testing import FunctionModel, say

path, end, how = sys.argv[1:]
agent = Agent("a", model=FunctionModel(lambda _: say("hello")))

async def main():
    async with Runtime(agent, store=f"sqlite:///{path}") as rt:
        print((await rt.session("s").run("x", turn_id="t0")).status, flush=True)
        os.unlink(path + end)
        for number in (1, 2, 3):
            try:
                print((await rt.session(f"s{number}").run("x", turn_id="t")).status, flush=True)
            except StoreUnavailable as error:
                print(type(error).__name__, str(error).split(";")[0], flush=True)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

try:
    asyncio.run(main())
except StoreUnavailable:
    print("closed", flush=True)
"""


def live(path: Path, end: str, how: str) -> list[str]:
    """Let a process run a turn, lose a file, run three more, and die or close; return what it said."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), end, how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    return done.stdout.splitlines()


async def sessions_of(path: Path) -> list[str]:
    async with Runtime(store=f"sqlite:///{path}") as runtime:
        return [each.session_id for each in await runtime.sessions()]


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize("how", ["kill", "close"])
async def test_a_process_whose_log_is_taken_away_acknowledges_nothing_more(
    tmp_path: Path, end: str, how: str
) -> None:
    path = tmp_path / "w.db"
    said = live(path, end, how)

    refused = f"StoreUnavailable w.db: w.db{end} was deleted or replaced while the file was open"
    assert said == ["done", refused, refused, refused, *(["closed"] if how == "close" else [])]
    found = await sessions_of(path)
    # A process that closes brings what it had acknowledged into the file; a killed one takes its log along.
    assert found == ([] if (how, end) == ("kill", "-wal") else ["s"])


async def test_a_second_process_does_not_begin_a_log_beside_the_one_that_was_taken_away(
    tmp_path: Path,
) -> None:
    path = tmp_path / "w.db"
    log = path.with_name("w.db-wal")
    first = SqliteStore(path)
    await first.open()
    await first.accept("a", "t1", new_turn())
    log.unlink()

    second = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match=r"w\.db-wal was deleted or replaced"):
        await second.open()
    with pytest.raises(StoreUnavailable, match=r"w\.db-wal was deleted or replaced"):
        await first.accept("b", "t1", new_turn())
    with pytest.raises(StoreUnavailable, match=r"w\.db-wal was deleted or replaced"):
        await first.load_session("a")
    await first.close()

    third = SqliteStore(path)
    await third.open()
    assert (await third.load_session("a")).queued == ("t1",)
    with pytest.raises(UnknownSession):
        await third.load_session("b")
    await third.close()


async def test_a_log_that_is_replaced_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    log = path.with_name("w.db-wal")
    store = SqliteStore(path)
    await store.open()
    await store.accept("a", "t1", new_turn())
    shutil.copy(log, tmp_path / "copy")
    (tmp_path / "copy").replace(log)
    with pytest.raises(StoreUnavailable, match=r"w\.db-wal was deleted or replaced"):
        await store.accept("b", "t1", new_turn())
    await store.close()


async def test_a_log_that_others_empty_or_leave_behind_is_not_missed(tmp_path: Path) -> None:
    """Other stores come, write, scrub the log and go: it stays the same file."""
    path = tmp_path / "w.db"
    store = SqliteStore(path)
    await store.open()
    for name in ("a", "b"):
        other = SqliteStore(path)
        await other.open()
        await other.accept(name, "t1", new_turn())
        worker = await other.join(until_ms=UNTIL_MS, now_ms=0)
        await other.leave(worker)
        await other.close()
        await store.accept(f"own-{name}", "t1", new_turn())
    await store.close()
    assert await sessions_of(path) == ["a", "b", "own-a", "own-b"]


async def test_a_closed_file_without_its_log_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    store = SqliteStore(path)
    await store.open()
    await store.accept("a", "t1", new_turn())
    await store.close()
    path.with_name("w.db-wal").unlink()
    assert await sessions_of(path) == ["a"]
