"""One history, and what is said to a model of it, in short words."""

from __future__ import annotations

from typing import Any

from tests.kernel.builders import answers, asks, assistant, call, config, result, user
from windlass.kernel import (
    Chain,
    ChatProjector,
    HistoryView,
    Message,
    ModelMessage,
    ProjectorView,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

OPENING = "(the conversation goes on from here)"
CLEARED = "(cleared to save space)"

# u1 → a1 calls c1, c2 → r1 answers → a2 → u2 → a3 calls c3 → r3 answers → a4 → u4
HISTORY = (
    user("one", "u1"),
    asks(call("c1"), call("c2", "look_up"), id="a1"),
    answers(result("c1", "first"), result("c2", "second", name="look_up"), id="r1"),
    assistant("done one", "a2"),
    user("two", "u2"),
    asks(call("c3"), id="a3"),
    answers(result("c3", "third"), id="r3"),
    assistant("done two", "a4"),
    user("three", "u4"),
)


def shown(*messages: Message, **view: Any) -> list[ModelMessage]:
    """Return what is sent of a history under a view."""
    settings = config(view=HistoryView(**view))
    seen = ProjectorView(config=settings, messages=Chain(messages or HISTORY))
    return list(ChatProjector().project(seen).messages)


def said(messages: list[ModelMessage]) -> list[str]:
    """Return each message as short words: calls as `?id`, results as `!id:text`."""
    return ["|".join(_words_of(part) for part in message.parts) for message in messages]


def _words_of(part: object) -> str:
    if isinstance(part, ToolCall):
        return f"?{part.call_id}"
    if isinstance(part, ToolResult):
        return f"!{part.call_id}:" + "+".join(_words_of(each) for each in part.content)
    return part.text if isinstance(part, (Text, Reasoning)) else str(part.ref)  # type: ignore[attr-defined]


ALL = [
    "one",
    "?c1|?c2",
    "!c1:first|!c2:second",
    "done one",
    "two",
    "?c3",
    "!c3:third",
    "done two",
    "three",
]
