"""Where a drive ran: the journal of a turn names the host and the process of each worker that drove it."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from tests.scenarios.payers import payer
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, Runtime
from windlass.api import runtime as runtime_module
from windlass.journal import DriveBegan
from windlass.ports import Store
from windlass.stores.sqlite import SqliteStore
from windlass.testing import FunctionModel, ScriptedModel, call, say


async def places(store: Store) -> list[str]:
    """Return where the drives of the turn ran, first to last."""
    turn = await store.load_turn("s", "t")
    assert turn is not None
    entries = [entry for page in turn.pages for entry in page.entries]
    return [entry.place for entry in entries if isinstance(entry, DriveBegan)]


async def test_each_drive_of_a_turn_says_host_and_process(stage: Stage) -> None:
    agent = payer(Desk(), ScriptedModel([call("pay", cents=5), say("Paid.")]))
    async with stage.runtime(agent) as rt:
        session = rt.session("s")
        assert (await session.run("Pay.", turn_id="t")).parked
        (wait,) = await rt.approvals()
        await rt.approve(wait.key)
        assert (await rt.turn("s", "t").result()).text == "Paid."
        found = await places(rt._services.store)

    assert found == [f"{socket.gethostname()}:{os.getpid()}"] * 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_runtime_that_opens_after_a_fork_says_the_process_of_the_child(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    agent = Agent("a", model=FunctionModel(lambda _: "Hello."))
    rt = Runtime(agent, store=f"sqlite:///{path}")
    child = os.fork()
    if child == 0:
        os._exit(rt.run_sync("s", "Hi.", turn_id="t").text != "Hello.")
    _, status = os.waitpid(child, 0)

    async def look() -> list[str]:
        store = SqliteStore(path)
        await store.open()
        try:
            return await places(store)
        finally:
            await store.close()

    assert os.waitstatus_to_exitcode(status) == 0
    assert asyncio.run(look()) == [f"{socket.gethostname()}:{child}"]


async def test_a_host_whose_name_is_no_text_stops_no_turn(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = os.uname_result(("Linux", os.fsdecode(b"deck\xff"), "6", "1", "x86_64"))
    monkeypatch.setattr(runtime_module, "uname", lambda: odd)
    agent = Agent("a", model=FunctionModel(lambda _: "Hello."))
    async with memory_stage.runtime(agent) as rt:
        assert (await rt.session("s").run("Hi.", turn_id="t")).text == "Hello."
        found = await places(rt._services.store)

    assert found == [f"deck?:{os.getpid()}"]
