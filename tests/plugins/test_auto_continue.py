"""Auto-continue: an answer that was cut goes on, a few times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.fake_turn import FakeTurn
from tests.plugins.scene import play as play_turn
from tests.scenarios.stage import STORES, Stage
from windlass import Limits
from windlass.errors import ConfigError
from windlass.kernel.messages import Reasoning
from windlass.kernel.model_call import ModelReply
from windlass.kernel.outcomes import Finished, Outcome, Stopped
from windlass.plugins.nudges import AutoContinue
from windlass.ports.directives import Delivery
from windlass.ports.plugin import AtCheckpoint
from windlass.testing import broken_rules, say

CUT = ModelReply(text="Once upon", terminal="output_limit")
INCOMPLETE = Stopped(reason="incomplete")


def at_end(outcome: Outcome = INCOMPLETE, reply: ModelReply | None = CUT) -> AtCheckpoint:
    return AtCheckpoint(kind="before_completion", outcome=outcome, reply=reply)


async def test_a_cut_answer_is_asked_to_go_on_so_many_times_and_then_stays_cut() -> None:
    plugin, turn = AutoContinue(times=2), FakeTurn("auto_continue")

    found = []
    for _ in range(4):
        found.append(await plugin.at_checkpoint(turn, at_end()))
        turn.settle()

    wanted = Delivery(transient=["Please continue exactly where you stopped."])
    assert found == [wanted, wanted, None, None]


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(at_end(Finished(text="The end.")), id="whole"),
        pytest.param(at_end(Stopped(reason="refused")), id="stopped-otherwise"),
        pytest.param(at_end(reply=ModelReply(terminal="output_limit")), id="no-words"),
        pytest.param(
            at_end(reply=ModelReply(parts=(Reasoning(text="Hm"),), terminal="output_limit")),
            id="only-thoughts",
        ),
        pytest.param(at_end(reply=ModelReply(text=" \n", terminal="output_limit")), id="blank"),
        pytest.param(at_end(reply=None), id="no-reply"),
        pytest.param(
            AtCheckpoint(kind="after_work", outcome=INCOMPLETE, reply=CUT), id="after-work"
        ),
    ],
)
async def test_nothing_else_goes_on(at: AtCheckpoint) -> None:
    turn = FakeTurn("auto_continue")

    assert await AutoContinue().at_checkpoint(turn, at) is None
    assert turn._changes == {}


@pytest.mark.parametrize(("iteration", "goes_on"), [(4, True), (5, False)])
async def test_in_the_iteration_of_grace_the_answer_stays_cut(
    iteration: int, goes_on: bool
) -> None:
    turn = FakeTurn("auto_continue")
    turn.host.iteration, turn.host.max_iterations = iteration, 5

    assert (await AutoContinue().at_checkpoint(turn, at_end()) is not None) is goes_on


@pytest.mark.parametrize(
    ("given", "field"),
    [({"times": -1}, "AutoContinue.times"), ({"text": " "}, "AutoContinue.text")],
)
def test_a_bad_option_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        AutoContinue(**given)

    assert refused.value.field == field


# --- whole turns -------------------------------------------------------------------------------

PIECES = [
    say("Once upon", terminal="output_limit"),
    say(" a time", terminal="output_limit"),
    say(" it ended."),
]


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 1, 2])
async def test_the_pieces_of_an_answer_follow_each_other_also_over_a_crash(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    played = await play_turn(
        Stage(kind, tmp_path), lambda: AutoContinue(text="Go on."), PIECES, kill_at=kill_at
    )

    assert played.result.outcome == Finished(text=" it ended.")
    assert played.said == [
        "user: Go.",
        "assistant: Once upon",
        "assistant:  a time",
        "assistant:  it ended.",
    ]
    assert [message.incomplete for message in played.result.messages] == [False, True, True, False]
    assert played.asked(-1) == [
        "user: Go.",
        "assistant: Once upon",
        "user: Go on.",
        "assistant:  a time",
        "user: Go on.",
    ]
    assert played.told_by("at_checkpoint") == [Delivery(transient=["Go on."])] * 2
    assert [broken for request in played.requests for broken in broken_rules(request)] == []


@pytest.mark.parametrize("kill_at", [None, 1])
async def test_after_the_last_time_the_turn_ends_as_it_would_have(
    kill_at: int | None, tmp_path: Path
) -> None:
    played = await play_turn(
        Stage("memory", tmp_path), lambda: AutoContinue(times=1), PIECES, kill_at=kill_at
    )

    assert isinstance(played.result.outcome, Stopped)
    assert played.result.outcome.reason == "incomplete"
    assert played.said[1:] == ["assistant: Once upon", "assistant:  a time"]


async def test_the_last_iteration_of_a_turn_is_not_prolonged_for_ever(tmp_path: Path) -> None:
    """One iteration, one of grace: the answer in it stays cut, and is not taken for a turn out of bounds."""
    played = await play_turn(
        Stage("memory", tmp_path), AutoContinue, PIECES, limits=Limits(max_iterations=1)
    )

    assert len(played.requests) == 2
    assert isinstance(played.result.outcome, Stopped)
    assert played.result.outcome.reason == "incomplete"
