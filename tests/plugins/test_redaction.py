"""Redaction: what a tool, a person or the model says goes on without what gives somebody away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.fake_turn import FakeHost, FakeTurn
from windlass.errors import ConfigError
from windlass.kernel.messages import Attachment, Reasoning, ResultPart, Text, ToolCall
from windlass.kernel.model_call import ModelReply
from windlass.kernel.tool_call import CompletedToolCall, EndTurn, FailTurn, HandOff, ToolOutcome
from windlass.kernel.value import Json
from windlass.plugins.output_budget import OutputBudget
from windlass.plugins.redaction import Redaction
from windlass.ports.model import ReasoningChunk, TextChunk
from windlass.tools import clipped

BOB = "bob@example.com"
KEY = "sk-" + "proj-" + "abcDEF1234567890abcd"
PHOTO = Attachment(ref="ab" * 32, media_type="image/png", name="bob@example.com.png")


async def after(
    outcome: ToolOutcome, host: FakeHost | None = None, **options: Any
) -> ToolOutcome | None:
    call = CompletedToolCall(call_id="call_1", name="fetch", args={"to": BOB}, outcome=outcome)
    return await Redaction(**options).after_tool(FakeTurn("redaction", host), call)


async def redacted(value: Json, **options: Any) -> Json:
    made = await after(ToolOutcome(value=value), **options)
    return value if made is None else made.value


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (f"Write to {BOB}.", "Write to [email]."),
        ({"to": [BOB, {"cc": BOB}], "n": 1}, {"to": ["[email]", {"cc": "[email]"}], "n": 1}),
        ({BOB: "a key stays"}, {BOB: "a key stays"}),
        ({"password": "hunter2"}, {"password": "[password]"}),
        ({"pin": 1234, "db_password": 1234}, {"pin": 1234, "db_password": "[password]"}),
        ({"password": None, "api_key": "", "secret": True}, {"password": None, "api_key": "", "secret": True}),
        ({"password": {"min": 8, "of": BOB}}, {"password": {"min": 8, "of": "[email]"}}),
        ({"headers": {"Authorization": "Bearer x"}}, {"headers": {"Authorization": "[authorization]"}}),
        (f"password={KEY}; api_key: 'a b'", "password=[openai-key]; api_key: '[password]'"),
        ([1, 2.5, None, True, "plain"], [1, 2.5, None, True, "plain"]),
        ("call +49 30 1234567 or pay 4111 1111 1111 1111", "call [phone] or pay [card]"),
    ],
)  # fmt: skip
async def test_every_text_in_a_value_is_redacted(value: Json, wanted: Json) -> None:
    assert await redacted(value) == wanted


async def test_a_result_without_anything_to_hide_is_not_touched() -> None:
    outcome = ToolOutcome(value={"a": ["b"]}, content=(Text(text="c"), PHOTO), shown=(PHOTO,))

    assert await after(outcome) is None


async def test_words_and_what_is_shown_are_redacted_and_attachments_stay() -> None:
    outcome = ToolOutcome(
        status="error", value=BOB, content=(Text(text=BOB), PHOTO), shown=(PHOTO, Text(text=BOB))
    )

    made = await after(outcome)

    hidden = Text(text="[email]")
    assert made == ToolOutcome(
        status="error", value="[email]", content=(hidden, PHOTO), shown=(PHOTO, hidden)
    )


@pytest.mark.parametrize(
    ("control", "of_all", "of_tools"),
    [
        (EndTurn(value=BOB), EndTurn(value="[email]"), EndTurn(value=BOB)),
        (FailTurn(value=[BOB]), FailTurn(value=["[email]"]), FailTurn(value=[BOB])),
        (
            HandOff(target="bob", task={"to": BOB}),
            HandOff(target="bob", task={"to": "[email]"}),
            HandOff(target="bob", task={"to": "[email]"}),
        ),
    ],
)
async def test_what_ends_a_turn_is_output_and_what_is_handed_on_is_not(
    control: Json, of_all: object, of_tools: object
) -> None:
    outcome = ToolOutcome(value=BOB, control=control)

    whole, tools = await after(outcome, output=True), await after(outcome)

    assert whole is not None
    assert whole.control == of_all
    assert tools is not None
    assert tools.control == of_tools


async def test_redacting_again_changes_nothing() -> None:
    value = {"a": f"password={KEY}, {BOB}", "password": "x", "b": "Authorization: Bearer abc"}
    once = await redacted(value, replacement="some {kind}, hidden", distinct=True)

    assert once != value
    assert await redacted(once, replacement="some {kind}, hidden", distinct=True) == once


async def test_a_secret_that_only_looks_like_a_replacement_is_one() -> None:
    assert await redacted("password=[other]") == "password=[password]"
    assert await redacted('password="[email]hunter2"') == 'password="[password]"'
    assert await redacted({"password": "[email]!"}) == {"password": "[password]"}


async def test_what_shows_once_its_neighbour_is_gone_is_redacted_too() -> None:
    assert await redacted(f"{BOB}-{BOB}") == "[email][email]"


async def test_the_replacement_is_as_asked_for() -> None:
    assert await redacted(BOB, replacement="<{kind} gone>") == "<email gone>"
    assert await redacted(BOB, replacement="***") == "***"


async def test_only_what_is_asked_for_is_looked_for() -> None:
    text = f"{BOB} {KEY} 10.0.0.1"

    assert await redacted(text) == "[email] [openai-key] 10.0.0.1"
    assert await redacted(text, patterns=["ipv4", "email"]) == f"[email] {KEY} [ipv4]"
    assert await redacted(text, patterns=()) == text


async def test_patterns_of_ones_own_come_first() -> None:
    custom = {"ticket": r"\bT-\d{4}\b", "staff": re.compile(r"(\w+)@example\.com")}

    made = await redacted(f"T-1234 by {BOB}", custom=custom)

    assert made == "[ticket] by [staff]@example.com"  # of a group only what it took is meant


# ---------------------------------------------------------------------- telling apart


async def test_two_addresses_are_told_apart_and_one_stays_itself() -> None:
    ann = await redacted("ann@example.com", distinct=True)
    bob = await redacted(BOB, distinct=True)
    upper = await redacted(BOB.upper(), distinct=True)

    assert re.fullmatch(r"\[email-[0-9a-f]{4}\]", ann)
    assert ann != bob == upper


async def test_a_tag_says_nothing_in_another_session() -> None:
    host = FakeHost()
    host.session_id = "other"
    made = await after(ToolOutcome(value=BOB), host, distinct=True)

    assert made is not None
    assert made.value != await redacted(BOB, distinct=True)


async def test_keys_passwords_and_cards_have_no_tag() -> None:
    text = f"{KEY} password=abc 4111 1111 1111 1111"

    assert await redacted(text, distinct=True) == "[openai-key] password=[password] [card]"


async def test_one_number_written_in_two_ways_is_one_number() -> None:
    made = await redacted("+49 30 1234567, +4930-1234567", distinct=True)

    first, second = made.split(", ")
    assert first == second


# ---------------------------------------------------------------------- the whole text that a turn kept


def cut(value: object, limit: int, host: FakeHost) -> tuple[ToolOutcome, Attachment]:
    """What a turn makes of a result over its tool's limit."""
    outcome, full = clipped(value, limit=limit)
    assert full is not None
    ref = "cd" * 32
    host.blobs[ref] = full
    whole = Attachment(ref=ref, media_type="text/plain", name="full-output", n_bytes=len(full))
    shown = outcome.shown and (*outcome.shown, whole)
    return ToolOutcome(value=outcome.value, content=(*outcome.content, whole), shown=shown), whole


def words(parts: tuple[ResultPart, ...] | None) -> str:
    return "".join(part.text for part in parts or () if isinstance(part, Text))


def refs(*views: tuple[ResultPart, ...] | None) -> set[str]:
    return {part.ref for view in views for part in view or () if isinstance(part, Attachment)}


@pytest.mark.parametrize(
    "value",
    [
        f"{BOB} " + "x" * 500 + f" {BOB}",
        {"a": BOB, "rest": "x" * 500, "z": BOB},
        [Text(text=f"{BOB} " + "x" * 300), PHOTO, Text(text=f"{BOB} " + "y" * 300)],
    ],
    ids=["text", "json", "parts"],
)
async def test_the_whole_text_is_kept_redacted_and_the_raw_one_is_no_longer_referred_to(
    value: Json,
) -> None:
    host = FakeHost()
    outcome, raw = cut(value, 400, host)

    made = await after(outcome, host)

    assert made is not None
    (kept,) = refs(made.content, made.shown) - {PHOTO.ref}
    assert kept != raw.ref
    assert host.blobs[kept].count(b"[email]") == 2
    assert BOB.encode() not in host.blobs[kept]
    assert BOB not in f"{made.value} {words(made.content)} {words(made.shown)}"
    assert "bytes are not shown)" in words(made.shown or made.content)
    names = [part.name for part in made.content if isinstance(part, Attachment)]
    assert names.count("full-output") == 1
    assert names.count(PHOTO.name) == outcome.content.count(PHOTO)


async def test_half_a_secret_at_the_edge_of_what_is_shown_is_not_shown() -> None:
    host = FakeHost()
    text = "x" * 80 + f" {KEY} " + "y" * 200
    outcome, _ = cut(text, 100, host)
    assert KEY[:15] in words(outcome.shown)  # the turn cut it in the middle

    made = await after(outcome, host)

    assert made is not None
    assert words(made.shown) == (
        "x" * 80 + " [openai-key] yyyyyy\n(cut here: 194 of 294 bytes are not shown)"
    )


async def test_a_whole_text_with_nothing_to_hide_stays() -> None:
    host = FakeHost()
    outcome, _ = cut("x" * 500, 400, host)

    assert await after(outcome, host) is None
    assert len(host.blobs) == 1


async def test_a_whole_text_too_long_to_be_looked_through_is_left_out() -> None:
    host = FakeHost()
    outcome, raw = cut("x y " * 1_200_000, 1_000, host)

    made = await after(outcome, host)

    assert made is not None
    assert refs(made.content, made.shown) == set()
    assert "(cut here: 4,799,000 of 4,800,000 bytes are not shown)" in words(made.shown)
    assert "it is too long to be redacted" in words(made.shown)
    assert list(host.blobs) == [raw.ref]


async def test_a_whole_text_that_cannot_be_read_is_not_let_through() -> None:
    host = FakeHost()
    outcome, _ = cut("x" * 500, 400, host)
    host.blobs.clear()

    with pytest.raises(KeyError):
        await after(outcome, host)


async def test_what_the_output_budget_keeps_is_redacted() -> None:
    """Both plugins: the budget is asked after redaction."""
    for limit in (None, 50_000):
        host = FakeHost()
        text = "\n".join(f"{n}: {BOB}" for n in range(5_000))
        outcome = ToolOutcome(value=text) if limit is None else cut(text, limit, host)[0]
        made = await after(outcome, host)
        assert made is not None
        call = CompletedToolCall(call_id="call_1", name="fetch", outcome=made)

        shown = await OutputBudget(default="tail").present_result(
            FakeTurn("output_budget", host), call
        )

        assert shown is not None
        assert words(tuple(shown)).endswith("4999: [email]")
        (kept,) = refs(tuple(shown))
        assert host.blobs[kept].count(b"[email]") == 5_000
        assert BOB.encode() not in host.blobs[kept]


# ---------------------------------------------------------------------- people and the model


async def test_what_a_person_says_is_redacted_if_asked_for() -> None:
    turn = FakeTurn("redaction")
    parts = (Text(text=f"I am {BOB}."), PHOTO)

    assert await Redaction().on_input(turn, parts) is None
    assert await Redaction(input=True).on_input(turn, parts) == [Text(text="I am [email]."), PHOTO]
    assert await Redaction(input=True).on_input(turn, (Text(text="Hi."), PHOTO)) is None


async def test_what_the_model_says_is_redacted_if_asked_for() -> None:
    turn = FakeTurn("redaction")
    asks = ToolCall(call_id="c", name="mail", args={"to": BOB})
    signed = Reasoning(text="Plain thoughts.", replay={"signature": "s"})
    reply = ModelReply(
        parts=(
            signed,
            Reasoning(text=f"Ask {BOB}.", replay={"signature": "s"}),
            Text(text=f"I ask {BOB}."),
            asks,
        ),
        terminal="tool_use",
    )

    assert await Redaction().after_model(turn, reply) is None
    made = await Redaction(output=True).after_model(turn, reply)

    assert made == ModelReply(
        parts=(signed, Reasoning(text="Ask [email]."), Text(text="I ask [email]."), asks),
        terminal="tool_use",
    )
    assert await Redaction(output=True).after_model(turn, ModelReply(text="Hi.")) is None


def test_previews_are_not_shown_if_the_reply_is_redacted() -> None:
    turn = FakeTurn("redaction")
    hidden = Redaction(output=True)

    assert hidden.on_stream(turn, TextChunk(text="bob@")) == TextChunk(text="")
    assert hidden.on_stream(turn, ReasoningChunk(text="bob@")) == ReasoningChunk(text="")
    assert Redaction().on_stream(turn, TextChunk(text="bob@")) is None


async def test_nothing_of_a_turn_stays_on_the_plugin() -> None:
    plugin = Redaction(distinct=True, input=True, output=True)
    before = dict(vars(plugin))
    call = CompletedToolCall(call_id="c", name="t", outcome=ToolOutcome(value=BOB))
    turn = FakeTurn("redaction")
    await plugin.after_tool(turn, call)
    turn.settle()

    assert vars(plugin) == before
    assert turn.host.states == {}


# ---------------------------------------------------------------------- always


WORDS = st.sampled_from(
    [BOB, KEY, "password=", '"', "\\", " ", "\n", "a", ":", "[email]", "4111 1111 1111 1111", "+4930123456"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=12).map("".join))
async def test_whatever_is_around_it_a_key_does_not_come_through(text: str) -> None:
    made = await redacted(f"{text} {KEY} {text}")

    assert f" {KEY} " not in made


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"patterns": "email"}, "Redaction.patterns"),
        ({"patterns": ["e-mail"]}, "Redaction.patterns"),
        ({"patterns": 7}, "Redaction.patterns"),
        ({"custom": ["x"]}, "Redaction.custom"),
        ({"custom": {"email": "x"}}, "Redaction.custom"),
        ({"custom": {"A b": "x"}}, "Redaction.custom"),
        ({"custom": {"mine": "("}}, "Redaction.custom['mine']"),
        ({"custom": {"mine": 7}}, "Redaction.custom['mine']"),
        ({"custom": {"mine": b"x"}}, "Redaction.custom['mine']"),
        ({"replacement": ""}, "Redaction.replacement"),
        ({"replacement": None}, "Redaction.replacement"),
        ({"input": 1}, "Redaction.input"),
        ({"output": "yes"}, "Redaction.output"),
        ({"distinct": None}, "Redaction.distinct"),
    ],
)
def test_a_bad_option_is_refused_by_name(options: Mapping[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Redaction(**options)

    assert refused.value.field == field
