"""Who may read the file and what lies beside it: its owner alone, unless an operator has said otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.turns import UNTIL_MS
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.blobs import MAX_ROW_BYTES


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct, autouse=True)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


async def use(path: Path) -> dict[str, int]:
    """Use all that a store has files for; return their rights."""
    store = SqliteStore(path)
    await store.open()
    await store.join(until_ms=UNTIL_MS, now_ms=0)
    await store.put_blob(b"x" * (MAX_ROW_BYTES + 1), now_ms=0)
    rights = {}
    for found in sorted(path.parent.rglob("*")):
        name = str(found.relative_to(path.parent))
        name = f"{name.partition('/')[0]}/*" if "/" in name else name
        rights[name] = found.stat().st_mode & 0o777
    await store.close()
    return rights


async def test_all_files_of_a_new_store_are_their_owners_alone(path: Path) -> None:
    assert await use(path) == {
        "w.db": 0o600,
        "w.db-blobs": 0o700,
        "w.db-blobs/*": 0o600,
        "w.db-shm": 0o600,
        "w.db-wal": 0o600,
        "w.db-workers": 0o700,
        "w.db-workers/*": 0o600,
    }


async def test_what_an_operator_opened_to_a_group_stays_open_and_new_files_with_it(
    path: Path,
) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()
    for end in ("", "-wal", "-shm"):
        path.with_name(f"w.db{end}").chmod(0o660)
    path.with_name("w.db-blobs").mkdir()
    path.with_name("w.db-blobs").chmod(0o755)

    assert await use(path) == {
        "w.db": 0o660,
        "w.db-blobs": 0o755,
        "w.db-blobs/*": 0o660,
        "w.db-shm": 0o660,
        "w.db-wal": 0o660,
        "w.db-workers": 0o770,
        "w.db-workers/*": 0o660,
    }
