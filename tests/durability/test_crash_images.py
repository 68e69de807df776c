"""The power-loss harness itself, on plain SQLite: it finds what is lost, and nothing that is not."""

from __future__ import annotations

from pathlib import Path
from random import Random

import apsw
import pytest

from tests.durability.crash_images import Disk, Image, Mood, images, sectors, survivor
from tests.durability.recording_vfs import (
    Acknowledged,
    Created,
    Deleted,
    Event,
    Found,
    RecordingVfs,
    Synced,
    SyncFailed,
    Truncated,
    Written,
    unregistered_name,
)
from tests.limits import times

N_IMAGES = times(200)
N_COMMITS = 60


def payload(commit: int, row: int) -> bytes:
    """Return the bytes of a row; long enough that most commits touch several pages."""
    return bytes([commit, row]) * (700 * (row + 1))


def written_log(folder: Path, *, synchronous: str = "FULL", lies: bool = False) -> list[Event]:
    """Return the log of a database that was made, filled, checkpointed, closed and opened again."""
    vfs = RecordingVfs(unregistered_name(), lies=lies)
    for first in (0, N_COMMITS // 2):
        connection = apsw.Connection(str(folder / "raw.db"), vfs=vfs.name)
        connection.pragma("synchronous", synchronous)
        connection.pragma("journal_mode", "wal")
        connection.pragma("wal_autocheckpoint", 40)
        connection.execute("create table if not exists rows (n, row, payload)")
        for n in range(first, first + N_COMMITS // 2):
            with connection:
                for row in range(3):
                    connection.execute(
                        "insert into rows values (?, ?, ?)", (n, row, payload(n, row))
                    )
            vfs.acknowledge(n)
        connection.close()
    return vfs.events


def found_commits(image: Image, folder: Path) -> list[int]:
    """Return the commits that an image holds, after checking that each is whole and exact."""
    image.write(folder)
    connection = apsw.Connection(str(folder / "raw.db"))
    rows: list[tuple[int, int, bytes]] = []
    try:
        assert connection.pragma("integrity_check") == "ok"
        if connection.table_exists("main", "rows"):
            rows = connection.execute("select * from rows order by n, row").fetchall()  # type: ignore[assignment]  # as written
    finally:
        connection.close()
    commits = sorted({n for n, _, _ in rows})
    assert rows == [(n, row, payload(n, row)) for n in commits for row in range(3)]
    return commits


@pytest.mark.parametrize("seed", range(2))
def test_a_full_commit_outlives_every_power_loss(tmp_path: Path, seed: int) -> None:
    (tmp_path / "live").mkdir()
    events = written_log(tmp_path / "live")
    for i, image in enumerate(images(events, N_IMAGES, seed=seed)):
        commits = found_commits(image, tmp_path / str(i))
        assert commits == list(range(len(commits))), "a gap"
        assert len(commits) >= len(image.acknowledged)


def test_a_normal_commit_may_be_lost_but_leaves_no_gap(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    events = written_log(tmp_path / "live", synchronous="NORMAL")
    lost = 0
    for i, image in enumerate(images(events, N_IMAGES, seed=0)):
        commits = found_commits(image, tmp_path / str(i))
        assert commits == list(range(len(commits))), "a gap"
        lost += len(commits) < len(image.acknowledged)
    assert lost > N_IMAGES // 10


@pytest.mark.parametrize(
    ("synchronous", "lies"), [("OFF", False), ("FULL", True)], ids=["no-syncs", "disk-lies"]
)
def test_without_syncs_commits_are_lost_and_files_damaged(
    tmp_path: Path, synchronous: str, lies: bool
) -> None:
    (tmp_path / "live").mkdir()
    events = written_log(tmp_path / "live", synchronous=synchronous, lies=lies)
    assert not any(isinstance(event, Synced) for event in events)
    lost = damaged = 0
    for i, image in enumerate(images(events, N_IMAGES, seed=0)):
        try:
            commits = found_commits(image, tmp_path / str(i))
        except (AssertionError, apsw.Error):
            damaged += 1
        else:
            lost += len(commits) < len(image.acknowledged)
    assert lost > 0
    assert damaged > 0


def test_the_log_sees_a_wal_come_and_go(tmp_path: Path) -> None:
    events = written_log(tmp_path)
    comes = [e for e in events if isinstance(e, Created | Deleted) and e.name == "raw.db-wal"]
    assert [type(e) for e in comes] == [Created, Deleted, Created, Deleted]


def test_a_second_look_with_the_same_seed_gives_the_same_images(tmp_path: Path) -> None:
    events = written_log(tmp_path)
    assert list(images(events, 20, seed=7)) == list(images(events, 20, seed=7))
    assert list(images(events, 20, seed=7)) != list(images(events, 20, seed=8))


# ------------------------------------------------------------------------- the disk, by hand

NOTHING = Mood(keep=0.0, tear=0.0, trash=0.0, keep_name=0.0, sector=512)
ALL = Mood(keep=1.0, tear=0.0, trash=0.0, keep_name=1.0, sector=512)


def disk(*events: Event) -> Disk:
    made = Disk()
    for event in events:
        made.feed(event)
    return made


def test_what_was_synced_is_there_and_what_was_not_may_be_gone() -> None:
    made = disk(
        Found(name="a", file=1, content=b"....."),
        Written(file=1, offset=0, content=b"ab"),
        Synced(file=1),
        Written(file=1, offset=4, content=b"cd"),
        Truncated(file=1, size=5),
    )
    assert survivor(made.files[1], NOTHING, Random(0)) == b"ab..."
    assert survivor(made.files[1], ALL, Random(0)) == b"ab..c"


def test_what_a_failed_sync_left_out_is_read_but_no_later_sync_brings_it_to_the_disk() -> None:
    made = disk(
        Found(name="a", file=1, content=b"..."),
        Written(file=1, offset=0, content=b"a"),
        SyncFailed(file=1),
        Written(file=1, offset=2, content=b"c"),
        Synced(file=1),
    )
    assert made.seen() == {"a": b"a.c"}
    assert survivor(made.files[1], NOTHING, Random(0)) == b"..c"
    made.feed(Written(file=1, offset=0, content=b"b"))
    made.feed(Synced(file=1))
    assert survivor(made.files[1], NOTHING, Random(0)) == b"b.c"


def test_a_write_past_the_end_leaves_zeros_before_it() -> None:
    made = disk(Found(name="a", file=1, content=b"a"), Written(file=1, offset=3, content=b"b"))
    assert survivor(made.files[1], ALL, Random(0)) == b"a\x00\x00b"


def test_a_write_is_torn_only_where_a_sector_ends() -> None:
    pieces = list(sectors(Written(file=1, offset=500, content=bytes(1_000)), 512))
    assert [(p.offset, len(p.content)) for p in pieces] == [(500, 12), (512, 512), (1024, 476)]


def test_a_torn_write_keeps_some_sectors_and_not_others() -> None:
    made = disk(
        Found(name="a", file=1, content=bytes(2_048)),
        Written(file=1, offset=0, content=b"x" * 2_048),
    )
    torn = Mood(keep=1.0, tear=1.0, trash=0.0, keep_name=1.0, sector=512)
    contents = {survivor(made.files[1], torn, Random(seed)) for seed in range(50)}
    assert len(contents) > 5
    for content in contents:
        parts = [content[at : at + 512] for at in range(0, 2_048, 512)]
        assert all(part in (bytes(512), b"x" * 512) for part in parts)


def test_a_file_whose_directory_was_not_synced_may_be_gone() -> None:
    made = disk(Created(name="a", file=1, syncs_directory=False), Synced(file=1))
    assert {frozenset(made.crash(Random(s)).files) for s in range(50)} == {
        frozenset(),
        frozenset({"a"}),
    }


def test_the_first_sync_of_a_new_wal_makes_all_names_durable() -> None:
    made = disk(
        Created(name="a", file=1, syncs_directory=False),
        Created(name="a-wal", file=2, syncs_directory=True),
        Synced(file=2),
    )
    assert {frozenset(made.crash(Random(s)).files) for s in range(50)} == {
        frozenset({"a", "a-wal"})
    }


def test_a_deleted_file_may_come_back_unless_the_directory_was_synced() -> None:
    found = Found(name="a", file=1, content=b"a")
    maybe = disk(found, Deleted(name="a", is_durable=False))
    surely = disk(found, Deleted(name="a", is_durable=True))
    assert {len(maybe.crash(Random(s)).files) for s in range(50)} == {0, 1}
    assert {len(surely.crash(Random(s)).files) for s in range(50)} == {0}


def test_an_image_knows_what_was_acknowledged_before_it() -> None:
    log: list[Event] = [Acknowledged(mark="a"), Acknowledged(mark="b")]
    seen = {image.at: image.acknowledged for image in images(log, 50, seed=0)}
    assert seen == {0: (), 1: ("a",), 2: ("a", "b")}
