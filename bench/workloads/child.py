"""One process, one workload: what `make bench-peers` starts, for peers, for the floor and for windlass.

Started as `python -m bench.peers.NAME VARIANT WORKLOAD FOLDER`; prints one line with what it measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic_ns, perf_counter_ns
from typing import Any

from bench.workloads.candidate import Candidate
from bench.workloads.gauges import (
    Reading,
    cpu_us,
    folder_bytes,
    measured_turn,
    medians,
    memory_mb,
    written_bytes,
)
from bench.workloads.script import ANSWER, TEXT, loop, par, question, script

MARK = "MEASURED "
ITERATIONS = 20
SESSIONS = 200
TURNS_EACH = 5
LONG_TURNS = 250
YOUNG_TURN = 10
_AROUND = 4
_N_TEXT, _N_LOOP, _N_PAR = 25, 5, 7

Figures = dict[str, Any]


def main(candidate: type[Candidate]) -> None:
    """Run what the command line asks for, then end at once, whatever threads are left."""
    variant, workload, folder = sys.argv[1:4]
    begin_ns = monotonic_ns()
    asyncio.run(_run(candidate(variant, Path(folder)), workload, begin_ns))
    sys.stdout.flush()
    os._exit(0)


async def _run(candidate: Candidate, workload: str, begin_ns: int) -> None:
    if workload == "cold":
        figures = await _cold(candidate, begin_ns)
    else:
        script.note("opening 0")
        await candidate.open()
        figures = await _WORKLOADS[workload](candidate)
    print(MARK + json.dumps(figures), flush=True)
    await candidate.close()


async def _cold(candidate: Candidate, begin_ns: int) -> Figures:
    """W6: from the start of the process to the end of a first small turn."""
    await candidate.open()
    await measured_turn(candidate, "cold", question(loop(1)))
    end_ns = monotonic_ns()
    started_ns = int(os.environ["BENCH_STARTED_NS"])
    return {
        "total_ms": (end_ns - started_ns) / 1e6,
        "import_ms": (begin_ns - started_ns) / 1e6,
        "turn_ms": (end_ns - begin_ns) / 1e6,
        "memory_mb": memory_mb(),
    }


async def _basics(candidate: Candidate) -> Figures:
    """W1, W2, W3: a turn without a tool, one with 20 iterations, one with 20 calls at once."""
    for _ in range(3):
        await candidate.turn("warm", question(loop(1)))
    plans = {
        "W1": (TEXT, _N_TEXT),
        "W2": (loop(ITERATIONS), _N_LOOP),
        "W3": (par(ITERATIONS), _N_PAR),
    }
    figures: Figures = {}
    for name, (plan, n) in plans.items():
        turns = [await measured_turn(candidate, f"{name}-{at}", question(plan)) for at in range(n)]
        figures[name] = medians(turns)._asdict()
    return figures


async def _long(candidate: Candidate) -> Figures:
    """W4: one session, many turns with one call each."""
    turns = [await measured_turn(candidate, "long", question(loop(1))) for _ in range(LONG_TURNS)]
    return {
        "young": _around(turns, YOUNG_TURN)._asdict(),
        "old": _around(turns, LONG_TURNS - _AROUND)._asdict(),
        "written_young": _mean_written(turns[:50]),
        "written_old": _mean_written(turns[-50:]),
        "disk_mb": folder_bytes(candidate.folder) / 1e6,
        "n_seen": script.n_seen,
    }


def _around(turns: list[Reading], at: int) -> Reading:
    return medians(turns[at - _AROUND : at + _AROUND])


def _mean_written(turns: list[Reading]) -> float:
    return sum(each.written for each in turns) / len(turns)


async def _many(candidate: Candidate) -> Figures:
    """W5: many sessions at once, a few turns with one call each."""
    await candidate.turn("warm", question(loop(1)))
    n_before, written = script.n_calls, written_bytes()
    cpu, begin = cpu_us(), perf_counter_ns()

    async def one(session: str) -> None:
        for _ in range(TURNS_EACH):
            assert await candidate.turn(session, question(loop(1))) == ANSWER

    await asyncio.gather(*(one(f"s{at}") for at in range(SESSIONS)))
    seconds = (perf_counter_ns() - begin) / 1e9
    n_turns = SESSIONS * TURNS_EACH
    assert script.n_calls - n_before == n_turns
    return {
        "turns_per_s": n_turns / seconds,
        "cpu_us": (cpu_us() - cpu) / n_turns,
        "written": (written_bytes() - written) / n_turns,
        "peak_mb": memory_mb("VmHWM"),
    }


async def _reopen(candidate: Candidate) -> Figures:
    """W7: the first turn on a long session in a new process."""
    reading = await measured_turn(candidate, "long", question(TEXT))
    return {**reading._asdict(), "n_seen": script.n_seen}


async def _crash(candidate: Candidate) -> Figures:
    """W8: a turn that somebody kills."""
    return {"answered": await candidate.turn("crash", _crash_question()) == ANSWER}


async def _resume(candidate: Candidate) -> Figures:
    """W8: the same turn, after the kill, in a new process."""
    return {"answered": await candidate.resume("crash", _crash_question()) == ANSWER}


async def _parked(candidate: Candidate) -> Figures:
    """A turn that waits for somebody's approval, until its tool has run."""
    await candidate.turn("crash", _crash_question())
    script.note("parked 0")
    await script.called.wait()
    return await _resume(candidate)


def _crash_question() -> str:
    return question(os.environ["BENCH_PLAN"])


_WORKLOADS: dict[str, Callable[[Candidate], Awaitable[Figures]]] = {
    "basics": _basics,
    "long": _long,
    "many": _many,
    "reopen": _reopen,
    "crash": _crash,
    "resume": _resume,
    "parked": _parked,
}
