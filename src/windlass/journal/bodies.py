"""Long texts are stored once: canonical bytes with their long string literals taken out.

Prompts, tool specs, tool outputs and messages repeat: the same words are a result, then a message, then
part of a summary. `split` cuts every long literal out of canonical bytes and leaves its digest in its
place; `join` puts it back. NUL can stand in no canonical text, so a literal that begins with it can be
nothing but such a reference.

Law. Joining what was split gives the same bytes, whatever canonical bytes they were: a cut is a matter of
bytes, so it need not even fall where a literal really begins.

Redaction of what goes to disk: the last place where a registered secret is taken out.

Only free text is cleaned: messages, arguments, results. What windlass itself writes (tags, keys, digests,
kinds, ids) stays as it is, also when a secret happens to be spelled like one of these words; ids that hold a
secret are refused where they come in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from typing import Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from windlass.errors import JournalCorrupt
from windlass.guards.secret import Redactor
from windlass.kernel.value import Json, Value

# Below half a page of the database a reference costs more to keep than it saves.
MIN_BODY_BYTES = 2_048

# Steps over short literals and stops behind the first long one: whatever is not short is long, so its characters need
# not be counted. Every repetition is possessive: whatever the bytes are, none is looked at more than twice.
_CHAR = rb'(?:[^"\\]|\\.)'
_SHORT = rb'[^"]*+"' + _CHAR + rb'{0,%d}+"' % (MIN_BODY_BYTES - 1)
_LONG = rb'[^"]*+("[^"\\]*+(?:\\.[^"\\]*+)*+")'
_NEXT_LONG = re.compile(rb"(?:" + _SHORT + rb")*+" + _LONG, re.DOTALL)
_REFERENCE = re.compile(rb'"\\u0000([0-9a-f]{64})"')
# No canonical bytes but those with a reference in them hold this.
MARK = b'"\\u0000'


class Body(NamedTuple):
    """A piece of canonical bytes under its digest."""

    digest: str
    data: bytes


def split(data: bytes) -> tuple[bytes, tuple[Body, ...]]:
    """Return the bytes with each long literal replaced by a reference, and the literals."""
    if len(data) < MIN_BODY_BYTES:
        return data, ()
    bodies: dict[str, Body] = {}
    pieces: list[bytes] = []
    done = 0
    while (match := _NEXT_LONG.match(data, done)) is not None:
        literal = match[1]
        digest = sha256(literal).hexdigest()
        bodies[digest] = Body(digest, literal)
        pieces += (data[done : match.start(1)], MARK, digest.encode(), b'"')
        done = match.end()
    if not bodies:
        return data, ()
    return b"".join((*pieces, data[done:])), tuple(bodies.values())


def references(data: bytes) -> tuple[str, ...]:
    """Return the digests of the bodies that split bytes refer to, each once."""
    if MARK not in data:
        return ()
    return tuple(dict.fromkeys(digest.decode() for digest in _REFERENCE.findall(data)))


def join(data: bytes, body: Callable[[str], bytes]) -> bytes:
    """Return the bytes that were split; `body` gives the bytes of a digest.

    Raises:
        JournalCorrupt: a body is not what its digest says.
    """
    if MARK not in data:
        return data

    def put(match: re.Match[bytes]) -> bytes:
        digest = match[1].decode()
        literal = body(digest)
        if sha256(literal).hexdigest() != digest:
            raise JournalCorrupt(
                f"body {digest[:12]}: its bytes are not those of its digest", field="body"
            )
        return literal

    return _REFERENCE.sub(put, data)


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
