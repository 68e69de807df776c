"""The standard driver: the model calls tools natively and ends with words.

Law 1. Every call in the history has exactly one result, in call order: of a call that ran, of one that
    was refused, of one that the turn's end overtook.
Law 2. A call whose arguments were cut off or do not parse is never run, not even in part; its siblings
    are.
Law 3. A turn that has to finish by a value or by a tool does, or it fails; see `kernel.termination`.

Length: what a reply may hold and what follows from it; in two files the laws could not be checked by reading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec

from windlass.errors import CallerError
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel import canonical, events, termination
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
from windlass.kernel.events import ModelFinished
from windlass.kernel.messages import (
    ConversationRecord,
    DriverRecord,
    Message,
    Part,
    PluginOrigin,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    words_before_calls,
)
from windlass.kernel.model_call import WITHHELD, ModelReply
from windlass.kernel.outcomes import Finished, FinishedByTool, HandedOff, Outcome, Stopped
from windlass.kernel.responses import CodeResult, Failure
from windlass.kernel.states import WaitingModel
from windlass.kernel.tool_call import (
    MAX_NAME_CHARS,
    TOOL_NAME,
    CompletedToolCall,
    EndTurn,
    HandOff,
    PendingToolCall,
    ToolOutcome,
    as_text,
)
from windlass.kernel.value import Json, freeze

# After this many replies in a row without one well-formed call, asking again is not going to help.
MAX_INVALID_REPLIES = 3

_INVALID_REPLIES = "invalid_replies"
_DROPPED_CALLS = "dropped_calls"
_TURN = "turn"
_MAX_CALLS = INPUT_LIMITS.calls_per_reply
_NOT_IN_TOOL_NAME = re.compile(r"[^A-Za-z0-9_-]")

_MALFORMED = (
    "Not run: the call was cut off or is not well formed. "
    "Issue it again with a tool's name and a complete JSON object as arguments."
)
_TOO_MANY = (
    f"[note from the system]\nOf that reply only {_MAX_CALLS} calls were taken; "
    "{n_dropped} more were dropped and not run. Issue them again in a later reply."
)
_REFUSED = ToolOutcome(status="error", value=_MALFORMED)
_OVERTAKEN = "Not run to its end: the turn ended first."
_TRUNCATED = "The reply was cut off at its output limit."
_EMPTY = "The model returned an empty reply."
_WITHHELD = "Your last reply was withheld. Answer in another way."
_WITHHELD_ORIGIN = PluginOrigin(plugin=WITHHELD)
_ALL_INVALID = f"{MAX_INVALID_REPLIES} replies in a row held only malformed tool calls."


_NONE_MISSING: Mapping[str, ToolOutcome] = MappingProxyType({})
_call_id = attrgetter("call_id")
_NEXT: tuple[Action, ...] = (NextIteration(), StartCheckpoint(kind="after_work"))


class StandardDriver:
    """Model → tools → model, until the model has nothing more to call."""

    handles = frozenset({"output_limit"})

    def prepare(self, view: DriverView) -> list[Action]:
        """Call the model with tools."""
        return [StartModel(request=view.config.projector.project(view))]

    def on_model(
        self,
        view: DriverView,
        waiting: WaitingModel,  # noqa: ARG002 - the port's shape
        reply: ModelReply,
        text_streamed: bool,  # noqa: FBT001 - the port's shape
    ) -> list[Action]:
        """Run the calls of a reply, or end with its words."""
        if reply.terminal == WITHHELD:
            return _withheld(view, reply)
        reading = _read(view, reply)
        text, runnable = reply.text, reading.runnable
        told = (
            ModelFinished(iteration=view.iteration, text=text, calls=runnable)
            if reading.is_plain
            else ModelFinished.of(reply, iteration=view.iteration, calls=runnable)
        )
        done: list[Action] = [EmitEvent(event=told)]
        if text and not text_streamed:
            done.insert(0, EmitEvent(event=events.TextDelta(text=text)))
        if not reading.n_calls:
            return done + self._answer(view, reply, reading.parts)
        said = Message(id=view.message_id("reply"), role="assistant", parts=reading.parts)
        done.append(Append(records=(ConversationRecord(message=said),)))
        if reading.n_dropped:
            note = DriverRecord(data={_DROPPED_CALLS: reading.n_dropped})
            done.append(Append(records=(note,)))
        if not runnable:
            return done + _refuse_all(view, reading)
        done.append(StartTools(calls=runnable))
        return done

    def on_tools(self, view: DriverView, completed: Sequence[CompletedToolCall]) -> list[Action]:
        """Give the results to the model, or end the turn if one of them says so."""
        done = _answer_last_reply(view, completed, _NONE_MISSING)
        for call in completed:
            if call.outcome.control is not None and call.outcome.status == "ok":
                done.append(Finish(outcome=self._ended_by(call, view.config.termination)))
                return done
        return done + _go_on(view)

    def on_code(
        self,
        view: DriverView,  # noqa: ARG002 - the port's shape
        driver_state: Json,  # noqa: ARG002 - the port's shape
        result: CodeResult | Failure,  # noqa: ARG002 - the port's shape
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
        return _answer_last_reply(view, completed, missing)

    # --- ending ----------------------------------------------------------------------------------

    def by_words(self, text: str) -> Outcome:
        """Return how a turn ends with these words; a mode may read them as a value."""
        return Finished(text=text)

    def by_tool(self, tool: str, value: Json) -> Outcome:
        """Return how a turn ends that a tool ended with a value."""
        return FinishedByTool(tool=tool, value=value)

    def _answer(self, view: DriverView, reply: ModelReply, parts: tuple[Part, ...]) -> list[Action]:
        """End with the reply's words, after a last look at what came in meanwhile."""
        truncated = reply.terminal == "output_limit"
        has_words = any(type(part) is Text for part in parts)
        if not has_words and not truncated and not _follows_results(view):
            why = f"{_EMPTY} {reply.diagnostic}" if reply.diagnostic else _EMPTY
            error = events.Error(message=why, code="empty_reply", terminal=reply.terminal)
            outcome: Outcome = Stopped(reason="provider_error", detail=why)
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
            outcome = self.by_words(reply.text if has_words else "")
            wanted = view.config.termination
            if wanted is not None and not termination.takes_words(wanted, outcome):
                if _may_go_on(view) and not termination.was_nudged(view.records):
                    return [*done, _nudge(view), *_NEXT]
                outcome = termination.unfinished(wanted, "words alone")
        done.append(StartCheckpoint(kind="before_completion", then=outcome))
        return done

    def _ended_by(self, call: CompletedToolCall, wanted: Json) -> Outcome:
        control = call.outcome.control
        if not isinstance(control, (EndTurn, HandOff)):
            said = "" if control is None or control.value is None else f": {as_text(control.value)}"
            return Stopped(reason="tool_failure", detail=call.name + said)
        if wanted is not None and not termination.takes_tool(wanted, call.name):
            return termination.unfinished(wanted, f"a call of {call.name}")
        if isinstance(control, HandOff):
            return HandedOff(target=control.target, task=control.task)
        return self.by_tool(call.name, control.value)


# --- reading a reply ---------------------------------------------------------------------------


class _Reading(msgspec.Struct, gc=False):
    """A reply as the driver keeps it: what was said, and which of its calls may run.

    `is_plain`: its provider added nothing to its words that is told apart.
    """

    parts: tuple[Part, ...]
    runnable: tuple[PendingToolCall, ...]
    n_calls: int
    n_dropped: int
    is_plain: bool


def _read(view: DriverView, reply: ModelReply) -> _Reading:  # noqa: C901 - every reply passes here, in one walk
    parts: list[Part] = []
    runnable: list[PendingToolCall] = []
    taken: list[str] = []
    n_dropped = 0
    is_plain = True
    has_late_words = False
    is_cut = False
    for part in reply.parts:
        kind = type(part)
        if kind is Text:
            if not part.text or part.text.isspace():  # type: ignore[union-attr] # by its kind
                continue
            parts.append(part)
            if part.phase or part.citations:  # type: ignore[union-attr] # by its kind
                is_plain = False
            if taken:
                has_late_words = True
        elif kind is not ToolCall:
            parts.append(part)
            if kind is ServerToolCall:
                is_plain = False
        elif len(taken) == _MAX_CALLS:
            n_dropped += 1
        else:
            if reply.terminal == "output_limit":
                is_cut = part is reply.parts[-1]
            call, is_runnable = _read_call(view, part, taken, is_cut=is_cut)  # type: ignore[arg-type] # by its kind
            parts.append(call)
            taken.append(call.call_id)
            if is_runnable:
                runnable.append(
                    PendingToolCall(
                        call_id=call.call_id, name=call.name, args=call.args, replay=call.replay
                    )
                )
    if has_late_words:
        parts = words_before_calls(parts)
    return _Reading(tuple(parts), tuple(runnable), len(taken), n_dropped, is_plain)


def _read_call(
    view: DriverView, said: ToolCall, taken: list[str], *, is_cut: bool
) -> tuple[ToolCall, bool]:
    """Return a call as every provider takes it back, and whether it may run.

    It is the same one if it is well formed and its id and name are legal.
    """
    call_id, name = view.call_id(said.call_id, taken), said.name
    args: Mapping[str, Any] | None = said.args
    if is_cut or not args:
        args = _arguments(said, may_be_cut=is_cut)
    is_legal = TOOL_NAME.match(name) is not None
    if is_legal and call_id == said.call_id and args is said.args:
        return said, True
    if not is_legal:
        name = f"_{_NOT_IN_TOOL_NAME.sub('_', name)}"[:MAX_NAME_CHARS]
    call = ToolCall(
        call_id=call_id, name=name, args=dict(args or {}), raw=said.raw, replay=said.replay
    )
    return call, is_legal and args is not None


def _arguments(call: ToolCall, *, may_be_cut: bool) -> Mapping[str, Any] | None:
    """Return the arguments, or None if they were cut off or are no JSON object.

    Arguments that were given as a value count as whole, unless the reply was cut right there and the
    provider's text does not show otherwise.
    """
    if not call.raw.strip():
        return None if may_be_cut else call.args
    try:
        parsed = freeze(canonical.parse(call.raw))
    except (ValueError, CallerError):
        return None
    if not isinstance(parsed, dict):
        return None
    return call.args or parsed


def _follows_results(view: DriverView) -> bool:
    return bool(view.messages) and type(view.messages.last().parts[0]) is ToolResult


# --- recording results -------------------------------------------------------------------------


def _answer_last_reply(
    view: DriverView,
    completed: Sequence[CompletedToolCall],
    missing: Mapping[str, ToolOutcome],
) -> list[Action]:
    last = view.records.last() if view.records.length else None
    n_dropped = _count_in(last, _DROPPED_CALLS) if type(last) is DriverRecord else 0
    return _answer_calls(view, view.messages.last().parts, completed, missing, n_dropped)


def _answer_calls(
    view: DriverView,
    said: Sequence[Part],
    completed: Sequence[CompletedToolCall],
    missing: Mapping[str, ToolOutcome],
    n_dropped: int,
) -> list[Action]:
    """Append one message with a result for every call that was said, in call order."""
    by_id = dict(zip(map(_call_id, completed), completed, strict=True))
    done: list[Action] = []
    answers: list[Part] = []
    for call in said:
        if type(call) is ToolCall:
            ended = by_id.get(call.call_id)
            if ended is None:
                ended = CompletedToolCall(
                    call_id=call.call_id,
                    name=call.name,
                    args=call.args,
                    outcome=missing.get(call.call_id) or _REFUSED,
                )
                done.append(EmitEvent(event=_finished(view, ended)))
            answers.append(ended.as_result(call.name))
    if n_dropped:
        answers.append(Text(text=_TOO_MANY.format(n_dropped=n_dropped)))
    message = Message(id=view.message_id("results"), role="user", parts=tuple(answers))
    done.append(Append(records=(ConversationRecord(message=message),)))
    return done


def _finished(view: DriverView, call: CompletedToolCall) -> events.ToolFinished:
    # It was no part of an effect, so its own id tells its events from its siblings'.
    return events.ToolFinished(
        correlation_id=view.ids.correlation(f"call.{view.iteration}.{call.call_id}"),
        call_id=call.call_id,
        name=call.name,
        args=call.args,
        outcome=call.outcome,
    )


def _refuse_all(view: DriverView, reading: _Reading) -> list[Action]:
    """Answer a reply of which no call may run; give up after too many of them in a row."""
    done = _answer_calls(view, reading.parts, (), {}, reading.n_dropped)
    strikes = _invalid_replies_before(view) + 1
    data = {_INVALID_REPLIES: strikes, _TURN: view.ids.prefix}
    done.append(Append(records=(DriverRecord(data=data),)))
    if strikes < MAX_INVALID_REPLIES:
        return done + _go_on(view)
    error = events.Error(message=_ALL_INVALID, code="invalid_calls")
    outcome = Stopped(reason="provider_error", detail=_ALL_INVALID)
    return [*done, EmitEvent(event=error), Finish(outcome=outcome)]


def _invalid_replies_before(view: DriverView) -> int:
    """Return how many all-invalid replies of this turn stand directly before this one.

    The record of the last one follows its reply; any other reply in between breaks the row.
    """
    for record in reversed(view.records):
        if type(record) is DriverRecord:
            strikes = _count_in(record, _INVALID_REPLIES)
            if strikes:
                return strikes if record.data.get(_TURN) == view.ids.prefix else 0
        elif record.message.role == "assistant":  # type: ignore[union-attr]
            return 0
    return 0


def _count_in(record: DriverRecord, key: str) -> int:
    """Return a count that this driver put into a record; 0 if the record is not its own."""
    count = record.data.get(key) if isinstance(record.data, dict) else None
    return count if type(count) is int else 0


# --- going on ------------------------------------------------------------------------------------


def _may_go_on(view: DriverView) -> bool:
    limit = view.config.max_iterations
    return limit is None or view.iteration + 1 < view.iteration_offset + limit


def _go_on(view: DriverView) -> list[Action]:
    """Begin the next iteration, unless the limit is reached: this loop gets no grace."""
    if _may_go_on(view):
        return [*_NEXT]
    text = f"The turn stopped at its limit of {view.max_iterations} iterations."
    note = Message(id=view.message_id("limit"), role="system", parts=(Text(text=text),))
    return [
        Append(records=(ConversationRecord(message=note),)),
        NextIteration(),
        Finish(outcome=Stopped(reason="max_iterations", detail=text)),
    ]


def _nudge(view: DriverView) -> Action:
    """Tell the model, once, how the turn has to end."""
    text = Text(text=termination.nudge_text(view.config.termination))
    return _tell(view, "nudge", text, termination.NUDGE_ORIGIN)


def _withheld(view: DriverView, reply: ModelReply) -> list[Action]:
    """Keep nothing of a reply but what the model is told instead, and go on."""
    finished = EmitEvent(event=ModelFinished(iteration=view.iteration, text=""))
    told = Text(text=reply.diagnostic or _WITHHELD)
    return [finished, _tell(view, "withheld", told, _WITHHELD_ORIGIN), *_go_on(view)]


def _tell(view: DriverView, purpose: str, said: Text, origin: PluginOrigin) -> Action:
    message_id = view.message_id(purpose)
    message = Message(id=message_id, role="user", parts=(said,), origin=origin)
    return Append(records=(ConversationRecord(message=message),))
