"""The tools that a model gets with its first agent that works in the background: to see, tell and stop its children."""
# ruff: noqa: D417 - a model is told of the arguments that it gives, and the context is not one

from __future__ import annotations

from typing import Any, Final

from windlass.ports.tool import ToolContext
from windlass.tools.function_tool import tool


@tool(effect="idempotent")
async def children(ctx: ToolContext[Any]) -> list[dict[str, Any]]:
    """List the agents that you have started: their names, what they do and what they said last."""
    return [
        {"name": one.name, "agent": one.agent, "state": one.state, "said": one.text}
        for one in await ctx.children()
    ]


@tool(effect="keyed")
async def message_child(ctx: ToolContext[Any], name: str, text: str) -> str:
    """Tell an agent that you have started something more. If it has ended, it goes on with this.

    Args:
        name: Its name, as it was given when you started it.
        text: What it is told.
    """
    await ctx.send(name, text)
    return f"Told {name}."


@tool(effect="idempotent")
async def stop_child(ctx: ToolContext[Any], name: str) -> str:
    """Stop an agent that you have started.

    Args:
        name: Its name, as it was given when you started it.
    """
    return f"{name} stops." if await ctx.stop(name) else f"{name} is not at work."


CHILD_TOOLS: Final = (children, message_child, stop_child)
