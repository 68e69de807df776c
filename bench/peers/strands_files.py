"""Strands Agents with its file session manager: one agent object per session, history not trimmed."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found,misc,untyped-decorator"

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager

from bench.workloads.candidate import Candidate
from bench.workloads.child import main
from bench.workloads.script import script

logging.disable(logging.WARNING)


class ScriptedModel(Model):
    """The script as a model of Strands."""

    def update_config(self, **_rest: Any) -> None:
        """Have nothing to set."""

    def get_config(self) -> dict[str, Any]:
        """Have nothing to show."""
        return {}

    def structured_output(self, *_args: Any, **_rest: Any) -> Any:
        """Refuse: nobody asks for it here."""
        raise NotImplementedError

    async def stream(self, messages: Any, *_args: Any, **_rest: Any) -> AsyncIterator[Any]:
        """Answer from the last question and the results after it."""
        asked, n_results = _last_question(messages)
        said = script.reply(asked, n_results, len(messages))
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(said, str):
            for event in _block({}, {"text": said}):
                yield event
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        for args in said:
            start = {"toolUse": {"name": "sound", "toolUseId": script.call_id()}}
            for event in _block(start, {"toolUse": {"input": json.dumps(args)}}):
                yield event
        yield {"messageStop": {"stopReason": "tool_use"}}


def _block(start: Any, delta: Any) -> Iterator[Any]:
    yield {"contentBlockStart": {"start": start}}
    yield {"contentBlockDelta": {"delta": delta}}
    yield {"contentBlockStop": {}}


def _last_question(messages: Any) -> tuple[str, int]:
    n_results = 0
    for message in reversed(messages):
        for block in message["content"]:
            if "toolResult" in block:
                n_results += 1
            elif "text" in block and message["role"] == "user":
                return str(block["text"]), n_results
    raise AssertionError("nobody asked")


@tool
async def sound(i: int) -> str:
    """Sound the depth."""
    return await script.run_tool(i)


class StrandsFiles(Candidate):
    """A session is a folder of files."""

    async def open(self) -> None:
        """Make the model; agents come with their sessions."""
        self._agents: dict[str, Any] = {}
        self._model = ScriptedModel()

    async def turn(self, session: str, asked: str) -> str:
        """Invoke the session's agent with a prompt."""
        return await self._invoke(session, asked)

    async def resume(self, session: str, asked: str) -> str:
        """Invoke the session's agent without a prompt: on the stored messages."""
        del asked
        return await self._invoke(session, None)

    async def _invoke(self, session: str, prompt: str | None) -> str:
        agent = self._agents.get(session)
        if agent is None:
            keeper = FileSessionManager(session_id=session, storage_dir=str(self.folder))
            agent = self._agents[session] = Agent(
                model=self._model,
                tools=[sound],
                session_manager=keeper,
                agent_id="bench",
                callback_handler=None,
                conversation_manager=NullConversationManager(),
            )
        result = await agent.invoke_async(prompt)
        return str(result.message["content"][0]["text"])


if __name__ == "__main__":
    main(StrandsFiles)
