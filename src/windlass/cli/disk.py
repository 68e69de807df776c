"""The disk below a store: how fast it keeps what it is given, how much room there is, and whose it is."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

_clock = time.perf_counter  # noqa: TID251 - measures the disk; nothing stored depends on it

_N_SYNCS: Final = 20
_BLOCK: Final = b"w" * 4096
# SQLite and file locks need what these do not promise.
NETWORK_KINDS: Final = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "ncpfs",
    "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs", "virtiofs",
})  # fmt: skip
_MOUNTS: Final = Path("/proc/self/mountinfo")


class SyncTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long the disk takes to keep one block, in milliseconds."""

    median_ms: float
    worst_ms: float


def measure_syncs(folder: Path, n_syncs: int = _N_SYNCS) -> SyncTimes:
    """Write blocks to a file that is gone afterwards, and wait for the disk after each."""
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(n_syncs):
            begun = _clock()
            file.write(_BLOCK)
            os.fsync(file.fileno())
            taken.append((_clock() - begun) * 1000)
    return SyncTimes(median_ms=round(statistics.median(taken), 3), worst_ms=round(max(taken), 3))


def free_bytes(folder: Path) -> int:
    """Return how much room there is."""
    return shutil.disk_usage(folder).free


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the kind of file system that a folder is on; None where the system does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    place = folder.resolve()
    found: tuple[int, str] | None = None
    for line in lines:
        before, _, after = line.partition(" - ")
        words = before.split()
        if len(words) < 5 or not after:
            continue
        mount = Path(words[4].replace("\\040", " "))
        # The longest that fits; of two on one place the later one is on top.
        if place.is_relative_to(mount) and (found is None or len(mount.parts) >= found[0]):
            found = (len(mount.parts), after.split()[0])
    return None if found is None else found[1]
