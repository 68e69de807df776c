"""Level B: lives of a real process, whose arguments are [--mutant NAME] FOLDER=SEAM...

Each FOLDER holds a file and a ledger. With a SEAM the process kills itself there; without, it sees the turn to its end
and goes on with the next. So one process takes over what the last one left, and dies of something else.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path

from tests.durability.matrix.beneath import KeptInFile
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.lives import live_in
from tests.durability.matrix.mutants import mutated
from tests.durability.matrix.outside import Outside


async def live(folder: Path, dies_at: str | None) -> None:
    """Live in a folder until the turn there is over, or until the seam."""
    kept = KeptInFile(folder / "w.db", durability="power")
    await kept.open()
    outside = Outside(Ledger(folder / "ledger"), dies_at=dies_at, for_real=True)
    life = await live_in(outside, kept)
    assert dies_at is None, f"there was no seam called {dies_at} in {life.trace}"


def main(*arguments: str) -> None:
    """Live as often as asked to."""
    mutant = arguments[1] if arguments[:1] == ("--mutant",) else None
    with nullcontext() if mutant is None else mutated(mutant):
        for argument in arguments[2 if mutant else 0 :]:
            folder, _, seam = argument.partition("=")
            asyncio.run(live(Path(folder), seam or None))
