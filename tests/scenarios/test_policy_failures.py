"""A policy that fails, in whatever way, has allowed nothing; and its turn goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import Told, last_told
from tests.scenarios.stage import Stage
from windlass import Agent, Allow, tool
from windlass.kernel.outcomes import Stopped
from windlass.ports.policy import PolicyCall, PolicySession, Ruling
from windlass.testing import ScriptedModel, call, say


class Rude(BaseException):
    """Not meant to be caught."""


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, Rude])
@pytest.mark.parametrize("begin", ["run", "submit"])
async def test_whatever_a_policy_raises_is_a_denial(
    stage: Stage, error: type[BaseException], begin: str, *, later: bool
) -> None:
    class Failing:
        version = "1"

        def decide(self, call: PolicyCall, session: PolicySession) -> Any:  # noqa: ANN401 - it raises
            if later:
                return self._decide()
            raise error

        async def _decide(self) -> Ruling:
            await asyncio.sleep(0)
            raise error

    ran: list[int] = []

    @tool
    async def pay(cents: int) -> str:
        """Pay."""
        ran.append(cents)
        return "paid"

    model = ScriptedModel([call("pay", cents=5), say("Done.")])
    agent = Agent("a", model=model, tools=[pay], policy=Failing())
    async with stage.runtime(agent) as rt:
        if begin == "run":
            result = await rt.session("s").run("Go.")
        else:
            handle = await rt.session("s").submit("Go.")
            result = await handle.result(timeout=HANGS_S)

    assert ran == []
    name = error.__name__
    assert last_told(model) == [
        Told("call_0_0", "denied", f"The policy failed with {name}, which allows nothing.")
    ]
    assert (result.text, len(model.requests)) == ("Done.", 2)
    assert [issue.code for issue in result.issues] == ["policy_failed"]


async def test_a_turn_that_is_cancelled_while_its_policy_decides_is_cancelled(stage: Stage) -> None:
    entered = asyncio.Event()

    class Slow:
        version = "1"

        async def decide(self, call: PolicyCall, session: PolicySession) -> Ruling:
            entered.set()
            await asyncio.Event().wait()
            return Allow()

    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([call("pay"), say("Done.")])
    async with stage.runtime(Agent("a", model=model, tools=[pay], policy=Slow())) as rt:
        handle = await rt.session("s").submit("Go.")
        await entered.wait()
        await handle.cancel("enough")
        result = await handle.result(timeout=HANGS_S)

    assert result.outcome == Stopped(reason="cancelled", detail="enough")
