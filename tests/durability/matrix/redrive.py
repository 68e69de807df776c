"""Strict redrive (I6): a turn's journal, driven again in a world that must not be touched."""

from __future__ import annotations

from tests.durability.matrix.beneath import Kept
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.lives import live_in
from tests.durability.matrix.outside import Closed
from tests.durability.matrix.verdict import End
from windlass.kernel import canonical

WRITES = ["before: join", "before: claim", "before: commit", "before: leave"]


async def end_of(kept: Kept) -> End:
    """Return what is in a store that is not open."""
    await kept.open()
    try:
        return await End.of(kept.store)
    finally:
        await kept.close()


async def check_redrive(kept: Kept, ledger: Ledger) -> None:
    """Drive the turn again from the moment before its commit: the same bytes, and nothing is executed.

    Raises:
        AssertionError: something was executed, written, or committed otherwise.
    """
    end, copied = await end_of(kept), kept.copied()
    await copied.open()
    outside = Closed(Ledger(ledger.path.with_name(f"{ledger.path.name}.closed")), ledger)
    life = await live_in(outside, copied)
    assert not outside.touched, f"executed: {outside.touched}"
    writes = [seam for seam in life.trace if seam.startswith("before: ")]
    assert writes == WRITES, f"written: {writes}"
    again = await end_of(copied)
    assert canonical.encode(again.page) == canonical.encode(end.page)
    assert again.turn.pages == end.turn.pages
    assert again.turn.receipt == end.turn.receipt
