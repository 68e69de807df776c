"""Blocks of turns: what they wrote and executed, to be held against each other."""

from __future__ import annotations

from typing import NamedTuple

from tests.plugins.long_sessions.gauges import Instructions, MeasuredStage, Written
from tests.plugins.long_sessions.journey import Journey

# A long output is written as the result of its call, and once more as what is kept of it.
_TIMES_WRITTEN = 2


class Block(NamedTuple):
    """What some turns came to, besides what they brought: their own bytes, and instructions of some of them."""

    n_turns: int
    log_bytes: int
    row_bytes: int
    n_instructions: int
    n_requests: int

    @property
    def log_bytes_per_turn(self) -> float:
        """What went to the disk, in pages."""
        return self.log_bytes / self.n_turns

    @property
    def row_bytes_per_turn(self) -> float:
        """What stands in the rows."""
        return self.row_bytes / self.n_turns

    @property
    def instructions_per_request(self) -> float:
        """What was executed around one model call, with its share of its turn."""
        return self.n_instructions / max(1, self.n_requests)


async def block(journey: Journey, n_turns: int, n_counted: int = 0) -> Block:
    """Go on for so many turns; count the instructions of the first plain ones among them."""
    stage, ledger = journey.stage, journey.ledger
    instructions = Instructions()
    n_requests = 0
    brought, files = ledger.brought_bytes, ledger.brought_files
    if isinstance(stage, MeasuredStage):
        stage.news()
    for _ in range(n_turns):
        if not n_counted or not journey.is_plain_next:
            await journey.next()
            continue
        turns, before, counted = await journey.turns(), ledger.counts["requests"], instructions.n
        with instructions.counting():
            await journey.next()
        n_of_turn = ledger.counts["requests"] - before
        if await journey.turns() > turns + 1:
            # A compaction came behind it, and is no part of what a turn costs.
            instructions.n = counted
            continue
        n_counted -= 1
        n_requests += n_of_turn
    written = stage.news() if isinstance(stage, MeasuredStage) else Written(0, 0)
    brought, files = ledger.brought_bytes - brought, ledger.brought_files - files
    own = written.log_bytes - _TIMES_WRITTEN * brought - files
    return Block(n_turns, own, written.row_bytes - brought, instructions.n, n_requests)


def check_flat(what: str, first: float, last: float, most: float) -> None:
    """Refuse a cost that has grown."""
    assert last <= most * first, f"{what} grew from {first:,.0f} to {last:,.0f}"
