"""An agent with a tool that asks before it pays."""

from __future__ import annotations

from tests.scenarios.stage import Desk
from windlass import Agent, tool
from windlass.testing import ScriptedModel, call, say


def payer(desk: Desk, model: ScriptedModel, **options: object) -> Agent[None, str]:
    """Return an agent with a tool that asks before it pays, and one that looks without asking."""

    @tool(effect="once", approval="ask")
    async def pay(cents: int) -> str:
        """Pay."""
        await desk.work(cents)
        return f"paid {cents}"

    @tool(effect="pure")
    async def look(what: str) -> str:
        """Look."""
        desk.runs.append(what)
        return f"saw {what}"

    return Agent("payer", model=model, tools=[pay, look], **options)  # type: ignore[call-overload,no-any-return]


def script() -> ScriptedModel:
    return ScriptedModel([call("pay", cents=5), say("Done.")])


def pays(n: int) -> ScriptedModel:
    """Return a model that pays 5 in each of `n` turns."""
    return ScriptedModel([one for _ in range(n) for one in (call("pay", cents=5), say("Done."))])
