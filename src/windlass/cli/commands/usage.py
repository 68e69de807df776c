"""`windlass usage`: tokens, calls and money."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from windlass.api.usage_report import UsageReport
from windlass.cli import records
from windlass.cli.json_lines import write_json
from windlass.cli.opening import opened
from windlass.cli.options import JsonOption, StoreOption
from windlass.cli.terminal import console, row, table
from windlass.cli.wording import count, safe


def usage(
    session: Annotated[str | None, Parameter(help="a session's id; else all of the store")] = None,
    /,
    *,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Count what committed turns used, by model. A cost that is not known is not 0."""
    report = asyncio.run(_read(session, store))
    if json:
        write_json({"session": session, **records.usage_record(report), "models": _lines(report)})
        return 0
    listed = table("model", "for", "calls", "lost", "input", "cached", "output", "reasoning")
    for line in _lines(report):
        row(listed, *map(str, line.values()), styles=("cyan",))
    screen = console()
    screen.print(listed)
    used = f"{count(report.total_tokens, 'token')} in {count(report.calls, 'call')}"
    screen.print(f"\n{used}; cost: {_cost(report)}")
    return 0


def _cost(report: UsageReport) -> str:
    if report.cost is not None:
        return f"${report.cost:.4f}"
    known = f"${report.known_cost:.4f} and more; " if report.known_cost else ""
    return safe(f"{known}not known for {', '.join(report.unpriced)}")


def _lines(report: UsageReport) -> list[dict[str, object]]:
    return [
        {
            "model": line.model,
            "source": line.source,
            "calls": line.calls,
            "lost": line.lost,
            "input_tokens": line.usage.input_tokens,
            "cached_input_tokens": line.usage.cached_input_tokens,
            "output_tokens": line.usage.output_tokens,
            "reasoning_tokens": line.usage.reasoning_tokens,
        }
        for line in report.lines
    ]


async def _read(session: str | None, store: str | None) -> UsageReport:
    async with opened(store) as runtime:
        if session is None:
            return await runtime.usage()
        return await runtime.session(session).usage()
