"""Redaction of what goes to disk: the last place where a registered secret is taken out.

Only free text is cleaned: messages, arguments, results. What windlass itself writes (tags, keys, digests,
kinds, ids) stays as it is, also when a secret happens to be spelled like one of these words; ids that hold a
secret are refused where they come in.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec

from windlass.guards.secret import Redactor
from windlass.kernel.value import Json, Value

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


def redact(data: bytes, redactor: Redactor) -> bytes:
    """Return canonical bytes of a value without any registered secret in its words."""
    if not redactor.is_in(data):
        return data
    return _ENCODER.encode(_clean(msgspec.json.decode(data), redactor, is_free=False))


def _clean(value: Json, redactor: Redactor, *, is_free: bool) -> Json:
    if isinstance(value, str):
        return redactor.clean(value)
    if isinstance(value, list):
        return [_clean(item, redactor, is_free=is_free) for item in value]
    if not isinstance(value, dict):
        return value
    if is_free:
        return {
            redactor.clean(key): _clean(item, redactor, is_free=True) for key, item in value.items()
        }
    free, fixed = _fields(value.get("type"))
    return {
        key: item
        if key in fixed and isinstance(item, str)
        else _clean(item, redactor, is_free=key in free)
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
    return frozenset(free), _NAMES | chosen


def _subclasses(kind: type[Value]) -> Iterator[type[Value]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def _is_choice(hint: object) -> bool:
    return get_origin(hint) is Literal or any(map(_is_choice, get_args(hint)))
