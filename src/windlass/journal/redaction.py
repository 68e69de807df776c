"""The last door before the disk: no registered secret passes it, whoever forgot to take it out before.

Only words are cleaned: what somebody said, passed or was told. What windlass itself writes (tags, keys, digests,
kinds, ids) stays as it is, also when a secret happens to be spelled like one of these words; ids that hold a
secret are refused where they come in.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec

from windlass.guards.secret import Redactor
from windlass.kernel.value import Json, JsonValue, Value

# Fields of values whose text windlass chooses, or that name something.
_NAMES = frozenset(
    {
        "agent", "call_id", "checkpoint", "consumes", "contract", "digest", "driver", "driver_version", "due",
        "effect", "effect_id", "event_type", "frame_id", "id", "item_id", "key", "kind", "language", "messages",
        "mode", "model", "name", "plugin", "policy_version", "process_id", "prune", "ref", "replay_key", "reply",
        "role", "session_id", "signal_id", "status", "subject", "terminal", "tool", "tool_choice", "turn_id",
        "type", "usage_source", "verdict", "version", "wait_key", "when",
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
    json_fields = _json_fields()
    return {
        key: item
        if key in _NAMES and isinstance(item, str)
        else _clean(item, redactor, is_free=key in json_fields)
        for key, item in value.items()
    }


@cache
def _json_fields() -> frozenset[str]:
    return frozenset(_collect(JsonValue))


def _collect(kind: type[Value]) -> Iterator[str]:
    """Return the names of all fields that hold plain JSON, of whatever value."""
    for child in kind.__subclasses__():
        yield from getattr(child, "json_fields", ())
        yield from _collect(child)
