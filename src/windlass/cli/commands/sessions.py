"""`windlass sessions`, `fork` and `usage`: whole sessions."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from windlass import Runtime
from windlass.api.usage_report import UsageReport
from windlass.cli import output, terminal
from windlass.cli.arguments import JsonOption, SessionWord, StoreOption
from windlass.cli.opening import with_runtime, with_store
from windlass.cli.terminal import console, count
from windlass.errors import UnknownSession
from windlass.ports import SessionSummary, Wait
from windlass.runtime.system_clock import SystemClock


def sessions(
    *,
    after: str = "",
    limit: Annotated[int, Parameter(show_default=True)] = 100,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the sessions of a store, by id.

    Args:
        after: start after this session's id
        limit: list at most this many
    """

    async def read(runtime: Runtime[Any]) -> tuple[tuple[SessionSummary, ...], tuple[Wait, ...]]:
        return await runtime.sessions(after=after, limit=limit), await runtime.waits()

    found, open_waits = with_runtime(store, read)
    waits: dict[str, list[Wait]] = {}
    for wait in open_waits:
        waits.setdefault(wait.session_id, []).append(wait)
    if json:
        for each in found:
            kinds = [wait.kind for wait in waits.get(each.session_id, [])]
            output.write_json(output.session_record(each, each.head, waits=kinds))
        return
    now_ms = SystemClock().now_ms()
    rows = []
    for each in found:
        kinds = sorted({wait.kind for wait in waits.get(each.session_id, [])})
        state = f"waits: {', '.join(kinds)}" if kinds else "unfinished" if each.active else ""
        begun = f"{terminal.age(each.created_ms, now_ms)} ago"
        rows.append((each.session_id, each.agent, str(each.head), begun, state))
    heads = ("session", "agent", "turns", "started", "now")
    terminal.print_table(heads, rows, ("cyan", "", "", "dim", "yellow"), empty="no sessions")


def fork(
    session: SessionWord,
    new: str | None = None,
    /,
    *,
    at: str | None = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Start a session that shares another one's history, up to the end of a turn or inside one.

    Args:
        new: the new session's id; else one is made
        at: the last turn to share: its id, or a number; TURN:N shares the first N iterations of it; else all
    """

    async def make(runtime: Runtime[Any]) -> tuple[str, str, int | None]:
        parent, place = runtime.session(session), at or ""
        turn_id, iterations = await _part_of(runtime, session, place)
        if iterations is None:
            whole = int(place) if place.isdigit() else at
            return (await parent.fork(at=whole, id=new)).id, "", None
        fork = await parent.fork(at=turn_id, id=new, iterations=iterations)
        return fork.id, turn_id, iterations

    made, turn_id, iterations = with_runtime(store, make)
    pages = with_store(store, lambda rows: rows.load_session(made, history=False)).head
    turns = pages if iterations is None else pages - 1
    if json:
        shared = {"session": made, "from": session, "turns": turns, "iterations": iterations}
        output.write_json(shared)
        return
    more = "" if iterations is None else f" and {count(iterations, 'iteration')} of {turn_id}"
    console().print(f"{made}: starts with {count(turns, 'turn')}{more} of {session}")


async def _part_of(runtime: Runtime[Any], session: str, at: str) -> tuple[str, int | None]:
    """Return the turn that a place names, and how many iterations of it. A turn's id may itself end in a number."""
    turn_id, _, tail = at.rpartition(":")
    if not turn_id or not tail.isdigit():
        return at, None
    try:
        await runtime.turn(session, at).status()
    except UnknownSession:
        return turn_id, int(tail)
    return at, None


# ---------------------------------------------------------------------- usage


def usage(
    session: str | None = None, /, *, store: StoreOption = None, json: JsonOption = False
) -> None:
    """Count what committed turns used, by model. An unknown cost is not counted as 0.

    Args:
        session: a session's id; else the whole store
    """

    async def read(runtime: Runtime[Any]) -> UsageReport:
        return await (runtime if session is None else runtime.session(session)).usage()

    report = with_runtime(store, read)
    lines = _usage_lines(report)
    if json:
        output.write_json({"session": session, **output.usage_record(report), "models": lines})
        return
    heads = ("model", "for", "calls", "lost", "input", "cached", "output", "reasoning")
    terminal.print_table(heads, [list(map(str, line.values())) for line in lines], ("cyan",))
    used = f"{count(report.total_tokens, 'token')} in {count(report.calls, 'call')}"
    console().print(f"\n{used}; cost: {_cost(report)}")


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
        return terminal.dollars(report.cost)
    known = f"at least {terminal.dollars(report.known_cost)}; " if report.known_cost else ""
    return terminal.safe(f"{known}not known for {', '.join(report.unpriced)}")
