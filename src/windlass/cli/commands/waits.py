"""`windlass waits`, `approve`, `deny` and `cancel`: what turns wait for, and what to do about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from windlass import Runtime
from windlass.cli import arguments, exit_code
from windlass.cli.arguments import ByOption, JsonOption, KeyWord, SessionWord, StoreOption
from windlass.cli.opening import with_runtime, with_store
from windlass.cli.output import plain, wait_record, write_json
from windlass.cli.settings import read_settings
from windlass.cli.terminal import age, as_json, console, one_line, print_table, safe, short_key
from windlass.errors import InvalidInput
from windlass.ports import Wait, WaitKind, WaitReceipt
from windlass.runtime.system_clock import SystemClock

Give: TypeAlias = Callable[[Runtime[Any], str], Awaitable[WaitReceipt]]
_ANSWERED = {
    "accepted": "the answer is recorded; a worker that has the agent continues the turn",
    "already": "another answer came first",
    "expired": "too late: the time to answer is over",
    "superseded": "the question no longer applies, because the policy changed",
}
_CANCELLED = {
    "requested": "the turn ends as cancelled: at once if it is running, else when a worker takes it",
    "already": "the turn was cancelled before",
    "finished": "the turn had already ended",
    "unknown": "there is no such turn",
}


def waits(
    *, kind: WaitKind | None = None, store: StoreOption = None, json: JsonOption = False
) -> None:
    """List the open waits, oldest first. Anyone who has a key can answer; --json shows it in full.

    Args:
        kind: only waits of this kind
    """
    found = with_runtime(store, lambda runtime: runtime.waits(kind))
    if json:
        for wait in found:
            write_json(wait_record(wait))
        return
    now_ms = SystemClock().now_ms()
    rows = [
        (short_key(each.key), each.kind, each.session_id, age(each.created_ms, now_ms), _what(each))
        for each in found
    ]
    heads = ("key", "kind", "session", "since", "what")
    print_table(heads, rows, ("", "yellow", "cyan", "dim"), empty="no open waits")


def _what(wait: Wait) -> str:
    what = wait.title or wait.kind
    if isinstance(wait.detail, dict) and "args" in wait.detail:
        return f"{what} {one_line(as_json(wait.detail['args']), 120)}"
    return what


def approve(
    key: KeyWord,
    /,
    *,
    edit: str | None = None,
    remember: Annotated[Literal["once", "session"], Parameter(show_default=True)] = "once",
    by: ByOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Allow a call. A worker that has the agent continues the turn: at once, or when one starts.

    Args:
        edit: other arguments for the call, all of them, as JSON
        remember: for this call, or for the session
    """
    args = None if edit is None else arguments.read_edit(edit)
    name = read_settings(by=by).by

    def give(runtime: Runtime[Any], whole: str) -> Awaitable[WaitReceipt]:
        return runtime.approve(whole, edit=args, remember=remember, by=name)

    return _answer(key, store, give, json=json)


def deny(
    key: KeyWord,
    /,
    *,
    reason: str = "",
    by: ByOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Refuse a call. The turn continues, and the model is told.

    Args:
        reason: why; the model reads it
    """
    name = read_settings(by=by).by
    return _answer(
        key, store, lambda runtime, whole: runtime.deny(whole, reason=reason, by=name), json=json
    )


def _answer(key: str, store: str | None, give: Give, *, json: bool) -> int:
    async def answer(runtime: Runtime[Any]) -> WaitReceipt:
        return await give(runtime, await _full_key(runtime, key))

    receipt = with_runtime(store, answer)
    given = receipt.answer
    if json:
        write_json({"status": receipt.status, "answer": plain(given)})
    else:
        by = f" (by {safe(given.by)})" if given is not None and given.by else ""
        console().print(f"{receipt.status}: {_ANSWERED[receipt.status]}{by}", soft_wrap=True)
    return exit_code.OK if receipt.status == "accepted" else exit_code.NOT_FINISHED


async def _full_key(runtime: Runtime[Any], beginning: str) -> str:
    """Return the key of the open wait that begins so; without one, return `beginning` itself.

    Raises:
        InvalidInput: several keys begin so.
    """
    found = [wait.key for wait in await runtime.waits() if wait.key.startswith(beginning)]
    if len(found) > 1 and beginning not in found:
        raise InvalidInput.at("key", f"the beginning of {len(found)} keys", "more of one key")
    return found[0] if len(found) == 1 else beginning


def cancel(
    session: SessionWord,
    turn: str | None = None,
    /,
    *,
    reason: str = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Ask a turn to end. If it ends by itself first, that outcome stands.

    Args:
        turn: the turn's id; else the unfinished one
        reason: why; stored with the turn
    """
    turn_id = turn
    if turn_id is None:
        view = with_store(store, lambda rows: rows.load_session(session, history=False))
        turn_id = view.active
    if turn_id is None:
        raise InvalidInput(f"turn: session {session} has no unfinished turn", field="turn")
    receipt = with_runtime(store, lambda runtime: runtime.cancel(session, turn_id, reason))
    status = receipt.status
    if json:
        write_json({"session": session, "turn": turn_id, "status": status})
    else:
        console().print(f"{turn_id}: {status}: {_CANCELLED[status]}", soft_wrap=True)
    if status == "unknown":
        return exit_code.USAGE
    return exit_code.OK if status in ("requested", "already") else exit_code.NOT_FINISHED
