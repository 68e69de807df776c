"""Dying again during recovery: how far a call was, read off a trace."""

from __future__ import annotations

from collections.abc import Iterable

from tests.durability.matrix.expected import CELLS


def first_death(tool: str, window: str) -> str:
    """Return the seam at which the call of this tool is in this window for the first time."""
    return next(cell.seam for cell in CELLS if cell.windows.get(tool) == window)


def how_far(tool: str, trace: Iterable[str]) -> str:
    """Return how far the call had come in this life, by its last seam that says so."""
    found = "early"
    for seam in trace:
        parts = seam.removeprefix("after: ").split(" + ")
        if seam.startswith("after: ") and f"claim {tool}" in parts:
            found = "claimed"
        elif seam in (f"{tool} inside", f"{tool} done"):
            found = seam.removeprefix(f"{tool} ")
        elif seam.startswith("after: ") and f"result {tool}" in parts:
            found = "kept"
    return found
