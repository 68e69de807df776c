"""Damaged pages: whatever the bytes, a value or a WindlassError; a future format is named as such."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.abuse.mutations import mutated
from tests.journal.golden_journal import VALUES
from tests.kernel.other_encoder import encoded
from tests.kernel.refusals import refused
from windlass.errors import FormatUnsupported, LimitExceeded, WindlassError
from windlass.journal import HistoryPage, JournalPage, bodies
from windlass.kernel import Json, canonical

Page: TypeAlias = JournalPage | HistoryPage

NAMES = ["JournalPage", "JournalPage.two", "HistoryPage"]
KINDS: dict[str, type[Page]] = {
    "JournalPage": JournalPage,
    "JournalPage.two": JournalPage,
    "HistoryPage": HistoryPage,
}
BYTES = {name: canonical.encode(VALUES[name]) for name in NAMES}


def document(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(BYTES[name])
    return loaded


def survives(name: str, data: bytes) -> None:
    """Read damaged bytes; what comes back as a page has exactly these bytes."""
    try:
        page = canonical.decode(data, KINDS[name])
    except WindlassError:
        return
    assert type(page) is KINDS[name]
    assert canonical.encode(page) == data


def refuse(name: str, changed: object) -> WindlassError:
    return refused(partial(canonical.decode, encoded(changed), KINDS[name]))


# --- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit_gives_a_page_or_an_error(name: str) -> None:
    data = BYTES[name]
    for at in range(len(data)):
        for bit in {at % 8, 5, 7}:
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            survives(name, bytes(changed))


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_page_is_refused_wherever_it_is_cut(name: str) -> None:
    for end in range(len(BYTES[name])):
        refused(partial(canonical.decode, BYTES[name][:end], KINDS[name]))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_that_lacks_some_bytes_gives_a_page_or_an_error(name: str) -> None:
    data = BYTES[name]
    for start in range(0, len(data), 3):
        for length in (1, 2, 7, 40):
            survives(name, data[:start] + data[start + length :])


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**64))
def test_any_damage_gives_a_page_or_an_error(name: str, seed: int) -> None:
    survives(name, mutated(random.Random(seed), BYTES[name]))


@pytest.mark.parametrize("name", NAMES)
@given(noise=st.binary(max_size=60))
def test_noise_gives_an_error(name: str, noise: bytes) -> None:
    with pytest.raises(WindlassError):
        canonical.decode(noise, KINDS[name])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "other", [b"", b"null", b"[]", b'"x"', b"5", b"{}", b"\xff", b"\xef\xbb\xbf{}"]
)
def test_what_is_no_page_is_refused(name: str, other: bytes) -> None:
    refused(lambda: canonical.decode(other, KINDS[name]))


@given(seed=st.integers(0, 2**64))
def test_damage_to_a_split_page_gives_bytes_or_an_error(seed: int) -> None:
    """What a store joins is damaged too: it finds no such body, or one that does not fit."""
    page = document("HistoryPage") | {"turn_id": "t" * 5_000}
    left, found = bodies.split(encoded(page))
    kept = {body.digest: body.data for body in found}
    try:
        joined = bodies.join(mutated(random.Random(seed), left), lambda at: kept.get(at, b""))
    except WindlassError:
        return
    survives("HistoryPage", joined)


# --- edits ---------------------------------------------------------------------------------------


def places(found: Json, path: str = "$") -> list[tuple[str, dict[str, Any]]]:
    """Return every object in a document, with its path."""
    inner = found.items() if isinstance(found, dict) else enumerate(found)
    here = [(path, found)] if isinstance(found, dict) else []
    for key, item in inner:
        if isinstance(item, (dict, list)):
            here += places(item, f"{path}.{key}")
    return here


# What is plain JSON takes any field: it is somebody's payload.
PLAIN = (
    "args",
    "output",
    "patches",
    "limits",
    "context",
    "value",
    "detail",
    "data",
    "provider_usage",
)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_field_is_refused_wherever_it_is(name: str) -> None:
    count = len(places(document(name)))
    tried = 0
    for at in range(count):
        changed = document(name)
        path, holder = places(changed)[at]
        if "type" not in holder or any(f".{field}" in path for field in PLAIN):
            continue
        holder["zz"] = 1
        assert "zz" in str(refuse(name, changed))
        tried += 1
    assert tried >= 8


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tag", ["nope", "", "JournalPage", "os.system", 5, None, ["claimed"]])
def test_an_unknown_tag_is_refused_wherever_it_is(name: str, tag: Json) -> None:
    for at in range(len(places(document(name)))):
        changed = document(name)
        path, holder = places(changed)[at]
        if "type" in holder and not any(f".{field}" in path for field in PLAIN):
            holder["type"] = tag
            refuse(name, changed)


@pytest.mark.parametrize("name", NAMES)
def test_the_other_page_is_refused(name: str) -> None:
    other = "JournalPage" if name == "HistoryPage" else "HistoryPage"
    refused(lambda: canonical.decode(BYTES[other], KINDS[name]))


def test_a_record_under_a_key_of_another_kind_is_refused_by_its_place() -> None:
    changed = document("JournalPage")
    changed["entries"][2]["key"] = "s-1/t-1/2/3/sleep/e-1"
    error = refuse("JournalPage", changed)
    assert error.field == "$.entries[2]"
    assert "CallReturned" in str(error)


@pytest.mark.parametrize("key", ["", "x", "s-1/t-1/2/3/nap/e-1", "/" * 9])
def test_a_record_under_no_key_is_refused(key: str) -> None:
    changed = document("JournalPage")
    changed["entries"][2]["key"] = key
    assert refuse("JournalPage", changed).field == "$.entries[2]"


@pytest.mark.parametrize("name", NAMES)
def test_a_page_nested_too_deeply_is_refused(name: str) -> None:
    field = "nodes" if name == "HistoryPage" else "entries"
    deep = b'{"' + field.encode() + b'":' + b"[" * 100_000
    refused(lambda: canonical.decode(deep, KINDS[name]), LimitExceeded)


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [0, 3, -1, 2**40])
def test_another_format_is_named_as_such(name: str, number: int) -> None:
    data = encoded(document(name) | {"format": number})
    error = refused(lambda: canonical.decode(data, KINDS[name]), FormatUnsupported)
    assert (error.found, error.wanted) == (number, 1 if name == "HistoryPage" else 2)


@pytest.mark.parametrize("name", NAMES)
def test_a_future_format_is_named_before_anything_else_is_looked_at(name: str) -> None:
    for data in (
        b'{"format":3}',
        b'{"format":3,"type":"page_of_the_future","zz":[1]}',
        b'{"entries":5,"format":3,"nodes":{}}',
        b' { "zz": null, "format": 3 }',
    ):
        refused(partial(canonical.decode, data, KINDS[name]), FormatUnsupported)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [None, "1", True, 1.5, [1], 2**70])
def test_what_is_no_format_number_is_refused(name: str, number: Json) -> None:
    with pytest.raises(WindlassError):
        canonical.decode(encoded(document(name) | {"format": number}), KINDS[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_page_without_a_format_is_refused(name: str) -> None:
    changed = document(name)
    del changed["format"]
    assert "format" in str(refuse(name, changed))
