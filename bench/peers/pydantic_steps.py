"""Pydantic AI with the step store of its harness, on SQLite."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness import StepPersistence
from pydantic_ai_harness.step_persistence import SqliteStepStore, continue_run

from bench.peers.pydantic_script import NO_LIMIT, reply, sound
from bench.workloads.candidate import Candidate
from bench.workloads.child import main


class PydanticSteps(Candidate):
    """A session is a conversation; its last run holds its messages."""

    async def open(self) -> None:
        """Open the step store."""
        self._histories: dict[str, Any] = {}
        self._store = SqliteStepStore(database=str(self.folder / "steps.db"))
        self._agent = Agent(
            FunctionModel(reply),
            name="bench",
            tools=[sound],
            capabilities=[StepPersistence(store=self._store, agent_name="bench")],
        )

    async def turn(self, session: str, asked: str) -> str:
        """Run the agent on what it knows of the session."""
        history = self._histories.get(session)
        if history is None:
            history = await self._stored(session)
        run = await self._agent.run(
            asked, message_history=history, conversation_id=session, usage_limits=NO_LIMIT
        )
        self._histories[session] = run.all_messages()
        return str(run.output)

    async def resume(self, session: str, asked: str) -> str:
        """Run the agent without a prompt on what was stored of the last run."""
        del asked
        run = await self._agent.run(
            message_history=await self._stored(session),
            conversation_id=session,
            usage_limits=NO_LIMIT,
        )
        return str(run.output)

    async def _stored(self, session: str) -> Any:
        runs = await self._store.list_runs(conversation_id=session)
        return await continue_run(self._store, run_id=runs[-1].run_id) if runs else None


if __name__ == "__main__":
    main(PydanticSteps)
