"""The one encoder: equal values give equal bytes, and only those bytes come back in."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.golden_snapshots import VALUES
from tests.kernel.other_encoder import encoded
from tests.kernel.refusals import refused
from windlass.errors import LimitExceeded
from windlass.kernel import (
    Attachment,
    CheckpointDelivery,
    CheckpointPassed,
    DriverRecord,
    Generation,
    InputAccepted,
    Json,
    LimitState,
    Message,
    ModelFailure,
    ModelReply,
    ModelRequest,
    ReasoningDelta,
    Text,
    ToolCall,
    ToolOutcome,
    ToolSpec,
    TurnSnapshot,
    Usage,
    Value,
    canonical,
    freeze,
)

MESSAGE = Message(id="m1", role="user", parts=(Text(text="hi"),))
BYTES = b'{"id":"m1","parts":[{"text":"hi","type":"text"}],"role":"user","type":"message"}'


def fresh(text: str) -> str:
    """Return equal text that is another object, as text from outside is."""
    return "".join(list(text))


# --- what is written -----------------------------------------------------------------------------


def test_keys_are_sorted_and_defaults_left_out() -> None:
    assert canonical.encode(MESSAGE) == BYTES
    assert canonical.encode({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'
    assert canonical.encode({"é": 1, "z": 2, "😀": 3, "\uffff": 4}) == (
        b'{"z":2,"\xc3\xa9":1,"\xef\xbf\xbf":4,"\xf0\x9f\x98\x80":3}'
    )


@pytest.mark.parametrize(
    ("given", "left_alone"),
    [
        (Attachment(ref="a", media_type=fresh("application/octet-stream")), Attachment(ref="a")),
        (ModelReply(terminal=fresh("stop")), ModelReply()),
        (ModelReply(usage=Usage()), ModelReply()),
        (
            ModelFailure(message="m", terminal=fresh("provider_error")),
            ModelFailure(message="m"),
        ),
        (
            ModelRequest(model="m", messages=(), generation=Generation()),
            ModelRequest(model="m", messages=()),
        ),
        (CheckpointPassed(id=1, delivery=CheckpointDelivery()), CheckpointPassed(id=1)),
        (ToolCall(call_id="c", name="n", args={}), ToolCall(call_id="c", name="n")),
        (ToolSpec(name="n", parameters={}), ToolSpec(name="n")),
        (ToolOutcome(status=fresh("ok")), ToolOutcome()),  # type: ignore[arg-type]
        (
            Message(id="m", role="user", parts=(), prune=fresh("intact")),  # type: ignore[arg-type]
            Message(id="m", role="user", parts=()),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_default_that_was_given_is_left_out_too(given: Value, left_alone: Value) -> None:
    assert given == left_alone
    assert canonical.encode(given) == canonical.encode(left_alone)
    assert canonical.digest(given) == canonical.digest(left_alone)


def test_a_default_inside_a_snapshot_is_left_out_too() -> None:
    least = VALUES["TurnSnapshot.least"]
    assert isinstance(least, TurnSnapshot)
    spelled = TurnSnapshot(
        format=1,
        session_id="s-1",
        turn_id="t-1",
        state=least.state,
        messages=least.messages,
        records=least.records,
        usage=Usage(),
        limit=LimitState(),
    )
    assert canonical.encode(spelled) == canonical.encode(least)


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (-0.0, b"-0.0"),
        (0.0, b"0.0"),
        (0, b"0"),
        (1.0, b"1.0"),
        (1, b"1"),
        (True, b"true"),
        (1000.0, b"1000.0"),
        (0.1, b"0.1"),
        (1e22, b"1e22"),
        (5e-324, b"5e-324"),
        (2**53 + 1, b"9007199254740993"),
        (2**63, b"9223372036854775808"),
        (-(2**63) - 1, b"-9223372036854775809"),
        (2**64 + 1, b"18446744073709551617"),
        ("null", b'"null"'),
        ([None], b"[null]"),
        ({"null": None, "a": "null"}, b'{"a":"null","null":null}'),
        ("\\u0000", b'"\\\\u0000"'),
        ('\x01\x1f\x7f\t\n"\\/', b'"\\u0001\\u001f\x7f\\t\\n\\"\\\\/"'),
        ("\u2028\u202e\u200b", b'"\xe2\x80\xa8\xe2\x80\xae\xe2\x80\x8b"'),
        ("🚢", b'"\xf0\x9f\x9a\xa2"'),
        ("'; DROP TABLE x; -- %_\\", b'"\'; DROP TABLE x; -- %_\\\\"'),
    ],
)
def test_json_is_written_in_one_way_and_kept_exactly(value: object, spelled: bytes) -> None:
    written = b'{"data":' + spelled + b',"type":"driver_record"}'
    record = DriverRecord(data=value)
    assert canonical.encode(record) == written
    back = canonical.decode(written, DriverRecord).data
    assert back == value
    assert type(back) is type(record.data)
    # Equal is not enough: 0.0 == -0.0.
    assert not isinstance(value, float) or repr(back) == repr(value)


def test_an_integer_a_float_and_a_truth_are_three_values() -> None:
    digests = {canonical.digest(DriverRecord(data=value)) for value in (1, 1.0, True)}
    assert len(digests) == 3
    assert canonical.digest(DriverRecord(data=0.0)) != canonical.digest(DriverRecord(data=-0.0))


def test_text_is_kept_as_given_and_not_normalized() -> None:
    nfc, nfd = "é", unicodedata.normalize("NFD", "é")
    assert canonical.encode(Text(text=nfc)) == b'{"text":"\xc3\xa9","type":"text"}'
    assert canonical.encode(Text(text=nfd)) == b'{"text":"e\xcc\x81","type":"text"}'
    assert canonical.digest(Text(text=nfc)) != canonical.digest(Text(text=nfd))
    assert canonical.decode(canonical.encode(Text(text=nfd)), Text).text == nfd


def test_the_order_in_which_keys_were_put_in_does_not_matter() -> None:
    one, other = {"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": 1}
    assert canonical.digest(DriverRecord(data=one)) == canonical.digest(DriverRecord(data=other))


# --- what is not written -------------------------------------------------------------------------

CYCLE: list[Any] = []
CYCLE.append({"a": CYCLE})

NOT_JSON: list[tuple[object, str]] = [
    (math.nan, "nan"),
    (math.inf, "inf"),
    (-math.inf, "-inf"),
    ("\ud800", "lone surrogate"),
    ("a\x00b", "NUL"),
    ({"a\x00": 1}, "key with NUL"),
    ({"\udfff": 1}, "lone surrogate"),
    ({1: 1, "1": 2}, "key of type int"),
    ({None: 1}, "key of type NoneType"),
    (10**5000, "huge integer"),
    (-(10**5000), "huge integer"),
    (b"x", "bytes"),
    (bytearray(b"x"), "bytearray"),
    ({1, 2}, "set"),
    (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), "datetime"),
    (datetime.timedelta(1), "timedelta"),
    (decimal.Decimal(1), "Decimal"),
    (Path("x"), "Path"),
    (object(), "object"),
    (1 + 2j, "complex"),
    (Text, "StructMeta"),
]


@pytest.mark.parametrize(("value", "named"), NOT_JSON, ids=[named for _, named in NOT_JSON])
def test_what_has_no_faithful_json_is_refused_by_place(value: object, named: str) -> None:
    error = refused(lambda: canonical.encode(value))
    assert error.field == "$"
    assert named in str(error)
    error = refused(lambda: canonical.encode({"a": [0, value]}))
    assert error.field == "$.a[1]"
    assert named in str(error)
    error = refused(lambda: canonical.encode([MESSAGE, value]))
    assert error.field == "$[1]"
    error = refused(lambda: DriverRecord(data={"a": [0, value]}))
    assert error.field == "DriverRecord.data.a[1]"
    assert named in str(error)


def test_a_value_that_contains_itself_is_refused() -> None:
    assert "64 levels" in str(refused(lambda: canonical.encode(CYCLE), LimitExceeded))
    assert "64 levels" in str(refused(lambda: DriverRecord(data=CYCLE), LimitExceeded))


def test_depth_ends_at_64() -> None:
    deep: list[Any] = []
    for _ in range(63):
        deep = [deep]
    assert canonical.encode(deep) == b"[" * 64 + b"]" * 64
    assert DriverRecord(data=deep).data == deep
    refused(lambda: DriverRecord(data=[deep]), LimitExceeded)
    refused(lambda: canonical.encode([deep]), LimitExceeded)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (ReasoningDelta(text="a\x00"), "$.text"),
        (ReasoningDelta(text="a\ud800"), "$.text"),
        (InputAccepted(input_id="\x00", message_ids=("null",)), "$.input_id"),
    ],
    ids=["NUL", "surrogate", "NUL beside null"],
)
def test_text_that_no_store_takes_is_refused_in_every_field(value: Value, place: str) -> None:
    assert refused(lambda: canonical.encode(value)).field == place
    assert refused(lambda: canonical.digest(value)).field == place


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5),
        inner,
        max_size=3,
    ),
    max_leaves=12,
)  # fmt: skip


@given(json_values)
def test_any_json_comes_back_as_it_was(value: Json) -> None:
    written = canonical.encode(DriverRecord(data=value))
    back = canonical.decode(written, DriverRecord)
    assert back == DriverRecord(data=value)
    assert canonical.encode(back) == written
    # The other encoder spells some floats in its own way; what they mean must be the same.
    assert json.loads(canonical.encode(freeze(value))) == json.loads(encoded(value))
