"""What a provider counted corrects what a window estimates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.fake_turn import FakeTurn
from tests.plugins.long_talk import Talk, answer, asks, long_words, step, window
from windlass.kernel import ModelRequest

# --- what providers count -------------------------------------------------------------------------


@pytest.mark.parametrize(("counted", "is_dropped"), [(None, False), (1.0, False), (1.6, True)])
async def test_a_provider_s_own_count_corrects_the_estimate(
    counted: float | None, is_dropped: bool
) -> None:
    talk = Talk(window(4_000, clear_at=0.85))
    talk.past(*long_words(4))
    talk.begin(asks(5))
    await talk.ask(counted)
    talk.add(*step(5, 0, 10))

    # 2,218 by the estimate, 3,549 by the provider's.
    assert ((await talk.look()).drop_before is not None) == is_dropped


async def test_how_far_estimates_are_off_is_remembered_for_the_next_turn() -> None:
    talk = Talk(window(4_000, clear_at=0.85))
    talk.past(*long_words(3))
    talk.begin(asks(4))
    await talk.ask(1.6)
    talk.add(*step(4, 0, 10))
    await talk.look()
    assert talk.host.memories == {"context_window": {"scale": 1.6}}

    talk.add(answer(4, 250))
    talk.begin(asks(5, n_tokens=250))
    assert (await talk.look()).drop_before is not None


@pytest.mark.parametrize(
    "counts", [[{"lost": 1}], [{"source": "tool"}], [{}, {}]], ids=["lost", "others", "twice"]
)
async def test_what_is_not_the_count_of_the_last_request_corrects_nothing(
    counts: list[dict[str, Any]],
) -> None:
    talk = Talk(window(4_000))
    talk.begin(asks(1))
    await talk.ask()
    for count in counts:
        talk.count(10_000, **count)
    talk.add(*step(1, 0, 10))

    await talk.look()
    assert talk.host.memories == {}


async def test_a_correction_outlasts_a_request_that_a_tool_makes_meanwhile() -> None:
    talk = Talk(window(4_000))
    talk.begin(asks(1))
    await talk.ask(2.0)
    talk.add(*step(1, 0, 10))
    turn = FakeTurn(talk.plugin.name, talk.host)
    await talk.plugin.before_model(turn, ModelRequest(model="other", messages=()))
    turn.settle()

    await talk.look()
    assert talk.host.memories == {"context_window": {"scale": 2.0}}


async def test_a_provider_that_does_not_count_corrects_nothing() -> None:
    talk = Talk(window(4_000))
    talk.begin(asks(1))
    await talk.ask()
    talk.count(0)
    talk.add(*step(1, 0, 10))

    await talk.look()
    assert talk.host.memories == {}


async def test_a_correction_outlasts_a_call_that_was_not_counted() -> None:
    talk = Talk(window(4_000))
    talk.begin(asks(1))
    await talk.ask(2.0)
    talk.add(*step(1, 0, 10))
    await talk.ask()
    talk.add(*step(1, 1, 10))
    await talk.ask()

    assert talk.host.states["context_window"]["scale"] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(("prompt", "scale"), [(1, 0.5), (10**6, 4.0)])
async def test_a_count_that_cannot_be_moves_the_estimate_only_so_far(
    prompt: int, scale: float
) -> None:
    talk = Talk(window(4_000))
    talk.begin(asks(1))
    await talk.ask()
    talk.count(prompt)
    talk.add(*step(1, 0, 10))
    await talk.look()

    assert talk.host.memories == {"context_window": {"scale": scale}}
