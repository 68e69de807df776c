"""An operation that raises what the store does not expect fails alone, and its caller gets the error."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from tests.durability.store_operations import prepare
from tests.durability.workload import new_turn
from tests.limits import HANGS_S
from windlass.errors import WindlassBug
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.rows import Rows


def broken(rows: Rows, _: object) -> None:
    """Write a row and break."""
    rows.db.execute("INSERT OR REPLACE INTO meta VALUES ('half', x'00')")
    raise ZeroDivisionError


def has_half(file: Path) -> bool:
    db = apsw.Connection(str(file))
    try:
        return bool(db.execute("SELECT 1 FROM meta WHERE name = 'half'").fetchall())
    finally:
        db.close()


def test_what_an_operation_wrote_before_it_broke_does_not_land_with_the_next_one(
    tmp_path: Path,
) -> None:
    """Law 1."""

    async def run() -> None:
        store = SqliteStore(tmp_path / "w.db")
        await store.open()
        await prepare(store)
        ticket = store._do(broken)
        with suppress(WindlassBug, TimeoutError):
            await asyncio.wait_for(ticket.durable(), 0.5)
        await asyncio.wait_for(store.accept("s9", "t0", new_turn("s9", 0)), HANGS_S)
        assert not has_half(tmp_path / "w.db")
        await asyncio.wait_for(store.close(), HANGS_S)

    asyncio.run(run())


@pytest.mark.parametrize("n_broken", [1, 5], ids=["alone", "in-a-batch"])
def test_an_operation_that_breaks_is_a_bug_and_the_next_one_is_written(
    tmp_path: Path, n_broken: int
) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "w.db")
        await store.open()
        await prepare(store)
        tickets = [store._do(broken) for _ in range(n_broken)]
        for ticket in tickets:
            with pytest.raises(WindlassBug):
                await asyncio.wait_for(ticket.durable(), HANGS_S)
        receipt = await asyncio.wait_for(store.accept("s9", "t0", new_turn("s9", 0)), HANGS_S)
        assert receipt.state == "queued"
        await asyncio.wait_for(store.close(), HANGS_S)

    asyncio.run(run())
