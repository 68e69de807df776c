"""What a turn writes: bytes to the write-ahead log, of an old session and of young ones around it."""

from __future__ import annotations

import asyncio
import os
from itertools import count
from pathlib import Path
from statistics import fmean

import apsw

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.store_file import OpenStore, measured_folder, open_store
from bench.store_turns import whole_turn

YOUNG = 10
OLD = 1_000
NEWER_SESSIONS = 60
BYTES_BAR = 1.1

# A page of the index is split now and then; a block has to be long enough to see its share of that.
_PER_BLOCK = 10


class CountingVfs(apsw.VFS):
    """The default disk; counts what is written to write-ahead logs and to everything else."""

    def __init__(self) -> None:
        taken = set(apsw.vfs_names())
        names = (f"counting-{os.getpid()}-{number}" for number in count())
        self.name = next(name for name in names if name not in taken)
        self.log_bytes = 0
        self.other_bytes = 0
        super().__init__(self.name, "")

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        """Open a file that counts."""
        return _CountingFile(self, name, flags)


class _CountingFile(apsw.VFSFile):
    def __init__(
        self, vfs: CountingVfs, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._vfs = vfs
        self._is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        super().xWrite(data, offset)
        if self._is_log:
            self._vfs.log_bytes += len(data)
        else:
            self._vfs.other_bytes += len(data)


def measure_bytes() -> list[Figure]:
    """Count what turns write, the old session's and the young ones' in turn. It is the same each time."""
    with measured_folder() as folder:
        youngs, olds = asyncio.run(turn_bytes(folder / "store.db", OLD, NEWER_SESSIONS))
    n_blocks = NEWER_SESSIONS // _PER_BLOCK
    blocks = [
        [
            [fmean(samples[at * _PER_BLOCK : (at + 1) * _PER_BLOCK])]
            for at in range(n_blocks)
        ]
        for samples in (youngs, olds)
    ]  # fmt: skip
    return [
        figure(f"turn {YOUNG}, two units, written to the log", "kB", [x / 1e3 for x in youngs]),
        figure(
            f"turn {OLD:,} of the oldest of {NEWER_SESSIONS + 1}", "kB", [x / 1e3 for x in olds]
        ),
        ratio(f"  turn {OLD:,} to turn {YOUNG}", blocks[1], blocks[0], bar=BYTES_BAR),
    ]


async def turn_bytes(path: Path, old: int, n_newer: int) -> tuple[list[float], list[float]]:
    """Return the bytes of turn 10 of so many sessions, and of as many turns around the old one's."""
    vfs = CountingVfs()
    try:
        # Whether a write was waited for makes no difference to what is written.
        async with open_store(path, durability="process", vfs=vfs.name) as opened:
            first = old - n_newer // 2
            for number in progress("an old one", first - 1):
                await whole_turn(opened.store, opened.worker_id, "old", number + 1)
            for number in progress("newer ones", YOUNG - 1):
                for newer in range(n_newer):
                    await whole_turn(opened.store, opened.worker_id, f"new{newer}", number + 1)
            return await _in_turn(opened, vfs, first, n_newer)
    finally:
        vfs.unregister()


async def _in_turn(
    opened: OpenStore, vfs: CountingVfs, first: int, n_newer: int
) -> tuple[list[float], list[float]]:
    youngs: list[float] = []
    olds: list[float] = []
    for at in range(n_newer):
        for session, number, samples in (("old", first + at, olds), (f"new{at}", YOUNG, youngs)):
            before = vfs.log_bytes
            await whole_turn(opened.store, opened.worker_id, session, number)
            samples.append(float(vfs.log_bytes - before))
    return youngs, olds
