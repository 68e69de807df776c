"""Counts instead of times: what a piece of work executes and allocates, the same on every run.

Bytecode instructions do not see work inside C: copying a list of 2,000 is one of them. So the memory
that the work allocates at its peak is counted, too.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import TraceFunction


def count_instructions(work: Callable[[], object]) -> int:
    """Return how many bytecode instructions `work` executes."""
    return instructions_by_file(work).total()


def instructions_by_file(work: Callable[[], object]) -> Counter[str]:
    """Return how many bytecode instructions `work` executes on this thread, by source file."""
    return _traced(work, "opcode")


def frames_by_file(work: Callable[[], object]) -> Counter[str]:
    """Return how many Python frames `work` enters on this thread, a coroutine each time that it goes on, by file."""
    return _traced(work, "call")


def _traced(work: Callable[[], object], wanted: str) -> Counter[str]:
    counts: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _argument: object) -> TraceFunction:
        if event == wanted:
            counts[frame.f_code.co_filename] += 1
        if event == "call":
            frame.f_trace_opcodes = wanted == "opcode"
            frame.f_trace_lines = False
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counts


def peak_bytes(work: Callable[[], object]) -> int:
    """Return how much memory `work` has allocated at its peak, over what there was before."""
    # A coverage measurement remembers each line it sees first, in memory that would count.
    tracer = sys.gettrace()
    sys.settrace(None)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        sys.settrace(tracer)
    return peak - before
