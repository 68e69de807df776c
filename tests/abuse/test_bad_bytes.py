"""Bytes from outside, at the door of every public type: refused by exact class, naming the place."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.kernel.golden_snapshots import VALUES
from tests.kernel.other_encoder import encoded
from tests.kernel.refusals import refused
from windlass.errors import FormatUnsupported, InvalidInput, LimitExceeded, WindlassError
from windlass.kernel import (
    Attachment,
    CallTools,
    CheckpointPassed,
    DriverRecord,
    Generation,
    Message,
    ModelReplied,
    ModelReply,
    ModelRequest,
    Stopped,
    ToolCall,
    ToolSpec,
    TurnCause,
    TurnSnapshot,
    Usage,
    Value,
    canonical,
)

FULL = [name for name in VALUES if not name.endswith(".least")]


def document(name: str) -> dict[str, object]:
    loaded: dict[str, object] = json.loads(canonical.encode(VALUES[name]))
    return loaded


def refuse(name: str, changed: object, kind: type[WindlassError] = InvalidInput) -> WindlassError:
    return refused(partial(canonical.decode, encoded(changed), type(VALUES[name])), kind)


# --- every type alike ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FULL)
def test_an_unknown_field_is_refused_by_name(name: str) -> None:
    """Cases 64, 72."""
    assert "zz" in str(refuse(name, document(name) | {"zz": 1}))


@pytest.mark.parametrize("name", FULL)
def test_a_foreign_tag_is_refused(name: str) -> None:
    for tag in ("nope", "", "Message", "os.system", 5, None, ["text"]):
        assert refuse(name, document(name) | {"type": tag}).field == "$.type"


@pytest.mark.parametrize("name", FULL)
def test_a_missing_tag_is_refused(name: str) -> None:
    refuse(name, {key: item for key, item in document(name).items() if key != "type"})


@pytest.mark.parametrize("name", FULL)
def test_a_missing_field_is_refused_by_name(name: str) -> None:
    fields = msgspec.structs.fields(type(VALUES[name]))
    for field in fields:
        if field.required:
            changed = document(name)
            del changed[field.name]
            assert field.name in str(refuse(name, changed))


@pytest.mark.parametrize("name", FULL)
def test_a_value_of_another_type_is_refused_by_place(name: str) -> None:
    for field in msgspec.structs.fields(type(VALUES[name])):
        if field.type is Any or field.type == dict[str, Any]:
            continue
        for wrong in ({"x": [1]}, [[1]]):
            error = refuse(name, document(name) | {field.name: wrong})
            assert error.field is not None
            assert error.field.startswith(f"$.{field.name}")


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b'"x"', b"0", b"{}", b"\x00", b"\xff\xfe", b"NaN", b"[" * 10]
)
def test_what_is_no_object_of_this_type_is_refused(name: str, data: bytes) -> None:
    """Cases 1, 2, 5."""
    if data == b"{}":
        # Nothing is required of it but its tag, and that is missing.
        refused(partial(canonical.decode, data, type(VALUES[name])))
    else:
        assert refused(partial(canonical.decode, data, type(VALUES[name]))).field == "$"


@pytest.mark.parametrize("name", FULL)
def test_deep_nesting_is_refused_before_it_hurts(name: str) -> None:
    """Case 3."""
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        nested = opening * 100_000 + b"1" + closing * 100_000
        first = type(VALUES[name]).__struct_fields__[:1] or ("zz",)
        spelled = b'{"' + first[0].encode() + b'":' + nested + b"}"
        with pytest.raises(WindlassError) as caught:
            canonical.decode(spelled, type(VALUES[name]))
        assert type(caught.value) in (InvalidInput, LimitExceeded)


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [0, 2, -1, 99, 2**70])
@pytest.mark.parametrize("name", [name for name in VALUES if name.startswith("TurnSnapshot")])
def test_another_format_is_told_from_damage(name: str, found: int) -> None:
    """Case 58: the format is looked at before anything else that may have changed with it."""
    for changed in (
        document(name) | {"format": found},
        document(name) | {"format": found, "unheard_of": 1, "state": {"type": "dreaming"}},
        {"format": found},
    ):
        error = refuse(name, changed, FormatUnsupported)
        assert (error.field, error.found, error.wanted) == ("$.format", found, 1)


@pytest.mark.parametrize("found", ["1", None, 1.5, True, [1], {}])
def test_a_format_that_is_no_number_is_damage(found: object) -> None:
    changed = document("TurnSnapshot.Preparing") | {"format": found}
    assert refuse("TurnSnapshot.Preparing", changed).field == "$.format"


def test_a_snapshot_without_format_is_damage() -> None:
    changed = document("TurnSnapshot.Preparing")
    del changed["format"]
    assert "format" in str(refuse("TurnSnapshot.Preparing", changed))


# --- one field at a time -------------------------------------------------------------------------

BAD: list[tuple[type[Value], str, str, str]] = [
    (Message, '"role":"tool"', "$.role", "tool"),
    (Message, '"role":null', "$.role", "null"),
    (Message, '"prune":"gone"', "$.prune", "gone"),
    (Message, '"parts":null', "$.parts", "null"),
    (Message, '"parts":["hi"]', "$.parts[0]", "str"),
    (Message, '"parts":[{"type":"video"}]', "$.parts[0].type", "video"),
    (Message, '"parts":[{"type":"message"}]', "$.parts[0].type", "message"),
    (Message, '"parts":[{"text":"\\u0000","type":"text"}]', "$.parts[0]", "NUL"),
    (Message, '"origin":{"type":"god_origin"}', "$.origin.type", "god_origin"),
    (ToolCall, '"args":[]', "$.args", "array"),
    (ToolCall, '"args":{"a":"\\u0000"}', "$", "another spelling"),
    (ToolCall, '"args":{"\\u0000":1}', "$", "another spelling"),
    (ToolCall, '"args":{"a":1e999}', "$.args[...]", "out of range"),
    (ToolCall, '"call_id":7', "$.call_id", "int"),
    (ToolSpec, '"parameters":null', "$.parameters", "null"),
    (Attachment, '"n_bytes":"many"', "$.n_bytes", "str"),
    (Attachment, '"ref":"a\\u0000"', "$", "Attachment.ref: found NUL"),
    (DriverRecord, '"data":{"a":[0,"\\u0000"]}', "$", "DriverRecord.data.a[1]: found NUL"),
    (TurnCause, '"id":"a/b"', "$", "TurnCause.id: found the character U+002F"),
    (TurnCause, '"id":""', "$", "TurnCause.id: found empty text"),
    (Usage, '"input_tokens":-1', "$", "below 0"),
    (Usage, '"input_tokens":1.5', "$.input_tokens", "float"),
    (Usage, '"input_tokens":"3"', "$.input_tokens", "str"),
    (Usage, '"input_tokens":true', "$.input_tokens", "bool"),
    (Generation, '"temperature":"hot"', "$.temperature", "str"),
    (Generation, '"temperature":-1.0', "$", "temperature: found -1.0"),
    (Generation, '"temperature":1000000000.0', "$", "temperature: found 1000000000.0"),
    (Generation, '"max_output_tokens":0', "$", "max_output_tokens: found 0"),
    (ModelReply, '"text":"other"', "$", "ModelReply.text"),
    (ModelReply, '"parts":[{"ref":"a","type":"attachment"}]', "$.parts[0].type", "attachment"),
    (ModelRequest, '"tool_choice":"maybe"', "$.tool_choice", "maybe"),
    (ModelRequest, '"messages":[{"parts":[],"role":"tool","type":"model_message"}]', "$.messages[0].role", "tool"),
    (ModelRequest, '"messages":[1]', "$.messages[0]", "int"),
    (ModelReplied, '"id":"1"', "$.id", "str"),
    (ModelReplied, '"result":null', "$.result", "null"),
    (ModelReplied, '"result":{"type":"failure"}', "$.result.type", "failure"),
    (CallTools, '"calls":{}', "$.calls", "object"),
    (CheckpointPassed, '"delivery":{"messages":[5],"type":"checkpoint_delivery"}', "$.delivery.messages[0]", "int"),
    (Stopped, '"reason":"tired"', "$.reason", "tired"),
    (TurnSnapshot, '"state":{"type":"dreaming"}', "$.state.type", "dreaming"),
    (TurnSnapshot, '"state":{"effect_id":1,"type":"waiting_tools"}', "$.state", "calls"),
    (TurnSnapshot, '"messages":[{"id":"m","parts":[],"role":"user","type":"text"}]', "$.messages[0].type", "text"),
    (TurnSnapshot, '"queue":[{"id":1,"kind":"after_work","type":"run_checkpoint"}]', "$.queue[0].type", "run_checkpoint"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spelled", "field", "named"), BAD)
def test_a_bad_field_is_refused_by_place(
    kind: type[Value], spelled: str, field: str, named: str
) -> None:
    name = "TurnSnapshot.Preparing" if kind is TurnSnapshot else kind.__name__
    changed = document(name) | json.loads("{" + spelled.replace("1e999", "1e308") + "}")
    data = encoded(changed).replace(b"1e+308", b"1e999")
    error = refused(partial(canonical.decode, data, kind))
    assert error.field == field
    assert named in str(error)


def test_too_many_stop_sequences_are_over_the_limit() -> None:
    """Case 28."""
    changed = document("Generation") | {"stop": ["x"] * 10_000}
    error = refuse("Generation", changed, LimitExceeded)
    assert (error.found, error.wanted) == (10_000, 16)
    assert "Generation.stop" in str(error)


def test_a_refusal_of_a_long_payload_is_short() -> None:
    payload = "sk-live-0123456789" * 1_000
    for changed in (
        document("Message") | {"id": {"key": payload}},
        document("Message") | {payload: 1},
        document("Message") | {"role": payload},
    ):
        assert len(str(refuse("Message", changed))) < 300
