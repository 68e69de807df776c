"""The law that folded facts are the live facts, and folds and feeds that break it and are caught."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.folds.witness import Witness
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import STORES, Desk, Stage
from windlass.folds import facts_of
from windlass.kernel import Chain, Event, Message, WaitResolved
from windlass.ports import TurnView
from windlass.runtime.feed import TurnFeed


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


async def pay(stage: Stage) -> None:
    """Run a turn that parks for a person, and goes on."""
    async with stage.runtime(payer(Desk(), script())) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        await rt.approve(parked.waits[0].key, by="eva")
        assert (await rt.turn("s", "t").result()).outcome is not None


async def test_what_was_shown_is_what_the_store_folds_to(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = Witness()
    with witness.watching(monkeypatch):
        await pay(stage)

    await witness.check()
    assert (witness.n_compared, witness.n_whole) == (1, 1)


def _forgetful(facts: list[Event]) -> list[Event]:
    return [fact for fact in facts if not isinstance(fact, WaitResolved)]


def _hasty(facts: list[Event]) -> list[Event]:
    (at,) = [at for at, fact in enumerate(facts) if isinstance(fact, WaitResolved)]
    return [*facts[: at - 1], facts[at], facts[at - 1], *facts[at + 1 :]]


def _early(facts: list[Event]) -> list[Event]:
    return facts[:-1]


@pytest.mark.parametrize("fault", [_forgetful, _hasty, _early])
async def test_a_fold_that_tells_something_else_is_caught(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fault: Callable[[list[Event]], list[Event]]
) -> None:
    def fold(view: TurnView, history: Chain[Message] | None) -> Iterable[Event]:
        return fault(list(facts_of(view, history)))

    witness = Witness(fold)
    with witness.watching(monkeypatch):
        await pay(stage)

    with pytest.raises(AssertionError, match="s/t: shown is not folded"):
        await witness.check()


async def test_a_feed_that_shows_a_fact_twice_is_caught(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = TurnFeed.hold

    def hold_twice(feed: TurnFeed, event: Event, *, until: int) -> None:
        hold(feed, event, until=until)
        if isinstance(event, WaitResolved):
            hold(feed, event, until=until)

    witness = Witness()
    with witness.watching(monkeypatch):
        monkeypatch.setattr(TurnFeed, "hold", hold_twice)
        await pay(stage)

    with pytest.raises(AssertionError, match="s/t: shown is not folded"):
        await witness.check()


async def test_of_a_turn_that_goes_on_elsewhere_no_fact_is_shown_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = Witness()
    with witness.watching(monkeypatch):
        async with stage.runtime(payer(Desk(), script())) as rt:
            parked = await rt.session("s").run("Pay.", turn_id="t")
    other = Witness()
    with other.watching(monkeypatch):
        async with stage.runtime(payer(Desk(), script())) as rt:
            await rt.approve(parked.waits[0].key, by="eva")
            await rt.turn("s", "t").result()

    for one in (witness, other):
        await one.check()
        assert (one.n_compared, one.n_whole) == (1, 0)
    seen = [fact for one in (witness, other) for fact in next(iter(one._seen.values())).facts]
    assert len({fact.id for fact in seen}) == len(seen)
