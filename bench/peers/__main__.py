"""`make bench-peers`: the same workloads on windlass, on a bare loop and on other runtimes; one table.

The first run installs the peers (a few minutes). W1 to W3 are measured in each round, a minute each; the
rest once, a quarter of an hour in all: some peers need minutes for a long session.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.catalogue import EVERYBODY, FLOOR, HERE, WINDLASS, Peer
from bench.peers.environments import CannotInstall, python_of
from bench.peers.process import crash, fresh_folder, run
from bench.peers.results import LEGEND, Results, table, verdicts
from bench.report import machine_line
from bench.store_disk import measure_disk
from bench.workloads.children import Figures
from bench.workloads.script import loop, par

ROUNDS = 3
WORKLOADS = ("basics", "long", "many", "cold", "crash")


def main(argv: Sequence[str] | None = None) -> int:
    """Install, measure and print."""
    options = _options(argv)
    wanted: list[str] = options.only
    chosen = [each for each in EVERYBODY if any(part in each.label for part in wanted)]
    peers = chosen if wanted else list(EVERYBODY)
    results = Results()
    try:
        ready = [peer for peer in peers if _is_ready(peer, results)]
        for at in range(options.rounds):
            for workload in options.workloads:
                if at and workload != "basics":
                    continue  # minutes each, and steady
                # Who was first is last the next time.
                for peer in ready if at % 2 == 0 else reversed(ready):
                    _say(f"round {at + 1} of {options.rounds}, {workload}: {peer.label}")
                    _measure(peer, workload, results)
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        return 130
    sync = measure_disk(8)[0]
    print(machine_line())
    print(f"{sync.name}: {sync.median:.0f} µs; every file is new and its write-ahead log grows\n")
    print(table(results, peers))
    print("\n" + LEGEND)
    print("\n".join(["", *verdicts(results), *results.errors()]))
    if options.json is not None:
        options.json.write_text(json.dumps(results.as_json(), indent=1), encoding="utf-8")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description="windlass beside other runtimes for agents."
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help=f"of W1 to W3 ({ROUNDS})"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PART", help="those whose name has this part"
    )
    parser.add_argument(
        "--workloads", nargs="+", default=WORKLOADS, choices=WORKLOADS, metavar="NAME",
        help=f"of {', '.join(WORKLOADS)}",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    return parser.parse_args(argv)


def _say(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _is_ready(peer: Peer, results: Results) -> bool:
    try:
        python_of(peer.environment)
    except CannotInstall as error:
        results.refused[peer.label] = str(error)
        return False
    return True


def _measure(peer: Peer, workload: str, results: Results) -> None:
    if workload == "crash":
        if peer.keeps:
            _measure_crashes(peer, results)
        return
    # The floor and windlass run before and after: a neighbour that comes or goes meanwhile is seen by one of the two.
    around = [_measure_around(peer, workload)]
    with fresh_folder() as folder:
        figures = run(peer, workload, folder)
        if workload == "long" and peer.keeps:
            results.add(peer, "reopen", run(peer, "reopen", folder))
    around.append(_measure_around(peer, workload))
    results.add(peer, workload, figures, around)


def _measure_around(peer: Peer, workload: str) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    if workload in {"basics", "many"}:
        with fresh_folder() as folder:
            found[FLOOR.label] = run(FLOOR, workload, folder)
    if workload == "basics" and peer.environment != HERE:
        with fresh_folder() as folder:
            found[WINDLASS.label] = run(WINDLASS, workload, folder)
    return found


def _measure_crashes(peer: Peer, results: Results) -> None:
    results.add(peer, "crash", crash(peer, loop(10), 5, at_once=False))
    results.add(peer, "crash at once", crash(peer, loop(10), 5, at_once=True))
    results.add(peer, "crash of 20", crash(peer, par(20), 19, at_once=False))


if __name__ == "__main__":
    raise SystemExit(main())
