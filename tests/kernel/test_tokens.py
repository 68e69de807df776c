"""Tokens are estimated: by the kind of character, additively, and what a request repeats is counted once."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kernel import (
    Attachment,
    Chain,
    Code,
    CodeOutput,
    ErrorText,
    Message,
    ModelMessage,
    ModelRequest,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.kernel.tokens import (
    FRAME_TOKENS,
    MEDIA_TOKENS,
    estimate_tokens,
    tokens_of,
    tokens_of_part,
    tokens_of_request,
    tokens_of_tools,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("word", 1),
        ("four words in a row!", 6),  # 19 / 4 + 1 / 2
        ("x" * 4_000, 1_000),
        ("123456", 2),
        ("{}();=", 3),
        ("你好世界", 4),
        ("こんにちは", 5),
        ("안녕하세요", 5),
        ("🎉🎉", 2),
        ("Привет", 3),
        ("words and 世界", 5),  # 10 / 4 + 2
        ("\ud800", 1),
    ],
)
def test_what_a_text_takes_depends_on_its_characters(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(st.text(), st.text())
def test_two_texts_together_take_what_both_take_but_for_the_rounding(one: str, two: str) -> None:
    both = estimate_tokens(one + two)

    assert both <= estimate_tokens(one) + estimate_tokens(two) <= both + 1


@given(st.text(), st.text(min_size=1))
def test_more_text_never_takes_less(text: str, more: str) -> None:
    assert estimate_tokens(text) <= estimate_tokens(text + more)


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (Text(text="word"), 1),
        (ErrorText(text="word"), 1),
        (Code(language="python", source="x" * 40), FRAME_TOKENS + 10),
        (CodeOutput(text="x" * 40, error="x" * 40), FRAME_TOKENS + 20),
        (CodeOutput(text="x" * 40), FRAME_TOKENS + 10),
        (ToolCall(call_id="c", name="add", args={"a": 1}), FRAME_TOKENS + 4),
        (ToolResult(call_id="c", name="word"), FRAME_TOKENS + 1),
        (
            ToolResult(
                call_id="c",
                name="word",
                content=(Text(text="x" * 400), Attachment(ref="r", media_type="image/png")),
            ),
            FRAME_TOKENS + 1 + 100 + MEDIA_TOKENS,
        ),
        (Attachment(ref="r", media_type="image/png", n_bytes=10**9), MEDIA_TOKENS),
        (Attachment(ref="r", media_type="application/pdf"), MEDIA_TOKENS),
        (Attachment(ref="r", media_type="text/plain", name="word"), FRAME_TOKENS + 1),
        (Attachment(ref="word"), FRAME_TOKENS + 1),
        (Reasoning(text="x" * 400), 0),
        (Reasoning(text="x" * 400, replay={"signature": "s"}), FRAME_TOKENS + 100),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else "",
)
def test_a_part_takes_what_is_sent_of_it(part: Part, tokens: int) -> None:
    message = Message(id="m", role="user", parts=(part, Text(text="word")))

    assert tokens_of_part(part) == tokens
    assert tokens_of(message) == FRAME_TOKENS + tokens + 1


def test_a_tool_takes_its_name_its_words_and_its_parameters() -> None:
    tool = ToolSpec(name="add_", description="four", parameters={"a": "word"})

    # Seven letters and a sign; five letters and seven signs.
    assert tokens_of_tools([tool]) == FRAME_TOKENS + 3 + 5
    assert tokens_of_tools([tool, tool]) == 2 * tokens_of_tools([tool])


def test_a_request_takes_its_messages_and_its_tools() -> None:
    messages = (
        ModelMessage(role="system", parts=(Text(text="x" * 40),)),
        ModelMessage(role="user", parts=(Text(text="x" * 400),)),
    )
    tool = ToolSpec(name="word")

    request = ModelRequest(model="m", messages=messages, tools=(tool,))
    assert tokens_of_request(request) == 2 * FRAME_TOKENS + 110 + tokens_of_tools([tool])


def test_what_a_request_repeats_of_the_last_is_not_counted_again() -> None:
    class Unread(str):
        """Text that nobody may look at again."""

        __slots__ = ()
        read: ClassVar[list[str]] = []

        def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
            self.read.append(self)
            return super().encode(encoding, errors)

    first = Chain([ModelMessage(role="user", parts=(Text(text=Unread("first")),))])
    second = first.append(ModelMessage(role="user", parts=(Text(text=Unread("second")),)))

    for messages, tokens in ((first, 10), (second, 20), (first, 10)):
        request = ModelRequest(model="m", messages=messages)
        assert tokens_of_request(request) == tokens
    assert Unread.read.count("first") == Unread.read.count("second") == 1
