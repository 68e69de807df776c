"""The standard driver: the model calls tools natively and ends with words.

Law 1. Every call in the history has exactly one result, in call order: of a call that ran, of one that
    was refused, of one that the turn's end overtook.
Law 2. A call whose arguments were cut off or do not parse is never run, not even in part; its siblings
    are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.errors import CallerError
from windlass.guards.limits import DEFAULT_LIMITS
from windlass.kernel import events
from windlass.kernel.actions import (
    Action,
    Append,
    EmitEvent,
    Finish,
    NextIteration,
    StartCheckpoint,
    StartModel,
    StartTools,
)
from windlass.kernel.driver import DriverView
from windlass.kernel.limits import is_reached
from windlass.kernel.messages import (
    ConversationRecord,
    DriverRecord,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
    is_blank,
)
from windlass.kernel.model_call import ModelReply
from windlass.kernel.outcomes import FinishedByTool, Finished, HandedOff, Outcome, Stopped
from windlass.kernel.responses import CodeResult, Failure
from windlass.kernel.states import WaitingModel
from windlass.kernel.tool_call import (
    CompletedToolCall,
    EndTurn,
    FailTurn,
    PendingToolCall,
    ToolOutcome,
)
from windlass.kernel.value import freeze

# After this many replies in a row without one well-formed call, asking again is not going to help.
MAX_INVALID_REPLIES = 3

_INVALID_REPLIES = "invalid_replies"
_MAX_CALLS = DEFAULT_LIMITS.calls_per_reply
# The narrowest of the providers' rules for tool names, which stand in every later request.
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_NOT_IN_TOOL_NAME = re.compile(r"[^A-Za-z0-9_-]")
_JSON = msgspec.json.Decoder()

_MALFORMED = (
    "Not run: the call was cut off or is not well formed. "
    "Issue it again with a tool's name and a complete JSON object as arguments."
)
_TOO_MANY = f"Not run: more than {_MAX_CALLS} calls in one reply. Issue it again in a later reply."
_OVERTAKEN = "Not run to its end: the turn ended first."
_TRUNCATED = "The reply was cut off at its output limit."
_EMPTY = "The model returned an empty reply."
_ALL_INVALID = f"{MAX_INVALID_REPLIES} replies in a row held only malformed tool calls."


_NEXT: tuple[Action, ...] = (NextIteration(), StartCheckpoint(kind="after_work"))


class StandardDriver:
    """Model → tools → model, until the model has nothing more to call."""

    handles = frozenset({"output_limit"})

    def prepare(self, view: DriverView) -> list[Action]:
        """Call the model with tools."""
        return [StartModel(request=view.request())]

    def on_model(
        self, view: DriverView, waiting: WaitingModel, reply: ModelReply, text_streamed: bool
    ) -> list[Action]:
        """Run the calls of a reply, or end with its words."""
        done: list[Action] = []
        if reply.text and not text_streamed:
            done.append(EmitEvent(event=events.TextDelta(text=reply.text)))
        done.append(
            EmitEvent(event=events.ModelFinished(iteration=view.iteration, text=reply.text))
        )
        parts, n_calls, runnable = _read_parts(view, reply)
        if not n_calls:
            return done + _answer(view, reply, parts)
        said = Message(id=view.message_id("reply"), role="assistant", parts=parts)
        done.append(Append(records=(ConversationRecord(message=said),)))
        if runnable:
            return [*done, StartTools(calls=tuple(runnable))]
        return done + _refuse_all(view, parts)

    def on_tools(self, view: DriverView, completed: Sequence[CompletedToolCall]) -> list[Action]:
        """Give the results to the model, or end the turn if one of them says so."""
        done = _record_results(view, completed, missing={})
        for call in completed:
            if call.outcome.status == "ok" and call.outcome.control is not None:
                return [*done, Finish(outcome=_controlled(call))]
        return done + _go_on(view)

    def on_code(
        self, view: DriverView, driver_state: Any, result: CodeResult | Failure
    ) -> list[Action]:
        """This mode runs no code."""
        outcome = Stopped(reason="runtime_error", detail="The standard driver started no code.")
        return [Finish(outcome=outcome)]

    def close(
        self,
        view: DriverView,
        calls: Sequence[PendingToolCall],
        completed: Sequence[CompletedToolCall],
    ) -> list[Action]:
        """Give each call that did not come back a result that says so."""
        overtaken = ToolOutcome(status="cancelled", value=_OVERTAKEN)
        missing = {call.call_id: overtaken for call in calls}
        return _record_results(view, completed, missing=missing)


# --- reading a reply ---------------------------------------------------------------------------


def _read_parts(
    view: DriverView, reply: ModelReply
) -> tuple[tuple[Part, ...], int, list[PendingToolCall]]:
    """Return the parts to keep, in the order said, how many are calls, and the calls that may run."""
    parts: list[Part] = []
    runnable: list[PendingToolCall] = []
    taken: list[str] = []
    for part in reply.parts:
        if type(part) is not ToolCall:
            if not is_blank(part):
                parts.append(part)
            continue
        is_cut = reply.terminal == "output_limit" and part is reply.parts[-1]
        args = _arguments(part, may_be_cut=is_cut)
        is_named = _TOOL_NAME.match(part.name) is not None
        call_id = view.call_id(part.call_id, len(taken), taken)
        call = part
        if call_id != part.call_id or args is not part.args or not is_named:
            call = ToolCall(
                call_id=call_id,
                name=part.name if is_named else _legal_name(part.name),
                args=args or {},
                raw=part.raw,
                replay=part.replay,
            )
        parts.append(call)
        if args is not None and is_named and len(taken) < _MAX_CALLS:
            runnable.append(
                PendingToolCall(
                    call_id=call.call_id, name=call.name, args=call.args, replay=call.replay
                )
            )
        taken.append(call_id)
    return tuple(parts), len(taken), runnable


def _arguments(call: ToolCall, *, may_be_cut: bool) -> Mapping[str, Any] | None:
    """Return the arguments, or None if they were cut off or are no JSON object.

    Arguments that were given as a value count as whole, unless the reply was cut right there and the
    provider's text does not show otherwise.
    """
    if call.args and not may_be_cut:
        return call.args
    if not call.raw.strip():
        return None if may_be_cut else call.args
    try:
        parsed = freeze(_JSON.decode(call.raw))
    except (msgspec.MsgspecError, RecursionError, CallerError):
        return None
    if not isinstance(parsed, dict):
        return None
    return call.args or parsed


def _legal_name(name: str) -> str:
    return _NOT_IN_TOOL_NAME.sub("_", name)[:64] or "unnamed"


def _answer(view: DriverView, reply: ModelReply, parts: tuple[Part, ...]) -> list[Action]:
    """End with the reply's words, after a last look at what came in meanwhile."""
    truncated = reply.terminal == "output_limit"
    has_words = any(type(part) is Text for part in parts)
    if not has_words and not truncated and not _follows_results(view):
        error = events.Error(message=_EMPTY, code="empty_reply", terminal=reply.terminal)
        outcome: Outcome = Stopped(reason="provider_error", detail=_EMPTY)
        return [EmitEvent(event=error), Finish(outcome=outcome)]
    done: list[Action] = []
    if has_words:
        said = Message(
            id=view.message_id("reply"), role="assistant", parts=parts, incomplete=truncated
        )
        done.append(Append(records=(ConversationRecord(message=said),)))
    if truncated:
        outcome = Stopped(reason="incomplete", detail=_TRUNCATED)
    else:
        outcome = Finished(text=reply.text if has_words else "")
    done.append(StartCheckpoint(kind="before_completion", then=outcome))
    return done


def _follows_results(view: DriverView) -> bool:
    return bool(view.messages) and type(view.messages[-1].parts[0]) is ToolResult


# --- recording results -------------------------------------------------------------------------


def _record_results(
    view: DriverView,
    completed: Sequence[CompletedToolCall],
    *,
    missing: Mapping[str, ToolOutcome],
) -> list[Action]:
    """Append one message with a result for every call of the last reply, in call order."""
    calls = [part for part in view.messages[-1].parts if type(part) is ToolCall]
    return _results_message(view, calls, completed, missing)


def _results_message(
    view: DriverView,
    calls: Sequence[ToolCall],
    completed: Sequence[CompletedToolCall],
    missing: Mapping[str, ToolOutcome],
) -> list[Action]:
    by_id = {call.call_id: call for call in completed}
    done: list[Action] = []
    results = []
    for at, call in enumerate(calls):
        ended = by_id.get(call.call_id)
        if ended is None:
            outcome = missing.get(call.call_id) or _refusal(at)
            ended = CompletedToolCall(
                call_id=call.call_id, name=call.name, args=call.args, outcome=outcome
            )
            done.append(EmitEvent(event=_finished(ended)))
        results.append(ended.as_result())
    message = Message(id=view.message_id("results"), role="user", parts=tuple(results))
    return [*done, Append(records=(ConversationRecord(message=message),))]


def _refusal(at: int) -> ToolOutcome:
    return ToolOutcome(status="error", value=_MALFORMED if at < _MAX_CALLS else _TOO_MANY)


def _finished(call: CompletedToolCall) -> events.ToolFinished:
    return events.ToolFinished(
        call_id=call.call_id, name=call.name, args=call.args, outcome=call.outcome
    )


def _refuse_all(view: DriverView, parts: Sequence[Part]) -> list[Action]:
    """Answer a reply of which no call may run; give up after too many of them in a row."""
    calls = [part for part in parts if type(part) is ToolCall]
    done = _results_message(view, calls, completed=(), missing={})
    strikes = _invalid_replies_before(view) + 1
    done.append(Append(records=(DriverRecord(data={_INVALID_REPLIES: strikes}),)))
    if strikes >= MAX_INVALID_REPLIES:
        error = events.Error(message=_ALL_INVALID, code="invalid_calls")
        outcome = Stopped(reason="provider_error", detail=_ALL_INVALID)
        return [*done, EmitEvent(event=error), Finish(outcome=outcome)]
    return done + _go_on(view)


def _invalid_replies_before(view: DriverView) -> int:
    """Return how many all-invalid replies stand directly before this one.

    The record of the last one follows its reply; any other reply in between breaks the row.
    """
    for at in range(len(view.records) - 1, -1, -1):
        record = view.records[at]
        if type(record) is ConversationRecord:
            if record.message.role == "assistant":
                return 0
        elif isinstance(record.data, dict) and _INVALID_REPLIES in record.data:  # type: ignore[union-attr]
            strikes: int = record.data[_INVALID_REPLIES]  # type: ignore[union-attr]
            return strikes
    return 0


# --- going on ------------------------------------------------------------------------------------


def _go_on(view: DriverView) -> list[Action]:
    """Begin the next iteration, unless the limit is reached: this loop gets no grace."""
    if not is_reached(view.iteration + 1, view.iteration_offset, view.max_iterations):
        return [*_NEXT]
    text = f"The turn stopped at its limit of {view.max_iterations} iterations."
    note = Message(id=view.message_id("limit"), role="system", parts=(Text(text=text),))
    return [
        Append(records=(ConversationRecord(message=note),)),
        NextIteration(),
        Finish(outcome=Stopped(reason="max_iterations", detail=text)),
    ]


def _controlled(call: CompletedToolCall) -> Outcome:
    control = call.outcome.control
    if isinstance(control, EndTurn):
        return FinishedByTool(tool=call.name, value=control.value)
    if isinstance(control, FailTurn):
        (said,) = CompletedToolCall(
            call_id=call.call_id, name=call.name, outcome=ToolOutcome(value=control.value)
        ).as_result().content
        return Stopped(reason="tool_failure", detail=f"{call.name}: {said.text}")  # type: ignore[union-attr]
    return HandedOff(target=control.target, task=control.task)  # type: ignore[union-attr]
