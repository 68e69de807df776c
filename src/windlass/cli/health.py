"""The health of a store, its disk, keys and providers: one check for each thing."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from windlass.cli.terminal import size
from windlass.errors import ConfigError, WindlassError
from windlass.models.credentials import KEY_SOURCES, base_url_for
from windlass.stores.sqlite.connection import as_windlass_error, check_release, connect
from windlass.stores.sqlite.reclaim import parked_for_nothing
from windlass.stores.sqlite.schema import VERSION

Status = Literal["ok", "note", "warn", "fail"]
_LITTLE_ROOM: Final = 256 * 1024 * 1024
_SLOW_MS: Final = 20.0
# No disk syncs a block in less time; something only claims to have done so.
_TOO_FAST_MS: Final = 0.005
_PATIENCE_S: Final = 5.0
_clock = time.perf_counter  # noqa: TID251 - measures the disk; nothing stored depends on it
_N_SYNCS: Final = 20
_NAMED: Final = 10
# What a group and all others may do with a file.
_OTHERS: Final = 0o077
_BLOCK: Final = b"w" * 4096
# File systems that do not give SQLite the locks and syncs it needs.
_NETWORK_KINDS: Final = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "ncpfs",
    "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs", "virtiofs",
})  # fmt: skip
_MOUNTS: Final = Path("/proc/self/mountinfo")


class Check(msgspec.Struct, frozen=True):
    """One thing that was checked."""

    name: str
    status: Status
    detail: str


def check_store(file: Path) -> Iterator[Check]:
    """Check the file: can it be read, is it intact, which schema, how large."""
    try:
        yield Check("sqlite", "ok", check_release())
    except WindlassError as error:
        yield Check("sqlite", "fail", str(error))
        return
    try:
        if file.exists():
            yield from _look_into(file)
        else:
            yield Check("store", "note", f"{file} does not exist yet")
    except Exception as error:  # noqa: BLE001 - any error of SQLite is the finding
        # Errors of a store begin with the name of its file alone.
        told = str(as_windlass_error(error, place=file.name)).removeprefix(f"{file.name}: ")
        yield Check("store", "fail", f"{file}: {told}")


def _look_into(file: Path) -> Iterator[Check]:
    with closing(connect(file)) as db:
        found = [str(line[0]) for line in db.execute("PRAGMA integrity_check(5)")]
        is_whole = found == ["ok"]
        detail = f"{file}: {'intact' if is_whole else '; '.join(found)}"
        yield Check("store", "ok" if is_whole else "fail", detail)
        schema = int(db.pragma("user_version"))
        detail = f"version {schema}, this release writes {VERSION}"
        yield Check("schema", "ok" if schema <= VERSION else "fail", detail)
        if schema == VERSION:
            yield from _check_parked(parked_for_nothing(db))
    parts = [file, *(file.with_name(f"{file.name}-{end}") for end in ("wal", "shm"))]
    n_bytes = sum(part.stat().st_size for part in parts if part.exists())
    yield Check("size", "ok", size(n_bytes))
    yield _check_rights(file, parts)


def _check_parked(lost: list[str]) -> Iterator[Check]:
    """Name turns that are parked and wait for nothing: their waits were lost."""
    if lost:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        detail = f"parked, and nothing answers them: {', '.join(lost[:_NAMED])}{more}; windlass vacuum makes them due"
        yield Check("turns", "warn", detail)


def _check_rights(file: Path, parts: list[Path]) -> Check:
    """Say which files other users of this machine can read."""
    parts = [*parts, *(file.with_name(f"{file.name}-{end}") for end in ("blobs", "workers"))]
    is_open = [part.name for part in parts if part.exists() and part.stat().st_mode & _OTHERS]
    if not is_open:
        return Check("rights", "ok", "its owner alone can read it")
    detail = f"other users can read {', '.join(is_open)}; chmod go= takes that away"
    return Check("rights", "warn", detail)


def check_disk(folder: Path) -> Iterator[Check]:
    """Check the disk: kind of file system, free space, and how fast it syncs a block."""
    if not folder.is_dir():
        yield Check("disk", "fail", f"the folder {folder} does not exist")
        return
    kind = file_system(folder)
    if kind is None:
        yield Check("file system", "note", "unknown: this system does not report it")
    elif kind in _NETWORK_KINDS:
        detail = f"{kind}: a network file system; SQLite and file locks are not reliable there"
        yield Check("file system", "fail", detail)
    else:
        yield Check("file system", "ok", kind)
    try:
        room = shutil.disk_usage(folder).free
        median_ms, worst_ms = measure_syncs(folder)
    except OSError as error:
        yield Check("disk", "fail", f"{folder}: {error.strerror}")
        return
    status: Status = "ok" if room > _LITTLE_ROOM else "warn"
    yield Check("free", status, size(room))
    told = f"{median_ms:.2f} ms for a block (worst {worst_ms:.2f})"
    doubt = ""
    if median_ms < _TOO_FAST_MS:
        doubt = "; too fast for a real sync"
    elif median_ms > _SLOW_MS:
        doubt = "; every commit waits for it"
    yield Check("sync", "warn" if doubt else "ok", f"{told}{doubt}")


def measure_syncs(folder: Path, n_syncs: int = _N_SYNCS) -> tuple[float, float]:
    """Write blocks to a temporary file and sync after each; return the median and the worst time, in milliseconds."""
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(n_syncs):
            begun = _clock()
            file.write(_BLOCK)
            os.fsync(file.fileno())
            taken.append((_clock() - begun) * 1000)
    return round(statistics.median(taken), 3), round(max(taken), 3)


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the kind of file system that a folder is on; None if the system does not say."""
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
        # The longest match wins; of two mounts at one place the later one is on top.
        if place.is_relative_to(mount) and (found is None or len(mount.parts) >= found[0]):
            found = (len(mount.parts), after.split()[0])
    return None if found is None else found[1]


# ---------------------------------------------------------------------- keys and providers


def check_keys(environ: Mapping[str, str]) -> Iterator[Check]:
    """Say which variables hold keys: their names, never their values."""
    told: set[tuple[str, ...]] = set()
    for provider, source in KEY_SOURCES.items():
        if source.variables in told:  # two protocols of one provider have one key
            continue
        told.add(source.variables)
        set_here = [name for name in source.variables if environ.get(name)]
        if set_here:
            yield Check(f"key {provider}", "ok", f"{set_here[0]} is set")
        elif not source.is_free:
            wanted = " or ".join(source.variables)
            yield Check(f"key {provider}", "note", f"{wanted} is not set")


async def check_hosts(environ: Mapping[str, str]) -> list[Check]:
    """Try to connect to each provider that could be used. Sends no key."""
    wanted = [
        provider
        for provider, source in KEY_SOURCES.items()
        if source.is_free or any(environ.get(name) for name in source.variables)
    ]
    return list(await asyncio.gather(*(_reach(provider, environ) for provider in wanted)))


async def _reach(provider: str, environ: Mapping[str, str]) -> Check:
    name, is_free = f"reach {provider}", KEY_SOURCES[provider].is_free
    try:
        place = urlsplit(base_url_for(provider, env=environ))
    except ConfigError as error:
        return Check(name, "fail", str(error))
    is_tls = place.scheme == "https"
    host, port = place.hostname or "", place.port or (443 if is_tls else 80)
    try:
        tls = ssl.create_default_context() if is_tls else None
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
            writer.close()
    except (OSError, TimeoutError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        status: Status = "note" if is_free else "fail"
        return Check(name, status, f"{host}:{port}: {reason}")
    return Check(name, "ok", f"{host}:{port}")
