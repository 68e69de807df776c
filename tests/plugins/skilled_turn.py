"""Turns made by hand in which skills are told of, read and used."""

from __future__ import annotations

from typing import Any

from tests.plugins.fake_turn import FakeHost, FakeTurn
from windlass import ToolContext
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.plugins.skills import Skills
from windlass.ports.plugin import AskedCall
from windlass.ports.policy import Deny

HEAD = (
    "Skills are instructions for certain tasks. When a task fits one of these, read it with "
    "read_skill before you begin, and do as it says.\n\n"
)


async def begun(plugin: Skills, host: FakeHost | None = None) -> FakeTurn:
    """A turn that has begun."""
    turn = FakeTurn("skills", host)
    turn.host.states.clear()
    await plugin.before_turn(turn)
    turn.settle()
    return turn


async def brief(plugin: Skills, turn: FakeTurn) -> str:
    said = await plugin.prompt(turn)
    turn.settle()
    return "\n".join(one.text for one in said)


async def read(plugin: Skills, name: str, file: str | None = None) -> Any:  # noqa: ANN401 - text or parts
    reader = plugin.tools()[0]
    args = {"name": name} if file is None else {"name": name, "file": file}
    return await reader.run(ToolContext(deps=None), reader.check(args))


async def after(plugin: Skills, turn: FakeTurn, *, status: str = "ok", **args: str) -> None:
    outcome = ToolOutcome(status=status, value="text")  # type: ignore[arg-type]  # a status
    call = CompletedToolCall(call_id="c", name="read_skill", args=args, outcome=outcome)
    await plugin.after_tool(turn, call)
    turn.settle()


async def may_call(plugin: Skills, turn: FakeTurn, name: str) -> str | None:
    """Why a tool may not be called now."""
    said = await plugin.before_tool(turn, AskedCall(call_id="c", name=name, args={}))
    turn.settle()
    assert said is None or isinstance(said, Deny)
    return None if said is None else said.reason
