"""What hooks answered, read: of the kinds that the hook may give, and of nothing that could not be stored.

An answer is foreign: a session must not become unreadable because a plugin returned a number where words belong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec

from windlass.errors import InvalidInput, WindlassError
from windlass.guards.text import check_text
from windlass.kernel import canonical
from windlass.kernel.history_view import HistoryView
from windlass.kernel.messages import Part, ResultPart, Text, TurnCause
from windlass.kernel.model_call import ModelMessage, ModelReply, ModelRequest, RequestPart, Usage
from windlass.kernel.outcomes import StopReason
from windlass.kernel.responses import InjectedMessage
from windlass.kernel.tool_call import ToolOutcome, ToolSpec
from windlass.kernel.value import Value, freeze
from windlass.ports.directives import (
    Abort,
    Continue,
    Delivery,
    Finale,
    Hold,
    Proceed,
    Refuse,
    ReplaceArgs,
    Retry,
    Send,
    ShortCircuit,
    Stop,
)
from windlass.ports.model import ReasoningChunk, TextChunk
from windlass.ports.plugin import Chunk
from windlass.ports.policy import Ask, Deny, Risk
from windlass.ports.prompt import LAYERS, SLOTS, Contribution

_REASONS = get_args(StopReason)
_RISKS = get_args(Risk)
_PARTS = get_args(Part)
_RESULT_PARTS = get_args(ResultPart)
_ROLES = ("user", "system", "event")
_SENT_ROLES = frozenset({"system", "user", "assistant"})
_SENT_PARTS = frozenset(get_args(RequestPart))


def read_answer(hook: str, said: Any) -> Any:  # noqa: ANN401 - whatever a plugin gave
    """Return what a hook answered, in the form that the runtime works with; None: nothing.

    Raises:
        InvalidInput: it may not answer that.
    """
    if said is None:
        return None
    lists = _LISTS.get(hook)
    if lists is not None and not isinstance(said, _DIRECTIVES):
        return tuple(lists(one, f"{hook}[{at}]") for at, one in enumerate(_listed(said)))
    kinds = _ANSWERS[hook]
    if not isinstance(said, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        found = type(said).__name__
        raise InvalidInput(f"{hook}: found {found}, wanted {wanted}", field=hook, found=found)
    read = _READ.get(type(said))
    if read is not None:
        return read(said, hook)
    return _kept(said, hook) if isinstance(said, Value) else said


# ---------------------------------------------------------------------- pieces


def _listed(said: Any) -> Sequence[Any]:  # noqa: ANN401 - whatever a plugin gave
    return said if isinstance(said, (list, tuple)) else (said,)


def _kept(value: Any, field: str) -> Any:  # noqa: ANN401 - a Value
    """Return a value that can be read again once it is stored."""
    try:
        canonical.decode(canonical.encode(value), type(value))
    except WindlassError as error:
        raise InvalidInput(f"{field}: cannot be stored: {error}", field=field) from None
    return value


def _words(found: object, field: str) -> str:
    if not isinstance(found, str):
        name = type(found).__name__
        raise InvalidInput(f"{field}: found {name}, wanted text", field=field, found=name)
    check_text(found, field=field)
    return found


def _one_of(found: object, wanted: Sequence[object], field: str) -> None:
    if found not in wanted:
        names = ", ".join(map(str, wanted))
        shown = found if isinstance(found, str) else type(found).__name__
        raise InvalidInput(f"{field}: found {shown}, wanted {names}", field=field)


def _part(found: object, field: str) -> Any:  # noqa: ANN401 - a Part
    return _piece(found, _PARTS, field)


def _result_part(found: object, field: str) -> Any:  # noqa: ANN401 - a ResultPart
    return _piece(found, _RESULT_PARTS, field)


def _piece(found: object, kinds: tuple[type, ...], field: str) -> Any:  # noqa: ANN401 - a part
    if isinstance(found, str):
        return Text(text=_words(found, field))
    if not isinstance(found, kinds):
        name = type(found).__name__
        raise InvalidInput(f"{field}: found {name}, wanted text or a part", field=field, found=name)
    return _kept(found, field)


def _message(found: object, field: str) -> InjectedMessage:
    if isinstance(found, str):
        return InjectedMessage(role="user", parts=(Text(text=_words(found, field)),))
    if not isinstance(found, InjectedMessage):
        name = type(found).__name__
        raise InvalidInput(f"{field}: found {name}, wanted text or a message", field=field)
    _one_of(found.role, _ROLES, f"{field}.role")
    message: InjectedMessage = _kept(found, field)
    return message


def _contribution(found: object, field: str) -> Contribution:
    if isinstance(found, str):
        found = Contribution(found)
    if not isinstance(found, Contribution):
        name = type(found).__name__
        raise InvalidInput(f"{field}: found {name}, wanted Contribution", field=field, found=name)
    _words(found.text, f"{field}.text")
    _words(found.title, f"{field}.title")
    _one_of(found.slot, SLOTS, f"{field}.slot")
    _one_of(found.layer, LAYERS, f"{field}.layer")
    if type(found.priority) is not int:
        raise InvalidInput(f"{field}.priority: wanted a whole number", field=f"{field}.priority")
    gate = tuple(_words(name, f"{field}.gate") for name in _listed(found.gate))
    return msgspec.structs.replace(found, gate=gate)


def _cause(found: object, field: str) -> TurnCause:
    if not isinstance(found, TurnCause):
        name = type(found).__name__
        raise InvalidInput(f"{field}: found {name}, wanted TurnCause", field=field, found=name)
    cause: TurnCause = _kept(found, field)
    return cause


# ---------------------------------------------------------------------- directives


def _reason(said: Refuse | Abort | Deny, hook: str) -> Any:  # noqa: ANN401 - the same
    _words(said.reason, f"{hook}.reason")
    return said


def _stop(said: Stop, hook: str) -> Stop:
    _words(said.detail, f"{hook}.detail")
    if said.reason is not None:
        _one_of(said.reason, _REASONS, f"{hook}.reason")
    return said


def _retry(said: Retry, hook: str) -> Retry:
    _words(said.prompt, f"{hook}.prompt")
    if said.model is not None:
        _words(said.model, f"{hook}.model")
    seconds = said.after_s
    if type(seconds) not in (int, float) or not math.isfinite(seconds) or seconds < 0:
        raise InvalidInput(f"{hook}.after_s: wanted seconds of 0 or more", field=f"{hook}.after_s")
    return said


def _ask(said: Ask, hook: str) -> Ask:
    _words(said.title, f"{hook}.title")
    _one_of(said.risk, _RISKS, f"{hook}.risk")
    if said.action_key is not None:
        _words(said.action_key, f"{hook}.action_key")
    return said


def _replace_args(said: ReplaceArgs, hook: str) -> ReplaceArgs:
    if not isinstance(said.args, Mapping):
        raise InvalidInput(f"{hook}.args: wanted arguments by name", field=f"{hook}.args")
    return ReplaceArgs(freeze(dict(said.args), field=f"{hook}.args"))


def _short_circuit(said: ShortCircuit, hook: str) -> ShortCircuit:
    if isinstance(said.result, ToolOutcome):
        _kept(said.result, f"{hook}.result")
    return said


def _chunk(said: Chunk, hook: str) -> Chunk:
    _words(said.text, f"{hook}.text")
    return said


def _request(said: ModelRequest, hook: str) -> ModelRequest:
    _words(said.model, f"{hook}.model")
    for at, message in enumerate(said.messages):
        if not _is_sendable(message):
            wanted = "a ModelMessage of system, user or assistant with its parts"
            raise InvalidInput(f"{hook}.messages[{at}]: wanted {wanted}", field=hook)
    for at, tool in enumerate(said.tools):
        if type(tool) is not ToolSpec:
            raise InvalidInput(f"{hook}.tools[{at}]: wanted ToolSpec", field=hook)
    return said


def _is_sendable(message: ModelMessage) -> bool:
    if type(message) is not ModelMessage or message.role not in _SENT_ROLES:
        return False
    return _SENT_PARTS.issuperset(map(type, message.parts))


def _send(said: Send, hook: str) -> Send:
    if said.request is not None:
        if not isinstance(said.request, ModelRequest):
            raise InvalidInput(f"{hook}.request: wanted ModelRequest", field=f"{hook}.request")
        _request(said.request, hook)
    if said.reserve is not None:
        if not isinstance(said.reserve, Usage):
            raise InvalidInput(f"{hook}.reserve: wanted Usage", field=f"{hook}.reserve")
        _kept(said.reserve, f"{hook}.reserve")
    return said


def _hold(said: Hold, hook: str) -> Hold:
    _words(said.key, f"{hook}.key")
    _words(said.title, f"{hook}.title")
    return Hold(key=said.key, title=said.title, detail=freeze(said.detail, field=f"{hook}.detail"))


def _delivery(said: Delivery, hook: str) -> Delivery:
    return Delivery(
        messages=_each(_message, said.messages, f"{hook}.messages"),
        transient=_each(_message, said.transient, f"{hook}.transient"),
        causes=_each(_cause, said.causes, f"{hook}.causes"),
    )


def _finale(said: Finale, hook: str) -> Finale:
    compact = said.compact
    if not isinstance(compact, bool):
        if not isinstance(compact, Mapping):
            raise InvalidInput(f"{hook}.compact: wanted True or options", field=f"{hook}.compact")
        compact = freeze(dict(compact), field=f"{hook}.compact")
    return Finale(
        messages=_each(_message, said.messages, f"{hook}.messages"),
        issues=_each(_words, said.issues, f"{hook}.issues"),
        compact=compact,
    )


def _each(read: Callable[[Any, str], Any], given: object, field: str) -> tuple[Any, ...]:
    return tuple(read(one, f"{field}[{at}]") for at, one in enumerate(_listed(given)))


_DIRECTIVES = (Refuse, Abort, Stop, Delivery, Finale)
_LISTS: dict[str, Callable[[Any, str], Any]] = {
    "on_input": _part,
    "before_turn": _message,
    "prompt": _contribution,
    "present_result": _result_part,
}
_ANSWERS: dict[str, tuple[type, ...]] = {
    "on_input": (Refuse,),
    "before_turn": (Abort,),
    "prompt": (),
    "view": (HistoryView,),
    "before_model": (ModelRequest, Send, Hold, Stop),
    "on_stream": (TextChunk, ReasoningChunk),
    "after_model": (ModelReply, Stop),
    "before_tool": (Proceed, ReplaceArgs, ShortCircuit, Deny, Ask),
    "after_tool": (ToolOutcome, Deny),
    "present_result": (),
    "on_error": (Stop, Retry, Continue),
    "at_checkpoint": (Delivery, Stop),
    "after_turn": (Finale,),
}
_READ: dict[type, Callable[[Any, str], Any]] = {
    Refuse: _reason,
    Abort: _reason,
    Deny: _reason,
    Stop: _stop,
    Retry: _retry,
    Ask: _ask,
    ReplaceArgs: _replace_args,
    ShortCircuit: _short_circuit,
    ModelRequest: _request,
    Send: _send,
    Hold: _hold,
    TextChunk: _chunk,
    ReasoningChunk: _chunk,
    Delivery: _delivery,
    Finale: _finale,
}
