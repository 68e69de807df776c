"""Damage for bytes: flips, cuts, doublings, and the changes that a hand editing JSON would make."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from windlass.kernel import Json

# Pieces that have a meaning to some parser, somewhere.
_PIECES: tuple[bytes, ...] = (
    b"null", b"NaN", b"Infinity", b"-0", b"1e400", b"1.0", b"true", b'""', b"[]", b"{}", b"\\u0000",
    b"\\ud800", b"\\", b'"', b",", b":", b"[", b"]", b"{", b"}", b" ", b"\n", b"\x00", b"\xff",
    b"\xef\xbb\xbf", b"\xed\xa0\x80", b'"type":"text"', b'"zz":1,', b"9" * 40, b"9" * 5_000, b"/**/",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**53 + 1, 2**63, -(2**70), 0.5, -0.0, 1e308, "", "x", "\x00",
    "a\ud800", "user", "assistant", "text", "ok", "é", [], {}, [[]], {"a": 1}, [None], {"type": "text"},
)  # fmt: skip


def flip(dice: random.Random, data: bytes) -> bytes:
    """Change one bit, or a few."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at = dice.randrange(len(changed))
        changed[at] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(dice: random.Random, data: bytes) -> bytes:
    """Leave something out."""
    start, end = sorted((dice.randrange(len(data) + 1), dice.randrange(len(data) + 1)))
    return data[:start] + data[end:] if dice.random() < 0.7 else data[start:end]


def double(dice: random.Random, data: bytes) -> bytes:
    """Say something twice."""
    start, end = sorted((dice.randrange(len(data) + 1), dice.randrange(len(data) + 1)))
    return data[:end] + data[start:]


def put_in(dice: random.Random, data: bytes) -> bytes:
    """Put a piece somewhere."""
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(_PIECES) + data[at:]


def edit(dice: random.Random, data: bytes) -> bytes:
    """Change the document as a person would, and write it down canonically or nearly so."""
    document = json.loads(data)
    for _ in range(dice.choice((1, 1, 2, 3))):
        document = _edited(dice, document)
    spaced = dice.random() < 0.1
    text = json.dumps(
        document,
        sort_keys=dice.random() < 0.9,
        separators=(", ", ": ") if spaced else (",", ":"),
        ensure_ascii=dice.random() < 0.1,
    )
    return text.encode(errors="surrogatepass")


def nest(dice: random.Random, data: bytes) -> bytes:
    """Wrap a value into itself, a few times or very often."""
    times = dice.choice((1, 2, 60, 64, 65, 70, 1_000, 50_000))
    if dice.random() < 0.5:
        return b"[" * times + data + b"]" * times
    at = data.find(b":", dice.randrange(len(data))) + 1
    return data[:at] + b'{"a":' * times + b"1" + b"}" * times + data[at:]


def noise(dice: random.Random, _data: bytes) -> bytes:
    """Anything: bytes, or pieces of JSON."""
    if dice.random() < 0.5:
        return dice.randbytes(dice.randrange(40))
    return b"".join(dice.choices(_PIECES, k=dice.randrange(12)))


Mutation = Callable[[random.Random, bytes], bytes]
# Edits reach deepest, so they are half of it.
MUTATIONS: tuple[Mutation, ...] = (edit, edit, edit, edit, edit, edit, flip, flip, cut, double, put_in, put_in)  # fmt: skip
RARE: tuple[Mutation, ...] = (nest, noise)


def mutated(dice: random.Random, data: bytes) -> bytes:
    """Return `data` with some damage."""
    if dice.random() < 0.05:
        return dice.choice(RARE)(dice, data)
    return dice.choice(MUTATIONS)(dice, data)


def _edited(dice: random.Random, document: Json) -> Json:
    """Change one thing somewhere in the document, in place where it can be."""
    places = _places(document)
    if not places:
        return _any_value(dice)
    holder, key = dice.choice(places)
    choice = dice.randrange(6)
    if choice == 0:
        holder[key] = _any_value(dice)
    elif choice == 1:
        del holder[key]
    elif choice == 2:
        other, other_key = dice.choice(places)
        holder[key] = copy.deepcopy(other[other_key])
    elif choice == 3 and isinstance(holder, dict):
        holder[dice.choice(("zz", "type", "id", "\x00", "", "format"))] = _any_value(dice)
    elif choice == 4 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    else:
        tags = [each[at] for each, at in places if at == "type"]
        target = dice.choice([each for each, at in places if at == "type"] or [holder])
        if isinstance(target, dict):
            target["type"] = copy.deepcopy(dice.choice([*tags, "message", "text", "finished"]))
    return document


def _any_value(dice: random.Random) -> Json:
    # A copy: what is put into a document may be changed there.
    return copy.deepcopy(dice.choice(_VALUES))


def _places(document: Json) -> Sequence[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        holder = waiting.pop()
        keys: Any = ()
        if isinstance(holder, dict):
            keys = holder
        elif isinstance(holder, list):
            keys = range(len(holder))
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found
