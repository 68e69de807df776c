"""Messages and their parts: what is refused when they are built, and what is taken."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.kernel.builders import user
from windlass.errors import InvalidInput
from windlass.kernel import (
    Attachment,
    Code,
    CodeOutput,
    DriverRecord,
    ErrorText,
    Json,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    canonical,
)

UNCLEAN = ["\x00", "a\x00b", "\ud800", "é\udfff"]
FIELDS: dict[str, Callable[[str], object]] = {
    "Text.text": lambda text: Text(text=text),
    "Reasoning.text": lambda text: Reasoning(text=text),
    "ToolCall.name": lambda text: ToolCall(call_id="c", name=text),
    "ToolCall.raw": lambda text: ToolCall(call_id="c", name="n", raw=text),
    "Code.source": lambda text: Code(language="python", source=text),
    "CodeOutput.text": lambda text: CodeOutput(text=text),
    "CodeOutput.error": lambda text: CodeOutput(error=text),
    "ErrorText.text": lambda text: ErrorText(text=text),
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("text", UNCLEAN, ids=ascii)
def test_text_that_no_store_could_keep_is_refused_by_its_field(field: str, text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        FIELDS[field](text)
    assert refused.value.field == field


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("text", ["", "plain", "naïve ✓ 😀", "\n\t\x01"], ids=ascii)
def test_clean_text_of_any_kind_is_taken(field: str, text: str) -> None:
    FIELDS[field](text)


@pytest.mark.parametrize("found", [7, None, b"x", ["x"]], ids=repr)
def test_what_is_no_text_is_refused(found: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        Text(text=found)  # type: ignore[arg-type] # what is tried
    assert (
        refused.value.field,
        refused.value.found,
        refused.value.wanted,
    ) == ("Text.text", type(found).__name__, "text")


@pytest.mark.parametrize(
    ("args", "raw"),
    [
        ({"a": "x\x00"}, '{"a": "x\\u0000"}'),
        ({"a": ["\udcff"]}, '{"a": ["\\udcff"]}'),
        ({"\x00": 1}, '{"\\u0000": 1}'),
    ],
    ids=["NUL", "surrogate", "key"],
)
def test_arguments_that_no_store_could_keep_are_kept_as_text(
    args: dict[str, Json], raw: str
) -> None:
    call = ToolCall(call_id="c", name="n", args=args)

    assert (call.args, call.raw) == ({}, raw)
    assert canonical.decode(canonical.encode(call), ToolCall) == call


def test_the_providers_own_text_of_such_arguments_is_kept_instead() -> None:
    call = ToolCall(call_id="c", name="n", args={"a": "\x00"}, raw='{"a":"\\u0000"}')

    assert (call.args, call.raw) == ({}, '{"a":"\\u0000"}')


@pytest.mark.parametrize(
    "args",
    [{"a": "\x00", "b": object()}, {"a": object()}, {"a": float("nan")}],
    ids=["both", "object", "nan"],
)
def test_arguments_that_are_not_json_are_refused(args: dict[str, Json]) -> None:
    with pytest.raises(InvalidInput) as refused:
        ToolCall(call_id="c", name="n", args=args)
    assert str(refused.value.field).startswith("ToolCall.args")


@pytest.mark.parametrize("args", [[1], "x", 7, None], ids=repr)
def test_arguments_that_are_no_object_are_refused(args: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        ToolCall(call_id="c", name="n", args=args)  # type: ignore[arg-type] # what is tried
    assert refused.value.field == "ToolCall.args"
    assert str(refused.value) == f"ToolCall.args: found {refused.value.found}, wanted an object"
    assert refused.value.wanted == "an object"


def test_any_iterable_of_parts_is_taken() -> None:
    listed: Json = [Text(text="a"), Text(text="b")]
    iterated: Json = iter(listed[:1])

    assert Message(id="m", role="user", parts=listed).parts == (Text(text="a"), Text(text="b"))
    assert Message(id="u1", role="user", parts=iterated) == user("a")


def test_plain_text_is_taken_for_the_content_of_a_result() -> None:
    plain: Json = "x"

    assert ToolResult(call_id="c", name="n", content=plain) == ToolResult(
        call_id="c", name="n", content=(Text(text="x"),)
    )


def test_a_list_of_parts_is_taken_for_the_content_of_a_result() -> None:
    parts: Json = [Text(text="x"), Attachment(ref="b")]

    assert ToolResult(call_id="c", name="n", content=parts).content == tuple(parts)


@pytest.mark.parametrize("content", [7, None, {"a": 1}], ids=repr)
def test_other_content_of_a_result_is_refused(content: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        ToolResult(call_id="c", name="n", content=content)  # type: ignore[arg-type] # what is tried
    found = type(content).__name__
    assert str(refused.value) == f"content: found {found}, wanted text or parts"
    assert (refused.value.field, refused.value.found) == ("content", found)


def test_json_in_a_part_is_a_frozen_copy() -> None:
    args, blob, data = {"a": [1]}, {"sig": [1]}, {"d": [1]}
    call = ToolCall(call_id="c", name="n", args=args, replay=blob)
    record = DriverRecord(data=data)

    args["a"].append(2)
    blob["sig"].append(2)
    data["d"].append(2)

    assert call.args == {"a": [1]}
    assert call.replay == {"sig": [1]}
    assert record.data == {"d": [1]}
    with pytest.raises(TypeError):
        call.args["a"] = 3


def test_a_message_cannot_be_changed() -> None:
    message = user("hi")

    with pytest.raises(AttributeError):
        message.role = "assistant"  # type: ignore[misc] # what is tried
    assert msgspec.structs.replace(message, role="assistant").role == "assistant"


def test_the_stored_form_of_a_message_leaves_defaults_out() -> None:
    assert (
        canonical.encode(user("hi"))
        == b'{"id":"u1","parts":[{"text":"hi","type":"text"}],"role":"user","type":"message"}'
    )
