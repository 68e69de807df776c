"""Values without registered secrets, in a turn as on disk.

Law 1. A turn cleans what comes in before it uses or records it. So what is recorded is what was used, and a replay asks
    for the same. A store cleans once more, as the last before the disk, and finds nothing unless a turn missed it.
Law 2. Only free text is cleaned: messages, arguments, results. What windlass itself writes (tags, keys, digests,
    kinds, ids) stays as it is, also when a secret happens to be spelled like one of these words; ids that hold a
    secret are refused where they come in.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from windlass.guards.secret import REGISTERED, Redactor
from windlass.kernel import Json, Value, canonical

V = TypeVar("V")

# Fields of values that name something. Those that are one of a few words are found by their type.
_NAMES = frozenset(
    {
        "agent", "call_id", "consumes", "digest", "driver", "driver_version", "effect_id", "event_type", "frame_id",
        "id", "item_id", "key", "language", "messages", "model", "name", "plugin", "policy_version", "process_id",
        "ref", "replay_key", "reply", "session_id", "signal_id", "subject", "terminal", "tool", "turn_id", "type",
        "usage_source", "version", "wait_key",
    }
)  # fmt: skip
_ENCODER = msgspec.json.Encoder(order="sorted")


def cleaned(value: V, kind: Any = None) -> V:  # noqa: ANN401 - a hint
    """Return a value without any registered secret in its words; `kind` is its type, where that takes a hint."""
    if not REGISTERED.secrets:
        return value
    data = canonical.encode(value)
    clean = redact(data, REGISTERED)
    return value if clean == data else canonical.read(clean, kind or type(value))


def redact(data: bytes, redactor: Redactor) -> bytes:
    """Return canonical bytes of a value without any secret in its words."""
    if not redactor.is_in(data):
        return data
    return _ENCODER.encode(_clean(msgspec.json.decode(data), redactor))


def clean_json(value: Json, redactor: Redactor = REGISTERED) -> Json:
    """Return plain JSON with every text in it clean, also the names of its fields."""
    if isinstance(value, str):
        return redactor.clean(value)
    if isinstance(value, list):
        return [clean_json(item, redactor) for item in value]
    if isinstance(value, dict):
        return {redactor.clean(key): clean_json(item, redactor) for key, item in value.items()}
    return value


def _clean(value: Json, redactor: Redactor) -> Json:
    if isinstance(value, list):
        return [_clean(item, redactor) for item in value]
    if not isinstance(value, dict):
        return clean_json(value, redactor)
    free, fixed = _fields(value.get("type"))
    return {
        key: item
        if key in fixed and isinstance(item, str)
        else (clean_json if key in free else _clean)(item, redactor)
        for key, item in value.items()
    }


@cache
def _fields(tag: object) -> tuple[frozenset[str], frozenset[str]]:
    """Return which fields of values with this tag hold plain JSON, and which hold no free text."""
    kinds = [kind for kind in _subclasses(Value) if kind.__struct_config__.tag == tag]
    free = {name for kind in kinds for name in getattr(kind, "json_fields", ())}
    chosen = {
        name for kind in kinds for name, hint in get_type_hints(kind).items() if _is_choice(hint)
    }
    # The name of a file is somebody's words.
    names = _NAMES - {"name"} if tag == "attachment" else _NAMES
    return frozenset(free), names | chosen


def _subclasses(kind: type[Value]) -> Iterator[type[Value]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def _is_choice(hint: object) -> bool:
    return get_origin(hint) is Literal or any(map(_is_choice, get_args(hint)))
