"""Redrive: what is in a journal is enough to end a turn again, byte for byte, without doing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.matrix.beneath import Kept, KeptInFile, KeptInMemory
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.lives import live
from tests.durability.matrix.redrive import check_redrive, end_of
from tests.durability.matrix.replayed import replay_of
from windlass.kernel.outcomes import Stopped


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


@pytest.mark.parametrize("death", [None, "after: claim"])
async def test_a_turn_in_which_everybody_said_no_ends_again_as_it_did(
    tmp_path: Path, death: str | None
) -> None:
    """A denial, a result that will not come, a call that a person says failed."""
    kept, ledger = KeptInMemory(), Ledger(tmp_path / "ledger")
    await live(kept, ledger, dies_at="parcel inside", says_no=True)
    if death is not None:
        await live(kept, ledger, dies_at=death, says_no=True)
    life = await live(kept, ledger, says_no=True)
    assert life.result is not None
    no = {name: status for name, status in life.result.output.items() if status != "ok"}
    assert no == {"parcel": "error", "order": "error", "refund": "denied"}
    assert ledger.counts("started")["refund"] == 0
    await check_redrive(kept, ledger)
    assert await replay_of(kept, ledger) is not None


@pytest.mark.parametrize(
    ("cancels_at", "death"),
    [
        ("send inside", None),
        ("send inside", "before: commit"),
        ("model 4 asked", None),
        ("post_a inside", None),
        ("post_a inside", "before: commit"),
        ("consult done", "after: leave"),
    ],
)
async def test_a_cancelled_turn_ends_again_as_it_did(
    tmp_path: Path, cancels_at: str, death: str | None
) -> None:
    """I17: after the mark nothing new begins, in this life or in the next."""
    kept, ledger = KeptInMemory(), Ledger(tmp_path / "ledger")
    await live(kept, ledger, dies_at=death, cancels_at=cancels_at)
    if death is not None:
        begun = ledger.counts("started"), ledger.counts("asked")
        await live(kept, ledger)
        assert (ledger.counts("started"), ledger.counts("asked")) == begun
    end = await end_of(kept)
    assert end.page.outcome == Stopped(reason="cancelled", detail="enough")
    assert ledger.counts("started")["send"] == 1
    assert ledger.counts("started")["ring"] == 0
    await check_redrive(kept, ledger)
    assert await replay_of(kept, ledger) is not None


async def test_a_redrive_that_has_to_execute_something_is_noticed(tmp_path: Path) -> None:
    """Without its last page the journal lacks a reply: the model would have to be asked."""
    kept, ledger = KeptInMemory(), Ledger(tmp_path / "ledger")
    await live(kept, ledger)
    (session,) = kept._copy.sessions.values()  # type: ignore[union-attr]  # it was kept
    (turn,) = session.turns.values()
    turn.journal.pop()
    with pytest.raises(AssertionError, match="asked 12"):
        await check_redrive(kept, ledger)
