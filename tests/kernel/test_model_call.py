"""Requests, replies, failures and usage: what they hold and what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.kernel.builders import call
from windlass.errors import InvalidInput, LimitExceeded
from windlass.kernel import (
    Chain,
    Failure,
    Generation,
    Json,
    ModelFailure,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Reasoning,
    Text,
    Usage,
    canonical,
)

HI = ModelMessage(role="user", parts=(Text(text="hi"),))
COUNTS = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


# --- replies -----------------------------------------------------------------------------------


def test_text_alone_is_one_text_part() -> None:
    assert ModelReply(text="hi").parts == (Text(text="hi"),)


def test_the_text_of_a_reply_is_its_text_parts_joined() -> None:
    reply = ModelReply(
        parts=(Text(text="a"), Reasoning(text="hm"), Text(text="b"), call("c1"), Text(text=" c"))
    )

    assert reply.text == "ab c"


def test_text_given_beside_calls_was_said_before_them() -> None:
    assert ModelReply(text="hi", parts=(call("c1"),)).parts == (Text(text="hi"), call("c1"))


def test_text_that_agrees_with_the_parts_is_taken() -> None:
    reply = ModelReply(text="ab", parts=(Text(text="a"), Text(text="b")))

    assert reply.parts == (Text(text="a"), Text(text="b"))


def test_text_that_contradicts_the_parts_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        ModelReply(text="a", parts=(Text(text="b"),))
    assert (
        refused.value.field,
        refused.value.wanted,
    ) == ("ModelReply.text", "the parts' text joined")


def test_a_list_of_parts_is_taken() -> None:
    parts: Json = [call("c1")]

    assert ModelReply(parts=parts).parts == (call("c1"),)


def test_an_empty_reply_is_one() -> None:
    assert (
        ModelReply().text,
        ModelReply().parts,
        ModelReply().terminal,
        ModelReply().usage,
    ) == ("", (), "stop", Usage())


def test_what_the_provider_counted_is_a_frozen_copy() -> None:
    counted = {"tiers": [1]}
    reply = ModelReply(provider_usage=counted)
    counted["tiers"].append(2)

    assert reply.provider_usage == {"tiers": [1]}


# --- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages", [(HI,), [HI], Chain([HI])], ids=lambda each: type(each).__name__
)
def test_messages_of_a_request_are_kept_as_a_chain(messages: Sequence[ModelMessage]) -> None:
    request = ModelRequest(model="m", messages=messages)

    assert isinstance(request.messages, Chain)
    assert list(request.messages) == [HI]


def test_a_chain_of_messages_is_shared_not_copied() -> None:
    chain = Chain([HI])

    assert chain is ModelRequest(model="m", messages=chain).messages


def test_the_output_schema_is_a_frozen_copy() -> None:
    schema: dict[str, Any] = {"type": "object", "required": ["a"]}
    request = ModelRequest(model="m", messages=(HI,), output=schema)
    schema["required"].append("b")

    assert request.output == {"type": "object", "required": ["a"]}


def test_an_output_schema_that_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        ModelRequest(model="m", messages=(HI,), output={"a": {1}})
    assert refused.value.field == "ModelRequest.output.a"


@pytest.mark.parametrize(
    ("plain", "written_out"),
    [
        (
            ModelRequest(model="m", messages=(HI,)),
            ModelRequest(model="m", messages=(HI,), generation=Generation()),
        ),
        (ModelReply(text="x"), ModelReply(text="x", usage=Usage())),
        (ModelReply(text="x"), ModelReply(text="x", usage=Usage(input_tokens=0))),
    ],
    ids=["request", "reply", "reply-with-zero"],
)
def test_equal_values_have_equal_bytes_also_when_a_default_is_written_out(
    plain: object, written_out: object
) -> None:
    assert written_out == plain
    assert canonical.encode(written_out) == canonical.encode(plain)
    assert canonical.digest(written_out) == canonical.digest(plain)


# --- usage -------------------------------------------------------------------------------------


def test_the_prompt_is_all_that_was_sent() -> None:
    usage = Usage(
        input_tokens=1,
        output_tokens=1000,
        cached_input_tokens=20,
        cache_write_tokens=300,
        reasoning_tokens=9000,
    )

    assert usage.prompt_tokens == 321


def test_usage_adds_bucket_by_bucket() -> None:
    one = Usage(
        input_tokens=1,
        output_tokens=2,
        cached_input_tokens=3,
        cache_write_tokens=4,
        reasoning_tokens=5,
    )
    two = Usage(
        input_tokens=10,
        output_tokens=20,
        cached_input_tokens=30,
        cache_write_tokens=40,
        reasoning_tokens=50,
    )

    assert one + two == Usage(
        input_tokens=11,
        output_tokens=22,
        cached_input_tokens=33,
        cache_write_tokens=44,
        reasoning_tokens=55,
    )
    assert one + Usage() == one


@pytest.mark.parametrize("bucket", COUNTS)
@pytest.mark.parametrize("count", [-1, -(2**63)])
def test_a_count_below_zero_is_refused(bucket: str, count: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        Usage(**{"input_tokens": 7, "output_tokens": 7, bucket: count})
    assert (refused.value.field, refused.value.wanted) == ("Usage", "0 or more")


@pytest.mark.parametrize("bucket", COUNTS)
def test_counts_from_zero_on_are_taken(bucket: str) -> None:
    assert getattr(Usage(**{bucket: 0}), bucket) == 0
    assert getattr(Usage(**{bucket: 2**63 - 1}), bucket) == 2**63 - 1


# --- generation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_output_tokens": 1},
        {"max_output_tokens": 2**63 - 1},
        {"temperature": 0},
        {"temperature": 2},
        {"temperature": 0.7},
        {"top_p": 0.0},
        {"top_p": 1},
        {"seed": -5},
        {"stop": ("a",) * 16},
    ],
    ids=str,
)
def test_settings_within_their_range_are_taken(settings: dict[str, Any]) -> None:
    for field, value in settings.items():
        assert getattr(Generation(**settings), field) == value


@pytest.mark.parametrize(
    ("field", "value", "shown", "wanted"),
    [
        ("max_output_tokens", 0, "0", "1 to 9223372036854775807"),
        ("max_output_tokens", 2**63, str(2**63), "1 to 9223372036854775807"),
        ("max_output_tokens", "9", "str", "1 to 9223372036854775807"),
        ("max_output_tokens", True, "True", "1 to 9223372036854775807"),
        ("temperature", -0.1, "-0.1", "0 to 2"),
        ("temperature", 2.1, "2.1", "0 to 2"),
        ("temperature", float("nan"), "nan", "0 to 2"),
        ("temperature", float("inf"), "inf", "0 to 2"),
        ("top_p", 1.01, "1.01", "0 to 1"),
        ("top_p", -1, "-1", "0 to 1"),
    ],
)
def test_settings_outside_their_range_are_refused_before_any_network(
    field: str, value: Json, shown: str, wanted: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Generation(**{field: value})
    assert str(refused.value) == f"Generation.{field}: found {shown}, wanted {wanted}"
    assert (refused.value.field, refused.value.wanted) == (f"Generation.{field}", wanted)


def test_too_many_stop_sequences_are_refused() -> None:
    with pytest.raises(LimitExceeded) as refused:
        Generation(stop=("a",) * 17)
    assert (
        refused.value.field,
        refused.value.found,
        refused.value.wanted,
    ) == ("Generation.stop", 17, 16)


def test_a_list_of_stop_sequences_is_taken() -> None:
    stop: Json = ["a", "b"]

    assert Generation(stop=stop).stop == ("a", "b")


# --- failures ----------------------------------------------------------------------------------


def test_a_request_has_the_variant_of_its_generation_unless_it_has_another() -> None:
    high = Generation(variant="high")

    assert ModelRequest(model="m", messages=(HI,), generation=high).variant == "high"
    assert ModelRequest(model="m", messages=(HI,), generation=high, variant="low").variant == "low"
    assert ModelRequest(model="m", messages=(HI,), generation=Generation(seed=1)).variant is None
    assert ModelRequest(model="m", messages=(HI,), variant="low").variant == "low"


@pytest.mark.parametrize("variant", [0, 5, "a\x00"])
def test_a_variant_is_text(variant: Json) -> None:
    with pytest.raises(InvalidInput, match=r"Generation\.variant"):
        Generation(variant=variant)


@pytest.mark.parametrize("kind", [ModelFailure, Failure])
def test_a_failure_can_always_be_told(kind: type[ModelFailure | Failure]) -> None:
    assert kind(message="a\x00b\ud800").message == "a\ufffdb\ufffd"
    assert kind(message="fine ✓").message == "fine ✓"


@pytest.mark.parametrize("kind", [ModelFailure, Failure])
def test_a_failure_whose_message_is_no_text_is_refused(kind: type[ModelFailure | Failure]) -> None:
    message: Json = 5

    with pytest.raises(InvalidInput) as refused:
        kind(message=message)

    assert refused.value.field == f"{kind.__name__}.message"
    assert refused.value.found == "int"


def test_whole_numbers_have_the_bytes_that_they_have_once_they_were_read_back() -> None:
    given = Generation(temperature=0, top_p=1)

    written = canonical.encode(given)

    assert written == b'{"temperature":0.0,"top_p":1.0,"type":"generation"}'
    assert canonical.encode(canonical.decode(written, Generation)) == written
