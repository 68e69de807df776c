"""`windlass processes` and `windlass process`: list the processes of a store, and act on one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from cyclopts import Parameter

from windlass import ProcessStatus, Runtime
from windlass.api.process_handle import ProcessHandle
from windlass.api.process_status import ProcessState
from windlass.cli import arguments, exit_code
from windlass.cli.arguments import ByOption, JsonOption, StoreOption
from windlass.cli.opening import with_runtime
from windlass.cli.output import plain, wait_record, write_json
from windlass.cli.settings import read_settings
from windlass.cli.terminal import (
    age,
    as_json,
    console,
    line,
    moment,
    print_table,
    safe,
    wait_line,
    wait_title,
)
from windlass.errors import InvalidInput, NoOutput
from windlass.runtime.system_clock import SystemClock

Action: TypeAlias = Literal["start", "status", "result", "signal", "cancel", "transfer", "delete"]
Act: TypeAlias = Callable[[ProcessHandle[Any]], Awaitable[Any]]
# How many words an action takes after the id, at least and at most, and what they are.
_WORDS: dict[Action, tuple[int, int, str]] = {
    "signal": (1, 2, "the name of the signal, and JSON"),
    "transfer": (1, 1, "the session"),
}
_COLOURS = {"failed": "red", "cancelled": "yellow", "waiting": "yellow", "done": "green"}


def processes(
    *,
    session: str | None = None,
    state: ProcessState | None = None,
    after: str = "",
    limit: Annotated[int, Parameter(show_default=True)] = 100,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the processes of a store.

    Args:
        session: only those that belong to this session
        state: only those in this state
        after: go on behind the process of this session_id, which --json shows
        limit: how many at most
    """
    found = with_runtime(
        store,
        lambda runtime: runtime.processes.list(
            session=session, state=state, after=after, limit=limit
        ),
    )
    if json:
        for each in found:
            write_json(_record(each))
        return
    now_ms = SystemClock().now_ms()
    rows = [
        (safe(each.id), safe(each.name), each.state, age(each.started_ms, now_ms), _about(each))
        for each in found
    ]
    heads = ("id", "process", "state", "since", "what")
    print_table(heads, rows, ("cyan", "", "yellow", "dim"), empty="no processes")


def process(  # noqa: PLR0913 - the options of all actions
    action: Action,
    id: Annotated[str, Parameter(help="the id of the process; for start, the name of one")],
    words: Annotated[
        tuple[str, ...],
        Parameter(help="signal: its name, and JSON that comes with it; transfer: the session"),
    ] = (),
    /,
    *,
    args: str = "{}",
    as_: Annotated[str | None, Parameter(name="--as")] = None,
    session: str | None = None,
    key: str | None = None,
    by: ByOption = None,
    reason: str = "",
    timeout: float | None = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Start a process by its name, or look at one, wait for it, signal it, cancel it, hand it over, delete it.

    Args:
        args: start: its arguments as a JSON object
        as_: start: its id
        session: start: the session that it belongs to
        key: signal: makes it arrive once, however often it is sent
        reason: cancel: why
        timeout: result: how many seconds to wait
    """
    if action == "start":
        _check_words(words, (0, 0, "no more words"))
        return _start(id, arguments.read_arguments("args", args), as_, session, store, json=json)
    _check_words(words, _WORDS.get(action, (0, 0, "no more words")))
    acts: dict[Action, Act] = {
        "status": lambda one: one.status(),
        "result": lambda one: one.result(timeout),
        "signal": lambda one: one.signal(
            words[0], _payload(words[1:]), key=key, by=read_settings(by=by).by
        ),
        "cancel": lambda one: one.cancel(reason),
        "transfer": lambda one: one.transfer(words[0]),
        "delete": lambda one: one.delete(),
    }
    try:
        found = with_runtime(store, lambda runtime: acts[action](runtime.processes.get(id)))
    except NoOutput as error:
        _tell(str(error), {"id": id, "error": str(error)}, json=json)
        return exit_code.NOT_FINISHED
    except TimeoutError:
        _tell(f"process {id}: has not ended; it goes on", {"id": id, "error": "timeout"}, json=json)
        return exit_code.PARKED
    return _tell_of(action, id, found, json=json)


def _tell_of(action: Action, id: str, found: object, *, json: bool) -> int:
    """Show the result of an action."""
    if isinstance(found, ProcessStatus):
        _show(found, json=json)
    elif action == "result":
        text = found if isinstance(found, str) else as_json(found)
        _tell(text, {"id": id, "value": found}, json=json)
    else:
        status = getattr(found, "status", "done")
        _tell(f"{action}: {status}", {"id": id, "action": action, "status": status}, json=json)
        if status in ("finished", "unknown"):
            return exit_code.NOT_FINISHED
    return exit_code.OK


def _start(
    name: str,
    args: dict[str, Any],
    id: str | None,
    session: str | None,
    store: str | None,
    *,
    json: bool,
) -> int:
    async def start(runtime: Runtime[Any]) -> ProcessHandle[Any]:
        return await runtime.processes.start(name, id=id, session=session, args=args)

    handle = with_runtime(store, start)
    record = {"id": handle.id, "session_id": handle.session_id, "process": name}
    _tell(f"started {handle.id}; a worker that has {name} drives it", record, json=json)
    return exit_code.OK


def _check_words(words: tuple[str, ...], rule: tuple[int, int, str]) -> None:
    least, most, wanted = rule
    if not least <= len(words) <= most:
        raise InvalidInput.at("arguments", f"{len(words)} words behind the id", wanted)


def _payload(words: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    return arguments.read_json("payload", words[0]) if words else None


def _about(status: ProcessStatus) -> str:
    if status.error:
        return safe(status.error)
    return "; ".join(safe(wait_title(wait)) for wait in status.waits)


def _record(status: ProcessStatus) -> dict[str, Any]:
    record: dict[str, Any] = {**msgspec.structs.asdict(status)}
    return plain({**record, "waits": [wait_record(each) for each in status.waits]})  # type: ignore[no-any-return]  # an object


def _tell(text: str, record: dict[str, Any], *, json: bool) -> None:
    if json:
        write_json(record)
    else:
        console().print(safe(text), soft_wrap=True, markup=False)


def _show(status: ProcessStatus, *, json: bool) -> None:
    if json:
        write_json(_record(status))
        return
    shown = console()
    about = f"  {status.name}, started {moment(status.started_ms)}"
    if status.session is not None:
        about += f", belongs to {status.session}"
    shown.print(
        line((status.id, "bold cyan"), (f"  {status.state}", _COLOURS.get(status.state, ""))),
        line((about, "dim")),
    )
    if status.error:
        shown.print(line((status.error, "red")))
    for wait in status.waits:
        shown.print(line((wait_line(wait), "yellow")))
    for name, value in status.record.items():
        shown.print(line((f"{name}: ", "dim"), (as_json(value), "")))
    if status.state == "done":
        shown.print(line(("value: ", "dim"), (as_json(status.value), "")))
