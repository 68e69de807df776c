"""A summary that a history begins with stands for all that came before: no edge hides it."""

from __future__ import annotations

import pytest

from tests.kernel.builders import assistant, user
from windlass.kernel import Chain, HistoryView, Message, Text
from windlass.kernel.history_view import shown_messages
from windlass.kernel.messages import Attachment

SUMMARY = Message(
    id="seed",
    role="user",
    parts=(
        Text(text="What came before: …"),
        Attachment(ref="b1", media_type="image/png", name="a"),
    ),
    prune="summarized",
)
REST = [user("one", "u1"), assistant("1", "a1"), user("two", "u2"), assistant("2", "a2")]


def ids(history: list[Message], **view: object) -> list[str]:
    shown = shown_messages(Chain(history), HistoryView(**view))  # type: ignore[arg-type]
    return [message.id for message in shown]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param({"drop_before": "u2"}, ["seed", "u2", "a2"], id="an edge"),
        pytest.param({"drop_before": "u1"}, ["seed", "u1", "a1", "u2", "a2"], id="right behind it"),
        pytest.param(
            {"drop_before": "seed", "drop": ("a2",)}, ["seed", "u1", "a1", "u2"], id="at it"
        ),
        pytest.param(
            {"drop_before": "u2", "drop": ("seed",)}, ["u2", "a2"], id="dropped by itself"
        ),
    ],
)
def test_an_edge_hides_what_is_before_it_but_for_the_summary(
    view: dict[str, object], expected: list[str]
) -> None:
    assert ids([SUMMARY, *REST], **view) == expected


def test_its_attachments_are_cleared_with_the_others() -> None:
    view = HistoryView(drop_before="u2", clear_before="u2")
    first = shown_messages(Chain([SUMMARY, *REST]), view)[0]

    assert [type(part) for part in first.parts] == [Text, Text]


def test_a_message_that_is_no_summary_is_hidden() -> None:
    assert ids([user("zero", "u0"), *REST], drop_before="u2") == ["u2", "a2"]
