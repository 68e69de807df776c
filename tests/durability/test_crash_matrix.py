"""The crash matrix: one turn with every kind of effect and every contract, killed at every moment.

Level A: the process is a task that dies without a word. Level B: it is a process, and dies by SIGKILL.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.matrix.beneath import Kept, KeptInFile, KeptInMemory
from tests.durability.matrix.expected import CELLS
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.lives import live
from tests.durability.matrix.verdict import End, check_cell

STORES = ("memory", "sqlite")
SEAMS = [cell.seam for cell in CELLS]


def make_kept(store: str, folder: Path) -> Kept:
    return KeptInMemory() if store == "memory" else KeptInFile(folder / "w.db")


async def end_of(kept: Kept) -> End:
    await kept.open()
    try:
        return await End.of(kept.store)
    finally:
        await kept.close()


@pytest.mark.parametrize("store", STORES)
async def test_the_trace_is_the_one_that_the_table_was_written_for(
    tmp_path: Path, store: str
) -> None:
    """A new kind of write, or one at another place, needs rows of its own before it can land."""
    kept, ledger = make_kept(store, tmp_path), Ledger(tmp_path / "ledger")
    life = await live(kept, ledger)
    assert list(life.trace) == SEAMS
    assert life.result is not None
    assert life.result.issues == ()


@pytest.mark.parametrize("number", range(len(CELLS)), ids=SEAMS)
@pytest.mark.parametrize("store", STORES)
async def test_a_turn_whose_worker_dies_ends_as_the_table_says(
    tmp_path: Path, store: str, number: int
) -> None:
    kept, ledger, cell = make_kept(store, tmp_path), Ledger(tmp_path / "ledger"), CELLS[number]
    first = await live(kept, ledger, dies_at=number)
    assert first.result is None
    assert first.trace == tuple(SEAMS[: number + 1])
    second = await live(kept, ledger)
    assert second.result is not None
    check_cell(cell, ledger, await end_of(kept))
