"""Wrap-up: one word to the model before its iterations run out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.fake_turn import FakeTurn
from tests.plugins.scene import play as play_turn
from tests.scenarios.stage import STORES, Stage
from windlass import Limits, tool
from windlass.errors import ConfigError
from windlass.plugins.nudges import WrapUp
from windlass.ports.directives import Delivery
from windlass.ports.plugin import AtCheckpoint
from windlass.testing import call, say

AFTER_WORK = AtCheckpoint(kind="after_work")


async def told_at(plugin: WrapUp, max_iterations: int | None, n_checkpoints: int) -> dict[int, Any]:
    """Return what is said after each iteration in which something is."""
    turn, found = FakeTurn("wrap_up"), {}
    turn.host.max_iterations = max_iterations
    for iteration in range(1, n_checkpoints + 1):
        turn.host.iteration = iteration
        answer = await plugin.at_checkpoint(turn, AFTER_WORK)
        if answer is not None:
            found[iteration] = answer
        turn.settle()
    return found


@pytest.mark.parametrize(
    ("remaining", "max_iterations", "wanted"),
    [
        (3, 10, {7: Delivery(transient=["3 left"])}),
        (1, 10, {9: Delivery(transient=["1 left"])}),
        (3, 3, {1: Delivery(transient=["2 left"])}),  # late, but said
        (9, 3, {1: Delivery(transient=["2 left"])}),
        (3, 1, {}),  # there is no iteration left to say it in
        (0, 10, {}),
        (3, None, {}),
    ],
)
async def test_it_is_said_once_and_in_time(
    remaining: int, max_iterations: int | None, wanted: dict[int, Any]
) -> None:
    plugin = WrapUp(remaining=remaining, text="{remaining} left")

    assert await told_at(plugin, max_iterations, 10) == wanted


async def test_it_never_keeps_a_turn_from_ending() -> None:
    turn = FakeTurn("wrap_up")
    turn.host.iteration, turn.host.max_iterations = 9, 10

    assert await WrapUp().at_checkpoint(turn, AtCheckpoint(kind="before_completion")) is None


@pytest.mark.parametrize(
    ("given", "field"),
    [({"remaining": -1}, "WrapUp.remaining"), ({"text": None}, "WrapUp.text")],
)
def test_a_bad_option_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        WrapUp(**given)

    assert refused.value.field == field


# --- whole turns -------------------------------------------------------------------------------


@tool(effect="pure")
def find(q: int = 0) -> str:
    """Find."""
    return f"found {q}"


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 1, 2, 3])
async def test_the_model_is_told_once_with_two_iterations_left_also_over_a_crash(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    played = await play_turn(
        Stage(kind, tmp_path),
        lambda: WrapUp(remaining=2, text="{remaining} left"),
        [*(call("find", q=q) for q in range(3)), say("Done.")],
        kill_at=kill_at,
        tools=[find],
        limits=Limits(max_iterations=4),
    )

    assert played.result.text == "Done."
    assert played.asked(-1) == [
        "user: Go.",
        "assistant: find(q=0)",
        "user: ok: found 0",
        "assistant: find(q=1)",
        "user: ok: found 1",
        "user: 2 left",
        "assistant: find(q=2)",
        "user: ok: found 2",
    ]
    assert "user: 2 left" not in played.said
    assert played.told_by("at_checkpoint") == [Delivery(transient=["2 left"])]
