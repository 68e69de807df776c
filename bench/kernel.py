"""The kernel's share: an iteration, the digest of a request, a snapshot, and two calibration lines."""

from __future__ import annotations

from itertools import islice
from time import perf_counter_ns

import msgspec

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.turns import Answers, answers, history, machine_at, requests_from, run_iteration
from windlass.kernel import TurnMachine, canonical

SHORT = 10
SHORT_REQUEST = 20
LONG = 2_000

ITERATION_BAR_US = 35.0
ITERATION_RATIO_BAR = 1.15
DIGEST_RATIO_BAR = 1.5
SNAPSHOT_BAR_US = 2.0

# Few enough that a history of 10 is still a short one at the end of a block.
_PER_BLOCK = 8
_CALLS = 200


def _timed_iteration(machine: TurnMachine, told: Answers) -> float:
    begin = perf_counter_ns()
    run_iteration(machine, told)
    return (perf_counter_ns() - begin) / 1_000


def measure_iterations(rounds: int) -> list[Figure]:
    """Time single iterations, the two lengths in turn."""
    short_history, long_history = history(SHORT), history(LONG)
    shorts: list[list[float]] = []
    longs: list[list[float]] = []
    for _ in progress("iterations", rounds):
        short, long = machine_at(short_history), machine_at(long_history)
        told = list(islice(answers(), _PER_BLOCK + 1))
        run_iteration(short, told[0])
        run_iteration(long, told[0])
        shorts.append([])
        longs.append([])
        for each in told[1:]:
            shorts[-1].append(_timed_iteration(short, each))
            longs[-1].append(_timed_iteration(long, each))
    return [
        figure(
            f"iteration with one tool call, {SHORT} messages",
            "µs",
            [sample for block in shorts for sample in block],
            bar=ITERATION_BAR_US,
        ),
        figure(
            f"iteration with one tool call, {LONG:,} messages",
            "µs",
            [sample for block in longs for sample in block],
        ),
        ratio(f"  {LONG:,} messages to {SHORT}", longs, shorts, bar=ITERATION_RATIO_BAR),
    ]


def measure_digests(rounds: int) -> list[Figure]:
    """Time the digest of a request that has one message more than the last, in turn."""
    shorts: list[list[float]] = []
    longs: list[list[float]] = []
    for _ in progress("digests", rounds):
        short, long = requests_from(SHORT_REQUEST - 1), requests_from(LONG - 1)
        canonical.digest(next(short))
        canonical.digest(next(long))
        shorts.append([])
        longs.append([])
        for _again in range(_PER_BLOCK):
            for requests, samples in ((short, shorts[-1]), (long, longs[-1])):
                request = next(requests)
                begin = perf_counter_ns()
                canonical.digest(request)
                samples.append((perf_counter_ns() - begin) / 1_000)
    return [
        figure(
            f"digest, one new message on {SHORT_REQUEST - 1}",
            "µs",
            [sample for block in shorts for sample in block],
        ),
        figure(
            f"digest, one new message on {LONG - 1:,}",
            "µs",
            [sample for block in longs for sample in block],
        ),
        ratio(f"  {LONG:,} messages to {SHORT_REQUEST}", longs, shorts, bar=DIGEST_RATIO_BAR),
    ]


def measure_snapshots(rounds: int) -> list[Figure]:
    """Time snapshot() in the middle of a turn."""
    machines = {n: machine_at(history(n)) for n in (SHORT, LONG)}
    told = next(answers())
    samples: dict[int, list[float]] = {n: [] for n in machines}
    for machine in machines.values():
        run_iteration(machine, told)
    for _ in progress("snapshots", rounds):
        for n, machine in machines.items():
            take = machine.snapshot
            begin = perf_counter_ns()
            for _again in range(_CALLS):
                take()
            samples[n].append((perf_counter_ns() - begin) / 1_000 / _CALLS)
    return [
        figure(f"snapshot(), {n:,} messages", "µs", samples[n], bar=SNAPSHOT_BAR_US)
        for n in machines
    ]


class _Point(msgspec.Struct, frozen=True, kw_only=True):
    x: int
    y: int


def _nothing() -> None:
    pass


def measure_this_machine(rounds: int) -> list[Figure]:
    """Time two things that windlass has no part in, so that other machines can be compared."""
    calls: list[float] = []
    structs: list[float] = []
    for _ in progress("calibration", rounds):
        begin = perf_counter_ns()
        for _again in range(_CALLS):
            _nothing()
        middle = perf_counter_ns()
        for _again in range(_CALLS):
            _Point(x=1, y=2)
        end = perf_counter_ns()
        calls.append((middle - begin) / _CALLS)
        structs.append((end - middle) / _CALLS)
    return [
        figure("calibration: an empty Python call", "ns", calls),
        figure("calibration: a frozen msgspec struct of two", "ns", structs),
    ]
