"""Where a whole turn goes, by layer and file, in bytecode instructions: the same on every run, unlike a profile."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from bench.bars.turn_counts import iteration_instructions, turn_instructions
from bench.store_file import measured_folder
from bench.workloads.script import TEXT

_SHOWN_FILES = 16


def layers() -> str:
    """Return what an iteration and a turn without a call execute, the largest first."""
    with measured_folder() as folder:
        iteration = iteration_instructions(folder)
    with measured_folder() as folder:
        turn = turn_instructions(folder, TEXT)
    return "\n".join(
        _table("one iteration with one once call", iteration)
        + _table("a turn without a call", turn)
    )


def _table(what: str, counts: Counter[str]) -> list[str]:
    total = counts.total()
    by_layer: Counter[str] = Counter()
    by_file: Counter[str] = Counter()
    for path, n in counts.items():
        layer, file = _place(path)
        by_layer[layer] += n
        by_file[file] += n
    lines = [f"{what}: {total:,} instructions on the loop's thread"]
    lines += [f"  {n:>7,} {100 * n / total:5.1f} %  {name}" for name, n in by_layer.most_common()]
    lines.append("  of these")
    shown = by_file.most_common(_SHOWN_FILES)
    lines += [f"  {n:>7,} {100 * n / total:5.1f} %  {name}" for name, n in shown]
    return [*lines, ""]


def _place(path: str) -> tuple[str, str]:
    parts = PurePath(path).parts
    for root in ("windlass", "bench", "asyncio"):
        if root in parts[:-1]:
            below = parts[len(parts) - parts[::-1].index(root) :]
            layer = f"windlass.{below[0]}" if root == "windlass" and len(below) > 1 else root
            return layer, "/".join((root, *below))
    return "the standard library", parts[-1]
