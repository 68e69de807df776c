"""DBOS by itself: an agent loop by hand in a workflow, model calls and tool calls as its steps."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found,untyped-decorator"

from __future__ import annotations

import asyncio
from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.peers.dbos_launch import launch
from bench.workloads.candidate import Candidate
from bench.workloads.child import main
from bench.workloads.script import script

_histories: dict[str, list[Any]] = {}


@DBOS.step()
async def _ask_model(asked: str, n_results: int, n_seen: int) -> Any:
    said = script.reply(asked, n_results, n_seen)
    if isinstance(said, str):
        return said
    return [{"id": script.call_id(), "args": args} for args in said]


@DBOS.step()
async def _run_tool(args: dict[str, int]) -> str:
    return await script.run_tool(**args)


@DBOS.workflow()
async def _one_turn(session: str, asked: str) -> list[Any]:
    n_before = len(_histories.get(session, ()))
    new: list[Any] = [{"role": "user", "text": asked}]
    n_results = 0
    while True:
        said = await _ask_model(asked, n_results, n_before + len(new))
        new.append({"role": "assistant", "said": said})
        if isinstance(said, str):
            return new
        texts = await asyncio.gather(*(_run_tool(call["args"]) for call in said))
        new += [
            {"role": "tool", "id": call["id"], "text": text}
            for call, text in zip(said, texts, strict=True)
        ]
        n_results += len(said)


class DbosLoop(Candidate):
    """A session is the outputs of its workflows, one after the other."""

    async def open(self) -> None:
        """Start DBOS."""
        self._n_turns: dict[str, int] = {}
        launch(self.folder)

    async def turn(self, session: str, asked: str) -> str:
        """Run a workflow under the next id of the session."""
        if session not in _histories:
            done = await DBOS.list_workflows_async(
                workflow_id_prefix=f"{session}/", status="SUCCESS", load_input=False
            )
            _histories[session] = [step for each in done for step in each.output]
            self._n_turns[session] = len(done)
        self._n_turns[session] += 1
        with SetWorkflowID(f"{session}/{self._n_turns[session]}"):
            new = await _one_turn(session, asked)
        _histories[session] += new
        return str(new[-1]["said"])

    async def resume(self, session: str, asked: str) -> str:
        """Wait for the workflow that the start has picked up again."""
        del asked
        handle = await DBOS.retrieve_workflow_async(f"{session}/1")
        return str((await handle.get_result())[-1]["said"])

    async def close(self) -> None:
        """Stop DBOS."""
        DBOS.destroy()


if __name__ == "__main__":
    main(DbosLoop)
