"""`windlass waits`, `approve`, `deny`, `answer` and `cancel`: what turns wait for, and what to do about it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter
from rich.text import Text

from windlass import Runtime
from windlass.cli import arguments, exit_code
from windlass.cli.arguments import ByOption, JsonOption, KeyWord, SessionWord, StoreOption
from windlass.cli.opening import with_runtime, with_store
from windlass.cli.output import plain, wait_record, write_json
from windlass.cli.questions import (
    TAKEN,
    answer_to,
    folded,
    risk_of,
    wait_args,
    whole_call,
    whole_question,
)
from windlass.cli.settings import ASSISTANT, CODER, Settings, flags_again, read_settings
from windlass.cli.terminal import (
    age,
    as_json,
    console,
    count,
    exact,
    next_step,
    print_table,
    safe,
    short_key,
    wait_title,
)
from windlass.errors import InvalidInput
from windlass.ports import Store, TurnView, Wait, WaitKind, WaitReceipt
from windlass.runtime.system_clock import SystemClock

# How often, and for how long each time, to look whether a worker takes the turn.
_LOOKS = 8
_LOOK_S = 0.15
# Which page of a journal to begin at, for a reader that wants none.
_NO_PAGES = 2**31

# What gives an answer: to a key, and to its wait if that is open.
Give: TypeAlias = Callable[[Runtime[Any], str, Wait | None], Awaitable[WaitReceipt]]
# What `answer` answers; others have a command of their own, or come by themselves.
_TAKES_ANSWERS: tuple[WaitKind, ...] = ("question", "deferred", "unknown_outcome")
# A key is `w_` and 64 hexadecimal digits. So many characters are enough to mean one, and no empty variable of a script.
_WHOLE = 66
_SHORTEST = 10
# What runs windlass's own agents.
_OWN = {CODER: "windlass chat --code", ASSISTANT: "windlass chat"}
_LISTED = "windlass waits --json lists them"
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
    flags = flags_again(read_settings(store=store), "store")
    now_ms = SystemClock().now_ms()
    rows = [
        (
            short_key(each.key),
            each.kind,
            each.session_id,
            age(each.created_ms, now_ms),
            exact(wait_title(each)),
        )
        for each in found
    ]
    heads = ("key", "kind", "session", "since", "what")
    print_table(heads, rows, ("", "yellow", "cyan", "dim"), empty="no open waits")
    for each in found:
        if wait_args(each) is not None:
            console().print()
            _show_call(each)
        elif each.kind == "question":
            console().print()
            _show_question(each)
            console().print(next_step(each, flags), soft_wrap=True)


def _show_call(wait: Wait, edit: Mapping[str, Any] | None = None) -> None:
    """Show the whole call that a wait is about, however long it is."""
    risk = risk_of(wait)
    shown = Text.assemble(
        (short_key(wait.key), "bold"), (risk and f" · risk {risk}", "yellow"), " · "
    )
    shown.append(whole_call(wait, edit))
    out = console()
    out.print(folded(shown, out.width) if out.is_terminal else shown, soft_wrap=True)


def _show_question(wait: Wait) -> None:
    shown, out = whole_question(wait), console()
    if out.is_terminal:
        shown = folded(shown, out.width, at_words=True)
    out.print(shown, soft_wrap=True)


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
    args = None if edit is None else arguments.read_arguments("edit", edit)
    name = read_settings(by=by).by

    def give(runtime: Runtime[Any], whole: str, _: Wait | None) -> Awaitable[WaitReceipt]:
        return runtime.approve(whole, edit=args, remember=remember, by=name)

    return _answer(key, store, give, json=json, edit=args)


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

    def give(runtime: Runtime[Any], whole: str, _: Wait | None) -> Awaitable[WaitReceipt]:
        return runtime.deny(whole, reason=reason, by=name)

    return _answer(key, store, give, json=json)


def answer(  # noqa: PLR0913 - every option has a default
    key: KeyWord,
    answer: str | None = None,
    /,
    *,
    value: str | None = None,
    reject: str | None = None,
    by: ByOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Answer a question of a turn, or give the result that it waits for. The first answer counts.

    Args:
        answer: the answer, as text; of several that a question offers, also its number
        value: or as JSON
        reject: or why there is none; the model reads it
    """
    given = [each for each in (answer, value, reject) if each is not None]
    if len(given) != 1:
        wanted = "an answer, --value JSON or --reject REASON, exactly one"
        raise InvalidInput.at("answer", count(len(given), "answer"), wanted)
    read = None if value is None else arguments.read_json("value", value)
    name = read_settings(by=by).by

    def give(runtime: Runtime[Any], whole: str, wait: Wait | None) -> Awaitable[WaitReceipt]:
        if wait is not None and wait.kind not in (*_TAKES_ANSWERS, "approval"):
            wanted = f"one of kind {', '.join(_TAKES_ANSWERS)}"
            raise InvalidInput.at("key", f"a wait of kind {wait.kind}", wanted)
        if reject is not None:
            return runtime.reject(whole, reject, by=name)
        return runtime.resolve(whole, read if answer is None else answer_to(wait, answer), by=name)

    return _answer(key, store, give, json=json, tells_first=True)


def _answer(
    key: str,
    store: str | None,
    give: Give,
    *,
    json: bool,
    edit: Mapping[str, Any] | None = None,
    tells_first: bool = False,
) -> int:
    async def answer(runtime: Runtime[Any]) -> tuple[Wait | None, WaitReceipt]:
        wait, whole = await _find(runtime, key)
        return wait, await give(runtime, whole, wait)

    wait, receipt = with_runtime(store, answer)
    given = receipt.answer
    if json:
        write_json({"status": receipt.status, "answer": plain(given)})
    else:
        if wait is not None and wait.kind == "approval":
            _show_call(wait, edit)
        elif wait is not None:
            _show_question(wait)
        by = f" (by {safe(given.by)})" if given is not None and given.by else ""
        console().print(f"{receipt.status}: {TAKEN[receipt.status]}{by}", soft_wrap=True)
        if given is not None and receipt.status == "already" and tells_first:
            console().print(f"{given.status}: {as_json(plain(given.value))}", soft_wrap=True)
        if wait is not None and receipt.status == "accepted":
            settings = read_settings(store=store)
            follows = with_store(store, partial(_what_follows, settings, wait))
            console().print(follows, soft_wrap=True)
    return exit_code.OK if receipt.status == "accepted" else exit_code.NOT_FINISHED


async def _what_follows(settings: Settings, wait: Wait, rows: Store) -> str:
    """Return what happens to the turn now that a question of it has its answer."""
    session_id, turn_id = wait.session_id, wait.turn_id
    left = await rows.list_waits(session_id=session_id, turn_id=turn_id)
    if left:
        keys = ", ".join(short_key(one.wait.key) for one in left)
        return f"the turn still waits for {count(len(left), 'answer')}: {keys}"
    workers = await rows.list_workers(now_ms=SystemClock().now_ms())
    agent = ""
    # A worker that is there looks several times a second.
    for _ in range(_LOOKS if any(one.is_present for one in workers) else 1):
        turn = await rows.load_turn(session_id, turn_id, since=_NO_PAGES)
        if turn is None or turn.state == "done":
            return "the turn has ended"
        if turn.state == "running":
            return "a worker continues the turn"
        agent = turn.agent
        await asyncio.sleep(_LOOK_S)
    # The record of its start is needed for windlass's own agents only.
    since = 0 if agent in _OWN else _NO_PAGES
    known = await rows.load_turn(session_id, turn_id, since=since)
    return "the turn has ended" if known is None else safe(_how_to_continue(settings, known))


def _how_to_continue(settings: Settings, turn: TurnView) -> str:
    """Return which worker a turn waits for, and the command that starts one."""
    store, started = flags_again(settings, "store"), turn.journal().started
    how, more = f"windlass work -m MODULE:NAME{store}", ""
    if turn.agent in _OWN:
        model = "" if started is None else f" --model {shlex.quote(started.model)}"
        how = f"{_OWN[turn.agent]}{model}{store} --session {shlex.quote(turn.session_id)}"
        more = "; add --tools if the turn began with it"
    told = f"it continues when one with the agent {turn.agent} runs"
    return f"no worker has taken the turn yet: {told} ({how}){more}"


async def _find(runtime: Runtime[Any], beginning: str) -> tuple[Wait | None, str]:
    """Return the open wait whose key begins so, and the key; without one, None and `beginning` itself.

    Raises:
        InvalidInput: several keys begin so, none does, or it is too short to mean one.
    """
    if len(beginning) < _SHORTEST:
        told = f"{beginning!r}, {count(len(beginning), 'character')}"
        raise InvalidInput.at("key", told, f"at least {_SHORTEST} ({_LISTED})")
    found = [wait for wait in await runtime.waits() if wait.key.startswith(beginning)]
    exactly = [wait for wait in found if wait.key == beginning]
    if len(found) > 1 and not exactly:
        raise InvalidInput.at("key", f"the beginning of {len(found)} keys", "more of one key")
    wait = next(iter(exactly or found), None)
    if wait is None and len(beginning) < _WHOLE:
        why = "perhaps it was answered, or its turn has ended"
        told = f"key: no open wait has a key that begins so; {why} ({_LISTED})"
        raise InvalidInput(told, field="key")
    return wait, beginning if wait is None else wait.key


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
