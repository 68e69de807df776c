"""A full window: what the turn that runs gives up, in which order, and that every request has room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.limits import times
from tests.plugins.long_talk import (
    CLEARED,
    PNG,
    Talk,
    answer,
    asks,
    events,
    long_words,
    shown,
    step,
    tokens,
    whole_turn,
    window,
)
from windlass.kernel import Message, ModelRequest, Text, ToolCall, ToolSpec
from windlass.kernel.tokens import tokens_of_request
from windlass.testing import broken_rules

# --- the turn that runs ---------------------------------------------------------------------------


async def test_turns_that_are_kept_lose_their_outputs_if_there_is_no_other_way() -> None:
    talk = Talk(window(2_000))
    talk.past(*whole_turn(1, 100), *whole_turn(2, 1_500))
    talk.begin(asks(3))
    talk.add(*step(3, 0, 800))

    request = talk.request(await talk.look())

    assert shown(request) == [
        "10",
        "?c2-0-0",
        f"!c2-0-0:{CLEARED}",
        "10",
        "10",
        "?c3-0-0",
        "!c3-0-0:800",
    ]


async def test_all_turns_but_the_one_that_runs_are_dropped_if_there_is_no_other_way() -> None:
    talk = Talk(window(2_000))
    talk.past(asks(1, n_tokens=900), answer(1))
    talk.begin(asks(2))
    talk.add(*step(2, 0, 1_500))

    assert shown(talk.request(await talk.look())) == ["10", "?c2-0-0", "!c2-0-0:1500"]


async def test_of_a_long_turn_the_oldest_outputs_are_cleared_down_to_the_target() -> None:
    talk = Talk(window(2_000))
    talk.begin(asks(1))
    for at in range(6):
        talk.add(*step(1, at, 300))

    request = talk.request(await talk.look())

    assert [line[7:] for line in shown(request) if line.startswith("!")] == [
        *[f":{CLEARED}"] * 4,
        ":300",
        ":300",
    ]
    assert broken_rules(request) == []


async def test_the_results_of_the_last_step_are_shortened_last_of_all() -> None:
    talk = Talk(window(2_000))
    talk.begin(asks(1))
    talk.add(*step(1, 0, 400), *step(1, 1, 20, 5_000, 3_000))

    view = await talk.look()
    request = talk.request(view)

    assert view.clear_before == "a1-1"
    assert tokens_of_request(request) <= 2_000
    first, second, third = request.messages[4].parts
    assert shown(request)[4].startswith("!c1-1-0:20|!c1-1-1:wordword")
    for part, size in ((second, 20_000), (third, 12_000)):
        text = part.content[0].text  # type: ignore[union-attr]
        assert text.startswith("wordword")
        assert text.endswith("wordword")
        assert f" of {size:,} characters left out)" in text
        assert 1_500 < len(text) < 4_500
    assert first == talk.history[4].parts[0]
    assert events(talk) == ["trimmed"]


async def test_shortened_results_say_how_to_read_on() -> None:
    talk = Talk(window(2_000), tools=(ToolSpec(name="read_output"),))
    talk.begin(asks(1))
    talk.add(*step(1, 0, 5_000))

    assert (
        'left out; read_output(call_id="c1-0-0") shows them)'
        in shown(talk.request(await talk.look()))[2]
    )


async def test_what_was_shortened_is_cleared_when_it_is_not_the_last_step_any_more() -> None:
    talk = Talk(window(2_000))
    talk.begin(asks(1))
    talk.add(*step(1, 0, 5_000))
    await talk.look()
    talk.add(*step(1, 1, 10))

    view = await talk.look()

    assert view.replace == ()
    assert shown(talk.request(view))[2] == f"!c1-0-0:{CLEARED}"


async def test_an_attachment_among_results_that_are_too_long_is_shown_by_its_name() -> None:
    talk = Talk(window(2_000))
    talk.begin(asks(1))
    talk.add(*step(1, 0, PNG, PNG))

    assert shown(talk.request(await talk.look()))[2] == (
        "!c1-0-0:[attachment cat.png]|!c1-0-1:[attachment cat.png]"
    )


async def test_of_the_last_results_those_that_have_room_stay_as_they_are() -> None:
    talk = Talk(window(6_000))
    talk.begin(asks(1))
    talk.add(*step(1, 0, PNG, 8_000))

    line = shown(talk.request(await talk.look()))[2]
    assert line.startswith("!c1-0-0:<cat.png>|!c1-0-1:wordword")


@pytest.mark.parametrize("n_steps", [0, 1])
async def test_what_cannot_have_room_is_told_and_sent(n_steps: int) -> None:
    talk = Talk(window(2_000))
    talk.begin(asks(1, n_tokens=2_500))
    for at in range(n_steps):
        talk.add(*step(1, at, 10))

    view = await talk.look()

    assert events(talk)[-1] == "does_not_fit"
    assert talk.host.emitted[-1][2]["usable"] == 2_000
    assert broken_rules(talk.request(view)) == []
    assert shown(talk.request(view))[0] == "2500"


@pytest.mark.parametrize(
    "beside",
    [
        {"system_prompt": tokens(1_200)},
        {"tools": (ToolSpec(name="big", description=tokens(1_200)),)},
    ],
    ids=["prompt", "tools"],
)
async def test_prompt_and_tools_count(beside: dict[str, Any]) -> None:
    talk = Talk(window(2_000), **beside)
    talk.past(*long_words(2))
    talk.begin(asks(3))

    view = await talk.look()

    assert view.drop_before == "u2"
    assert tokens_of_request(talk.request(view)) <= 2_000


# --- any session ----------------------------------------------------------------------------------


SIZES = st.sampled_from((1, 20, 200, 700, 3_000))


@st.composite
def turns(draw: st.DrawFn) -> list[list[list[Message]]]:
    """Turns, each as the pieces between which the model is asked."""
    made = []
    for turn in range(draw(st.integers(1, 8))):
        extra = draw(st.lists(st.just(PNG), max_size=1))
        pieces = [[asks(turn, *extra, n_tokens=draw(st.sampled_from((1, 50, 300))))]]
        for at in range(draw(st.integers(0, 4))):
            outputs = draw(st.lists(SIZES | st.just(PNG), min_size=1, max_size=3))
            pieces.append(step(turn, at, *outputs))
        made.append(pieces)
    return made


@settings(max_examples=times(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    talk_of=turns(),
    usable=st.sampled_from((600, 1_000, 2_500, 8_000)),
    keep_turns=st.integers(1, 3),
    counted=st.sampled_from((None, 0.8, 1.0, 1.3)),
)
async def test_every_request_has_room_pairs_and_shows_what_runs(
    talk_of: list[list[list[Message]]], usable: int, keep_turns: int, counted: float | None
) -> None:
    talk = Talk(window(usable, keep_turns=keep_turns))
    for turn, pieces in enumerate(talk_of):
        talk.begin()
        for piece in pieces:
            talk.add(*piece)
            # As after a crash, or with another worker: nothing is kept on the plugin.
            talk.plugin = window(usable, keep_turns=keep_turns)
            talk.host.emitted.clear()
            request = await talk.ask(counted)

            assert broken_rules(request) == []
            assert has_all_of(request, talk.host.turn_messages)
            scale = talk.host.states["context_window"]["scale"]
            if "does_not_fit" not in events(talk):
                assert tokens_of_request(request) * scale <= usable + 1
            else:
                assert bare(pieces) * scale > usable - 100
        talk.add(answer(turn))


def has_all_of(request: ModelRequest, messages: Sequence[Message]) -> bool:
    """Whether every call of the turn that runs is shown, and its input is the first thing that is."""
    asked = [part for each in request.messages for part in each.parts]
    wanted = [part for each in messages for part in each.parts if isinstance(part, ToolCall)]
    return all(part in asked for part in wanted) and messages[0].parts[0] in asked


def bare(pieces: list[list[Message]]) -> int:
    """Return about what a turn takes at least: its words, its calls, and placeholders."""
    n_calls = sum(len(message.parts) for piece in pieces[1:] for message in piece)
    first = pieces[0][0].parts[0]
    assert isinstance(first, Text)
    return 64 + 1_600 + len(first.text) // 4 + 60 * n_calls
