"""Loop guard: the same again and again, and replies that say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.fake_turn import FakeTurn
from tests.plugins.scene import play as play_turn
from tests.plugins.spoken import INPUT, answered, asked, nudged, worked
from tests.scenarios.stage import STORES, Stage
from windlass import Limits, tool
from windlass.errors import ConfigError
from windlass.kernel.messages import Message, Reasoning, Text, ToolCall
from windlass.kernel.model_call import ModelReply
from windlass.kernel.outcomes import Finished, Stopped
from windlass.plugins.loop_guard import LoopGuard
from windlass.ports.directives import Delivery, Stop
from windlass.ports.plugin import AtCheckpoint
from windlass.testing import broken_rules, call, say

AFTER_WORK = AtCheckpoint(kind="after_work")
EMPTY = ModelReply()
THOUGHT = ModelReply(parts=(Reasoning(text="Hm, 42?"),))


# --- loops -------------------------------------------------------------------------------------


async def play(plugin: LoopGuard, history: str) -> str:
    """Play replies of one call each, a letter for a call with its result; return what each led to.

    `.` nothing, `n` a nudge, `S` the end. `!` is an input that came in.
    """
    turn, found = FakeTurn("loop_guard"), ""
    turn.host.turn_messages = [INPUT]
    for n, letter in enumerate(history):
        if letter == "!":
            turn.host.turn_messages = [*turn.host.turn_messages, INPUT]
            continue
        new = worked(f"c{n}", letter.lower(), {"q": 1}, f"result {letter}")
        turn.host.turn_messages = [*turn.host.turn_messages, *new]
        answer = await plugin.at_checkpoint(turn, AFTER_WORK)
        turn.settle()
        if isinstance(answer, Delivery):
            turn.host.turn_messages = [*turn.host.turn_messages, nudged("Stop it.")]
        found += "." if answer is None else "S" if isinstance(answer, Stop) else "n"
    return found


@pytest.mark.parametrize(
    ("history", "wanted"),
    [
        ("aaaa", "..nS"),
        ("aabaab", "......"),  # not three times yet
        ("abcabd", "......"),
        ("ababab", ".....n"),  # a loop of two calls
        ("abababa", ".....nS"),
        ("abababb", ".....n."),
        ("abcabcabca", "........nS"),
        ("abcdabcdabcda", "...........nS"),
        ("abcdeabcdeabcde", "..............."),  # five is too long to be told from work
        ("aaabaaa", "..n...S"),  # the model was told of that loop
        ("aaabbbb", "..n..nS"),  # another loop is another matter
        ("aA aA".replace(" ", ""), "...."),  # the same call with other results is progress
        ("aa!aa", "...."),  # somebody said something in between
        ("aa!aaa", "....n"),
    ],
)
async def test_three_times_the_same_is_told_and_once_more_is_the_end(
    history: str, wanted: str
) -> None:
    assert await play(LoopGuard(repeats=3), history) == wanted


@pytest.mark.parametrize(
    ("options", "history", "wanted"),
    [
        ({"repeats": 2}, "aaa", ".nS"),
        ({"repeats": 5}, "aaaaaa", "....nS"),
        ({"repeats": 0}, "aaaaaaaa", "........"),
        ({"then": "stop"}, "aaa", "..S"),
        ({"ignore": ["a"]}, "aaaaaa", "......"),
        ({"ignore": ["a"]}, "bbab", "...."),  # what was done in between counts as something else
        ({"ignore": ["a"]}, "bbb", "..n"),
    ],
)
async def test_options_change_what_a_loop_is(
    options: dict[str, Any], history: str, wanted: str
) -> None:
    assert await play(LoopGuard(**options), history) == wanted


@pytest.mark.parametrize(
    ("last", "is_loop"),
    [
        (worked("c", "find", {"q": 1, "p": [2]}, "it"), True),
        (worked("c", "find", {"p": [2], "q": 1}, "it"), True),  # the order of keys is none
        (worked("c", "find", {"q": 2, "p": [2]}, "it"), False),
        (worked("c", "seek", {"q": 1, "p": [2]}, "it"), False),
        (worked("c", "find", {"q": 1, "p": [2]}, "that"), False),
        ([asked(("c", "find", {"q": 1, "p": [2]}))], False),
        (
            [
                asked(("c", "find", {"q": 1, "p": [2]})),
                answered(("c", "find", "it"), status="error"),
            ],
            False,
        ),
    ],
)
async def test_same_means_tool_arguments_status_and_result(
    last: list[Message], is_loop: bool
) -> None:
    turn = FakeTurn("loop_guard")
    before = [worked(id, "find", {"q": 1, "p": [2]}, "it") for id in ("a", "b")]
    turn.host.turn_messages = [INPUT, *before[0], *before[1], *last]

    assert (await LoopGuard().at_checkpoint(turn, AFTER_WORK) is not None) is is_loop


async def test_replies_of_several_calls_are_read_call_by_call() -> None:
    turn = FakeTurn("loop_guard")
    pair = [
        asked(("x", "find", {}), ("y", "look", {})),
        answered(("x", "find", "it"), ("y", "look", "that")),
    ]
    turn.host.turn_messages = [INPUT, *pair, *pair, *pair]

    found = await LoopGuard().at_checkpoint(turn, AFTER_WORK)

    assert isinstance(found, Delivery)
    (text,) = found.transient
    assert str(text).startswith("You called find and look 3 times in a row")


async def test_the_end_names_the_tool() -> None:
    turn = FakeTurn("loop_guard")
    turn.host.turn_messages = [INPUT, *(worked("c", "find", {}, "it") * 3)]

    found = await LoopGuard(then="stop").at_checkpoint(turn, AFTER_WORK)

    assert found == Stop("the same calls with the same results, again and again: find")


async def test_what_is_kept_of_loops_does_not_grow() -> None:
    turn = FakeTurn("loop_guard")
    for n in range(20):
        turn.host.turn_messages = [INPUT, *(worked("c", "find", {"n": n}, "it") * 3)]
        await LoopGuard().at_checkpoint(turn, AFTER_WORK)
        turn.settle()

    assert len(turn.state["told"]) == 8
    assert {len(key) for key in turn.state["told"]} == {16}


# --- silence -----------------------------------------------------------------------------------


async def strikes(plugin: LoopGuard, *replies: ModelReply) -> list[str]:
    """Play replies; return what each led to: the turn `goes on`, or it `ends` as it would have."""
    turn, found = FakeTurn("loop_guard"), []
    for reply in replies:
        changed = await plugin.after_model(turn, reply) or reply
        turn.settle()
        goes_on = False
        if changed.terminal == "output_limit":  # without it the driver ends the turn here
            at = AtCheckpoint(kind="before_completion", reply=changed)
            goes_on = isinstance(await plugin.at_checkpoint(turn, at), Delivery)
            turn.settle()
        found.append("goes on" if goes_on else "ends")
    return found


@pytest.mark.parametrize(
    ("replies", "wanted"),
    [
        ([EMPTY] * 3, ["goes on", "goes on", "ends"]),
        ([THOUGHT] * 3, ["goes on", "goes on", "ends"]),
        # Counted apart.
        ([EMPTY, THOUGHT, EMPTY, THOUGHT, EMPTY], ["goes on"] * 4 + ["ends"]),
        ([ModelReply(text=" \n")], ["goes on"]),
        # Cut off before the first word: silent as well.
        (
            [ModelReply(parts=THOUGHT.parts, terminal="output_limit")] * 3,
            ["goes on"] * 2 + ["ends"],
        ),
    ],
)
async def test_silence_is_forgiven_twice_and_then_ends_as_it_would_have(
    replies: list[ModelReply], wanted: list[str]
) -> None:
    assert await strikes(LoopGuard(), *replies) == wanted


async def test_the_two_kinds_of_silence_are_told_apart() -> None:
    found = []
    for reply in (EMPTY, THOUGHT):
        at = AtCheckpoint(kind="before_completion", outcome=Finished(), reply=reply)
        found.append(await LoopGuard().at_checkpoint(FakeTurn("loop_guard"), at))

    assert found == [
        Delivery(transient=["Your last reply was empty. Call a tool, or answer in words."]),
        Delivery(transient=["You thought, but said nothing. Call a tool, or answer in words."]),
    ]


async def test_a_forgiven_reply_says_no_word_more_and_reasoning_stays_reasoning() -> None:
    changed = await LoopGuard().after_model(FakeTurn("loop_guard"), THOUGHT)

    assert changed == ModelReply(
        parts=(Reasoning(text="Hm, 42?"),),
        terminal="output_limit",
        diagnostic="loop_guard: reasoning_only reply",
    )
    assert changed.text == ""


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(ModelReply(text="42"), id="words"),
        pytest.param(
            ModelReply(parts=(Reasoning(text="Hm"), Text(text="42"))), id="words-after-thoughts"
        ),
        pytest.param(ModelReply(parts=(ToolCall(call_id="c", name="find"),)), id="a-call"),
        pytest.param(ModelReply(terminal="content_filter"), id="filtered"),
        pytest.param(ModelReply(terminal="context_overflow"), id="overflow"),
        pytest.param(ModelReply(terminal="provider_error"), id="broken"),
        pytest.param(ModelReply(terminal="cancelled"), id="cancelled"),
    ],
)
async def test_a_reply_that_says_something_or_failed_is_left_alone(reply: ModelReply) -> None:
    turn = FakeTurn("loop_guard")
    at = AtCheckpoint(kind="before_completion", reply=reply)

    assert await LoopGuard().after_model(turn, reply) is None
    assert await LoopGuard().at_checkpoint(turn, at) is None
    assert turn._changes == {}


@pytest.mark.parametrize("options", [{"empty": 0}, {"reasoning_only": 0}])
async def test_a_kind_of_silence_may_be_left_alone(options: dict[str, int]) -> None:
    left_alone = EMPTY if "empty" in options else THOUGHT

    assert await strikes(LoopGuard(**options), left_alone) == ["ends"]  # type: ignore[arg-type]


async def test_in_the_iteration_of_grace_silence_ends_the_turn() -> None:
    turn = FakeTurn("loop_guard")
    turn.host.iteration, turn.host.max_iterations = 5, 5

    assert await LoopGuard().after_model(turn, EMPTY) is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"repeats": 1}, "LoopGuard.repeats"),
        ({"repeats": -1}, "LoopGuard.repeats"),
        ({"empty": None}, "LoopGuard.empty"),
        ({"reasoning_only": "2"}, "LoopGuard.reasoning_only"),
        ({"then": "deny"}, "LoopGuard.then"),
        ({"ignore": "find"}, "LoopGuard.ignore"),
    ],
)
def test_a_bad_option_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        LoopGuard(**given)

    assert refused.value.field == field


# --- whole turns -------------------------------------------------------------------------------


@tool(effect="pure")
def find(q: int = 0) -> str:
    """Find."""
    return f"found {q}"


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 2, 3])
async def test_a_loop_is_told_and_then_ended_also_over_a_crash(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    played = await play_turn(
        Stage(kind, tmp_path),
        LoopGuard,
        [call("find", q=1)] * 4 + [say("never said")],
        kill_at=kill_at,
        tools=[find],
    )

    assert played.result.outcome == Stopped(
        reason="limit", detail="the same calls with the same results, again and again: find"
    )
    assert len(played.result.tool_calls) == 4
    assert played.asked(-1)[-1].startswith("user: You called find 3 times in a row")
    told = played.told_by("at_checkpoint")
    assert [type(answer) for answer in told] == [Delivery, Stop]


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 1, 2, 3])
async def test_a_turn_goes_on_after_silence_which_leaves_no_message_also_over_a_crash(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    played = await play_turn(
        Stage(kind, tmp_path), LoopGuard, [EMPTY, THOUGHT, THOUGHT, say("5.")], kill_at=kill_at
    )

    assert played.result.outcome == Finished(text="5.")
    assert played.said == ["user: Go.", "assistant: 5."]
    assert played.asked(-1) == [
        "user: Go.",
        "user: Your last reply was empty. Call a tool, or answer in words.",
        *["user: You thought, but said nothing. Call a tool, or answer in words."] * 2,
    ]
    assert len(played.told_by("at_checkpoint")) == 3
    assert [broken for request in played.requests for broken in broken_rules(request)] == []


@pytest.mark.parametrize("kill_at", [None, 1, 2])
async def test_when_the_strikes_are_used_up_the_turn_ends_as_without_the_guard(
    kill_at: int | None, tmp_path: Path
) -> None:
    stage = Stage("memory", tmp_path)

    played = await play_turn(stage, LoopGuard, [EMPTY] * 3, kill_at=kill_at)

    assert played.result.outcome == Stopped(
        reason="provider_error", detail="The model returned an empty reply."
    )
    assert len(played.told_by("after_model")) == 2
    assert played.said == ["user: Go."]


async def test_an_empty_reply_after_results_is_asked_for_words(tmp_path: Path) -> None:
    played = await play_turn(
        Stage("memory", tmp_path), LoopGuard, [call("find"), EMPTY, say("5.")], tools=[find]
    )

    assert played.said[-1] == "assistant: 5."


async def test_in_the_last_iteration_a_silent_end_after_results_stays_one(tmp_path: Path) -> None:
    """A turn that may end without words does not become one that ran out of iterations."""
    played = await play_turn(
        Stage("memory", tmp_path),
        LoopGuard,
        [call("find"), EMPTY, EMPTY],
        tools=[find],
        limits=Limits(max_iterations=2),
    )

    assert isinstance(played.result.outcome, Stopped)
    assert played.result.outcome.reason == "provider_error"
