"""`canonical.decode` is the strict inverse of `encode`: it takes the bytes encode gives, no others.

Journals are compared by bytes, so a second spelling of a value would be a second value.
"""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.kernel.golden_snapshots import VALUES
from tests.kernel.other_encoder import encoded
from tests.kernel.refusals import refused
from windlass.errors import LimitExceeded
from windlass.kernel import DriverRecord, Json, Message, Text, Value, canonical

MESSAGE = Message(id="m1", role="user", parts=(Text(text="hi"),))
BYTES = b'{"id":"m1","parts":[{"text":"hi","type":"text"}],"role":"user","type":"message"}'


def data(spelled: bytes) -> bytes:
    return b'{"data":' + spelled + b',"type":"driver_record"}'


OTHER_SPELLINGS: dict[str, tuple[bytes, str]] = {
    "leading space": (b" " + BYTES, "another spelling"),
    "trailing newline": (BYTES + b"\n", "another spelling"),
    "inner space": (BYTES.replace(b":", b": ", 1), "another spelling"),
    "other key order": (
        b'{"parts":[{"text":"hi","type":"text"}],"id":"m1","role":"user","type":"message"}',
        "another spelling",
    ),
    "explicit default": (
        BYTES.replace(b'"parts"', b'"incomplete":false,"parts"'),
        "another spelling",
    ),
    "explicit null": (BYTES.replace(b'"parts"', b'"origin":null,"parts"'), "another spelling"),
    "escaped letter": (BYTES.replace(b"hi", b"h\\u0069"), "another spelling"),
    "doubled key": (BYTES.replace(b'"id":"m1"', b'"id":"m1","id":"m1"'), "'id' twice"),
    "doubled key inside": (BYTES.replace(b'"hi"', b'"ho","text":"hi"'), "'text' twice"),
    "byte order mark": (b"\xef\xbb\xbf" + BYTES, "byte 0"),
    "UTF-16": (BYTES.decode().encode("utf-16"), "byte 0"),
    "UTF-16 without mark": (BYTES.decode().encode("utf-16-le"), "byte 1"),
    "trailing bytes": (BYTES + b"}", "trailing characters"),
    "two documents": (BYTES + BYTES, "trailing characters"),
    "cut off": (BYTES[:-1], "truncated"),
    "empty": (b"", "truncated"),
    "no UTF-8": (BYTES.replace(b"hi", b"\xff"), "utf-8"),
    "surrogate as UTF-8": (BYTES.replace(b"hi", b"\xed\xa0\x80"), "utf-8"),
    "surrogate escape": (BYTES.replace(b"hi", b"\\ud800"), "hex escape"),
    "low surrogate escape": (BYTES.replace(b"hi", b"\\udc00"), "surrogate"),
    "single quotes": (BYTES.replace(b'"', b"'"), "byte 1"),
    "comment": (BYTES + b"//", "trailing characters"),
}


@pytest.mark.parametrize("case", OTHER_SPELLINGS)
def test_only_the_canonical_bytes_come_in(case: str) -> None:
    spelled, named = OTHER_SPELLINGS[case]
    assert canonical.decode(BYTES, Message) == MESSAGE
    error = refused(lambda: canonical.decode(spelled, Message))
    assert error.field == "$"
    assert named in str(error)


@pytest.mark.parametrize("name", VALUES)
def test_every_default_written_out_is_refused(name: str) -> None:
    value = VALUES[name]
    document = json.loads(canonical.encode(value))
    for field in type(value).__struct_fields__:
        if field not in document:
            spelled = encoded(document | {field: _plain(getattr(value, field))})
            refused(partial(canonical.decode, spelled, type(value)))


def _plain(value: Json) -> Json:
    return json.loads(canonical.encode(value)) if isinstance(value, Value) else value


@pytest.mark.parametrize(
    ("spelled", "named"),
    [
        (b"NaN", "byte 8"),
        (b"Infinity", "byte 8"),
        (b"-Infinity", "byte 9"),
        (b"1e400", "out of range"),
        (b"-1e400", "out of range"),
        (b"1" * 5000, "out of range"),
        (b"1" * 4300, "huge integer"),
        (b"-0", "another spelling"),
        (b"1e3", "another spelling"),
        (b"1E3", "another spelling"),
        (b"1.00", "another spelling"),
        (b"01", "byte"),
        (b"+1", "byte 8"),
        (b'{"a":1,"a":1}', "'a' twice"),
        (b'{"b":1,"a":1}', "another spelling"),
        (b'"\\u00e9"', "another spelling"),
        (b'"\\/"', "another spelling"),
        (b'"\\u0000"', "NUL"),
        (b'{"a":"\\u0000"}', "data.a: found NUL"),
        (b'{"\\u0000":1}', "key with NUL"),
        (b'"\t"', "byte 9"),
        (b"[1,]", "byte"),
    ],
)
def test_json_inside_a_value_has_one_spelling_too(spelled: bytes, named: str) -> None:
    error = refused(lambda: canonical.decode(data(spelled), DriverRecord))
    assert named in str(error)


@pytest.mark.parametrize(
    "spelled",
    [b"[" * 65 + b"]" * 65, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000],
    ids=["65 arrays", "100,000 arrays", "100,000 objects"],
)
def test_json_that_is_nested_too_deeply_is_refused(spelled: bytes) -> None:
    refused(lambda: canonical.decode(data(spelled), DriverRecord), LimitExceeded)


@pytest.mark.parametrize(
    "spelled", [None, "text", bytearray(BYTES), memoryview(BYTES), 5, MESSAGE], ids=repr
)
def test_only_bytes_are_decoded(spelled: Json) -> None:
    assert "wanted bytes" in str(refused(lambda: canonical.decode(spelled, Message)))
