"""Agno on SQLite, telemetry off, all history in context: written at the `end` of a run, or after each `batch` of tools."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found,misc"

from __future__ import annotations

import json
import logging
from typing import Any

from agno.agent import Agent
from agno.db.sqlite import AsyncSqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse

from bench.workloads.candidate import Candidate
from bench.workloads.child import main
from bench.workloads.script import script

logging.disable(logging.WARNING)


class ScriptedModel(Model):
    """The script as a model of Agno."""

    def __init__(self) -> None:
        super().__init__(id="scripted", name="scripted", provider="scripted")

    async def ainvoke(self, messages: Any, **_rest: Any) -> Any:
        """Answer from the last question and the results after it."""
        n_results, at = 0, len(messages) - 1
        while messages[at].role != "user":
            n_results += messages[at].role == "tool"
            at -= 1
        said = script.reply(messages[at].content, n_results, len(messages))
        if isinstance(said, str):
            return ModelResponse(role="assistant", content=said)
        return ModelResponse(role="assistant", tool_calls=[_call(args) for args in said])

    def invoke(self, *_args: Any, **_rest: Any) -> Any:
        """Refuse: everything here is asynchronous."""
        raise NotImplementedError

    def invoke_stream(self, *_args: Any, **_rest: Any) -> Any:
        """Refuse: nobody streams here."""
        raise NotImplementedError

    def ainvoke_stream(self, *_args: Any, **_rest: Any) -> Any:
        """Refuse: nobody streams here."""
        raise NotImplementedError

    def _parse_provider_response(self, *_args: Any, **_rest: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response_delta(self, *_args: Any, **_rest: Any) -> Any:
        raise NotImplementedError


def _call(args: dict[str, int]) -> dict[str, Any]:
    function = {"name": "sound", "arguments": json.dumps(args)}
    return {"id": script.call_id(), "type": "function", "function": function}


async def sound(i: int) -> str:
    """Sound the depth."""
    return await script.run_tool(i)


class Agno(Candidate):
    """One agent for all sessions."""

    async def open(self) -> None:
        """Open the file."""
        self._agent = Agent(
            model=ScriptedModel(),
            tools=[sound],
            db=AsyncSqliteDb(db_file=str(self.folder / "agno.db")),
            telemetry=False,
            add_history_to_context=True,
            num_history_runs=100_000,
            checkpoint="tool-batch" if self.variant == "batch" else None,
        )

    async def turn(self, session: str, asked: str) -> str:
        """Run the agent in a session."""
        return str((await self._agent.arun(asked, session_id=session)).content)

    async def resume(self, session: str, asked: str) -> str:
        """Continue the last run that the session holds."""
        del asked
        stored = await self._agent.aget_session(session_id=session)
        run_id = stored.runs[-1].run_id
        run = await self._agent.acontinue_run(run_id=run_id, session_id=session)
        return str(run.content)


if __name__ == "__main__":
    main(Agno)
