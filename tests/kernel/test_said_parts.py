"""Words on the way to an answer are not the answer; what a provider adds to words stays with them."""

from __future__ import annotations

import pytest

from tests.kernel.builders import machine, messages_in, reply_to
from windlass.errors import InvalidInput
from windlass.kernel import (
    Citation,
    Done,
    Generation,
    Message,
    ModelFinished,
    ModelReply,
    Progress,
    Reasoning,
    ServerTool,
    ServerToolCall,
    Text,
    ToolCall,
    WebSearch,
    canonical,
)
from windlass.kernel.messages import answer_in, citations_in, commentary_in
from windlass.kernel.projector import render_message
from windlass.kernel.tokens import tokens_of_part

ASIDE = Text(text="I look it up.", phase="commentary")
ANSWER = Text(text="It rains.", phase="final_answer")
PAGE = Citation(url="https://a.example", title="A", quote="rain", start=3, end=8)
SEARCH = ServerToolCall(name="web_search", text="weather", replay={"route": "r", "blob": {}})


# --- what is the answer ------------------------------------------------------------------------


def test_commentary_is_not_part_of_the_answer_and_is_never_glued_to_it() -> None:
    reply = ModelReply(parts=(ASIDE, ANSWER))

    assert reply.text == "It rains."
    assert commentary_in(reply.parts) == "I look it up."


def test_commentary_alone_is_the_text_because_there_is_no_other() -> None:
    reply = ModelReply(parts=(ASIDE, Text(text="And further.", phase="commentary")))

    assert reply.text == "I look it up.\n\nAnd further."
    assert commentary_in(reply.parts) == ""


def test_words_of_an_unknown_phase_belong_to_the_answer() -> None:
    assert answer_in((Text(text="a", phase="draft"), Text(text="b"))) == "ab"


def test_words_that_a_provider_cut_for_its_citations_are_one_text() -> None:
    parts = (Text(text="It "), Text(text="rains", citations=(PAGE,)), Text(text="."))

    assert ModelReply(parts=parts).text == "It rains."


def test_a_citation_in_other_words_refers_to_the_same_place() -> None:
    assert PAGE.changed(str.upper) == Citation(
        url="HTTPS://A.EXAMPLE", title="A", quote="RAIN", start=3, end=8
    )


def test_a_reply_that_was_read_back_has_the_same_text_and_parts() -> None:
    reply = ModelReply(parts=(ASIDE, SEARCH, Text(text="x", citations=(PAGE,), replay={"a": [1]})))

    assert canonical.decode(canonical.encode(reply), ModelReply) == reply


def test_plain_words_are_stored_as_before() -> None:
    assert canonical.encode(Text(text="hi")) == b'{"text":"hi","type":"text"}'


# --- what is told of it ------------------------------------------------------------------------


def test_a_page_is_named_once_however_often_it_is_referred_to() -> None:
    again = Citation(url="https://a.example", title="A", quote="other words")
    parts = (Text(text="x", citations=(PAGE, again)), Text(text="y", citations=(PAGE,)))

    assert citations_in(parts) == (Citation(url="https://a.example", title="A"),)


def test_what_is_told_of_a_reply_names_commentary_pages_and_what_the_provider_ran() -> None:
    answer = Text(text="It rains.", citations=(PAGE,))
    reply = ModelReply(parts=(ASIDE, SEARCH, ServerToolCall(name="code"), answer))

    told = ModelFinished.of(reply, iteration=2)

    assert told == ModelFinished(
        iteration=2,
        text="It rains.",
        commentary="I look it up.",
        citations=(Citation(url="https://a.example", title="A"),),
        server_tools=("web_search: weather", "code"),
    )


def test_what_is_told_of_one_text_names_its_pages() -> None:
    reply = ModelReply(parts=(Text(text="It rains.", citations=(PAGE,)),))

    assert ModelFinished.of(reply, iteration=1).citations == (
        Citation(url="https://a.example", title="A"),
    )


# --- what a model is shown again ---------------------------------------------------------------


def sent(*parts: object) -> tuple[object, ...]:
    message = render_message(Message(id="m", role="assistant", parts=parts))  # type: ignore[arg-type]
    assert message is not None
    return message.parts


def test_a_tool_that_the_provider_ran_is_sent_again_in_its_place() -> None:
    words = Text(text="It rains.", citations=(PAGE,), replay={"route": "r", "blob": {}})

    assert sent(Reasoning(replay={"x": 1}), SEARCH, words) == (
        Reasoning(replay={"x": 1}),
        SEARCH,
        words,
    )


def test_a_tool_that_the_provider_ran_is_not_sent_again_without_its_blob() -> None:
    assert sent(ServerToolCall(name="web_search", text="weather"), ANSWER) == (ANSWER,)


def test_what_a_search_found_counts_as_tokens_because_it_is_sent_again() -> None:
    large = ServerToolCall(name="web_search", replay={"found": "word " * 400})

    assert tokens_of_part(large) > 300
    assert tokens_of_part(ServerToolCall(name="web_search")) < 20


def test_a_reply_that_was_filtered_keeps_its_words_without_blobs() -> None:
    words = Text(text="It ra", citations=(PAGE,), replay={"route": "r", "blob": {}})
    reply = ModelReply(parts=(SEARCH, words), terminal="content_filter")

    driven = machine()
    effects = reply_to(driven, reply)
    stored = [
        record
        for each in effects
        if isinstance(each, (Progress, Done))
        for record in each.new_records
    ]

    assert [message.parts for message in messages_in(stored)] == [
        (Text(text="It ra", citations=(PAGE,)),)
    ]


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: WebSearch(max_uses=0), "WebSearch.max_uses"),
        (lambda: WebSearch(max_uses=True), "WebSearch.max_uses"),
        (lambda: WebSearch(allowed_domains="a.example"), "WebSearch.allowed_domains"),  # type: ignore[arg-type] # the point
        (lambda: WebSearch(allowed_domains=(1,)), "WebSearch.allowed_domains[0]"),  # type: ignore[arg-type] # the point
        (
            lambda: WebSearch(allowed_domains=("a",), blocked_domains=("b",)),
            "WebSearch.blocked_domains",
        ),
        (lambda: ServerTool(provider="openai", spec="code"), "ServerTool.spec"),  # type: ignore[arg-type] # the point
        (lambda: Generation(server_tools=("web_search",)), "Generation.server_tools[0]"),  # type: ignore[arg-type] # the point
        (lambda: Generation(server_tools=WebSearch()), "Generation.server_tools"),  # type: ignore[arg-type] # the point
        (lambda: ModelReply(parts=(object(),)), "ModelReply.parts"),  # type: ignore[arg-type] # the point
    ],
)
def test_what_no_provider_could_take_is_refused_where_it_is_made(made: object, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        made()  # type: ignore[operator]

    assert refused.value.field == field


def test_lists_are_taken_for_tuples() -> None:
    search = WebSearch(allowed_domains=["a.example"])  # type: ignore[arg-type]

    assert Generation(server_tools=[search]) == Generation(server_tools=(search,))  # type: ignore[arg-type]


def test_calls_stand_beside_tools_that_the_provider_ran() -> None:
    reply = ModelReply(parts=(SEARCH, ToolCall(call_id="c", name="look")), terminal="tool_use")

    assert [type(part) for part in reply.parts] == [ServerToolCall, ToolCall]
