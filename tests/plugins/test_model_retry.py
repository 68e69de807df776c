"""Model retry, hook by hook: when a call is made again, by whom, and when a model is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.fake_turn import FakeTurn
from windlass.errors import ConfigError, Malformed, ProviderError, Rejected, Throttled, Unavailable
from windlass.kernel import ModelFailure, ModelReply, ModelRequest
from windlass.plugins.model_retry import ModelRetry
from windlass.ports.directives import Continue, Retry
from windlass.ports.plugin import Trouble

REPLY = ModelReply(text="hi")


def turn() -> FakeTurn:
    return FakeTurn("model_retry")


def ask(model: str = "m") -> ModelRequest:
    return ModelRequest(model=model, messages=())


def down(attempt: int = 1, model: str = "m", error: ProviderError | None = None) -> Trouble:
    error = error or Unavailable("down")
    return Trouble(kind="model", model=model, error=error, attempt=attempt)


async def fail(plugin: ModelRetry, at: FakeTurn, trouble: Trouble) -> object:
    said = await plugin.on_error(at, trouble)
    at.settle()
    return said


def models(at: FakeTurn) -> dict[str, Any]:
    found: dict[str, Any] = at.host.memories.get("model_retry", {}).get("models", {})
    return found


# ---------------------------------------------------------------------- again


async def test_waits_grow_until_the_attempts_are_used_up() -> None:
    plugin = ModelRetry(attempts=5, first_s=1, factor=3, max_s=10, jitter=0, breaker=None)
    said = [await plugin.on_error(turn(), down(attempt)) for attempt in range(1, 6)]
    assert said == [
        Retry(after_s=1.0),
        Retry(after_s=3.0),
        Retry(after_s=9.0),
        Retry(after_s=10.0),
        Continue(),
    ]


async def test_waits_are_spread_but_never_longer_and_the_same_when_asked_again() -> None:
    plugin = ModelRetry(attempts=9, first_s=1, factor=1, jitter=0.5, breaker=None)
    waits = set()
    for number in range(50):
        at = turn()
        at.host.turn_id = f"t{number}"
        said = await plugin.on_error(at, down())
        assert isinstance(said, Retry)
        assert said == await plugin.on_error(at, down())
        waits.add(said.after_s)
    assert len(waits) == 50
    assert min(waits) >= 0.5
    assert max(waits) <= 1.0
    assert max(waits) - min(waits) > 0.3


@pytest.mark.parametrize(
    "error", [Rejected("no"), Malformed("what"), ProviderError("hm")], ids=lambda e: e.code
)
async def test_what_was_refused_once_is_not_asked_again(error: ProviderError) -> None:
    at = turn()
    assert await fail(ModelRetry(fallbacks=["b"]), at, down(error=error)) is None
    assert models(at) == {}


async def test_a_failure_that_will_not_pass_is_left_to_the_runtime() -> None:
    failure = ModelFailure(message="too long", terminal="context_overflow")
    trouble = Trouble(kind="model", model="m", failure=failure)
    assert await ModelRetry(fallbacks=["b"]).on_error(turn(), trouble) is None


async def test_tools_are_none_of_its_business() -> None:
    assert await ModelRetry().on_error(turn(), Trouble(kind="tool")) is None


@pytest.mark.parametrize(
    ("wish", "wait_s"),
    [
        (4, 4.0),
        (0.25, 1.0),  # less than the wait that is due anyway
        (3_600, 10.0),
        (None, 1.0),
        (-5, 1.0),
        (0, 1.0),
        (float("nan"), 1.0),
        (float("inf"), 1.0),
        ("soon", 1.0),
    ],
)
async def test_a_providers_wish_is_respected_within_reason(
    wish: float | None, wait_s: float
) -> None:
    plugin = ModelRetry(first_s=1, max_s=10, jitter=0)
    said = await plugin.on_error(turn(), down(error=Throttled("slow", retry_after_s=wish)))
    assert said == Retry(after_s=wait_s)


async def test_those_who_were_sent_away_together_do_not_come_back_together() -> None:
    plugin = ModelRetry(first_s=1, max_s=10, jitter=0.5)
    waits = set()
    for number in range(20):
        at = turn()
        at.host.session_id = f"s{number}"
        said = await plugin.on_error(at, down(error=Throttled("slow", retry_after_s=4)))
        assert isinstance(said, Retry)
        assert 4.0 <= said.after_s <= 4.5
        waits.add(said.after_s)
    assert len(waits) == 20


# ---------------------------------------------------------------------- fallbacks


async def test_each_fallback_has_its_own_attempts_and_then_the_runtime_waits() -> None:
    plugin = ModelRetry(attempts=2, first_s=1, jitter=0, fallbacks=["b", "c"], breaker=None)
    at = turn()
    said = [
        await fail(plugin, at, down(attempt, model))
        for model in ("m", "b", "c")
        for attempt in (1, 2)
    ]
    assert said == [
        Retry(after_s=1.0),
        Retry(model="b"),
        Retry(after_s=1.0),
        Retry(model="c"),
        Retry(after_s=1.0),
        Continue(),
    ]


async def test_a_model_that_is_its_own_fallback_is_not_asked_for_ever() -> None:
    plugin = ModelRetry(attempts=1, fallbacks=["m", "b"], breaker=None)
    assert await plugin.on_error(turn(), down()) == Retry(model="b")
    assert await plugin.on_error(turn(), down(model="b")) == Continue()


# ---------------------------------------------------------------------- the breaker


async def broken(plugin: ModelRetry, at: FakeTurn, model: str = "m", times: int = 5) -> None:
    for _ in range(times):
        await fail(plugin, at, down(model=model))


async def test_a_model_that_keeps_failing_is_left_alone_for_a_while() -> None:
    plugin, at = ModelRetry(fallbacks=["b", "c"], breaker=3, breaker_s=60), turn()
    await broken(plugin, at, times=2)
    assert await plugin.before_model(at, ask()) is None
    assert await fail(plugin, at, down()) == Retry(model="b")  # the third: no further attempt
    assert models(at) == {"m": {"failures": 3, "open_until_ms": at.now_ms + 60_000}}

    at.host.now_ms += 59_999
    assert await plugin.before_model(at, ask()) == ask("b")
    await broken(plugin, at, "b", times=3)
    assert await plugin.before_model(at, ask()) == ask("c")


async def test_when_all_are_down_the_turns_own_model_is_asked() -> None:
    plugin, at = ModelRetry(fallbacks=["b"], breaker=1), turn()
    await broken(plugin, at, "m", times=1)
    await broken(plugin, at, "b", times=1)
    assert await plugin.before_model(at, ask()) is None
    assert await fail(plugin, at, down()) == Continue()


async def test_after_its_time_a_model_gets_one_try() -> None:
    plugin, at = ModelRetry(fallbacks=["b"], breaker=3, breaker_s=60, attempts=3), turn()
    await broken(plugin, at, times=3)
    at.host.now_ms += 60_000
    assert await plugin.before_model(at, ask()) is None
    assert await fail(plugin, at, down()) == Retry(model="b")
    assert models(at)["m"]["open_until_ms"] == at.now_ms + 60_000
    assert await plugin.before_model(at, ask()) == ask("b")


async def test_a_reply_closes_the_breaker_of_the_model_that_gave_it() -> None:
    plugin, at = ModelRetry(fallbacks=["b"], breaker=3, breaker_s=60), turn()
    await broken(plugin, at, times=3)
    await broken(plugin, at, "b", times=1)
    await plugin.before_model(at, ask())
    at.settle()
    await plugin.after_model(at, REPLY)  # by b
    at.settle()
    assert list(models(at)) == ["m"]

    at.host.now_ms += 60_000
    await plugin.before_model(at, ask())
    at.settle()
    await plugin.after_model(at, REPLY)  # by m
    at.settle()
    assert models(at) == {}


async def test_a_reply_of_a_fallback_does_not_close_the_breaker_of_the_first() -> None:
    plugin, at = ModelRetry(attempts=1, fallbacks=["b"], breaker=2), turn()
    await plugin.before_model(at, ask())
    assert await fail(plugin, at, down()) == Retry(model="b")
    await plugin.after_model(at, REPLY)
    at.settle()
    assert models(at) == {"m": {"failures": 1}}


async def test_a_fallback_that_is_down_is_passed_over() -> None:
    plugin, at = ModelRetry(attempts=1, fallbacks=["b", "c"], breaker=2), turn()
    await broken(plugin, at, "b", times=2)
    assert await fail(plugin, at, down()) == Retry(model="c")


async def test_a_session_without_trouble_keeps_nothing() -> None:
    plugin, at = ModelRetry(fallbacks=["b"]), turn()
    assert await plugin.before_model(at, ask()) is None
    at.settle()
    await plugin.after_model(at, REPLY)
    at.settle()
    assert (at.host.states, at.host.memories) == ({}, {})


async def test_without_a_breaker_failures_are_not_counted() -> None:
    at = turn()
    await broken(ModelRetry(breaker=None), at)
    assert at.host.memories == {}


# ---------------------------------------------------------------------- what is given


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("attempts", 0),
        ("attempts", 1.5),
        ("first_s", -1),
        ("first_s", float("nan")),
        ("factor", 0.5),
        ("max_s", float("inf")),
        ("max_s", "10"),
        ("jitter", 1.1),
        ("jitter", True),
        ("fallbacks", "model-b"),
        ("fallbacks", ["b", "b"]),
        ("fallbacks", [""]),
        ("fallbacks", [1]),
        ("breaker", 0),
        ("breaker_s", -1),
    ],
)
def test_a_bad_option_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelRetry(**{option: value})  # type: ignore[arg-type]
    assert caught.value.field == option
