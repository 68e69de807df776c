"""An agent with one tool that can be held up, for scenes in which somebody else arrives meanwhile."""

from __future__ import annotations

from typing import Any

from tests.scenarios.stage import Desk
from windlass import Agent, tool
from windlass.journal import Contract
from windlass.kernel import ModelReply, ModelRequest, Text, ToolResult
from windlass.testing import FunctionModel, ScriptedModel, call


def worker(
    desk: Desk,
    model: ScriptedModel | FunctionModel,
    name: str = "worker",
    effect: Contract = "keyed",
    **options: Any,
) -> Agent[None, str]:
    """Return an agent whose tool `work` goes through the desk."""

    @tool(effect=effect)
    async def work(n: int = 0) -> str:
        """Work."""
        await desk.work(n)
        return f"worked {n}"

    return Agent(name, model=model, tools=[work], **options)


def echo() -> FunctionModel:
    """Return a model that repeats what the user said last; on the word "work" it works first."""

    def answer(request: ModelRequest) -> ModelReply | str:
        last = request.messages[-1]
        if any(isinstance(part, ToolResult) for part in last.parts):
            return "worked"
        said = "".join(part.text for part in last.parts if isinstance(part, Text))
        return call("work", n=1) if "work" in said else f"You said: {said}"

    return FunctionModel(answer)
