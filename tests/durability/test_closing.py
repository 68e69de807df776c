"""Closing on a sick disk: whatever the disk refuses, threads, locks and files are released, and the caller's own error stays."""

# ruff: noqa: ASYNC240 - files are what these tests are about

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from tests.durability.faulty_vfs import Fault, FaultyVfs
from tests.durability.recording_vfs import unregistered_name
from tests.durability.test_store_faults import FAULTS
from tests.limits import HANGS_S
from tests.runtime.turns import UNTIL_MS, begin
from tests.scenarios.stage import until
from windlass import Agent, Runtime
from windlass.errors import StoreUnavailable
from windlass.kernel import ModelReply
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.writer import Operation
from windlass.testing import FunctionModel, say

ROOT = Path(__file__).parents[2]
MAX_N = 40


@pytest.fixture(autouse=True)
def _second_faults_are_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """apsw cannot raise a second fault while the first one propagates."""
    tell = sys.unraisablehook
    monkeypatch.setattr(
        sys,
        "unraisablehook",
        lambda found: None if isinstance(found.exc_value, apsw.Error) else tell(found),
    )


def held_files(folder: Path) -> list[str]:
    """Return the files of a folder that this process has open."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            place = str(fd.readlink())
            if place.startswith(str(folder)):
                found.append(place)
    return found


OLDER: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _older_threads_are_not_counted() -> None:
    """A dead life of another test may still be leaving when this one begins."""
    OLDER.clear()
    OLDER.update(threading.enumerate())


def own_threads() -> list[str]:
    """Return the threads of this test's runtimes and stores; those in which plain functions ran wait for the next one, whatever closes."""
    names = [one.name for one in threading.enumerate() if one not in OLDER]
    return [name for name in names if name.startswith("windlass-") and name != "windlass-tool"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "w.db"

    async def make() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(make())
    return path


async def close_under(template: Path, folder: Path, vfs: FaultyVfs, fault: Fault) -> int:
    """Close a store whose worker drives a turn while the disk fails; return how often it failed."""
    folder.mkdir()
    path = folder / "w.db"
    for name in ("w.db", "w.db-wal"):
        shutil.copy(template.with_name(name), folder / name)
    store = SqliteStore(path, vfs=vfs.name, busy_s=0.05)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await store.load_session("a")
    vfs.arm(fault)
    with suppress(StoreUnavailable):
        await store.close()
    fired = vfs.fired
    vfs.lift()
    assert held_files(folder) == []
    assert own_threads() == []
    assert list((folder / "w.db-workers").iterdir()) == []

    # The next one of this process may go on at once: long before the lease is over.
    again = SqliteStore(path)
    await again.open()
    other = await again.join(until_ms=UNTIL_MS, now_ms=1)
    lease = await again.take_over("a", "t1", worker_id=other, until_ms=UNTIL_MS, now_ms=1)
    assert lease.generation == 2
    await again.close()
    return fired


@pytest.mark.parametrize("stays", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("name", FAULTS)
async def test_every_disk_call_of_closing_may_fail(
    template: Path, tmp_path: Path, name: str, stays: bool
) -> None:
    kind, code = FAULTS[name]
    vfs = FaultyVfs(unregistered_name())
    for nth in range(1, MAX_N):
        fault = Fault(kind=kind, code=code, nth=nth, stays=stays)
        if not await close_under(template, tmp_path / str(nth), vfs, fault):
            return
    pytest.fail(f"closing makes more than {MAX_N} calls of this kind")


async def test_closing_that_is_cancelled_before_a_thread_has_begun_it_still_closes(
    template: Path, tmp_path: Path
) -> None:
    path = tmp_path / "w.db"
    shutil.copy(template, path)
    store = SqliteStore(path)
    await store.open()
    gate = threading.Event()
    loop = asyncio.get_running_loop()
    busy = ThreadPoolExecutor(max_workers=1)
    loop.set_default_executor(busy)
    blocker = loop.run_in_executor(None, gate.wait)
    closing = asyncio.create_task(store.close())
    await until(lambda: busy._work_queue.qsize() == 1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert own_threads() == ["windlass-writer"]

    gate.set()
    await blocker
    await until(lambda: own_threads() == held_files(tmp_path) == [])


async def test_a_worker_that_the_disk_refuses_holds_no_lock(template: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    shutil.copy(template, path)
    vfs = FaultyVfs(unregistered_name())
    store = SqliteStore(path, vfs=vfs.name, busy_s=0.05)
    await store.open()
    vfs.arm(Fault(kind="write", code=apsw.SQLITE_FULL, stays=True))
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await store.join(until_ms=UNTIL_MS, now_ms=0)
    vfs.lift()
    assert list((tmp_path / "w.db-workers").iterdir()) == []
    assert not [place for place in held_files(tmp_path) if "-workers" in place]
    await store.close()


# --- the runtime ------------------------------------------------------------------------------------------


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    other.write_bytes(b"")
    other.replace(path)


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


SICK = (delete, replace, delete_log)


class OwnError(Exception):
    """What the caller's own code raises."""


def agent() -> Agent[None, str]:
    return Agent("a", model=FunctionModel(lambda _: say("hello")))


async def fall_ill(
    path: Path, harm: Callable[[Path], None], error: BaseException | None = None
) -> None:
    """Run a turn, harm the file, and leave the runtime, perhaps with an error."""
    async with Runtime(agent(), store=f"sqlite:///{path}") as runtime:
        await runtime.session("s").run("hi", turn_id="t0")
        harm(path)
        if error is not None:
            raise error


@pytest.mark.parametrize("harm", SICK)
async def test_the_callers_error_comes_out_with_a_note(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    with pytest.raises(OwnError) as raised:
        await fall_ill(tmp_path / "w.db", harm, OwnError())

    assert any("closing the runtime failed as well" in note for note in raised.value.__notes__)
    assert held_files(tmp_path) == []
    assert own_threads() == []


@pytest.mark.parametrize("harm", SICK)
async def test_closing_that_fails_alone_is_told_when_all_is_released(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    with pytest.raises(StoreUnavailable, match="deleted or replaced while"):
        await fall_ill(tmp_path / "w.db", harm)

    assert held_files(tmp_path) == []
    assert own_threads() == []


async def test_a_renewal_that_is_under_way_has_ended_when_closing_has(tmp_path: Path) -> None:
    begun = threading.Event()

    class SlowStore(SqliteStore):
        def renew(self, worker_id: str, *, until_ms: int) -> Operation[None]:
            begun.set()
            threading.Event().wait(0.3)
            return super().renew(worker_id, until_ms=until_ms)

    gate = asyncio.Event()

    async def answer(_: object) -> ModelReply:
        await gate.wait()
        return say("hello")

    store = SlowStore(tmp_path / "w.db")
    await store.open()
    runtime = Runtime(Agent("a", model=FunctionModel(answer)), store=store, lease_s=0.1)
    async with runtime:
        await runtime.session("s").submit("hi")
        await until(begun.is_set)
        gate.set()
    assert not [name for name in own_threads() if "lease" in name]
    await store.close()


async def test_a_runtime_that_cannot_be_opened_says_why_and_not_how_closing_went(
    template: Path, tmp_path: Path
) -> None:
    path = tmp_path / "w.db"
    shutil.copy(template, path)
    (tmp_path / "w.db-workers").write_text("a file where the folder should be")
    with pytest.raises(StoreUnavailable, match=r"w\.db-workers: the file system refused"):
        await Runtime(agent(), store=f"sqlite:///{path}").__aenter__()
    assert held_files(tmp_path) == []
    assert own_threads() == []


FULL = """
import asyncio, os, resource, sys, threading
from windlass import Agent, Runtime, tool
from windlass.errors import StoreUnavailable
from windlass.testing import ScriptedModel, call, say

path = sys.argv[1]
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
def room(n_bytes): resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, most))
filled = []

@tool(effect="keyed")
async def fill() -> str:
    "Fills the disk, once."
    if not filled:
        filled.append(1)
        room(0)
    return "full"

def agent(): return Agent("a", model=ScriptedModel([call("fill"), say("done")]), tools=[fill])

async def main():
    try:
        async with Runtime(agent(), store=f"sqlite:///{path}") as rt:
            await rt.session("s").run("x", turn_id="t")
    except StoreUnavailable as error:
        print("told", *getattr(error, "__notes__", ()), sep="|", file=sys.stderr)
    print("threads", [one.name for one in threading.enumerate() if one.name.startswith("windlass-")], file=sys.stderr)
    room(most)
    print("locks", os.listdir(path + "-workers"), file=sys.stderr)
    loop = asyncio.get_running_loop()
    async with Runtime(agent(), store=f"sqlite:///{path}") as rt:
        begun = loop.time()
        result = await asyncio.wait_for(rt.turn("s", "t").result(), 10)
        print(result.status, result.text, loop.time() - begun < 5, file=sys.stderr)

asyncio.run(main())
"""


def test_a_full_disk_is_told_and_the_same_process_goes_on_once_there_is_room(
    tmp_path: Path,
) -> None:
    """No file of the child can grow any more: for its disk calls that is a disk without room."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "w.db")],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    said = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith(("driving", "lease", "closing"))
    ]
    assert done.returncode == 0, done.stderr
    assert said[0].startswith(
        "told|closing the runtime failed as well: w.db: the disk reported an I/O error"
    )
    assert said[1:] == ["threads []", "locks []", "done done True"]
