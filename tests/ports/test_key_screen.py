"""The key does not pass: in no event, however it is cut, and in no field of a reply."""

from __future__ import annotations

import base64
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.behaviours import joined
from windlass.guards import Redactor, Secret
from windlass.kernel import (
    Citation,
    ModelReply,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    Usage,
)
from windlass.ports.key_screen import KeyScreen
from windlass.ports.model import AttemptFailed, CallChunk, ModelEvent, ReasoningChunk, TextChunk

KEY = "sk-sk-9f8"
REDACTOR = Redactor([Secret(KEY, name="API_KEY")])
CODED = base64.b64encode(f"x{KEY}".encode()).decode()


def words(*pieces: str) -> list[ModelEvent]:
    return [TextChunk(text=piece) for piece in pieces]


def shown(*events: ModelEvent) -> list[ModelEvent]:
    seen: list[ModelEvent] = []
    screen = KeyScreen(REDACTOR, seen.append)
    for event in events:
        screen.emit(event)
    screen.reply(ModelReply())
    return seen


def cleaned(**fields: Any) -> ModelReply:
    return KeyScreen(REDACTOR, lambda _: None).reply(ModelReply(**fields))


# --- events ---------------------------------------------------------------------------------------------


def test_what_cannot_be_the_key_is_shown_at_once() -> None:
    seen: list[ModelEvent] = []
    screen = KeyScreen(REDACTOR, seen.append)
    for event in words("Hello, ", "wor", "ld."):
        screen.emit(event)
        assert seen[-1] == event


def test_the_key_does_not_pass_in_the_pieces_of_arguments() -> None:
    pieces = [CallChunk(call_id="c", name="pay", text=text) for text in ('{"k": "sk-s', 'k-9f8"}')]

    seen = shown(*pieces)

    assert "".join(each.text for each in seen if isinstance(each, CallChunk)) == (
        '{"k": "[API_KEY]"}'
    )


def test_the_key_does_not_pass_in_the_name_or_the_id_of_a_call() -> None:
    pieces = [CallChunk(call_id=f"c-{KEY}", name=f"pay_{KEY}", text=text) for text in ("{", "}")]

    assert shown(*pieces) == [
        CallChunk(call_id="c-[API_KEY]", name="pay_[API_KEY]", text="{"),
        CallChunk(call_id="c-[API_KEY]", name="pay_[API_KEY]", text="}"),
    ]


def test_what_is_held_back_of_one_strand_is_not_shown_as_another() -> None:
    one = TextChunk(text="mas", phase="commentary")
    two = TextChunk(text="k-sk-9f8", phase="final_answer")
    three = CallChunk(call_id="a", name="n", text="sk-")
    four = CallChunk(call_id="b", name="n", text="sk-9f8")

    assert shown(one, two, three, four) == [
        TextChunk(text="ma", phase="commentary"),
        TextChunk(text="s", phase="commentary"),
        TextChunk(text="k-sk-9f8", phase="final_answer"),
        CallChunk(call_id="a", name="n", text="sk-"),
        CallChunk(call_id="b", name="n", text="sk-9f8"),
    ]


def test_the_key_is_taken_out_of_pages_and_of_what_the_provider_ran() -> None:
    cited = Citation(url=f"https://a/?k={KEY}", title=KEY, quote=f"say {KEY}", start=0, end=2)
    said = Text(text="Hi", phase="final_answer", citations=(cited,), replay={"index": "x"})
    ran = ServerToolCall(name="web_search", text=f"what is {KEY}", replay={"q": KEY})

    reply = cleaned(parts=(ran, said))

    page = Citation(
        url="https://a/?k=[API_KEY]", title="[API_KEY]", quote="say [API_KEY]", start=0, end=2
    )
    assert reply.parts == (
        ServerToolCall(name="web_search", text="what is [API_KEY]"),
        Text(text="Hi", phase="final_answer", citations=(page,)),
    )


def test_words_that_hold_no_key_keep_their_blob_beside_one_that_does() -> None:
    clean = Text(text="Hi", citations=(Citation(url="https://a"),), replay={"index": "x"})

    assert cleaned(parts=(clean, Reasoning(text=KEY))).parts[0] == clean


def test_an_end_that_may_begin_the_key_waits_for_the_next_piece() -> None:
    seen: list[ModelEvent] = []
    screen = KeyScreen(REDACTOR, seen.append)

    screen.emit(TextChunk(text="a mask-s"))
    assert seen == words("a ma")
    screen.emit(TextChunk(text="ki"))
    assert seen == words("a ma", "sk-ski")


def test_an_end_that_waits_is_shown_with_the_reply() -> None:
    assert shown(*words("a tusk")) == words("a tu", "sk")


def test_an_end_that_waits_is_shown_before_events_of_another_kind() -> None:
    thought, failed = ReasoningChunk(text="Hm."), AttemptFailed(reason="gone")

    assert shown(*words("ask"), thought) == [*words("a", "sk"), thought]
    assert shown(*words("ask"), failed, *words("again")) == [
        *words("a", "sk"),
        failed,
        *words("again"),
    ]


@pytest.mark.parametrize("echoed", [KEY, CODED, KEY * 3, f"sk-{KEY}"])
def test_cut_anywhere_the_key_is_a_mark(echoed: str) -> None:
    text = f"It is {echoed}, I think."
    wanted = words(REDACTOR.clean(text))
    assert KEY not in REDACTOR.clean(text)

    for place in range(len(text) + 1):
        assert list(joined(shown(*words(text[:place], text[place:])))) == wanted, place
    assert list(joined(shown(*words(*text)))) == wanted


@given(
    st.lists(st.sampled_from([*KEY, KEY, KEY[:5], KEY[4:], CODED, " ", "a"]), max_size=40),
    st.data(),
)
def test_however_text_is_cut_no_key_is_in_it(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    places = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    seen = joined(shown(*words(*(text[a:b] for a, b in pairwise(places)))))
    said = "".join([event.text for event in seen if isinstance(event, TextChunk)])
    assert not REDACTOR.is_in(said.encode())
    if not REDACTOR.is_in(text.encode()):
        assert said == text


# --- the reply ------------------------------------------------------------------------------------------


def test_a_clean_reply_is_the_same() -> None:
    reply = ModelReply(
        parts=(
            Reasoning(text="Hm.", replay={"route": "r", "blob": {"data": "x"}}),
            Text(text="Hello."),
            ToolCall(call_id="c", name="n", args={"a": 1}, raw='{ "a": 1 }', replay={"blob": "y"}),
        )
    )
    assert KeyScreen(REDACTOR, lambda _: None).reply(reply) is reply


def test_every_text_of_a_reply_is_cleaned() -> None:
    reply = cleaned(
        parts=(Reasoning(text=f"My {KEY}"), Text(text=f"Your {KEY}.")),
        usage=Usage(input_tokens=1),
        terminal=f"no {KEY}",
        diagnostic=f"bad {KEY}",
        provider_usage={"model": KEY, KEY: [1, KEY, None]},
    )
    assert reply == ModelReply(
        parts=(Reasoning(text="My [API_KEY]"), Text(text="Your [API_KEY].")),
        usage=Usage(input_tokens=1),
        terminal="no [API_KEY]",
        diagnostic="bad [API_KEY]",
        provider_usage={"model": "[API_KEY]", "[API_KEY]": [1, "[API_KEY]", None]},
    )


def test_a_key_cut_over_two_parts_is_not_whole_in_the_reply() -> None:
    call = ToolCall(call_id="c", name="n", args={})
    reply = cleaned(parts=(Text(text=f"a {KEY[:4]}"), call, Text(text=f"{KEY[4:]} b")))

    assert reply.parts == (Text(text="a [API_KEY] b"), call)


@pytest.mark.parametrize(
    ("args", "raw", "wanted"),
    [
        ({"a": KEY}, f'{{ "a": "{KEY}" }}', '{"a":"[API_KEY]"}'),
        ({"a": KEY}, '{"a":"\\u0073k-sk-9f8"}', '{"a":"[API_KEY]"}'),
        ({}, f'{{"a": "{KEY}', '{"a": "[API_KEY]'),
    ],
    ids=["plain", "spelled otherwise", "cut off"],
)
def test_arguments_and_their_text_stay_one(args: dict[str, Any], raw: str, wanted: str) -> None:
    reply = cleaned(parts=(ToolCall(call_id=f"id-{KEY}", name="n", args=args, raw=raw),))

    made = dict.fromkeys(args, "[API_KEY]")
    assert reply.parts == (ToolCall(call_id="id-[API_KEY]", name="n", args=made, raw=wanted),)


def test_a_blob_with_the_key_in_it_is_dropped_and_no_other() -> None:
    mine, other = {"blob": {"data": CODED}}, {"blob": {"data": "x"}}
    reply = cleaned(
        parts=(
            Reasoning(text="Hm.", replay=mine),
            Reasoning(replay=mine),
            Reasoning(replay=other),
            ToolCall(call_id="c", name="n", args={}, replay=mine),
        )
    )
    assert reply.parts == (
        Reasoning(text="Hm."),
        Reasoning(replay=other),
        ToolCall(call_id="c", name="n", args={}),
    )
