"""`windlass sessions`, `fork`, `usage` and `export`: whole sessions."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from windlass import Runtime
from windlass.api.usage_report import UsageReport
from windlass.cli.arguments import JsonOption, SessionWord, StoreOption
from windlass.cli.opening import with_runtime, with_store
from windlass.cli.output import (
    page_messages,
    page_record,
    plain,
    session_record,
    usage_record,
    write_json,
)
from windlass.cli.terminal import (
    age,
    console,
    count,
    ending,
    message_text,
    moment,
    print_table,
    safe,
)
from windlass.ports import SessionSummary, SessionView, Wait
from windlass.runtime.system_clock import SystemClock


def sessions(
    *,
    after: Annotated[str, Parameter(help="start after this session's id")] = "",
    limit: Annotated[int, Parameter(help="list at most this many", show_default=True)] = 100,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """List the sessions of a store, by id."""

    async def read(runtime: Runtime[Any]) -> tuple[tuple[SessionSummary, ...], tuple[Wait, ...]]:
        return await runtime.sessions(after=after, limit=limit), await runtime.waits()

    found, open_waits = with_runtime(store, read)
    waits: dict[str, list[Wait]] = {}
    for wait in open_waits:
        waits.setdefault(wait.session_id, []).append(wait)
    if json:
        for each in found:
            write_json(session_record(each, waits.get(each.session_id, [])))
        return 0
    now_ms = SystemClock().now_ms()
    rows = []
    for each in found:
        kinds = sorted({wait.kind for wait in waits.get(each.session_id, [])})
        state = f"waits: {', '.join(kinds)}" if kinds else "running" if each.active else ""
        begun = f"{age(each.created_ms, now_ms)} ago"
        rows.append((each.session_id, each.agent, str(each.head), begun, state))
    heads = ("session", "agent", "turns", "started", "now")
    print_table(heads, rows, ("cyan", "", "", "dim", "yellow"), empty="no sessions")
    return 0


def fork(
    session: SessionWord,
    new: Annotated[str | None, Parameter(help="the new session's id; else one is made")] = None,
    /,
    *,
    at: Annotated[
        str | None, Parameter(help="the last turn to share: its id, or a number; else all")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Start a session that shares another one's history. Copies nothing."""
    place: str | int | None = int(at) if at is not None and at.isdigit() else at
    made = with_runtime(store, lambda runtime: runtime.session(session).fork(at=place, id=new)).id
    turns = with_store(store, lambda rows: rows.load_session(made, history=False)).head
    if json:
        write_json({"session": made, "from": session, "turns": turns})
    else:
        console().print(f"{made}: starts with {count(turns, 'turn')} of {session}")
    return 0


# ---------------------------------------------------------------------- usage


def usage(
    session: Annotated[str | None, Parameter(help="a session's id; else the whole store")] = None,
    /,
    *,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Count what committed turns used, by model. An unknown cost is not counted as 0."""
    report = with_runtime(
        store,
        lambda runtime: runtime.usage() if session is None else runtime.session(session).usage(),
    )
    lines = _usage_lines(report)
    if json:
        write_json({"session": session, **usage_record(report), "models": lines})
        return 0
    heads = ("model", "for", "calls", "lost", "input", "cached", "output", "reasoning")
    print_table(heads, [list(map(str, line.values())) for line in lines], ("cyan",))
    used = f"{count(report.total_tokens, 'token')} in {count(report.calls, 'call')}"
    console().print(f"\n{used}; cost: {_cost(report)}")
    return 0


def _usage_lines(report: UsageReport) -> list[dict[str, object]]:
    tokens = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
    return [
        {
            **{name: getattr(line, name) for name in ("model", "source", "calls", "lost")},
            **{name: getattr(line.usage, name) for name in tokens},
        }
        for line in report.lines
    ]


def _cost(report: UsageReport) -> str:
    if report.cost is not None:
        return f"${report.cost:.4f}"
    known = f"at least ${report.known_cost:.4f}; " if report.known_cost else ""
    return safe(f"{known}not known for {', '.join(report.unpriced)}")


# ---------------------------------------------------------------------- export


def export(
    session: SessionWord,
    /,
    *,
    format: Annotated[  # noqa: A002 - the flag's name
        Literal["jsonl", "markdown"],
        Parameter(help="JSON lines, or Markdown to read", show_default=True),
    ] = "jsonl",
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Write a session to standard output: a line about it, then a line per turn, oldest first."""
    view = with_store(store, lambda rows: rows.load_session(session))
    if format == "markdown" and not json:
        sys.stdout.write(_markdown(view))
        return 0
    write_json(
        {
            "kind": "session",
            "session": view.session_id,
            "agent": view.agent,
            "created_ms": view.created_ms,
            "turns": view.head,
            "active": view.active,
            "parent": view.parent,
        }
    )
    for page in view.pages:
        write_json({"kind": "turn", **page_record(page), "usage": plain(page.usage)})
    return 0


def _markdown(view: SessionView) -> str:
    lines = [f"# {view.session_id}", "", f"Agent {view.agent}, started {moment(view.created_ms)}."]
    for number, page in enumerate(view.pages, start=1):
        lines += ["", f"## Turn {number}: {ending(page.outcome)}", ""]
        for message in page_messages(page):
            lines += [f"**{message.role}**", "", message_text(message), ""]
    return "\n".join(lines).rstrip() + "\n"
