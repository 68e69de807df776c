"""The health of a store, a disk and what is installed: one line for each thing that was looked at."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from windlass.cli.disk import NETWORK_KINDS, file_system, free_bytes, measure_syncs
from windlass.cli.wording import size
from windlass.errors import ConfigError, WindlassError
from windlass.models.credentials import KEY_SOURCES, base_url_for
from windlass.stores.sqlite.connection import as_windlass_error, check_release, connect
from windlass.stores.sqlite.schema import VERSION

Status = Literal["ok", "note", "warn", "fail"]
_LITTLE_ROOM: Final = 256 * 1024 * 1024
_SLOW_MS: Final = 20.0
# Nobody's disk keeps a block in less; something says that it did.
_TOO_FAST_MS: Final = 0.005
_PATIENCE_S: Final = 5.0


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str


def check_store(file: Path) -> Iterator[Check]:
    """Look into the file: may it be read, is it whole, which schema, how large."""
    try:
        yield Check(name="sqlite", status="ok", detail=check_release())
    except WindlassError as error:
        yield Check(name="sqlite", status="fail", detail=str(error))
        return
    try:
        if file.exists():
            yield from _look_into(file)
        else:
            yield Check(name="store", status="note", detail=f"{file} is not there yet")
    except WindlassError as error:
        yield Check(name="store", status="fail", detail=_at(file, error))
    except Exception as error:  # noqa: BLE001 - whatever SQLite says about it is what was asked for
        told = as_windlass_error(error, place=file.name)
        yield Check(name="store", status="fail", detail=_at(file, told))


def _at(file: Path, error: WindlassError) -> str:
    """Return what is wrong with a file; errors of a store begin with its name alone."""
    return f"{file}: {str(error).removeprefix(f'{file.name}: ')}"


def _look_into(file: Path) -> Iterator[Check]:
    with closing(connect(file)) as db:
        found = [str(line[0]) for line in db.execute("PRAGMA integrity_check(5)")]
        is_whole = found == ["ok"]
        yield Check(
            name="store",
            status="ok" if is_whole else "fail",
            detail=f"{file}: {'whole' if is_whole else '; '.join(found)}",
        )
        schema = int(db.pragma("user_version"))
        fits = schema <= VERSION
        yield Check(
            name="schema",
            status="ok" if fits else "fail",
            detail=f"version {schema}, this release writes {VERSION}",
        )
    parts = [file, *(file.with_name(f"{file.name}-{end}") for end in ("wal", "shm"))]
    n_bytes = sum(part.stat().st_size for part in parts if part.exists())
    yield Check(name="size", status="ok", detail=size(n_bytes))


def check_disk(folder: Path) -> Iterator[Check]:
    """Look at the disk: room, kind of file system, and how fast it keeps a block."""
    kind = file_system(folder)
    if kind is None:
        yield Check(name="file system", status="note", detail="this system does not say which")
    elif kind in NETWORK_KINDS:
        detail = f"{kind}: a network; SQLite and file locks are not to be trusted there"
        yield Check(name="file system", status="fail", detail=detail)
    else:
        yield Check(name="file system", status="ok", detail=kind)
    try:
        room = free_bytes(folder)
        syncs = measure_syncs(folder)
    except OSError as error:
        yield Check(name="disk", status="fail", detail=f"{folder}: {error.strerror}")
        return
    status: Status = "ok" if room > _LITTLE_ROOM else "warn"
    yield Check(name="free", status=status, detail=size(room))
    told = f"{syncs.median_ms:.2f} ms for a block (worst {syncs.worst_ms:.2f})"
    if syncs.median_ms < _TOO_FAST_MS:
        yield Check(name="sync", status="warn", detail=f"{told}: does it keep anything?")
    else:
        slow = "; every commit waits for it" if syncs.median_ms > _SLOW_MS else ""
        yield Check(name="sync", status="warn" if slow else "ok", detail=f"{told}{slow}")


def check_keys(environ: Mapping[str, str]) -> Iterator[Check]:
    """Say which variables hold keys: their names, never what is in them."""
    for provider, source in KEY_SOURCES.items():
        set_here = [name for name in source.variables if environ.get(name)]
        if set_here:
            yield Check(name=f"key {provider}", status="ok", detail=f"{set_here[0]} is set")
        elif not source.is_free:
            wanted = " or ".join(source.variables)
            yield Check(name=f"key {provider}", status="note", detail=f"{wanted} is not set")


async def check_hosts(environ: Mapping[str, str]) -> list[Check]:
    """See whether the providers that could be used can be reached. No key is sent."""
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
        return Check(name=name, status="fail", detail=str(error))
    is_tls = place.scheme == "https"
    host, port = place.hostname or "", place.port or (443 if is_tls else 80)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection(
                host, port, ssl=ssl.create_default_context() if is_tls else None
            )
            writer.close()
    except (OSError, TimeoutError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        status: Status = "note" if is_free else "fail"
        return Check(name=name, status=status, detail=f"{host}:{port}: {reason}")
    return Check(name=name, status="ok", detail=f"{host}:{port}")
