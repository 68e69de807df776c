"""The function that answers approvals in this process, `approve=`: one of those who may answer, and not the last.

Law 1. The question is in the store before the function is asked, and anyone may answer it meanwhile. The first answer
    counts, the time to answer runs, and a function that was overruled is cancelled.
Law 2. A function that fails has not answered: the question stays open, for a person or until its time is over.
Law 3. It holds up nothing: a plain function runs in a thread, an async one in a task of its own, and a turn that ends or
    a runtime that closes waits for neither.
"""

from __future__ import annotations

import asyncio
import logging
from traceback import format_tb
from typing import Any

import msgspec

from windlass.errors import ArgsInvalid, CallerError, InvalidInput, ToolFailed
from windlass.guards.text import check_words
from windlass.journal.redaction import cleaned
from windlass.kernel.value import freeze
from windlass.ports import Deny, Tool, Wait, WaitAnswer
from windlass.ports.policy import Approve, Approver
from windlass.runtime.body import RUNS_IN
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.turn import Turn
from windlass.tools.body import Body

_log = logging.getLogger("windlass")
APPROVER = "approver"
_REMEMBER = ("once", "session", "runtime")


async def ask_function(
    approve: Approver, turn: Turn, wait: Wait, tool: Tool, batch: CallBatch
) -> None:
    """Ask the function about a call, until it or anyone else has answered.

    Raises:
        StopTurn: the worker stops; the next drive of the turn asks again.
    """
    said = asyncio.get_running_loop().create_task(
        _answer(approve, wait, turn, tool), name=f"windlass-approve-{wait.call_id}"
    )
    try:
        await batch.heard(wait.key, said)
    finally:
        said.cancel()
        said.add_done_callback(_retrieve_error)
    if turn.waits[wait.key].state != "open":
        return
    try:
        answer = said.result()
    except BaseException as error:  # noqa: BLE001 - foreign code; it has ended, so a cancel was its own
        _note_failure(turn, wait, error)
        return
    services = turn.services
    given = msgspec.structs.replace(answer, now_ms=services.clock.now_ms())
    receipt = await services.store.resolve_wait(wait.key, cleaned(given))
    if receipt.status == "accepted" and _is_for_the_runtime(answer):
        services.allowed[_action(turn, wait)] = answer.by or APPROVER
    await turn.reload_waits()


async def _answer(approve: Approver, wait: Wait, turn: Turn, tool: Tool) -> WaitAnswer:
    """Return what the function says, as the answer to the wait.

    Raises:
        CallerError: it said something that `rt.approve` or `rt.deny` would refuse.
        Exception: what the function raised.
    """
    by = turn.services.allowed.get(_action(turn, wait))
    # A call that may have acted already is not covered by what was said about calls that have not.
    if by is not None and not wait.detail.get("may_have_acted"):
        return WaitAnswer(value={"remember": "once"}, by=by)
    # A turn of the same session would wait for this answer.
    RUNS_IN.set(wait.session_id)
    said = await Body(approve, name="approve=").ask(wait)
    if isinstance(said, Approve):
        value = _value_of(said, tool)
        return WaitAnswer(value=value, by=check_words(said.by, field="Approve.by"))
    if isinstance(said, Deny):
        reason = check_words(said.reason, field="Deny.reason")
        return WaitAnswer(status="rejected", value={"reason": reason}, by=APPROVER)
    return WaitAnswer(status="answered" if said is True else "rejected", by=APPROVER)


def _note_failure(turn: Turn, wait: Wait, error: BaseException) -> None:
    """Say that the function failed, in the log and among the issues of the turn."""
    raised = error.__cause__ if isinstance(error, ToolFailed) and error.__cause__ else error
    what = f"raised {type(raised).__name__}"
    if isinstance(error, CallerError):
        what = f"gave an answer that cannot be used ({error})"
    message = f"approve= {what}; the question about {wait.detail['tool']} stays open"
    # Where it was raised is for its author; the message of an error may hold anything.
    _log.error("%s:\n%s", message, "".join(format_tb(raised.__traceback__)))
    turn.note_issue(message, "approver_failed")


def _action(turn: Turn, wait: Wait) -> tuple[str, str]:
    return turn.program.name, wait.detail["action_key"]


def _is_for_the_runtime(answer: WaitAnswer) -> bool:
    return isinstance(answer.value, dict) and answer.value.get("remember") == "runtime"


def _value_of(said: Approve, tool: Tool) -> dict[str, Any]:
    if said.remember not in _REMEMBER:
        raise InvalidInput.at("Approve.remember", repr(said.remember)[:40], " or ".join(_REMEMBER))
    value: dict[str, Any] = {"remember": said.remember}
    if said.edit is not None:
        check_edit(said.edit, tool)
        value["edit"] = freeze(dict(said.edit), field="edit")
    return value


def check_edit(edit: object, tool: Tool) -> None:
    """Refuse arguments that the tool does not take.

    Raises:
        InvalidInput: naming the argument, what was found and what was wanted.
    """
    try:
        tool.check(edit)  # type: ignore[arg-type]  # that is what is checked
    except ArgsInvalid as error:
        raise edit_refused(error) from None


def edit_refused(error: ArgsInvalid) -> InvalidInput:
    """Return the refusal of arguments that an approver wrote."""
    told = str(error).replace("args", "edit", 1)
    field = (error.field or "args").replace("args", "edit", 1)
    return InvalidInput(told, field=field, found=error.found, wanted=error.wanted)


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    # Without this the loop would report an error that was never retrieved.
    if not task.cancelled():
        task.exception()
