"""`windlass schedules` and `windlass schedule`: list the schedules of a store, and act on one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from windlass import Runtime
from windlass.api.schedules import ScheduleView
from windlass.cli.arguments import JsonOption, StoreOption
from windlass.cli.opening import with_runtime
from windlass.cli.output import Record, write_json
from windlass.cli.terminal import age, console, line, moment, print_table
from windlass.runtime.system_clock import SystemClock

Action: TypeAlias = Literal["pause", "resume", "run", "remove"]
_MS = timedelta(milliseconds=1)


def schedules(*, store: StoreOption = None, json: JsonOption = False) -> None:
    """List the schedules of a store, by name: when each is due next, in this machine's time zone."""
    found = with_runtime(store, lambda runtime: runtime.schedules.list())
    if json:
        for each in found:
            write_json(_record(each))
        return
    now_ms = SystemClock().now_ms()
    rows = [
        (
            each.name,
            _when(each),
            each.tz or "",
            _minute(each.next),
            "" if each.last is None else f"{age(_ms(each.last), now_ms)} ago",
            _state(each),
            str(each.skipped or ""),
        )
        for each in found
    ]
    heads = ("name", "when", "zone", "next", "last", "state", "missed")
    print_table(heads, rows, ("cyan", "", "dim", "", "dim", "yellow", "red"), empty="no schedules")


def schedule(
    action: Action,
    name: Annotated[str, Parameter(help="the name of the schedule")],
    /,
    *,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Pause a schedule, resume it, run it once now, or remove one that no code declares any more."""

    async def act(runtime: Runtime[Any]) -> Record:
        known, session_id, turn_id = runtime.schedules, None, None
        if action == "run":
            begun = await known.run_now(name)
            session_id, turn_id = begun.session_id, begun.id
        else:
            acts = {"pause": known.pause, "resume": known.resume, "remove": known.remove}
            await acts[action](name)
        view = next((each for each in await known.list() if each.name == name), None)
        next_ms = None if view is None or view.next is None else _ms(view.next)
        place = {"session": session_id, "turn": turn_id}
        return {"name": name, "action": action, "next_ms": next_ms, **place}

    record = with_runtime(store, act)
    if json:
        write_json(record)
    else:
        console().print(line((f"{name}: {_told(record)}", "")), soft_wrap=True)


def _told(record: Record) -> str:
    """Return the result of an action, and what to type next."""
    match record["action"]:
        case "pause":
            return f"paused; to go on: windlass schedule resume {record['name']}"
        case "resume":
            return f"resumed; due next at {moment(record['next_ms'])}"
        case "run":
            shown = f"windlass show {record['session']} --turn {record['turn']}"
            return f"runs once when a worker that has it takes it; to see it: {shown}"
        case _:
            return "removed, unless a worker whose code declares it adds it again; a run that has begun goes on"


def _when(view: ScheduleView) -> str:
    return f"every {_length(view.every)}" if view.every is not None else view.expression or ""


def _length(every: timedelta) -> str:
    """Return an interval in its largest whole unit."""
    for size, unit in (("days", "d"), ("hours", "h"), ("minutes", "min")):
        one = timedelta(**{size: 1})
        if every >= one and not every % one:
            return f"{every // one} {unit}"
    return f"{every.total_seconds():g} s"


def _state(view: ScheduleView) -> str:
    running = (
        "" if not view.running else "running" if view.running == 1 else f"{view.running} running"
    )
    return ", ".join(filter(None, ("paused" if view.paused else "", running))) or "waits"


def _minute(at: datetime | None) -> str:
    return "" if at is None else moment(_ms(at))[: len("2026-11-17 09:30")]


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _record(view: ScheduleView) -> Record:
    return {
        "name": view.name,
        "expression": view.expression,
        "tz": view.tz,
        "every_ms": None if view.every is None else view.every // _MS,
        "next_ms": None if view.next is None else _ms(view.next),
        "last_ms": None if view.last is None else _ms(view.last),
        "paused": view.paused,
        "running": view.running,
        "missed": view.skipped,
        "version": view.version,
    }
