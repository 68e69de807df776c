"""Runs tasks with the coding agent that `windlass chat --code` has, and says what came of each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evals.task import Task
from windlass import Limits, Runtime
from windlass.api.usage_report import UsageReport
from windlass.cli.own_agents import coder
from windlass.cli.settings import Settings
from windlass.errors import WindlassError
from windlass.ports import Model

LIMITS = Limits(max_iterations=40, max_seconds=900)
TASK = "task"
"""The id of the session and of the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a task."""

    task: Task
    complaint: str | None
    seconds: float
    tool_calls: int = 0
    usage: UsageReport | None = None

    @property
    def is_done(self) -> bool:
        return self.complaint is None


async def run_task(task: Task, model: str | Model) -> Result:
    """Run a task in a folder of its own. All changes and commands are allowed: the folder is thrown away."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"windlass-{task.name}-") as folder:
        scratch, store = Path(folder, "project"), f"sqlite:///{folder}/eval.db"
        task.lay_out(scratch)
        agent = coder(model, Settings(store=store), scratch)
        try:
            async with Runtime(agent, store=store, approve=lambda _: True) as rt:
                result = await rt.session(TASK).run(task.prompt, turn_id=TASK, limits=LIMITS)
        except WindlassError as error:
            return Result(task=task, complaint=str(error), seconds=time.monotonic() - began)
        complaint = task.complaint(scratch)
        if result.parked:
            complaint = f"it waits: {', '.join(wait.title or wait.kind for wait in result.waits)}"
        return Result(
            task=task,
            complaint=complaint,
            seconds=time.monotonic() - began,
            tool_calls=len(result.tool_calls),
            usage=result.usage,
        )


async def run_all(
    chosen: list[Task], model: Callable[[Task], str | Model], told: Callable[[Result], None]
) -> list[Result]:
    """Run tasks one after the other, and tell of each when it has ended."""
    results = []
    for task in chosen:
        results.append(await run_task(task, model(task)))
        told(results[-1])
    return results
