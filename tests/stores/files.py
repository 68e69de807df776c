"""Files for the store's own tests: opened by hand, made, refused, and looked at as bytes."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.runtime.turns import new_turn
from windlass.errors import StoreUnavailable, WindlassError
from windlass.stores.sqlite import SqliteStore

MIB = 1024 * 1024


def raw(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path))


def everything(folder: Path) -> dict[str, bytes]:
    return {found.name: found.read_bytes() for found in sorted(folder.iterdir()) if found.is_file()}


async def closed_file(path: Path) -> None:
    """Make a file with something in it."""
    store = SqliteStore(path)
    await store.open()
    await store.accept("a", "t1", new_turn())
    await store.close()


async def refused(path: Path, kind: type[WindlassError]) -> WindlassError:
    """Open a store that cannot be opened; return why, and see that nothing is left open."""
    store = SqliteStore(path)
    with pytest.raises(kind) as refusal:
        await store.open()
    assert type(refusal.value) is kind
    with pytest.raises(StoreUnavailable):
        await store.load_session("a")
    return refusal.value
