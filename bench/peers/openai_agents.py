"""OpenAI Agents SDK with its `SQLiteSession` on a file, tracing off."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found,misc,untyped-decorator"

from __future__ import annotations

import json
from typing import Any

from agents import Agent, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bench.workloads.candidate import Candidate
from bench.workloads.child import main
from bench.workloads.script import script

set_tracing_disabled(disabled=True)


class ScriptedModel(Model):
    """The script as a model of the SDK."""

    async def get_response(self, *_args: Any, input: Any, **_rest: Any) -> Any:
        """Answer from the last question and the results after it."""
        n_results, at = 0, len(input) - 1
        while input[at].get("role") != "user":
            n_results += input[at].get("type") == "function_call_output"
            at -= 1
        said = script.reply(input[at]["content"], n_results, len(input))
        output = [_text(said)] if isinstance(said, str) else [_call(args) for args in said]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    def stream_response(self, *_args: Any, **_rest: Any) -> Any:
        """Refuse: nobody streams here."""
        raise NotImplementedError


def _text(text: str) -> Any:
    return ResponseOutputMessage(
        id=script.call_id(),
        role="assistant",
        status="completed",
        type="message",
        content=[ResponseOutputText(text=text, type="output_text", annotations=[])],
    )


def _call(args: dict[str, int]) -> Any:
    return ResponseFunctionToolCall(
        call_id=script.call_id(), name="sound", type="function_call", arguments=json.dumps(args)
    )


@function_tool
async def sound(i: int) -> str:
    """Sound the depth."""
    return await script.run_tool(i)


class OpenAIAgents(Candidate):
    """One session object per session, all on one file."""

    async def open(self) -> None:
        """Make the agent."""
        self._agent = Agent(name="bench", model=ScriptedModel(), tools=[sound])
        self._sessions: dict[str, Any] = {}

    async def turn(self, session: str, asked: str) -> str:
        """Run the agent with a message."""
        return await self._run(session, [{"role": "user", "content": asked}])

    async def resume(self, session: str, asked: str) -> str:
        """Run the agent without input: on whatever the session holds."""
        del asked
        return await self._run(session, [])

    async def _run(self, session: str, given: list[Any]) -> str:
        kept = self._sessions.get(session)
        if kept is None:
            kept = SQLiteSession(session, str(self.folder / "openai.db"))
            self._sessions[session] = kept
        run = await Runner.run(self._agent, given, session=kept, max_turns=1_000)
        return str(run.final_output)


if __name__ == "__main__":
    main(OpenAIAgents)
