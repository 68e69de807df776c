"""A desk that hands off, and one that takes over, as the tests of hand-offs have them."""

from __future__ import annotations

from typing import Any

from windlass import Agent
from windlass.kernel import ModelRequest
from windlass.testing import ScriptedModel, call, say

TRANSFER = call("transfer_to_billing", task="Refund order 17.")


def billing(*replies: Any, **more: Any) -> Agent[Any, Any]:
    """Return the agent that takes over."""
    script = replies or (say("Refunded."), say("And again."))
    return Agent("billing", model=ScriptedModel(script, name="b"), **more)


def triage(*replies: Any, **more: Any) -> Agent[Any, Any]:
    """Return the agent that hands off to it."""
    more.setdefault("handoffs", ["billing"])
    return Agent("triage", model=ScriptedModel(replies or (TRANSFER,), name="t"), **more)


def asked(agent: Agent[Any, Any]) -> list[ModelRequest]:
    """Return what the model of an agent was asked."""
    model: ScriptedModel = agent.model
    return list(model.requests)
