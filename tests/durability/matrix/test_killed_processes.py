"""The crash matrix, level B: real processes on a real file, killed by SIGKILL where the trace says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.matrix.deaths import Deaths, found_in
from tests.durability.matrix.expected import CELLS, TWICE, Cell, nature_of
from tests.durability.matrix.second_deaths import first_death
from tests.durability.matrix.verdict import check_cell, check_invariants

# Claimed, inside, done but not kept, kept; for each contract.
_CALLS = ("index", "vault", "send", "transfer", "parcel", "refund")
_OTHERS = (
    "after: join",
    "model 0 asked",
    "before: accept + start + begin + tools",
    "after: accept + start + begin + tools",
    "model 0 replied",
    "look done",
    "after: reply 0 + result look",
    "before: reply 3 + claim send",
    "model 5 asked",
    "model 5 replied",
    "post_a inside",
    "before: result post_a + claim post_b + result peek",
    "after: result post_a + claim post_b + result peek",
    "post_b done",
    "model adviser asked",
    "after: reply adviser",
    "order inside",
    "after: ask deferred",
    "order done",
    "after: pending + park",
    "after: answered deferred",
    "after: reply 9 + ask approval + park",
    "after: answered approval",
    "before: answer approval + leave refund + claim refund",
    "after: mail arrives",
    "after: mail is taken",
    "after: reply 11 + repair",
    "after: ask provider + park",
    "before: expired provider",
    "after: expired provider",
    "model 12 replied",
    "after: reply 12",
    "before: commit",
    "after: commit",
    "before: leave",
)


def is_of(tool: str, seam: str) -> bool:
    parts = seam.removeprefix("after: ").split(" + ")
    in_body = seam in (f"{tool} inside", f"{tool} done")
    return in_body or f"claim {tool}" in parts or f"result {tool}" in parts


OF_CALLS = [cell for cell in CELLS if any(is_of(tool, cell.seam) for tool in _CALLS)]
OF_OTHERS = [cell for cell in CELLS if cell.seam in _OTHERS and cell not in OF_CALLS]
# tool, window of the first death, seam of the second
AGAIN = [
    ("index", "done", "index inside", "inside"),
    ("vault", "inside", "vault done", "done"),
    ("vault", "done", "after: claim vault", "claimed"),
    ("send", "inside", "after: claim", "early"),
    ("send", "claimed", "before: result send", "early"),
    ("transfer", "inside", "transfer reconciled", "early"),
    ("transfer", "claimed", "transfer done", "done"),
    ("parcel", "done", "before: ask unknown_outcome + park", "early"),
    ("parcel", "inside", "after: answered unknown_outcome", "early"),
    ("refund", "done", "after: claim", "early"),
]


def check_chain(folder: Path, cells: list[Cell]) -> list[str]:
    """Kill a process in every cell and return what is red."""
    with Deaths(folder / "stderr") as deaths:
        for number, cell in enumerate(cells):
            deaths.die(folder / str(number), cell.seam)
        deaths.finish()
    red = []
    for number, cell in enumerate(cells):
        try:
            check_cell(cell, *found_in(folder / str(number)))
        except AssertionError as error:
            red.append(f"{cell.seam}: {error}")
    return red


@pytest.mark.parametrize(
    ("cells", "count"), [(OF_CALLS, 30), (OF_OTHERS, 33)], ids=["calls", "others"]
)
def test_a_turn_whose_process_is_killed_ends_as_the_table_says(
    tmp_path: Path, cells: list[Cell], count: int
) -> None:
    assert len(cells) == count
    assert check_chain(tmp_path, cells) == []


def test_a_process_that_is_killed_during_recovery_leaves_a_call_as_the_table_says(
    tmp_path: Path,
) -> None:
    red = []
    with Deaths(tmp_path / "stderr") as deaths:
        for number, (tool, window, seam, _) in enumerate(AGAIN):
            deaths.die(tmp_path / str(number), first_death(tool, window), seam)
        deaths.finish()
    for number, (tool, window, seam, far) in enumerate(AGAIN):
        ledger, end = found_in(tmp_path / str(number))
        check_invariants(ledger, end)
        expected = TWICE[nature_of(tool)][window][far]
        if (started := ledger.counts("started")[tool]) != expected:
            red.append(f"{tool} {window}, then {seam}: {started} times, wanted {expected}")
    assert red == []


def test_the_processes_turn_red_when_once_is_repeated(tmp_path: Path) -> None:
    """The red proof: these tests look at what they kill."""
    cell = next(cell for cell in CELLS if cell.seam == "send inside")
    with Deaths(tmp_path / "stderr", mutant="once is repeated") as deaths:
        deaths.die(tmp_path / "0", cell.seam)
        deaths.finish()
    with pytest.raises(AssertionError, match="send may run once and ran 2 times"):
        check_cell(cell, *found_in(tmp_path / "0"))
