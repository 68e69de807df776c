"""`make bench`: print what windlass costs. A missed bar is shown, not an exit code: time is no gate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.hot_spots import hot_spots
from bench.imports import measure_imports
from bench.kernel import (
    SHORT,
    measure_digests,
    measure_iterations,
    measure_snapshots,
    measure_this_machine,
)
from bench.report import table, write_json
from bench.store_bytes import measure_bytes
from bench.store_commits import measure_units
from bench.store_disk import measure_disk
from bench.store_file import place_lines
from bench.store_group import measure_groups
from bench.store_reads import measure_reads

ROUNDS = 60
_MIN_IMPORTS = 9


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < 2:
        raise argparse.ArgumentTypeError("a spread needs at least 2")
    return rounds


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="What windlass costs, with the bar beside each figure."
    )
    parser.add_argument(
        "--rounds", type=_rounds, default=ROUNDS, metavar="N", help=f"blocks of samples ({ROUNDS})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument(
        "--profile", action="store_true", help="print where an iteration goes, instead"
    )
    options = parser.parse_args(argv)
    rounds: int = options.rounds
    try:
        if options.profile:
            print(hot_spots(SHORT, rounds))
            return 0
        groups = [
            measure_iterations(rounds),
            measure_digests(rounds),
            measure_snapshots(rounds),
            # Imports are slow and steady: fewer of them say as much.
            measure_imports(max(_MIN_IMPORTS, rounds // 4)),
            measure_disk(rounds),
            measure_units(rounds),
            # A thousand units or pages a round: fewer rounds say as much.
            measure_groups(max(2, rounds // 3)),
            measure_reads(max(2, rounds // 3)),
            measure_bytes(),
            measure_this_machine(rounds),
        ]
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        return 130
    print(table(groups))
    print("\n".join(place_lines()))
    if options.json is not None:
        write_json(options.json, groups)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
