"""The power goes out: what was acknowledged is there, and nothing is there by halves."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import apsw
import pytest

from tests.durability.crash_images import Image, images
from tests.durability.recording_vfs import (
    Acknowledged,
    Created,
    Event,
    RecordingVfs,
    Written,
    unregistered_name,
)
from tests.durability.workload import Mark, Worker, check_session, find_session, resume, run_turn
from tests.limits import times
from windlass.errors import WindlassError
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.store import SYNCHRONOUS

N_IMAGES = times(80)
SESSIONS = ("s0", "s1", "s2", "s3")
SEEDS = range(2)


async def write_sessions(store: SqliteStore, vfs: RecordingVfs, turns: range) -> None:
    """Run the turns of all sessions side by side."""
    worker = Worker(await store.join(until_ms=3_601_000, now_ms=1_000))

    async def run(session: str) -> None:
        generation = 1
        if await find_session(store, session) is not None:
            generation, found = await resume(store, session, worker, vfs.acknowledge)
            assert found == turns.start
        for turn in turns:
            await run_turn(store, session, turn, worker, generation, vfs.acknowledge)

    async with asyncio.TaskGroup() as group:
        for session in SESSIONS:
            group.create_task(run(session))
    await store.leave(worker.worker_id)


def written_log(
    folder: Path,
    *,
    durability: Literal["power", "process"] = "power",
    lies: bool = False,
    lives: Sequence[range] = (range(3), range(3, 6)),
) -> list[Event]:
    """Return the log of a store that was made, written to, closed, opened and written to again."""
    vfs = RecordingVfs(unregistered_name(), lies=lies)
    folder.mkdir()

    async def run() -> None:
        for turns in lives:
            store = SqliteStore(folder / "w.db", vfs=vfs.name, durability=durability)
            await store.open()
            try:
                await write_sessions(store, vfs, turns)
            finally:
                await store.close()

    asyncio.run(run())
    return vfs.events


def check_image(image: Image, folder: Path) -> int:
    """Open an image as any store; check it, and that it can be written to; return the turns in it."""
    image.write(folder)
    told: list[Mark] = [mark for mark in image.acknowledged if isinstance(mark, Mark)]

    async def run() -> int:
        store = SqliteStore(folder / "w.db")
        await store.open()
        try:
            heads = [
                await check_session(store, session, [m for m in told if m.session == session])
                for session in SESSIONS
            ]
            # Another worker continues from what is there.
            worker = Worker(await store.join(until_ms=3_601_000, now_ms=1_000))
            session = SESSIONS[image.at % len(SESSIONS)]
            generation, turn = await resume(store, session, worker, _ignore)
            await run_turn(store, session, turn, worker, generation, _ignore)
            assert await check_session(store, session, ()) == turn + 1
        finally:
            await store.close()
        return sum(heads)

    turns = asyncio.run(run())
    db = apsw.Connection(str(folder / "w.db"))
    assert db.pragma("integrity_check") == "ok"
    db.close()
    shutil.rmtree(folder)
    return turns


def _ignore(mark: Mark) -> None:
    """Ignore what is acknowledged."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_is_there_after_every_power_loss(tmp_path: Path, seed: int) -> None:
    """I9, law 1, law 4."""
    events = written_log(tmp_path / "live")
    for i, image in enumerate(images(events, N_IMAGES, seed=seed)):
        try:
            check_image(image, tmp_path / str(i))
        except Exception as error:
            error.add_note(f"seed {seed}, image {i}, at event {image.at}, {image.mood}")
            raise


def while_the_log_is_folded_back(events: Sequence[Event]) -> range:
    """Return the part of a log in which pages are copied to the database under load."""
    (database,) = (e.file for e in events if isinstance(e, Created) and e.name == "w.db")
    told = [i for i, event in enumerate(events) if isinstance(event, Acknowledged)]
    copied = [
        i
        for i, event in enumerate(events)
        if isinstance(event, Written) and event.file == database and told[0] < i < told[-1]
    ]
    assert len(copied) > 100
    return range(copied[0] - 50, min(copied[-1] + 300, len(events)))


@pytest.mark.slow
def test_a_power_loss_while_the_log_is_folded_back_loses_nothing(tmp_path: Path) -> None:
    events = written_log(tmp_path / "live", lives=(range(14),))
    window = while_the_log_is_folded_back(events)
    for i, image in enumerate(images(events, N_IMAGES // 2, seed=0, window=window)):
        check_image(image, tmp_path / str(i))


@pytest.mark.slow
def test_process_durability_may_lose_turns_to_a_power_loss_but_damages_none(
    tmp_path: Path,
) -> None:
    events = written_log(tmp_path / "live", durability="process")
    lost = 0
    for i, image in enumerate(images(events, N_IMAGES // 2, seed=0)):
        bare = Image(at=image.at, mood=image.mood, files=image.files, acknowledged=())
        found = check_image(bare, tmp_path / str(i))
        told = sum(isinstance(m, Mark) and m.kind == "commit" for m in image.acknowledged)
        lost += found < told
    assert lost > 0


def count_lost(events: Sequence[Event], folder: Path) -> int:
    """Return how many images do not hold what was acknowledged."""
    lost = 0
    for i, image in enumerate(images(events, N_IMAGES // 2, seed=0)):
        try:
            check_image(image, folder / str(i))
        except (AssertionError, apsw.Error, WindlassError, ExceptionGroup):
            lost += 1
    return lost


@pytest.mark.slow
def test_without_syncs_the_store_loses_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate is shown red: nothing but synchronous=OFF differs from the test above."""
    monkeypatch.setitem(SYNCHRONOUS, "power", "OFF")

    assert count_lost(written_log(tmp_path / "live"), tmp_path) > 0


@pytest.mark.slow
def test_a_disk_that_lies_about_its_syncs_loses_what_was_acknowledged(tmp_path: Path) -> None:
    """The gate is shown red once more: here the disk says that it has synced, and has not."""
    assert count_lost(written_log(tmp_path / "live", lies=True), tmp_path) > 0
