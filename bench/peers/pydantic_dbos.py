"""Pydantic AI on DBOS: a run in a workflow, the tool a step; history goes in as the workflow's argument."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found,untyped-decorator"

from __future__ import annotations

from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.models.function import FunctionModel

from bench.peers.dbos_launch import launch
from bench.peers.pydantic_script import NO_LIMIT, reply, sound
from bench.workloads.candidate import Candidate
from bench.workloads.child import main


class PydanticDbos(Candidate):
    """A session is the messages of its workflows, one after the other."""

    async def open(self) -> None:
        """Register agent and workflow, then start DBOS."""
        self._histories: dict[str, list[Any]] = {}
        self._n_turns: dict[str, int] = {}
        agent = Agent(
            FunctionModel(reply),
            name="bench",
            tools=[DBOS.step()(sound)],
            capabilities=[DBOSDurability()],
        )

        @DBOS.workflow()
        async def one_turn(asked: str, history: list[Any]) -> Any:
            run = await agent.run(asked, message_history=history, usage_limits=NO_LIMIT)
            return run.output, run.new_messages()

        self._one_turn = one_turn
        launch(self.folder)

    async def turn(self, session: str, asked: str) -> str:
        """Run a workflow under the next id of the session."""
        history = self._histories.get(session)
        if history is None:
            done = await DBOS.list_workflows_async(
                workflow_id_prefix=f"{session}/", status="SUCCESS", load_input=False
            )
            history = [message for each in done for message in each.output[1]]
            self._histories[session] = history
            self._n_turns[session] = len(done)
        self._n_turns[session] += 1
        with SetWorkflowID(f"{session}/{self._n_turns[session]}"):
            answer, new = await self._one_turn(asked, history)
        history += new
        return str(answer)

    async def resume(self, session: str, asked: str) -> str:
        """Wait for the workflow that the start has picked up again."""
        del asked
        handle = await DBOS.retrieve_workflow_async(f"{session}/1")
        return str((await handle.get_result())[0])

    async def close(self) -> None:
        """Stop DBOS."""
        DBOS.destroy()


if __name__ == "__main__":
    main(PydanticDbos)
