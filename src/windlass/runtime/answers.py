"""What hooks answered, read: of the types that the hook may give, and of nothing that could not be stored.

An answer is foreign: a session must not become unreadable because a plugin returned a number where text belongs. Nor
may it refer to bytes that the store does not keep: such a turn could never be committed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, get_args

import msgspec

from windlass.errors import InvalidInput, WindlassError
from windlass.guards.text import check_text
from windlass.kernel import CompletedToolCall, InjectedMessage, ToolOutcome, ToolSpec, canonical
from windlass.kernel.messages import Attachment, Part, ResultPart, Text, TurnCause
from windlass.kernel.model_call import ModelMessage, ModelRequest, RequestPart, Usage
from windlass.kernel.outcomes import StopReason
from windlass.kernel.value import Value, freeze
from windlass.ports import (
    CallChunk,
    Hold,
    ReasoningChunk,
    ReplaceArgs,
    Retry,
    Send,
    Stop,
    TextChunk,
)
from windlass.ports.directives import (
    Abort,
    Delivery,
    Finale,
    Refuse,
    Said,
    ShortCircuit,
    Withhold,
)
from windlass.ports.plugin import HOOKS
from windlass.ports.policy import Ask, Deny, Risk
from windlass.ports.prompt import LAYERS, SLOTS, Contribution

Read: TypeAlias = Callable[[Any, str], Any]
_DIRECTIVES = (Refuse, Abort, Stop, Delivery, Finale)
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
        return _ELEMENTS[each](said, hook)
    if not isinstance(said, kinds):
        raise _wrong(hook, said, " or ".join(kind.__name__ for kind in kinds))
    if type(said) in _FIELDS:
        return _with_fields(said, hook, type(said))
    return _kept(said, hook) if isinstance(said, Value) else said


def _with_fields(said: Any, field: str, kind: type) -> Any:  # noqa: ANN401 - of this type
    """Return a value with its fields read; the same object if none of them had to be changed."""
    changed = {}
    for name, read in _FIELDS[kind].items():
        found = getattr(said, name)
        value = read(found, f"{field}.{name}")
        if value is not found:
            changed[name] = value
    return msgspec.structs.replace(said, **changed) if changed else said


# ---------------------------------------------------------------------- readers: what was found, and the path to it


def _wrong(field: str, found: object, wanted: str) -> InvalidInput:
    return InvalidInput.at(field, type(found).__name__, wanted)


def _kept(value: Any, field: str) -> Any:  # noqa: ANN401 - a Value
    """Return a value that can be read again once it is stored."""
    try:
        canonical.decode(canonical.encode(value), type(value))
    except WindlassError as error:
        raise InvalidInput(f"{field}: cannot be stored: {error}", field=field) from None
    return value


def _text(found: Any, field: str) -> Any:  # noqa: ANN401 - a str
    if not isinstance(found, str):
        raise _wrong(field, found, "text")
    check_text(found, field=field)
    return found


def _seconds(found: Any, field: str) -> Any:  # noqa: ANN401 - a number
    if type(found) not in (int, float) or not math.isfinite(found) or found < 0:
        raise _wrong(field, found, "seconds of 0 or more")
    return found


def _by_name(found: Any, field: str) -> Any:  # noqa: ANN401 - a dict
    if not isinstance(found, Mapping):
        raise _wrong(field, found, "values by name")
    return freeze(dict(found), field=field)


def _compact(found: Any, field: str) -> Any:  # noqa: ANN401 - a bool or a dict
    return found if isinstance(found, bool) else _by_name(found, field)


def _result(found: Any, field: str) -> Any:  # noqa: ANN401 - any value
    return _kept(found, field) if isinstance(found, ToolOutcome) else found


def _message(found: Any, field: str) -> InjectedMessage:  # noqa: ANN401 - anything a plugin gave
    if isinstance(found, str):
        return InjectedMessage(role="user", parts=(Text(text=_text(found, field)),))
    message: InjectedMessage = _a(InjectedMessage, "text or a message")(found, field)
    _one_of(_ROLES)(message.role, f"{field}.role")
    return message


def _contribution(found: Any, field: str) -> Any:  # noqa: ANN401 - anything a plugin gave
    return _fields_of(Contribution)(Contribution(found) if isinstance(found, str) else found, field)


def _sent_message(found: Any, field: str) -> Any:  # noqa: ANN401 - anything a plugin gave
    is_known = type(found) is ModelMessage and found.role in _SENT_ROLES
    if not is_known or not _SENT_PARTS.issuperset(map(type, found.parts)):
        raise _wrong(field, found, "a ModelMessage of system, user or assistant with its parts")
    return found


# ---------------------------------------------------------------------- makers of readers


def _a(kinds: type | tuple[type, ...], wanted: str, then: Read = _kept) -> Read:
    """Read a value of these types, and what is in it; without more it can be stored."""

    def read(found: Any, field: str) -> Any:  # noqa: ANN401 - anything a plugin gave
        if not isinstance(found, kinds):
            raise _wrong(field, found, wanted)
        return then(found, field)

    return read


def _a_part(kinds: tuple[type, ...]) -> Read:
    part = _a(kinds, "text or a part")
    return lambda found, field: (
        Text(text=_text(found, field)) if isinstance(found, str) else part(found, field)
    )


def _one_of(wanted: Sequence[object]) -> Read:
    def read(found: Any, field: str) -> Any:  # noqa: ANN401 - anything a plugin gave
        if found not in wanted:
            shown = found if isinstance(found, str) else type(found).__name__
            raise InvalidInput.at(field, shown, ", ".join(map(str, wanted)))
        return found

    return read


def _fields_of(kind: type) -> Read:
    return _a(kind, kind.__name__, lambda found, field: _with_fields(found, field, kind))


def _optional(read: Read) -> Read:
    return lambda found, field: None if found is None else read(found, field)


def _each(read: Read) -> Read:
    """Read a list; one value alone is a list of it."""

    def each(found: Any, field: str) -> Any:  # noqa: ANN401 - anything a plugin gave
        listed = found if isinstance(found, (list, tuple)) else (found,)
        return tuple([read(one, f"{field}[{at}]") for at, one in enumerate(listed)])

    return each


def _all(read: Read) -> Read:
    """Read a sequence that stays the object that it is."""

    def each(found: Any, field: str) -> Any:  # noqa: ANN401 - anything a plugin gave
        for at, one in enumerate(found):
            read(one, f"{field}[{at}]")
        return found

    return each


def _exactly(kind: type, wanted: str) -> Read:
    def read(found: Any, field: str) -> Any:  # noqa: ANN401 - anything a plugin gave
        if type(found) is not kind:
            raise _wrong(field, found, wanted)
        return found

    return read


_ELEMENTS: Final[dict[object, Read]] = {
    Part: _each(_a_part(get_args(Part))),
    Said: _each(_message),
    Contribution: _each(_contribution),
    ResultPart: _each(_a_part(get_args(ResultPart))),
}
_FIELDS: Final[dict[type, dict[str, Read]]] = {
    Refuse: {"reason": _text},
    Abort: {"reason": _text},
    Deny: {"reason": _text},
    Withhold: {"feedback": _text},
    Stop: {"detail": _text, "reason": _optional(_one_of(get_args(StopReason)))},
    Retry: {"prompt": _text, "model": _optional(_text), "after_s": _seconds},
    Ask: {"title": _text, "risk": _one_of(get_args(Risk)), "action_key": _optional(_text)},
    ReplaceArgs: {"args": _by_name},
    ShortCircuit: {"result": _result},
    ModelRequest: {
        "model": _text,
        "messages": _all(_sent_message),
        "tools": _all(_exactly(ToolSpec, "ToolSpec")),
    },
    Send: {
        "request": _optional(_fields_of(ModelRequest)),
        "reserve": _optional(_a(Usage, "Usage")),
    },
    Hold: {"key": _text, "title": _text, "detail": lambda found, field: freeze(found, field=field)},
    TextChunk: {"text": _text, "phase": _optional(_text)},
    ReasoningChunk: {"text": _text},
    CallChunk: {"call_id": _text, "name": _text, "text": _text},
    Delivery: {
        "messages": _each(_message),
        "transient": _each(_message),
        "causes": _each(_a(TurnCause, "TurnCause")),
    },
    Finale: {"messages": _each(_message), "issues": _each(_text), "compact": _compact},
    Contribution: {
        "text": _text,
        "title": _text,
        "slot": _one_of(SLOTS),
        "layer": _one_of(LAYERS),
        "priority": _exactly(int, "a whole number"),
        "gate": _each(_text),
    },
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
