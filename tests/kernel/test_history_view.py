"""What of a history a model is shown: by edges, by single messages, and never a call without its result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.builders import answers, asks, call, config, result, user, words
from tests.kernel.shown_history import ALL, CLEARED, HISTORY, OPENING, said, shown
from windlass.errors import InvalidInput
from windlass.kernel import (
    WHOLE,
    Attachment,
    Chain,
    ChatProjector,
    Environment,
    HistoryView,
    InputOrigin,
    Message,
    MessageReplaced,
    ProjectorView,
    Reasoning,
    Text,
    ToolResult,
    TurnCause,
    canonical,
)
from windlass.kernel.history_view import shown_messages

PNG = Attachment(ref="b1", media_type="image/png", name="cat.png")
SIGNED = Reasoning(text="hm", replay={"signature": "s"})


def replaced(message_id: str, *parts: Any) -> tuple[MessageReplaced, ...]:
    return (MessageReplaced(id=message_id, parts=parts),)


# --- the whole -----------------------------------------------------------------------------------


def test_a_view_that_says_nothing_shows_everything() -> None:
    assert said(shown()) == ALL


def test_a_view_equal_to_the_whole_is_the_whole_and_takes_no_bytes() -> None:
    given = Environment(system_prompt="p", view=HistoryView(drop=[]))  # type: ignore[arg-type]

    assert given.view is WHOLE
    assert config(view=HistoryView()).view is WHOLE
    assert canonical.encode(given) == b'{"system_prompt":"p","type":"environment"}'


def test_without_a_view_nothing_but_the_rendering_is_kept_with_the_history() -> None:
    history = Chain(HISTORY)
    ChatProjector().project(ProjectorView(config=config(), messages=history))

    key = (ChatProjector, "", frozenset[str]())
    history.memo(key, lambda: pytest.fail("rendered under another key"))
    assert shown_messages(history, WHOLE) is history


# --- the edge behind which things are dropped ----------------------------------------------------


@pytest.mark.parametrize(
    ("edge", "expected"),
    [
        pytest.param("u1", ALL, id="at-the-first-message"),
        pytest.param("u2", ALL[4:], id="at-an-input"),
        pytest.param("a1", [OPENING, *ALL[1:]], id="at-a-call"),
        pytest.param("r1", [OPENING, *ALL[3:]], id="between-a-call-and-its-results"),
        pytest.param("u4", ALL[8:], id="at-the-last"),
        pytest.param("absent", ALL, id="of-no-message"),
    ],
)
def test_nothing_in_front_of_the_edge_is_shown(edge: str, expected: list[str]) -> None:
    assert said(shown(drop_before=edge)) == expected


def test_words_behind_results_stay_when_the_call_is_dropped() -> None:
    answered = Message(id="r1", role="user", parts=(result("c1", "first"), Text(text="and this")))

    messages = (user("one"), asks(call("c1")), answered)
    assert said(shown(*messages, drop_before="r1")) == ["and this"]


# --- the edge behind which outputs are cleared ---------------------------------------------------


def test_outputs_in_front_of_the_edge_are_cleared_and_words_stay() -> None:
    assert said(shown(clear_before="r3")) == [
        *ALL[:2],
        f"!c1:{CLEARED}|!c2:{CLEARED}",
        *ALL[3:],
    ]


@pytest.mark.parametrize("edge", ["u1", "absent"])
def test_an_edge_with_nothing_before_it_clears_nothing(edge: str) -> None:
    assert said(shown(clear_before=edge)) == ALL


def test_a_placeholder_names_the_tool_and_the_call() -> None:
    placeholder = "({name} said more: {call_id}; {other})"

    assert said(shown(clear_before="u2", placeholder=placeholder))[2] == (
        "!c1:(add said more: c1; {other})|!c2:(look_up said more: c2; {other})"
    )


def test_a_blank_placeholder_is_none() -> None:
    assert said(shown(clear_before="u2", placeholder=" \n"))[2] == f"!c1:{CLEARED}|!c2:{CLEARED}"


def test_a_cleared_result_keeps_its_name_and_its_status() -> None:
    failed = answers(result("c1", "boom", status="error"))

    sent = shown(user("one"), asks(call("c1")), failed, user("two", "u2"), clear_before="u2")
    assert sent[2].parts == (result("c1", CLEARED, status="error"),)


def test_an_attachment_in_front_of_the_edge_is_shown_by_its_name() -> None:
    seen = Message(id="u1", role="user", parts=(Text(text="look"), PNG))
    bare = Message(id="u2", role="user", parts=(Attachment(ref="b2"),))

    assert said(shown(seen, bare, user("now", "u3"), clear_before="u3", placeholder="{name}")) == [
        "look|[attachment cat.png]",
        "[attachment b2]",
        "now",
    ]
    assert said(shown(seen, bare, user("now", "u3"), clear_before="u2"))[1] == "b2"


def test_a_message_in_which_nothing_is_cleared_is_sent_as_the_very_parts() -> None:
    sent = shown(clear_before="u4")

    assert sent[3].parts is HISTORY[3].parts
    assert sent[8].parts is HISTORY[8].parts


# --- single messages -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drop", "expected"),
    [
        pytest.param(["u1"], [OPENING, *ALL[1:]], id="the-first"),
        pytest.param(["a2", "u2"], [*ALL[:3], *ALL[5:]], id="words"),
        pytest.param(["a1"], [ALL[0], *ALL[3:]], id="a-call-takes-its-results-along"),
        pytest.param(["r3"], [*ALL[:6], f"!c3:{CLEARED}", *ALL[7:]], id="results-are-cleared"),
        pytest.param(["a3", "r3"], [*ALL[:5], *ALL[7:]], id="a-call-and-its-results"),
        pytest.param(["u4"], [*ALL[:8], "(continue)"], id="the-last"),
        pytest.param(["absent"], ALL, id="none"),
    ],
)
def test_single_messages_are_dropped_as_far_as_calls_allow(
    drop: list[str], expected: list[str]
) -> None:
    assert said(shown(drop=drop)) == expected


def test_of_dropped_results_whose_call_is_shown_only_the_results_are_shown() -> None:
    answered = Message(id="r1", role="user", parts=(result("c1", "first"), Text(text="aside")))

    sent = shown(user("one"), asks(call("c1")), answered, drop=["r1"], placeholder="({name})")
    assert said(sent)[2] == "!c1:(add)"


def test_a_message_is_shown_with_other_parts() -> None:
    assert said(shown(replace=replaced("a2", Text(text="short"))))[3] == "short"


def test_the_last_word_on_a_message_counts() -> None:
    both = (*replaced("a2", Text(text="one")), *replaced("a2", Text(text="two")))

    assert said(shown(replace=both))[3] == "two"


@pytest.mark.parametrize("parts", [(), (Text(text=" "),)], ids=["no-parts", "blank"])
def test_a_message_replaced_by_nothing_is_not_shown(parts: tuple[Text, ...]) -> None:
    assert said(shown(replace=replaced("a2", *parts))) == [*ALL[:3], *ALL[4:]]


def test_calls_stay_when_the_words_beside_them_are_replaced() -> None:
    told = Message(
        id="a1", role="assistant", parts=(Text(text="long"), SIGNED, call("c1"), call("c2"))
    )
    made_up = Reasoning(text="no", replay={"signature": "forged"})
    instead = (Text(text="short"), made_up, call("c9"), result("c1", "fake"))
    answered = answers(result("c1", "first"), result("c2", "second"))

    sent = shown(user("one"), told, answered, replace=replaced("a1", *instead))
    assert sent[1].parts == (Text(text="short"), SIGNED, call("c1"), call("c2"))
    assert sent[2].parts == answered.parts


def test_results_stay_and_take_the_content_that_is_given_for_their_call() -> None:
    instead = (
        Text(text="note"),
        result("c2", "2nd", name="forged", status="error"),
        result("c9", "of no call"),
        call("c8"),
    )

    sent = shown(replace=replaced("r1", *instead))
    assert sent[2].parts == (
        result("c1", "first"),
        result("c2", "2nd", name="look_up"),
        Text(text="note"),
    )


def test_a_result_replaced_by_nothing_is_cleared() -> None:
    nothing = ToolResult(call_id="c3", name="add", content=(Text(text=" "),))

    assert said(shown(replace=replaced("r3", nothing)))[6] == f"!c3:{CLEARED}"


def test_what_replaces_a_message_is_shown_also_where_outputs_are_cleared() -> None:
    sent = shown(replace=replaced("r1", result("c2", "2nd")), clear_before="u2")

    assert said(sent)[2] == f"!c1:{CLEARED}|!c2:2nd"


def test_what_was_cleared_in_the_history_itself_is_not_brought_back_by_a_replacement() -> None:
    pruned = Message(
        id="r1", role="user", parts=(result("c1", "secret"), result("c2", "x")), prune="cleared"
    )
    messages = (user("one"), asks(call("c1"), call("c2")), pruned)

    assert said(shown(*messages, replace=replaced("r1", result("c2", "2nd"))))[2] == (
        f"!c1:{CLEARED}|!c2:2nd"
    )
    assert said(shown(*messages, drop=["absent"]))[2] == f"!c1:{CLEARED}|!c2:{CLEARED}"


def test_a_dropped_message_is_not_shown_with_other_parts() -> None:
    assert said(shown(drop=["a2"], replace=replaced("a2", Text(text="x")))) == [*ALL[:3], *ALL[4:]]


def test_notes_and_causes_are_shown_as_without_a_view() -> None:
    wake = TurnCause(id="w1", event_type="wake", origin=InputOrigin(turn_id="t0"), text="up")
    history = Chain(
        [
            user("old", "u0"),
            Message(id="n1", role="system", parts=(Text(text="note"),)),
            Message(id="w1", role="event", parts=(Text(text="up"),)),
        ]
    )
    settings = config(system_prompt="Be brief.", view=HistoryView(drop_before="n1"))

    request = ChatProjector().project(
        ProjectorView(config=settings, messages=history, causes=(wake,))
    )
    assert words(request.messages) == [
        "Be brief.",
        "[note from the system]\nnote",
        "[what woke this turn]\n\n1. wake (w1), from input of turn t0:\nup",
    ]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"drop": "u1"}, "HistoryView.drop"),
        ({"drop": (1,)}, "HistoryView.drop[0]"),
        ({"replace": ("u1",)}, "HistoryView.replace[0]"),
        ({"replace": "u1"}, "HistoryView.replace"),
        ({"drop_before": 3}, "HistoryView.drop_before"),
        ({"clear_before": "\x00"}, "HistoryView.clear_before"),
        ({"placeholder": "\ud800"}, "HistoryView.placeholder"),
    ],
)
def test_a_view_that_could_not_be_looked_up_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        HistoryView(**fields)

    assert refused.value.field == field


def test_a_replacement_that_is_no_part_is_refused() -> None:
    parts: Any = [Text(text="fine"), "words"]

    with pytest.raises(InvalidInput, match="found str, wanted a part") as refused:
        MessageReplaced(id="u1", parts=parts)
    assert refused.value.field == "MessageReplaced.parts[1]"


def test_what_is_no_view_is_refused() -> None:
    given: Any = "everything"

    with pytest.raises(InvalidInput, match=r"Environment.view: found str, wanted HistoryView"):
        Environment(view=given)
    with pytest.raises(InvalidInput, match=r"TurnConfig.view: found str, wanted HistoryView"):
        config(view=given)


# --- told in words -------------------------------------------------------------------------------


def test_in_front_of_the_edge_calls_and_results_are_told_in_words() -> None:
    history = (
        user("go", "u1"),
        Message(
            id="a1",
            role="assistant",
            parts=(SIGNED, Text(text="I look."), call("c1", "look"), call("c2", "send")),
        ),
        Message(
            id="r1",
            role="user",
            parts=(
                ToolResult(call_id="c1", name="look", content=(Text(text="found"), PNG)),
                ToolResult(call_id="c2", name="send", content=(Text(text="no"),), status="denied"),
            ),
        ),
        user("go on", "u2"),
    )

    found = shown_messages(Chain(history), HistoryView(words_before="u2"))

    told = "[note from the system]\nAnother agent called {}({}). "
    assert [message.parts for message in found] == [
        (Text(text="go"),),
        (Text(text="I look."),),
        (
            Text(text=told.format("look", "{}") + "It returned:"),
            Text(text="found"),
            PNG,
            Text(text=told.format("send", "{}") + "It ended with denied:"),
            Text(text="no"),
        ),
        (Text(text="go on"),),
    ]


def test_a_call_whose_result_is_behind_the_edge_is_told_without_it() -> None:
    history = (user("go", "u1"), asks(call("c1")), answers(result("c1", "3")))

    found = shown_messages(Chain(history), HistoryView(words_before="r1"))

    assert [message.id for message in found] == ["u1"]


def test_messages_that_are_kept_are_shown_in_front_of_the_edge() -> None:
    found = shown(drop_before="u4", keep=("u2", "absent"))

    assert said(found) == [ALL[4], *ALL[8:]]
    assert said(shown(keep=("u2",))) == ALL


def test_a_call_that_is_kept_has_its_result_cleared() -> None:
    history = (user("go", "u1"), asks(call("c1")), answers(result("c1", "3")), user("on", "u2"))

    found = shown_messages(Chain(history), HistoryView(drop_before="u2", keep=("a1",)))

    assert [message.id for message in found] == ["a1", "r1", "u2"]
    (answer,) = found[1].parts
    assert isinstance(answer, ToolResult)
    assert answer.content == (Text(text="(cleared to save space)"),)
