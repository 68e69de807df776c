"""A wait that is gone from the store does not keep its turn parked for ever: its journal opens it anew."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from windlass import Agent, Runtime, tool
from windlass.testing import FunctionModel, call, say


@pytest.mark.parametrize("how", ["vacuum", "retry"])
async def test_a_turn_whose_wait_was_deleted_asks_again_and_goes_on(
    tmp_path: Path, how: str
) -> None:
    path, sent = tmp_path / "w.db", []

    @tool(approval="ask")
    def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    model = FunctionModel(
        lambda request: call("send", to="ann") if len(request.messages) == 1 else say("done")
    )
    agent = Agent("a", model=model, tools=[send])
    async with Runtime(agent, store=f"sqlite:///{path}") as rt:
        parked = await rt.session("s").run("write", turn_id="t")
        (asked,) = parked.waits
        db = apsw.Connection(str(path))
        db.execute("DELETE FROM waits")
        db.close()
        assert await rt.waits() == ()

        if how == "vacuum":
            assert (await rt.vacuum()).reopened == 1
        else:
            assert await rt.retry("s", "t")
        again = await rt.turn("s", "t").result()
        (wait,) = again.waits
        assert (again.status, wait.key, wait.title) == ("parked", asked.key, asked.title)
        await rt.approve(wait.key)
        done = await rt.turn("s", "t").result()

    assert (done.status, done.text, sent) == ("done", "done", ["ann"])


async def test_retry_leaves_a_turn_alone_that_waits_for_an_answer(tmp_path: Path) -> None:
    @tool(approval="ask")
    def send() -> str:
        """Send a letter."""
        return "sent"

    agent = Agent("a", model=FunctionModel(lambda _: call("send")), tools=[send])
    async with Runtime(agent, store=f"sqlite:///{tmp_path}/w.db") as rt:
        await rt.session("s").run("write", turn_id="t")
        assert not await rt.retry("s", "t")
        assert not await rt.retry("s", "unknown")
        assert len(await rt.waits()) == 1
