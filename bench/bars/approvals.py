"""An approval that another process gives: until the body starts, and what is written while nobody answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic_ns

from bench.progress import progress
from bench.samples import Figure, figure
from bench.store_file import measured_folder
from bench.workloads.children import WINDLASS, finish, start
from bench.workloads.script import Diary, loop
from bench.workloads.windlass_turns import FILE
from windlass import Runtime

APPROVAL_BAR_S = 1.0
_SECONDS = 30.0
_IDLE_S = 1.5


def measure_approvals(rounds: int) -> list[Figure]:
    """Let a process park, watch its file, approve from here, and see when its tool starts."""
    waits: list[float] = []
    writes: list[float] = []
    for _ in progress("approvals", rounds):
        with measured_folder() as folder:
            seconds, n_changes = asyncio.run(_approve(folder))
        waits.append(seconds)
        writes.append(n_changes)
    return [
        figure("approved elsewhere to body starts", "s", waits, bar=APPROVAL_BAR_S),
        figure(f"  files changed in {_IDLE_S} s of waiting", "", writes, bar=0),
    ]


async def _approve(folder: Path) -> tuple[float, float]:
    diary = folder / "diary.txt"
    # So short a lease would be renewed several times while nobody answers.
    child = start(
        WINDLASS, "ask", "parked", str(folder), plan=loop(1), diary=str(diary), lease_s="1"
    )
    try:
        while "parked" not in {kind for kind, _, _ in Diary(diary).lines}:
            assert child.poll() is None, child.communicate()
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)  # what parking leaves to be written is written
        before = _stamps(folder)
        await asyncio.sleep(_IDLE_S)
        n_changes = sum(_stamps(folder)[name] != stamp for name, stamp in before.items())
        async with Runtime(store=f"sqlite:///{folder / FILE}") as runtime:
            waits = await runtime.approvals()
            approved_ns = monotonic_ns()
            await runtime.approve(waits[0].key, by="bench")
        assert (await asyncio.to_thread(finish, child, _SECONDS)).get("answered")
    finally:
        child.kill()
    return (Diary(diary).moment_ns("start") - approved_ns) / 1e9, n_changes


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    files = {name: folder / name for name in (FILE, f"{FILE}-wal")}
    return {name: (path.stat().st_mtime_ns, path.stat().st_size) for name, path in files.items()}
