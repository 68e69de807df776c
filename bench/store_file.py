"""The files that are measured: a store's, and one of the same shape without a store.

They lie in build/ of the repository, never in the system's temporary folder: that may be memory, where
waiting for the disk costs nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from windlass.journal import encode_page
from windlass.ports import Unit
from windlass.stores.sqlite import SqliteStore, connection
from windlass.stores.sqlite.pages import Encoder
from windlass.stores.sqlite.store import Durability

PAGE_BYTES = 4_096
_FOLDER = Path(__file__).parents[1] / "build"
_FAR_MS = 10**15
_ENCODER = Encoder()

LogRow = tuple[int, int, int, bytes, bytes]
PUT = "INSERT INTO log (session, strand, seq, link, page) VALUES (?, ?, ?, ?, ?)"


@contextmanager
def measured_folder() -> Iterator[Path]:
    """Give a folder on the disk of the repository, and remove it."""
    _FOLDER.mkdir(exist_ok=True)
    # A process that was killed may still have a file on its way when the folder goes.
    with tempfile.TemporaryDirectory(
        prefix="bench-", dir=_FOLDER, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


class OpenStore(NamedTuple):
    """A store that is open, and a worker that has joined."""

    store: SqliteStore
    worker_id: str

    def commits(self) -> tuple[int, int]:
        """Return how many commits there were, and how many of them on the loop's own thread."""
        writer = self.store._writer  # noqa: SLF001 - a count that nobody else needs
        return writer.commits, writer.commits_in_loop


@asynccontextmanager
async def open_store(
    path: Path, *, durability: Durability = "power", vfs: str | None = None
) -> AsyncIterator[OpenStore]:
    """Open a store with a worker, and close it."""
    store = SqliteStore(path, durability=durability, vfs=vfs)
    await store.open()
    try:
        yield OpenStore(store, await store.join(until_ms=_FAR_MS, now_ms=0))
    finally:
        await store.close()


@contextmanager
def bare_file(
    path: Path, *, warm: bool = True, vfs: str | None = None
) -> Iterator[apsw.Connection]:
    """Open a file with the store's tables, indexes, pragmas and log, and no store.

    `warm` leaves the write-ahead log filled, as the store does; else it has to grow.
    """
    db = connection.connect(path, vfs=vfs, create=True)
    try:
        connection.prepare(db, place=path.name)
        if not warm:
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        yield db
    finally:
        db.close()


def commit_bare(db: apsw.Connection, row: LogRow) -> None:
    """Write one row durably: what a durable unit is held against."""
    db.execute("BEGIN IMMEDIATE")
    db.execute(PUT, row)
    db.execute("COMMIT")


def log_row(unit: Unit, session: int, *, strand: int = 1) -> LogRow:
    """Return the row that the store writes for a unit of entries; the link is any 32 bytes."""
    page, long_texts = _ENCODER.split_page(encode_page(unit.entries, unit.generation), unit)
    assert not long_texts
    link = unit.position.to_bytes(32, "big")
    return session, strand, unit.position, link, page


def log_megabytes(path: Path) -> float:
    """Return the size of a file's write-ahead log."""
    return path.with_name(f"{path.name}-wal").stat().st_size / 1e6


def place_lines() -> list[str]:
    """Say on what the store was measured."""
    releases = f"SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()}"
    return [
        f"Store files: in {_FOLDER.name}/, on {_file_system(_FOLDER)}; {releases}.",
        "WAL, synchronous FULL; the log is filled and kept, for the store and for raw alike.",
    ]


def _file_system(path: Path) -> str:
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "an unnamed file system"
    fields = [line.split() for line in mounts]
    above = [(len(at), kind) for _, at, kind, *_ in fields if path.resolve().is_relative_to(at)]
    return max(above)[1] if above else "an unnamed file system"
