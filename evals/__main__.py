"""`make try MODEL=provider:model`: how well a model does as the coding agent, on ten small tasks.

The agent's commands run on this machine, as you, without being asked for: they are what a model thought of. Use a
container or a machine that you can throw away, or `--scripted`, which calls no model.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evals.runner import Result, run_all
from evals.task import Task, tasks
from windlass.api.usage_report import UsageReport
from windlass.errors import WindlassError
from windlass.ports import Model
from windlass.testing import ScriptedModel

_ASKED = (
    "The model's commands run on this machine, as you, without further questions. Go on? [y/N] "
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tasks; 0 if all are done."""
    options = _options(argv)
    known = {task.name: task for task in tasks()}
    wrong = [name for name in options.only if name not in known]
    if wrong:
        print(f"evals: there is no task {wrong[0]!r}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in options.only or known]
    if not (options.scripted or options.yes or _is_allowed()):
        print("evals: nothing was run; --yes answers for you", file=sys.stderr)
        return 2

    def model(task: Task) -> str | Model:
        return ScriptedModel(task.replies()) if options.scripted else str(options.model)

    console = Console()
    try:
        results = asyncio.run(run_all(chosen, model, lambda result: console.print(_line(result))))
    except WindlassError as error:
        print(f"evals: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nevals: interrupted", file=sys.stderr)
        return 130
    console.print(_table(results, "a script" if options.scripted else options.model))
    n_done = sum(result.is_done for result in results)
    console.print(f"{n_done} of {len(results)} tasks done", style="bold")
    return 0 if n_done == len(results) else 1


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", help="the model, as provider:model")
    which.add_argument("--scripted", action="store_true", help="replay each task's own script")
    parser.add_argument("--only", nargs="+", default=[], metavar="TASK", help="these tasks")
    parser.add_argument("--yes", action="store_true", help="do not ask before anything is run")
    return parser.parse_args(argv)


def _is_allowed() -> bool:
    try:
        return sys.stdin.isatty() and input(_ASKED).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _line(result: Result) -> str:
    mark = "[green]✓[/]" if result.is_done else "[red]✗[/]"
    wrong = f"\n  {escape(result.complaint)}" if result.complaint else ""
    return f"{mark} {result.task.name} [dim]{result.seconds:.1f} s[/]{wrong}"


def _table(results: list[Result], model: str) -> Table:
    table = Table(title=f"The coding agent with {model}", title_justify="left", box=box.SIMPLE)
    table.add_column("task", no_wrap=True)
    table.add_column("")
    for head in ("tool calls", "tokens and cost"):
        table.add_column(head, justify="right")
    for result in results:
        is_done = "[green]done[/]" if result.is_done else "[red]not done[/]"
        table.add_row(result.task.title, is_done, str(result.tool_calls), _used(result.usage))
    return table


def _used(usage: UsageReport | None) -> str:
    """Return what a task cost, as far as the model says; a script says nothing."""
    n_tokens = 0 if usage is None else usage.prompt_tokens + usage.output_tokens
    if usage is None or not n_tokens:
        return ""
    return f"{n_tokens:,}" if usage.cost is None else f"{n_tokens:,} · ${usage.cost:.4f}"


if __name__ == "__main__":
    raise SystemExit(main())
