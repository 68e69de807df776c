"""`make bench`: print what windlass costs. A missed bar is shown, not an exit code: time is no gate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.bars.layers import layers
from bench.hot_spots import hot_spots
from bench.kernel import SHORT
from bench.report import table, write_json
from bench.samples import Figure
from bench.sections import SECTIONS
from bench.store_file import place_lines

ROUNDS = 60


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < 2:
        raise argparse.ArgumentTypeError("a spread needs at least 2")
    return rounds


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _options(argv)
    rounds: int = options.rounds
    failed: list[str] = []
    try:
        if options.profile:
            print(layers())
            print(hot_spots(SHORT, rounds))
            return 0
        groups = _measure(options.only, rounds, failed)
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        return 130
    print(table(groups))
    print("\n".join(place_lines()))
    if options.json is not None:
        write_json(options.json, groups)
    print("".join(f"could not be measured: {line}\n" for line in failed), end="")
    return 1 if failed else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="What windlass costs, with the bar beside each figure."
    )
    parser.add_argument(
        "--rounds", type=_rounds, default=ROUNDS, metavar="N", help=f"blocks of samples ({ROUNDS})"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=list(SECTIONS),
        choices=list(SECTIONS),
        metavar="PART",
        help=f"of {', '.join(SECTIONS)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument(
        "--profile", action="store_true", help="print where a turn and its iterations go, instead"
    )
    return parser.parse_args(argv)


def _measure(names: Sequence[str], rounds: int, failed: list[str]) -> list[list[Figure]]:
    """Measure part by part; one that breaks is told at the end and takes no other along."""
    groups = []
    for name in names:
        for measure in SECTIONS[name]:
            try:
                groups.append(measure(rounds))
            except Exception as error:  # noqa: BLE001 - minutes of measuring are not thrown away
                failed.append(f"{name}: {type(error).__name__}: {error}")
    return groups


if __name__ == "__main__":
    raise SystemExit(main())
