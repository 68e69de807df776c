"""Long texts are stored once: canonical bytes with their long string literals taken out.

Prompts, tool specs, tool outputs and messages repeat: the same words are a result, then a message, then
part of a summary. `split` cuts every long literal out of canonical bytes and leaves its digest in its
place; `join` puts it back. NUL can stand in no canonical text, so a literal that begins with it can be
nothing but such a reference.

Law. Joining what was split gives the same bytes, whatever canonical bytes they were: a cut is a matter of
bytes, so it need not even fall where a literal really begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from windlass.errors import JournalCorrupt

# Below half a page of the database a reference costs more to keep than it saves.
MIN_BODY_BYTES = 2_048

# Steps over short literals: whatever is not short is long, so its characters need not be counted. Every repetition is
# possessive: whatever the bytes are, none is looked at more than twice.
_CHAR = rb'(?:[^"\\]|\\.)'
_SHORT = rb'[^"]*+"' + _CHAR + rb'{0,%d}+"' % (MIN_BODY_BYTES - 1)
_SHORTS = re.compile(rb"(?:" + _SHORT + rb")*+", re.DOTALL)
# From behind one escape in a literal to its end or behind the next: most of a literal is passed over by `find`.
_ESCAPES = re.compile(rb'(?:[^"\\]{0,64}+\\.)*+', re.DOTALL)
_REFERENCE = re.compile(rb'"\\u0000([0-9a-f]{64})"')
# A thread that looks through many bytes lets the others run after so many.
_PIECE = 1024 * 1024
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
    while True:
        begin = data.find(b'"', _SHORTS.match(data, done).end())  # type: ignore[union-attr]  # it matches nothing, too
        end = _literal_end(data, begin)
        if end < 0:
            break
        literal = data[begin:end]
        digest = sha256(literal).hexdigest()
        bodies[digest] = Body(digest, literal)
        pieces += (data[done:begin], MARK, digest.encode(), b'"')
        done = end
    if not bodies:
        return data, ()
    return b"".join((*pieces, data[done:])), tuple(bodies.values())


def _literal_end(data: bytes, begin: int) -> int:
    """Return where the literal that begins there ends; -1 if none begins or it has no end."""
    if begin < 0:
        return -1
    at = begin + 1
    while True:
        end = data.find(b'"', at)
        if end < 0:
            return -1
        escape = data.find(b"\\", at, end)
        if escape < 0:
            return end + 1
        at = _ESCAPES.match(data, escape, escape + _PIECE).end()  # type: ignore[union-attr]  # there is an escape


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
