"""The context window: old outputs go first, then old turns; and edges move rarely."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.plugins.long_talk import (
    CLEARED,
    PNG,
    Talk,
    answer,
    asks,
    events,
    long_words,
    shown,
    tokens,
    whole_turn,
    window,
)
from windlass.errors import ConfigError
from windlass.kernel import (
    HistoryView,
    InputOrigin,
    Message,
    PluginOrigin,
    Text,
    ToolSpec,
)
from windlass.kernel.history_view import WHOLE
from windlass.plugins.context_window import ContextWindow
from windlass.testing import broken_rules

# --- as long as there is room ---------------------------------------------------------------------


async def test_a_session_that_has_room_is_shown_whole_and_nothing_is_written() -> None:
    talk = Talk(window(4_000))
    talk.past(*whole_turn(1, 500), *whole_turn(2, 500))
    talk.begin(asks(3))

    assert await talk.look() is WHOLE
    assert talk.host.memories == {}
    assert events(talk) == []


async def test_an_empty_history_is_shown_as_it_is() -> None:
    assert await Talk(window(100)).look() is WHOLE


# --- outputs --------------------------------------------------------------------------------------


async def test_outputs_of_old_turns_are_cleared_first() -> None:
    talk = Talk(window(2_000))
    talk.past(*whole_turn(1, 600), *whole_turn(2, 300), *whole_turn(3, 300))
    talk.begin(asks(4))

    view = await talk.look()

    # The turn that runs and the one before keep theirs.
    assert view == HistoryView(
        clear_before="u3", placeholder="(output of {name} cleared to save space)"
    )
    assert shown(talk.request(view))[2] == f"!c1-0-0:{CLEARED}"
    assert shown(talk.request(view))[6] == f"!c2-0-0:{CLEARED}"
    assert shown(talk.request(view))[10] == "!c3-0-0:300"
    assert talk.host.memories == {"context_window": {"clear": "u3", "scale": 1.0}}


async def test_what_is_said_in_the_middle_of_a_turn_makes_no_turn_of_its_own() -> None:
    origin = InputOrigin(turn_id="t2", input_id="i")
    meanwhile = Message(id="m2", role="user", parts=(Text(text=tokens(10)),), origin=origin)
    talk = Talk(window(2_000))
    talk.past(*whole_turn(1, 700), *whole_turn(2, 700), meanwhile, answer(3))
    talk.begin(asks(4))

    assert (await talk.look()).clear_before == "u2"


async def test_attachments_of_old_turns_are_cleared_with_them() -> None:
    talk = Talk(window(3_000, keep_turns=1))
    talk.past(asks(1, PNG), answer(1))
    talk.begin(asks(2, PNG))

    request = talk.request(await talk.look())

    assert shown(request) == ["10|[attachment cat.png]", "10", "10|<cat.png>"]


async def test_a_placeholder_names_the_tool_that_shows_the_output_if_it_is_on_offer() -> None:
    talk = Talk(window(2_000), tools=(ToolSpec(name="read_output"),))
    talk.past(*whole_turn(1, 1_500))
    talk.begin(asks(2))
    talk.plugin = window(2_000, keep_turns=1)

    request = talk.request(await talk.look())

    assert shown(request)[2] == (
        '!c1-0-0:(output of look cleared to save space; read_output(call_id="c1-0-0") shows it)'
    )


async def test_another_tool_may_be_the_one_that_shows_outputs() -> None:
    tools = (ToolSpec(name="read_output"), ToolSpec(name="more"))
    talk = Talk(window(2_000, keep_turns=1, reader="more"), tools=tools)
    talk.past(*whole_turn(1, 1_500))
    talk.begin(asks(2))

    assert 'more(call_id="c1-0-0") shows it' in shown(talk.request(await talk.look()))[2]


async def test_little_to_clear_is_not_worth_another_prefix() -> None:
    talk = Talk(window(2_000))
    talk.past(*whole_turn(1, 150), *whole_turn(2, 600), *whole_turn(3, 500))
    talk.begin(asks(4))
    talk.plugin = window(2_000, keep_turns=3)

    assert await talk.look() is WHOLE


# --- turns ----------------------------------------------------------------------------------------


async def test_the_oldest_turns_are_dropped_down_to_the_target() -> None:
    talk = Talk(window(4_000))
    talk.past(*long_words(7))
    talk.begin(asks(8))

    view = await talk.look()

    # 7 turns of 516 and 18 + 64 around: 3 of them, 1,630, are the first that have room in half of 4,000.
    assert view == HistoryView(drop_before="u5")
    assert shown(talk.request(view)) == ["250"] * 6 + ["10"]
    assert talk.host.memories["context_window"]["drop"] == "u5"
    assert events(talk) == ["trimmed"]
    assert talk.host.emitted[0][2] == {
        "tokens_before": 3_694,
        "tokens": 1_630,
        "dropped_messages": 8,
        "cleared_messages": 0,
    }


async def test_a_history_is_never_cut_between_a_call_and_its_result() -> None:
    talk = Talk(window(2_000, keep_turns=1))
    for turn in range(1, 6):
        talk.past(*whole_turn(turn, 10, 10, 10, 10))
        talk.past(asks(10 + turn, n_tokens=400), answer(10 + turn))
    talk.begin(asks(20))

    view = await talk.look()

    assert view.drop_before is not None
    assert view.drop_before.startswith("u")
    assert broken_rules(talk.request(view)) == []


async def test_what_a_plugin_said_is_no_place_to_cut_and_what_a_person_said_meanwhile_is() -> None:
    nudge = Message(
        id="n1", role="user", parts=(Text(text=tokens(10)),), origin=PluginOrigin(plugin="p")
    )
    meanwhile = Message(
        id="m1",
        role="user",
        parts=(Text(text=tokens(10)),),
        origin=InputOrigin(turn_id="t1", input_id="i"),
    )
    talk = Talk(window(2_000, keep_turns=1))
    talk.past(asks(1, n_tokens=1_500), answer(1), nudge, answer(2, 200), meanwhile, answer(3, 100))
    talk.begin(asks(4))

    assert (await talk.look()).drop_before == "m1"


async def test_a_session_of_events_is_cut_in_front_of_an_event() -> None:
    talk = Talk(window(1_000, keep_turns=1))
    for at in range(6):
        woken = Message(id=f"e{at}", role="event", parts=(Text(text=tokens(150)),))
        talk.past(woken, answer(at))
    talk.host.turn_messages = ()

    view = await talk.look()

    # The turn that runs has added nothing: it goes on from the last event.
    assert view.drop_before == "e4"
    assert broken_rules(talk.request(view)) == []


async def test_edges_move_far_and_so_rarely() -> None:
    talk = Talk(window(4_000))
    views = []
    for turn in range(1, 101):
        talk.begin(asks(turn, n_tokens=100))
        views.append(await talk.look())
        talk.add(answer(turn, 100))

    moves = sum(one != other for one, other in pairwise(views))
    # A turn takes 216: from 2,000 to 3,400 it is six of them at least.
    assert 10 <= moves <= 17
    assert len({view.drop_before for view in views}) == moves + 1
    assert set(talk.host.memories["context_window"]) == {"drop", "scale"}


async def test_edges_of_another_frame_are_forgotten() -> None:
    talk = Talk(window(4_000))
    talk.host.memories["context_window"] = {"drop": "gone", "clear": "gone too", "scale": 1.0}
    talk.begin(asks(1))

    assert await talk.look() is WHOLE
    assert talk.host.memories == {"context_window": {"scale": 1.0}}


async def test_edges_hold_in_a_later_turn_of_another_worker() -> None:
    talk = Talk(window(4_000))
    talk.past(*long_words(7))
    talk.begin(asks(8))
    before = await talk.look()

    talk.plugin = window(4_000)
    talk.add(answer(8))
    talk.begin(asks(9))

    assert await talk.look() == before
    assert events(talk) == ["trimmed"]


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"window": 0}, "ContextWindow.window: found 0, wanted a whole number of 1 or more"),
        ({"window": "8k"}, "ContextWindow.window: found str, wanted a whole number of 1 or more"),
        ({"reserve": -1}, "ContextWindow.reserve: found -1, wanted a whole number of 0 or more"),
        ({"reserve": 100}, "ContextWindow.reserve: found 100, wanted less than the window of 100"),
        (
            {"keep_turns": 0},
            "ContextWindow.keep_turns: found 0, wanted a whole number of 1 or more",
        ),
        ({"clear_at": 0}, "ContextWindow.clear_at: found 0, wanted a share above 0, at most 1"),
        (
            {"drop_at": 1.1},
            "ContextWindow.drop_at: found 1.1, wanted a share above 0, at most 1",
        ),
        (
            {"target": True},
            "ContextWindow.target: found bool, wanted a share above 0, at most 1",
        ),
        ({"target": 0.9}, "ContextWindow.target: found 0.9, wanted drop_at (0.85) or less"),
        ({"clear_at": 0.9}, "ContextWindow.clear_at: found 0.9, wanted drop_at (0.85) or less"),
        ({"reader": ""}, "ContextWindow.reader: found str, wanted text that is not empty"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ContextWindow(**{"window": 100, **given})

    assert str(refused.value) == said
    assert refused.value.field == said.partition(":")[0]


@pytest.mark.parametrize(("window_size", "usable"), [(1_000, 750), (200_000, 191_808)])
async def test_a_quarter_and_at_most_8192_tokens_are_kept_for_the_reply(
    window_size: int, usable: int
) -> None:
    for over, is_told in ((0, []), (1, ["does_not_fit"])):
        talk = Talk(ContextWindow(window=window_size))
        # 64 around and 8 for the message.
        talk.begin(asks(1, n_tokens=usable - 72 + over))

        await talk.look()
        assert events(talk) == is_told
