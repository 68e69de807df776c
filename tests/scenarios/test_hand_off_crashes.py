"""Kill a hand-off at every write: either the old agent has the session or the new one, and each part is done once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.limits import HANGS_S
from windlass import Agent, Runtime, ToolContext, TurnResult, tool
from windlass.kernel import ModelReply, ModelRequest, ToolResult
from windlass.kernel.outcomes import HandedOff
from windlass.testing import FunctionModel, Scenario, broken_rules, call, kill_everywhere
from windlass.testing.crashing.kill_everywhere import StoreKind


class Outside:
    """What outlives every crash."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, ModelRequest]] = []
        self.paid: set[str] = set()


def agents(outside: Outside, *, asks: bool) -> tuple[Agent[Any, Any], ...]:
    @tool(effect="keyed", approval="ask" if asks else "never")
    async def pay(ctx: ToolContext[None]) -> str:
        """Pay."""
        outside.paid.add(ctx.idempotency_key)
        return "paid"

    def triage(request: ModelRequest) -> ModelReply | str:
        outside.requests.append(("triage", request))
        return call("transfer_to_billing", task="Pay.")

    def billing(request: ModelRequest) -> ModelReply | str:
        outside.requests.append(("billing", request))
        is_paid = isinstance(request.messages[-1].parts[0], ToolResult)
        said = [part.text for part in request.messages[-1].parts if hasattr(part, "text")]
        if is_paid:
            return "Paid."
        return call("pay") if said == ["Pay."] else "Welcome."

    return (
        Agent("triage", model=FunctionModel(triage, name="t"), handoffs=["billing"]),
        Agent("billing", model=FunctionModel(billing, name="b"), tools=[pay]),
    )


async def twice(rt: Runtime[Any]) -> dict[str, Any]:
    """A hand-off, then one more input."""
    session = rt.session("s", "triage")
    first = await session.run("My money.", turn_id="t1")
    last = await session.run("Thanks.", turn_id="t2")
    view = await rt._services.store.load_session("s")
    return {
        "first": first.text,
        "followed": [(one.turn_id, one.outcome) for one in first.followed],
        "last": (last.text, last.followed),
        "agent": view.agent,
        "turns": len(view.pages),
        "left": (view.queued, view.waiting),
    }


def undisturbed() -> Scenario:
    outside = Outside()

    def check(result: dict[str, Any]) -> None:
        assert result == {
            "first": "Paid.",
            "followed": [("t1", HandedOff(target="billing", task="Pay."))],
            "last": ("Welcome.", ()),
            "agent": "billing",
            "turns": 3,
            "left": ((), 0),
        }
        _check(outside)

    made = partial(agents, outside, asks=False)
    return Scenario(agents=made, run=twice, check=check, allow_unknown=False)


def approved() -> Scenario:
    outside = Outside()

    async def once(rt: Runtime[Any]) -> TurnResult[str]:
        return await rt.session("s", "triage").run("My money.", turn_id="t1")

    def check(result: TurnResult[str]) -> None:
        assert result.text == "Paid."
        _check(outside)

    return Scenario(
        agents=partial(agents, outside, asks=True),
        run=once,
        check=check,
        answer=lambda rt, wait: rt.approve(wait.key),
        allow_unknown=False,
    )


def _check(outside: Outside) -> None:
    assert len(outside.paid) == 1
    assert all(broken_rules(request) == [] for _, request in outside.requests)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("make", [undisturbed, approved])
async def test_a_hand_off_is_whole_or_not_at_all(
    store: StoreKind, make: Callable[[], Scenario]
) -> None:
    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    assert len(report.points) > 20
    assert report.unknown == ()
