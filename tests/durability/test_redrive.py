"""Redrive: what is in a journal is enough to end a turn again, byte for byte, without doing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.matrix.beneath import Kept, KeptInFile, KeptInMemory
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.lives import live
from tests.durability.matrix.redrive import check_redrive


def make_kept(store: str, folder: Path) -> Kept:
    return KeptInMemory() if store == "memory" else KeptInFile(folder / "w.db")


# Each leaves another journal behind; the matrix does the same for every cell in memory.
DEATHS = (
    None,
    "index done",  # claimed twice
    "send inside",  # unknown
    "transfer done",  # found out
    "parcel inside",  # a person was asked
    "post_a inside",  # one of a batch unknown
    "after: ask deferred",
    "after: mail is taken",
    "after: reply 12",  # nothing was left but to commit
)


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_journal_driven_again_commits_the_same_bytes_and_executes_nothing(
    tmp_path: Path, store: str, death: str | None
) -> None:
    """I6."""
    kept, ledger = make_kept(store, tmp_path), Ledger(tmp_path / "ledger")
    if death is not None:
        await live(kept, ledger, dies_at=death)
    await live(kept, ledger)
    await check_redrive(kept, ledger)


async def test_a_redrive_that_has_to_execute_something_is_noticed(tmp_path: Path) -> None:
    """Without its last page the journal lacks a reply: the model would have to be asked."""
    kept, ledger = KeptInMemory(), Ledger(tmp_path / "ledger")
    await live(kept, ledger)
    (session,) = kept._copy.sessions.values()  # type: ignore[union-attr]  # it was kept
    (turn,) = session.turns.values()
    lost = turn.pages.pop().entries[-1]
    assert turn.journal is not None
    del turn.journal._rows[lost.key]  # type: ignore[union-attr]  # the reply's
    with pytest.raises(AssertionError, match="asked 12"):
        await check_redrive(kept, ledger)
