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
from windlass.kernel import ModelReply, Reasoning, Text, ToolCall, Usage
from windlass.ports.key_screen import KeyScreen
from windlass.ports.model import AttemptFailed, ModelEvent, ReasoningChunk, TextChunk

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
