"""The parts of the report, in its order: what each is called and how it is measured."""

from __future__ import annotations

from collections.abc import Callable

from bench.bars.approvals import measure_approvals
from bench.bars.background import (
    measure_children,
    measure_processes,
    measure_sleepers,
    measure_wakes,
)
from bench.bars.floor_ratios import measure_floor_ratios
from bench.bars.idle import measure_idle
from bench.bars.kills import measure_kills
from bench.bars.long_sessions import measure_long_sessions
from bench.bars.many_sessions import measure_many_sessions
from bench.bars.plugin_costs import measure_plugins
from bench.bars.reopening import measure_reopening
from bench.bars.replies import measure_replies
from bench.bars.tokens import measure_tokens
from bench.bars.turn_counts import measure_turn_counts
from bench.imports import measure_imports
from bench.kernel import (
    measure_digests,
    measure_iterations,
    measure_snapshots,
    measure_this_machine,
)
from bench.samples import Figure
from bench.store_bytes import measure_bytes
from bench.store_commits import measure_units
from bench.store_disk import measure_disk
from bench.store_group import measure_groups
from bench.store_reads import measure_reads

_MIN_IMPORTS = 9

Measure = Callable[[int], list[Figure]]

# Whatever takes long and is steady needs fewer rounds to say as much.
SECTIONS: dict[str, tuple[Measure, ...]] = {
    "disk": (measure_disk,),
    "turns": (lambda rounds: measure_floor_ratios(max(2, rounds // 4)),),
    "counts": (lambda _: measure_turn_counts(),),
    "sessions": (lambda rounds: measure_many_sessions(max(2, rounds // 10)),),
    "long": (measure_long_sessions,),
    "plugins": (lambda rounds: measure_plugins(max(2, rounds // 4)),),
    "reopen": (lambda rounds: measure_reopening(max(2, rounds // 3)),),
    "kills": (lambda rounds: measure_kills(max(1, rounds // 12)),),
    "approvals": (lambda rounds: measure_approvals(max(1, rounds // 12)),),
    "background": (
        lambda rounds: measure_processes(max(2, rounds // 4)),
        lambda rounds: measure_children(max(2, rounds // 4)),
        lambda rounds: measure_wakes(max(2, rounds // 4)),
        measure_sleepers,
    ),
    "tokens": (lambda rounds: measure_tokens(max(2, rounds // 10)),),
    "replies": (lambda rounds: measure_replies(max(2, rounds // 4)),),
    "idle": (measure_idle,),
    "import": (lambda rounds: measure_imports(max(_MIN_IMPORTS, rounds // 4)),),
    "kernel": (measure_iterations, measure_digests, measure_snapshots),
    "store": (
        measure_units,
        lambda rounds: measure_groups(max(2, rounds // 3)),
        lambda rounds: measure_reads(max(2, rounds // 3)),
        lambda _: measure_bytes(),
    ),
    "machine": (measure_this_machine,),
}
