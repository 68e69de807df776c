"""The crash matrix: one turn with every kind of effect and every contract, killed at every moment.

Level A: the process is a task that dies without a word. Level B (`matrix/test_killed_processes.py`): it is a process and
dies by SIGKILL. What has to come out is written down in `matrix/expected.py`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.durability.matrix.beneath import Kept, KeptInFile, KeptInMemory
from tests.durability.matrix.expected import CELLS, TWICE, nature_of
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.lives import live
from tests.durability.matrix.mutants import mutated
from tests.durability.matrix.redrive import check_redrive, end_of
from tests.durability.matrix.replayed import replay_of
from tests.durability.matrix.second_deaths import first_death, how_far
from tests.durability.matrix.steps import CONTRACTS
from tests.durability.matrix.verdict import End, check_cell, check_invariants, check_result
from windlass.kernel import canonical
from windlass.runtime.turn_record import messages_in

STORES = ("memory", "sqlite")
SEAMS = [cell.seam for cell in CELLS]
# A look for tools changes nothing on disk: on a file it is the same cell as the one before it.
SINGLE = [
    (store, number)
    for store in STORES
    for number, seam in enumerate(SEAMS)
    if store == "memory" or not seam.startswith("tools looked up")
]
CALLS_TWICE = [
    (tool, window)
    for tool in CONTRACTS
    for window in TWICE.get(nature_of(tool), ())
    if any(cell.windows.get(tool) == window for cell in CELLS)
]


REPEATABLE = ("pure", "idempotent", "keyed")
_UNCUT: list[bytes] = []


def committed(end: End) -> bytes:
    return canonical.encode(msgspec.structs.replace(end.page, committed_ms=0))


async def uncut(folder: Path) -> bytes:
    """Return what a turn commits that is not interrupted."""
    if not _UNCUT:
        kept = KeptInMemory()
        await live(kept, Ledger(folder / "uncut"))
        _UNCUT.append(committed(await end_of(kept)))
    return _UNCUT[0]


def make_kept(store: str, folder: Path) -> Kept:
    return KeptInMemory() if store == "memory" else KeptInFile(folder / "w.db")


@pytest.mark.parametrize("store", STORES)
async def test_the_trace_is_the_one_that_the_table_was_written_for(
    tmp_path: Path, store: str
) -> None:
    """A new kind of write, or one at another place, needs rows of its own before it can land."""
    kept, ledger = make_kept(store, tmp_path), Ledger(tmp_path / "ledger")
    life = await live(kept, ledger)
    assert list(life.trace) == SEAMS
    assert len(set(SEAMS)) == len(SEAMS)


def test_every_contract_is_killed_in_every_window() -> None:
    found = {(CONTRACTS[tool], window) for cell in CELLS for tool, window in cell.windows.items()}
    claimed = {(c, "claimed") for c in ("idempotent", "keyed", "once", "reconcile")}
    in_body = {(c, w) for c in set(CONTRACTS.values()) for w in ("inside", "done")}
    assert found == claimed | in_body | {("once", "waits")}


@pytest.mark.parametrize(
    ("store", "number"), SINGLE, ids=[f"{store}-{SEAMS[number]}" for store, number in SINGLE]
)
async def test_a_turn_whose_worker_dies_ends_as_the_table_says(
    tmp_path: Path, store: str, number: int
) -> None:
    """And where nothing is lost that cannot be repeated, byte for byte as if nothing had been (I7)."""
    kept, ledger, cell = make_kept(store, tmp_path), Ledger(tmp_path / "ledger"), CELLS[number]
    first = await live(kept, ledger, dies_at=number)
    assert first.result is None
    assert first.trace == tuple(SEAMS[: number + 1])
    left = await replay_of(kept, ledger)
    second = await live(kept, ledger)
    assert second.result is not None
    end = await end_of(kept)
    check_cell(cell, ledger, end)
    said = messages_in(end.page.nodes)
    if left is not None:
        assert left.messages == said[: len(left.messages)]
    assert await replay_of(kept, ledger) is not None
    check_result(second.result, end)
    if all(nature_of(tool) in REPEATABLE for tool in cell.windows):
        assert committed(end) == await uncut(tmp_path)
    if store == "memory":
        await check_redrive(kept, ledger)


@pytest.mark.parametrize(("tool", "window"), CALLS_TWICE)
async def test_a_worker_that_dies_during_recovery_leaves_a_call_as_the_table_says(
    tmp_path: Path, tool: str, window: str
) -> None:
    """At every moment of the second life, until the call's result is kept."""
    expected = TWICE[nature_of(tool)][window]
    first, first_ledger = KeptInMemory(), Ledger(tmp_path / "ledger")
    await live(first, first_ledger, dies_at=first_death(tool, window))
    seen: set[str] = set()
    number = 0
    while "kept" not in seen:
        kept, ledger = first.left_behind(), first_ledger.copied_to(tmp_path / f"ledger{number}")
        second = await live(kept, ledger, dies_at=number)
        assert second.result is None
        await live(kept, ledger)
        check_invariants(ledger, await end_of(kept))
        far = how_far(tool, second.trace)
        if far != "kept":
            assert (number, ledger.counts("started")[tool]) == (number, expected[far])
        seen.add(far)
        number += 1
    assert seen - {"kept"} == set(expected)


@pytest.mark.parametrize(
    "seam",
    [
        "after: join",
        "after: accept + start + begin + tools",
        "model 5 replied",
        "after: reply adviser",
        "after: pending + park",
        "before: answered deferred",
        "after: reply 9 + ask approval + park",
        "after: claim (2)",
        "after: mail is taken",
        "after: ask provider + park",
        "after: expired provider",
        "before: commit",
    ],
)
async def test_a_worker_that_dies_twice_anywhere_leaves_a_turn_that_ends_once(
    tmp_path: Path, seam: str
) -> None:
    """Six moments of each second life, spread over all of it."""
    first, first_ledger = KeptInMemory(), Ledger(tmp_path / "ledger")
    await live(first, first_ledger, dies_at=seam)
    whole = await live(first.left_behind(), first_ledger.copied_to(tmp_path / "whole"))
    for sixth in range(6):
        kept, ledger = first.left_behind(), first_ledger.copied_to(tmp_path / f"ledger{sixth}")
        await live(kept, ledger, dies_at=len(whole.trace) * (2 * sixth + 1) // 12)
        await live(kept, ledger)
        check_invariants(ledger, await end_of(kept))
        await check_redrive(kept, ledger)


async def test_a_queued_once_call_that_had_not_started_runs(tmp_path: Path) -> None:
    """`post_b` waits for the place that `post_a` has: the outcome of `post_a` is unknown, and `post_b` runs."""
    for seam in ("after: reply 6 + claim post_a", "post_a inside", "post_a done"):
        kept, ledger = KeptInMemory(), Ledger(tmp_path / seam)
        await live(kept, ledger, dies_at=seam)
        assert ledger.counts("claimed")["post_b"] == 0
        life = await live(kept, ledger)
        assert life.result is not None
        assert life.result.output["post_a"] == "unknown"
        assert life.result.output["post_b"] == "ok"
        assert ledger.counts("started")["post_b"] == 1


@pytest.mark.parametrize(
    ("mutant", "seam", "why"),
    [
        ("once is repeated", "send inside", "send may run once and ran 2 times"),
        ("idempotent is not repeated", "index inside", "index: found Window.*status='unknown'"),
        ("no barrier before the body", "send inside", "I4: index ran without its intent"),
        ("no waiting for a place", "post_a inside", "post_b: found Window.*status='unknown'"),
        ("questions are asked anew", "after: answered approval", "'approval': 2"),
        ("a fresh key for each attempt", "vault inside", "vault had more than one"),
        ("replies are forgotten", "model 1 asked", "I1: recorded twice"),
    ],
)
async def test_the_matrix_turns_red_at_a_fault(
    tmp_path: Path, mutant: str, seam: str, why: str
) -> None:
    """Each of these cells is green without the fault; see `matrix/mutants.py` for what is broken."""
    kept, ledger = KeptInMemory(), Ledger(tmp_path / "ledger")
    cell = next(cell for cell in CELLS if cell.seam == seam)
    with mutated(mutant):
        await live(kept, ledger, dies_at=seam)
        await live(kept, ledger)
    with pytest.raises(AssertionError, match=why):
        check_cell(cell, ledger, await end_of(kept))
