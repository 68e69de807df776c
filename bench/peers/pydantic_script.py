"""The script as a function model of Pydantic AI, and its tool."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import (
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage, UsageLimits

from bench.workloads.script import script

NO_LIMIT = UsageLimits(request_limit=None)
# Without this the function model counts the words of the whole history, for each reply.
_USAGE = RequestUsage(input_tokens=1, output_tokens=1)


async def reply(messages: Any, _info: Any) -> Any:
    """Answer from the last question and the results after it."""
    n_results = 0
    for message in reversed(messages):
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                return _reply(script.reply(str(part.content), n_results, len(messages)))
            n_results += isinstance(part, ToolReturnPart)
    raise AssertionError("nobody asked")


def _reply(said: Any) -> Any:
    if isinstance(said, str):
        parts = [TextPart(said)]
    else:
        parts = [ToolCallPart("sound", args, script.call_id()) for args in said]
    return ModelResponse(parts, usage=_USAGE)


async def sound(i: int) -> str:
    """Sound the depth."""
    return await script.run_tool(i)
