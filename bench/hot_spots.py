"""Where an iteration goes, by function. cProfile slows small functions most: read the order only."""

from __future__ import annotations

import cProfile
import io
import pstats
from itertools import islice

from bench.progress import progress
from bench.turns import answers, history, machine_at, run_iteration

_PER_MACHINE = 8
_SHOWN = 25


def hot_spots(n_messages: int, rounds: int) -> str:
    """Return the functions of an iteration, the most expensive first."""
    messages = history(n_messages)
    profiler = cProfile.Profile()
    for _ in progress("profile", rounds):
        machine = machine_at(messages)
        for told in list(islice(answers(), _PER_MACHINE)):
            profiler.enable()
            run_iteration(machine, told)
            profiler.disable()
    text = io.StringIO()
    stats = pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime")
    stats.print_stats(_SHOWN)
    return f"{rounds * _PER_MACHINE:,} iterations at {n_messages:,} messages\n{text.getvalue()}"
