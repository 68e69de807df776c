"""Bodies: long literals go out and come back; nothing else changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.refusals import refused
from windlass.errors import JournalCorrupt
from windlass.journal import bodies
from windlass.journal.bodies import MIN_BODY_BYTES, Body
from windlass.kernel import Json, canonical


def encoded(value: Json) -> bytes:
    return canonical.encode(value)


def kept(found: tuple[Body, ...]) -> Callable[[str], bytes]:
    return {body.digest: body.data for body in found}.__getitem__


def joined(data: bytes) -> bytes:
    left, found = bodies.split(data)
    return bodies.join(left, kept(found))


# --- splitting -----------------------------------------------------------------------------------


def test_a_long_text_goes_out_and_leaves_its_digest() -> None:
    literal = b'"' + b"x" * 2_048 + b'"'
    digest = sha256(literal).hexdigest()
    left, found = bodies.split(b'{"a":1,"text":' + literal + b"}")
    assert left == b'{"a":1,"text":"\\u0000' + digest.encode() + b'"}'
    assert found == (Body(digest, literal),)
    assert bodies.references(left) == (digest,)


@pytest.mark.parametrize(("length", "is_split"), [(2_047, False), (2_048, True), (2_049, True)])
def test_a_text_is_long_from_its_limit_on(length: int, is_split: bool) -> None:
    assert MIN_BODY_BYTES == 2_048
    data = encoded({"padding": ["short"] * 500, "text": "x" * length})
    left, found = bodies.split(data)
    assert bool(found) is is_split
    assert (left == data) is not is_split


def test_short_bytes_stay_as_they_are() -> None:
    for value in (None, "", "x" * 2_000, {"a": ["b"] * 100}, [""] * 5_000):
        data = encoded(value)
        assert bodies.split(data) == (data, ())
        assert bodies.references(data) == ()
        assert bodies.join(data, kept(())) is data


def long_ones(data: bytes) -> list[bytes]:
    """Return the long literals, found byte by byte."""
    found: list[bytes] = []
    at = 0
    while (begin := data.find(b'"', at)) >= 0:
        at, characters = begin + 1, 0
        while at < len(data) and data[at : at + 1] != b'"':
            at += 2 if data[at : at + 1] == b"\\" else 1
            characters += 1
        if at >= len(data):
            break
        at += 1
        if characters >= 2_048:
            found.append(data[begin:at])
    return found


PIECES = st.sampled_from(
    (
        b'"', b"\\", b"\\\\", b'\\"', b"\\n", b",", b"a", b"a" * 1_024, b"a" * 2_047, b"a" * 2_048,
        b"\\n" * 1_024, b"\\n" * 2_047, "é".encode() * 1_024,
    )
)  # fmt: skip


@given(st.lists(PIECES, max_size=12))
def test_what_goes_out_is_every_literal_that_is_long_and_nothing_else(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    _, found = bodies.split(data)
    assert [body.data for body in found] == list(dict.fromkeys(long_ones(data)))
    assert joined(data) == data


def test_the_same_text_is_one_body() -> None:
    left, found = bodies.split(encoded(["x" * 3_000, "y" * 3_000, "x" * 3_000]))
    assert [body.data[1:2] for body in found] == [b"x", b"y"]
    assert bodies.references(left) == tuple(body.digest for body in found)
    assert len(left) < 300


def test_a_text_that_looks_like_a_reference_is_none() -> None:
    digest = "ab" * 32
    for text in (f"\\u0000{digest}", f'"\\u0000{digest}"', f'\\"\\u0000{digest}\\"'):
        data = encoded([text, text * 100, "x" * 3_000])
        assert digest not in bodies.references(bodies.split(data)[0])
        assert joined(data) == data


# --- law: joining what was split gives the same bytes --------------------------------------------

pieces = st.sampled_from(
    ["x", '"', "\\", '\\"', "\\\\", "é", "🚢", "\n", "\x01", "\\u0000", "a" * 64, '","', ":{}[]"]
)
texts = st.builds(
    lambda parts, times: "".join(parts) * times,
    st.lists(pieces, max_size=5),
    st.sampled_from([0, 1, 1, 3, 500, 1_024, 2_047, 2_048, 2_500]),
)
numbers = st.builds(
    lambda number, times: [number] * times, st.integers(), st.sampled_from([1, 900, 2_100])
)
leaves = st.none() | st.booleans() | st.integers() | texts | numbers
documents = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text('ab"\\é', max_size=4) | texts.map(lambda t: t[:3_000]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(documents)
def test_joining_what_was_split_gives_the_same_bytes(document: Json) -> None:
    data = encoded(document)
    left, found = bodies.split(data)
    assert bodies.join(left, kept(found)) == data
    assert set(bodies.references(left)) == {body.digest for body in found}
    for body in found:
        assert body.digest == sha256(body.data).hexdigest()
        assert len(body.data) > MIN_BODY_BYTES


def test_a_long_row_of_numbers_between_texts_comes_back() -> None:
    """A cut may fall between two literals; it comes back all the same."""
    data = encoded(
        ["a", *range(2_000), "b" * 3_000, *range(2_000), "c\\", *range(900), 'd"' * 3_000]
    )
    assert joined(data) == data


# --- damage --------------------------------------------------------------------------------------


def test_a_body_that_is_not_its_digests_is_refused() -> None:
    left, (body,) = bodies.split(encoded({"text": "canary" * 1_000}))
    for tampered in (body.data[:-2] + b'x"', b"", b'""', body.data + b" ", body.data[1:]):
        with pytest.raises(JournalCorrupt) as caught:
            bodies.join(left, lambda _, tampered=tampered: tampered)  # type: ignore[misc]
        assert caught.value.field == "body"
        assert body.digest[:12] in str(caught.value)
        assert "canary" not in str(caught.value)


def test_two_bodies_that_are_swapped_are_refused() -> None:
    left, (one, two) = bodies.split(encoded(["x" * 3_000, "y" * 3_000]))
    swapped = {one.digest: two.data, two.digest: one.data}
    refused(lambda: bodies.join(left, swapped.__getitem__), JournalCorrupt)


def test_a_mark_without_a_digest_is_left_alone() -> None:
    data = b'["\\u0000abc","\\u0000"]'
    assert bodies.references(data) == ()
    assert bodies.join(data, kept(())) == data


# --- cost ----------------------------------------------------------------------------------------

QUARTER_MB = 250_000
TEN_MB = 10_000_000


def many(literal: bytes, size: int) -> bytes:
    """Return a list of this literal, about so many bytes of it."""
    return b"[" + b",".join([literal] * (size // (len(literal) + 1))) + b"]"


# Canonical bytes of a size that do their worst.
HOSTILE: dict[str, Callable[[int], bytes]] = {
    "one long text": lambda size: b'"' + b"x" * size + b'"',
    "one long text of quotes": lambda size: b'"' + b'\\"' * (size // 2) + b'"',
    "one long text of backslashes": lambda size: b'"' + b"\\\\" * (size // 2) + b'"',
    "empty texts": lambda size: many(b'""', size),
    "texts just too short": lambda size: many(b'"' + b"x" * 2_047 + b'"', size),
    "texts just long enough": lambda size: many(b'"' + b"x" * 2_048 + b'"', size),
    "short texts of backslashes": lambda size: many(b'"' + b"\\\\" * 2_000 + b'"', size),
    "short texts of quotes": lambda size: many(b'"' + b'\\"' * 2_000 + b'"', size),
    "shorter texts of quotes": lambda size: many(b'"' + b'\\"' * 500 + b'"', size),
    "numbers": lambda size: many(b"1234567", size),
}


def seconds(data: bytes) -> float:
    """Return the processor time of a split and a join."""
    began = time.process_time()
    assert joined(data) == data
    return time.process_time() - began


@pytest.mark.parametrize("name", HOSTILE)
def test_a_split_costs_what_the_bytes_are_whatever_is_in_them(name: str) -> None:
    """A quarter of a megabyte first: what is slow there need not be waited for."""
    assert seconds(HOSTILE[name](QUARTER_MB)) < 0.3
    assert seconds(HOSTILE[name](TEN_MB)) < 5


@pytest.mark.parametrize(
    "data",
    [
        b'"\\u0000' * 1_400_000,
        b'"\\u0000' + b"a" * TEN_MB,
        (b'"\\u0000' + b"a" * 63 + b'"') * 130_000,
        b'"' * TEN_MB,
    ],
    ids=["marks", "a mark without end", "digests just too short", "quotes"],
)
def test_a_join_costs_what_the_bytes_are_whatever_is_in_them(data: bytes) -> None:
    began = time.process_time()
    assert bodies.references(data) == ()
    assert bodies.join(data, kept(())) == data
    assert time.process_time() - began < 5
