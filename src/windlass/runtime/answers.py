"""What hooks answered, read: of the types that the hook may give, and of nothing that could not be stored.

An answer is foreign: a session must not become unreadable because a plugin returned a number where text belongs. Nor
may it refer to bytes that the store does not keep: such a turn could never be committed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from windlass.errors import InvalidInput, WindlassError
from windlass.guards.text import check_text
from windlass.kernel import canonical
from windlass.kernel.messages import Attachment, Part, ResultPart, Text, TurnCause
from windlass.kernel.model_call import ModelMessage, ModelRequest, RequestPart, Usage
from windlass.kernel.outcomes import StopReason
from windlass.kernel.responses import InjectedMessage
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome, ToolSpec
from windlass.kernel.value import Value, freeze
from windlass.ports.directives import (
    Abort,
    Delivery,
    Finale,
    Hold,
    Refuse,
    ReplaceArgs,
    Retry,
    Said,
    Send,
    ShortCircuit,
    Stop,
)
from windlass.ports.model import ReasoningChunk, TextChunk
from windlass.ports.plugin import HOOKS, Chunk
from windlass.ports.policy import Ask, Deny, Risk
from windlass.ports.prompt import LAYERS, SLOTS, Contribution

_REASONS = get_args(StopReason)
_RISKS = get_args(Risk)
_PARTS = get_args(Part)
_RESULT_PARTS = get_args(ResultPart)
_ROLES = ("user", "system", "event")
_SENT_ROLES = frozenset({"system", "user", "assistant"})
_SENT_PARTS = frozenset(get_args(RequestPart))


def read_answer(hook: str, said: Any) -> Any:  # noqa: ANN401 - anything a plugin gave
    """Return what a hook answered, in the form that the runtime works with; None: nothing.

    Raises:
        InvalidInput: it may not answer that.
    """
    if said is None:
        return None
    kinds, each = HOOKS[hook].answers, HOOKS[hook].each
    if each is not None and not isinstance(said, _DIRECTIVES):
        return _each(_ELEMENTS[each], said, hook)
    if not isinstance(said, kinds):
        raise _wrong(hook, said, " or ".join(kind.__name__ for kind in kinds))
    read = _READ.get(type(said))
    if read is not None:
        return read(said, hook)
    return _kept(said, hook) if isinstance(said, Value) else said


# ---------------------------------------------------------------------- pieces


def _listed(said: Any) -> Sequence[Any]:  # noqa: ANN401 - anything a plugin gave
    return said if isinstance(said, (list, tuple)) else (said,)


def _kept(value: Any, field: str) -> Any:  # noqa: ANN401 - a Value
    """Return a value that can be read again once it is stored."""
    try:
        canonical.decode(canonical.encode(value), type(value))
    except WindlassError as error:
        raise InvalidInput(f"{field}: cannot be stored: {error}", field=field) from None
    return value


def _wrong(field: str, found: object, wanted: str) -> InvalidInput:
    return InvalidInput.at(field, type(found).__name__, wanted)


def _text(found: object, field: str) -> str:
    if not isinstance(found, str):
        raise _wrong(field, found, "text")
    check_text(found, field=field)
    return found


def _optional_text(found: object, field: str) -> None:
    if found is not None:
        _text(found, field)


def _one_of(found: object, wanted: Sequence[object], field: str) -> None:
    if found not in wanted:
        shown = found if isinstance(found, str) else type(found).__name__
        raise InvalidInput.at(field, shown, ", ".join(map(str, wanted)))


def _part(found: object, field: str) -> Any:  # noqa: ANN401 - a Part
    return _piece(found, _PARTS, field)


def _result_part(found: object, field: str) -> Any:  # noqa: ANN401 - a ResultPart
    return _piece(found, _RESULT_PARTS, field)


def _piece(found: object, kinds: tuple[type, ...], field: str) -> Any:  # noqa: ANN401 - a part
    if isinstance(found, str):
        return Text(text=_text(found, field))
    if not isinstance(found, kinds):
        raise _wrong(field, found, "text or a part")
    return _kept(found, field)


def _message(found: object, field: str) -> InjectedMessage:
    if isinstance(found, str):
        return InjectedMessage(role="user", parts=(Text(text=_text(found, field)),))
    if not isinstance(found, InjectedMessage):
        raise _wrong(field, found, "text or a message")
    _one_of(found.role, _ROLES, f"{field}.role")
    message: InjectedMessage = _kept(found, field)
    return message


def _contribution(found: object, field: str) -> Contribution:
    if isinstance(found, str):
        found = Contribution(found)
    if not isinstance(found, Contribution):
        raise _wrong(field, found, "Contribution")
    _text(found.text, f"{field}.text")
    _text(found.title, f"{field}.title")
    _one_of(found.slot, SLOTS, f"{field}.slot")
    _one_of(found.layer, LAYERS, f"{field}.layer")
    if type(found.priority) is not int:
        raise _wrong(f"{field}.priority", found.priority, "a whole number")
    gate = tuple(_text(name, f"{field}.gate") for name in _listed(found.gate))
    return msgspec.structs.replace(found, gate=gate)


def _cause(found: object, field: str) -> TurnCause:
    if not isinstance(found, TurnCause):
        raise _wrong(field, found, "TurnCause")
    cause: TurnCause = _kept(found, field)
    return cause


# ---------------------------------------------------------------------- directives


def _reason(said: Refuse | Abort | Deny, hook: str) -> Any:  # noqa: ANN401 - the same
    _text(said.reason, f"{hook}.reason")
    return said


def _stop(said: Stop, hook: str) -> Stop:
    _text(said.detail, f"{hook}.detail")
    if said.reason is not None:
        _one_of(said.reason, _REASONS, f"{hook}.reason")
    return said


def _retry(said: Retry, hook: str) -> Retry:
    _text(said.prompt, f"{hook}.prompt")
    _optional_text(said.model, f"{hook}.model")
    seconds = said.after_s
    if type(seconds) not in (int, float):
        raise _wrong(f"{hook}.after_s", seconds, "seconds of 0 or more")
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidInput.at(f"{hook}.after_s", seconds, "seconds of 0 or more")
    return said


def _ask(said: Ask, hook: str) -> Ask:
    _text(said.title, f"{hook}.title")
    _one_of(said.risk, _RISKS, f"{hook}.risk")
    _optional_text(said.action_key, f"{hook}.action_key")
    return said


def _replace_args(said: ReplaceArgs, hook: str) -> ReplaceArgs:
    if not isinstance(said.args, Mapping):
        raise _wrong(f"{hook}.args", said.args, "arguments by name")
    return ReplaceArgs(freeze(dict(said.args), field=f"{hook}.args"))


def _short_circuit(said: ShortCircuit, hook: str) -> ShortCircuit:
    if isinstance(said.result, ToolOutcome):
        _kept(said.result, f"{hook}.result")
    return said


def _chunk(said: Chunk, hook: str) -> Chunk:
    _text(said.text, f"{hook}.text")
    return said


def _request(said: ModelRequest, hook: str) -> ModelRequest:
    _text(said.model, f"{hook}.model")
    for at, message in enumerate(said.messages):
        if not _is_sendable(message):
            wanted = "a ModelMessage of system, user or assistant with its parts"
            raise _wrong(f"{hook}.messages[{at}]", message, wanted)
    for at, tool in enumerate(said.tools):
        if type(tool) is not ToolSpec:
            raise _wrong(f"{hook}.tools[{at}]", tool, "ToolSpec")
    return said


def _is_sendable(message: ModelMessage) -> bool:
    if type(message) is not ModelMessage or message.role not in _SENT_ROLES:
        return False
    return _SENT_PARTS.issuperset(map(type, message.parts))


def _send(said: Send, hook: str) -> Send:
    if said.request is not None:
        if not isinstance(said.request, ModelRequest):
            raise _wrong(f"{hook}.request", said.request, "ModelRequest")
        _request(said.request, hook)
    if said.reserve is not None:
        if not isinstance(said.reserve, Usage):
            raise _wrong(f"{hook}.reserve", said.reserve, "Usage")
        _kept(said.reserve, f"{hook}.reserve")
    return said


def _hold(said: Hold, hook: str) -> Hold:
    _text(said.key, f"{hook}.key")
    _text(said.title, f"{hook}.title")
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
            raise _wrong(f"{hook}.compact", compact, "True or options")
        compact = freeze(dict(compact), field=f"{hook}.compact")
    return Finale(
        messages=_each(_message, said.messages, f"{hook}.messages"),
        issues=_each(_text, said.issues, f"{hook}.issues"),
        compact=compact,
    )


def _each(read: Callable[[Any, str], Any], given: object, field: str) -> tuple[Any, ...]:
    return tuple(read(one, f"{field}[{at}]") for at, one in enumerate(_listed(given)))


_DIRECTIVES = (Refuse, Abort, Stop, Delivery, Finale)
_ELEMENTS: dict[object, Callable[[Any, str], Any]] = {
    Part: _part,
    Said: _message,
    Contribution: _contribution,
    ResultPart: _result_part,
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


# What may hold attachments, and where.
_HOLDERS: Final[dict[type, tuple[str, ...]]] = {
    InjectedMessage: ("parts",),
    Delivery: ("messages", "transient"),
    Finale: ("messages",),
    ShortCircuit: ("result",),
    ToolOutcome: ("content", "shown"),
    CompletedToolCall: ("outcome",),
}


def refs_in(said: object) -> frozenset[str]:
    """Return the digests of the bytes that an answer refers to."""
    if isinstance(said, Attachment):
        return frozenset([said.ref])
    inside = said if isinstance(said, (list, tuple)) else _held_by(said)
    return frozenset().union(*map(refs_in, inside))


def _held_by(said: object) -> list[object]:
    return [getattr(said, field) for field in _HOLDERS.get(type(said), ())]
