"""`windlass triggers` and `windlass trigger`: list events and who got them, and emit one."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from windlass.api.triggers import Occurrence, TriggerView
from windlass.cli.agents import choose_source
from windlass.cli.arguments import JsonOption, StoreOption, read_json
from windlass.cli.opening import with_runtime
from windlass.cli.output import Record, plain, write_json
from windlass.cli.settings import read_settings
from windlass.cli.terminal import as_json, console, line, one_line, print_table

_WIDTH = 48


def triggers(
    source: Annotated[
        str | None, Parameter(help="a source: list its events, the newest first")
    ] = None,
    /,
    *,
    limit: Annotated[int, Parameter(show_default=True)] = 100,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the sources that a store has events of, or the events of one.

    Args:
        limit: how many events at most
    """
    if source is None:
        _show_sources(
            with_runtime(store, lambda runtime: runtime.triggers.list(everywhere=True)), json=json
        )
        return
    found = with_runtime(store, lambda runtime: runtime.triggers.occurrences(source, limit=limit))
    if json:
        for each in found:
            write_json(_occurrence_record(each))
        return
    rows = [
        (each.key or each.id, each.state, ", ".join(each.delivered), _about(each)) for each in found
    ]
    styles = ("cyan", "yellow")
    empty = f"no events of {one_line(source)}"
    print_table(("key", "state", "delivered to", "event"), rows, styles, empty=empty)


def _show_sources(found: tuple[TriggerView, ...], *, json: bool) -> None:
    if json:
        for each in found:
            write_json(_source_record(each))
        return
    rows = [
        (
            each.source,
            ", ".join(each.subscribers),
            "" if each.last is None else f"{each.last.key or each.last.id} {each.last.state}",
            str(each.pending),
            str(each.working),
        )
        for each in found
    ]
    heads = ("source", "subscribers", "last event", "pending", "at work")
    print_table(heads, rows, ("cyan", "", "dim", "yellow", "yellow"), empty="no events")


def trigger(  # noqa: PLR0913 - an event and its options
    action: Annotated[Literal["emit"], Parameter(help="emit: store an event")],  # noqa: ARG001 - the only one
    source: Annotated[str, Parameter(help="the name of its source")],
    event: Annotated[str, Parameter(help="the event, as JSON")],
    /,
    *,
    key: str | None = None,
    declared: Annotated[str | None, Parameter(name=["--source", "-m"])] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Emit an event. A worker that has the source delivers it to the subscribers: at once, or when one starts.

    Args:
        key: the event's own id; the same key is the same event, however often it comes
        declared: the Source in your code as module:name, which checks the event before it is stored
    """
    known = () if declared is None else (choose_source(declared, read_settings(store=store)),)
    value = read_json("event", event)
    got = with_runtime(
        store, lambda runtime: runtime.triggers.emit(source, value, key=key), triggers=known
    )
    if json:
        until_ms = int(got.known_until.timestamp() * 1000)
        place = {"session": got.session_id, "known_until_ms": until_ms}
        write_json({"status": got.status, "source": source, "id": got.id, **place})
        return
    what = (
        f"a worker that has {source} delivers it"
        if got.status == "accepted"
        else "an event with this key came before; nothing happens again"
    )
    told = f"{got.status}: {what}; to see it: windlass triggers {source}"
    console().print(line((told, "")), soft_wrap=True)


def _about(one: Occurrence) -> str:
    """Return what went wrong with an event, in full; else the event."""
    if one.issues:
        return "; ".join(one.issues)
    return "" if one.event is None else one_line(as_json(one.event), _WIDTH)


def _source_record(view: TriggerView) -> Record:
    return {
        "source": view.source,
        "subscribers": list(view.subscribers),
        "last": None if view.last is None else _occurrence_record(view.last),
        "pending": view.pending,
        "working": view.working,
    }


def _occurrence_record(one: Occurrence) -> Record:
    return {
        "source": one.source,
        "id": one.id,
        "session": one.session_id,
        "key": one.key,
        "state": one.state,
        "event": plain(one.event),
        "delivered": list(one.delivered),
        "issues": list(one.issues),
        "ended_ms": one.ended_ms,
    }
