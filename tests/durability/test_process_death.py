"""A process dies, or is thought to be dead: what it said is durable is there, and what it writes later is not.

A killed process does not lose what the system has of its writes: that a commit is on the disk is shown in
test_power_loss. Here it is shown that no moment is a bad moment to die.
"""

from __future__ import annotations

import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import apsw
import pytest

from tests.durability.workload import (
    LEASE_MS,
    Mark,
    Worker,
    check_session,
    find_session,
    resume,
    run_turn,
)
from tests.durability.writing_process import WritingProcess
from tests.limits import times
from windlass.errors import LeaseLost, StoreContended
from windlass.ports import SessionView, TurnView
from windlass.stores.sqlite import SqliteStore

N_FILES = times(4)
KILLS_PER_FILE = 10
SESSIONS = ("s0", "s1", "s2")
UNTIL_MS = 1_000 + LEASE_MS


def _ignore(mark: Mark) -> None:
    """Ignore what is acknowledged."""


async def check_file(file: Path, marks: list[Mark]) -> None:
    """Check all sessions of a file that no process writes to."""
    store = SqliteStore(file)
    await store.open()
    try:
        for session in SESSIONS:
            await check_session(store, session, [m for m in marks if m.session == session])
    finally:
        await store.close()


def integrity(file: Path) -> object:
    db = apsw.Connection(str(file))
    try:
        return db.pragma("integrity_check")
    finally:
        db.close()


def kill_again_and_again(file: Path, seed: int) -> tuple[int, int]:
    """Kill writers of one file, one after another; return how many were killed at work, and the marks."""
    random = Random(seed)
    marks: list[Mark] = []
    at_work = 0
    for life in range(KILLS_PER_FILE):
        with WritingProcess("load", str(file), ",".join(SESSIONS)) as writer:
            moment = random.random()
            if moment < 0.65:
                # At work. The next one has to take over at once, for the lease runs for an hour.
                assert writer.wait_for(random.randint(1, 80), word="unit"), writer.stderr
                time.sleep(random.uniform(0, 0.01))
            elif moment < 0.8:
                # While it takes over, or shortly after.
                assert writer.wait_for(word="ready"), writer.stderr
                time.sleep(random.uniform(0, 0.05))
            else:
                # While it starts, or shortly after.
                time.sleep(random.uniform(0, 0.3))
            writer.kill()
        assert writer.process.returncode == -signal.SIGKILL, "it was dead before"
        assert writer.stderr == "", f"seed {seed}, life {life}"
        assert writer.said("refused") == [], f"seed {seed}, life {life}"
        at_work += bool(writer.marks)
        marks += writer.marks
        if file.exists():
            try:
                asyncio.run(check_file(file, marks))
            except Exception as error:
                error.add_note(f"seed {seed}, life {life}")
                raise
            assert integrity(file) == "ok", f"seed {seed}, life {life}"
    # The last one dead, a life that is not cut short goes on at once.
    with WritingProcess("load", str(file), ",".join(SESSIONS), "--seconds", "0.05") as writer:
        assert writer.wait() == 0, writer.stderr
    assert writer.lines[-1] == "over"
    assert {session for session, _ in writer.said("took")} == set(SESSIONS)
    return at_work, len(marks)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_is_there_by_halves_however_often_it_is_killed(
    tmp_path: Path,
) -> None:
    with ThreadPoolExecutor(2) as pool:
        results = list(
            pool.map(
                lambda seed: kill_again_and_again(tmp_path / f"{seed}.db", seed), range(N_FILES)
            )
        )
    assert sum(at_work for at_work, _ in results) >= N_FILES * KILLS_PER_FILE // 2
    assert all(n_marks > 0 for _, n_marks in results)


# ------------------------------------------------------------------------- zombies


async def snapshot(store: SqliteStore, session: str) -> tuple[SessionView, list[TurnView | None]]:
    """Return all that there is of a session."""
    view = await store.load_session(session)
    turns = [await store.load_turn(session, f"t{n}") for n in range(view.head + 2)]
    return view, turns


async def rob(store: SqliteStore, session: str, worker_id: str, writer: WritingProcess) -> None:
    """Take a session from a writer that stands still, and run a turn in it."""
    early = Worker(worker_id, now_ms=UNTIL_MS - 1, until_ms=UNTIL_MS * 2)
    late = Worker(worker_id, now_ms=UNTIL_MS, until_ms=UNTIL_MS * 2)
    while True:
        # Stopped in the middle of a transaction it holds the file's lock, and no other process can write.
        try:
            view = await find_session(store, session)
            if view is not None and view.active is not None:
                with pytest.raises(LeaseLost):
                    await resume(store, session, early, _ignore)
                generation, turn = await resume(store, session, late, _ignore)
                await run_turn(store, session, turn, late, generation, _ignore)
                return
        except StoreContended:
            pass
        writer.go_on()
        await asyncio.sleep(0.02)
        writer.pause()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_zombie_is_refused_at_every_door_and_nothing_of_it_lands(
    tmp_path: Path, seed: int
) -> None:
    """I11, law 3: stopped under load, past its lease, and woken up after another worker took over."""
    file = tmp_path / "w.db"

    async def run(writer: WritingProcess) -> None:
        store = SqliteStore(file, busy_s=1.0)
        await store.open()
        worker_id = await store.join(until_ms=UNTIL_MS * 2, now_ms=UNTIL_MS)
        writer.pause()
        try:
            for session in SESSIONS:
                await rob(store, session, worker_id, writer)
            before = [await snapshot(store, session) for session in SESSIONS]
            writer.go_on()
            assert await asyncio.to_thread(writer.wait) == 0, writer.stderr
            assert [await snapshot(store, session) for session in SESSIONS] == before
            for session in SESSIONS:
                mine = [m for m in writer.marks if m.session == session]
                await check_session(store, session, mine)
        finally:
            await store.close()

    shape = ("--shape", "begun")
    with WritingProcess("load", str(file), ",".join(SESSIONS), *shape) as writer:
        assert writer.wait_for(3, word="took"), writer.stderr
        assert writer.wait_for(20 + 7 * seed)
        asyncio.run(run(writer))
    doors = {"load", "submit", "commit", "start", "open_wait", "take_inbox"}
    refused = {(session, door, code) for session, door, code in writer.said("refused")}
    assert refused == {(session, door, "lease_lost") for session in SESSIONS for door in doors}
    assert writer.said("landed") == []
    assert integrity(file) == "ok"


def test_a_worker_that_renews_is_never_robbed(tmp_path: Path) -> None:
    file = tmp_path / "w.db"

    async def run(writer: WritingProcess) -> None:
        store = SqliteStore(file)
        await store.open()
        try:
            worker_id = await store.join(until_ms=10**12, now_ms=1_000)
            for until_ms in range(UNTIL_MS, UNTIL_MS + 20_000, 1_000):
                writer.order(f"renew {until_ms}")
                assert await asyncio.to_thread(writer.wait_for, word=f"renewed {until_ms}")
                robber = Worker(worker_id, now_ms=until_ms - 1, until_ms=10**12)
                with pytest.raises(LeaseLost):
                    await resume(store, "s0", robber, _ignore)
            view = await store.load_session("s0")
            assert (view.generation, view.active) == (1, "t0")
            assert view.owner not in (None, worker_id)
        finally:
            await store.close()

    with WritingProcess("obey", str(file), "s0") as writer:
        assert writer.wait_for(word="ready"), writer.stderr
        asyncio.run(run(writer))


def test_a_worker_that_stands_still_but_has_its_lease_is_not_robbed(tmp_path: Path) -> None:
    file = tmp_path / "w.db"

    async def run() -> None:
        store = SqliteStore(file)
        await store.open()
        try:
            worker_id = await store.join(until_ms=10**12, now_ms=1_000)
            robber = Worker(worker_id, now_ms=UNTIL_MS - 1, until_ms=10**12)
            with pytest.raises(LeaseLost):
                await resume(store, "s0", robber, _ignore)
        finally:
            await store.close()

    with WritingProcess("obey", str(file), "s0") as writer:
        assert writer.wait_for(word="ready"), writer.stderr
        writer.pause()
        asyncio.run(run())
        writer.go_on()


def test_a_dead_worker_is_known_at_once_whatever_its_lease_says(tmp_path: Path) -> None:
    file = tmp_path / "w.db"

    async def run() -> None:
        store = SqliteStore(file)
        await store.open()
        try:
            worker_id = await store.join(until_ms=UNTIL_MS, now_ms=1_000)
            heir = Worker(worker_id, now_ms=1_001, until_ms=UNTIL_MS)
            generation, turn = await resume(store, "s0", heir, _ignore)
            assert (generation, turn) == (2, 1)
            assert await check_session(store, "s0", [Mark("commit", "s0", 0)]) == 1
        finally:
            await store.close()

    with WritingProcess("obey", str(file), "s0") as writer:
        assert writer.wait_for(word="ready"), writer.stderr
        writer.kill()
    asyncio.run(run())
