"""An agent with a tool that builds in the background, and what became of it."""

from __future__ import annotations

from typing import Any

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk
from windlass import Agent, Runtime, ToolContext, tool
from windlass.kernel import Message, Text
from windlass.ports import SessionSummary
from windlass.ports.tool import Tool
from windlass.testing import FunctionModel, ScriptedModel

TURN = "run"


def build_tool(desk: Desk, **options: Any) -> Tool:
    """Return a tool whose body goes through the desk; what it notes there is the reference and the key."""

    @tool(**{"effect": "keyed", "background": True, **options})
    async def build(ctx: ToolContext[Any], ref: str) -> str:
        """Build a reference."""
        await desk.work((ref, ctx.idempotency_key))
        return f"built {ref}"

    return build


def builder(
    desk: Desk, model: ScriptedModel | FunctionModel, *tools: Tool, **options: Any
) -> Agent[Any, str]:
    """Return an agent that builds in the background."""
    return Agent("ci", model=model, tools=[build_tool(desk, **options), *tools])


async def processes(rt: Runtime[Any], session_id: str = "s") -> list[SessionSummary]:
    """Return the processes that a session has begun."""
    return list(await rt.sessions(kind="process", started_by=session_id))


async def all_ended(rt: Runtime[Any], session_id: str = "s") -> list[SessionSummary]:
    """Wait until what a session has begun has ended, and what that woke there; return what it has begun."""
    begun = await processes(rt, session_id)
    for one in begun:
        await rt.turn(one.session_id, TURN).result(timeout=HANGS_S)
    await rt.session(session_id).wait(timeout=HANGS_S)
    return begun


async def heard(rt: Runtime[Any], session_id: str = "s") -> list[str]:
    """Return the events in the history of a session, in order, without the ids of processes."""
    messages: tuple[Message, ...] = await rt.session(session_id).history()
    events = (one for one in messages if one.role == "event")
    words = ["".join(p.text for p in one.parts if isinstance(p, Text)) for one in events]
    labels = [one.label or "" for one in await processes(rt, session_id)]
    for label in labels:
        words = [text.replace(label, "p") for text in words]
    return words
