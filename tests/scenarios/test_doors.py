"""A session that is no chat is closed to callers, and is driven as any other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from windlass import Agent, Runtime
from windlass.errors import Forbidden
from windlass.kernel import Finished, Text
from windlass.ports import AcceptTurn, NewTurn, Store, TurnRequest
from windlass.stores.memory import MemoryStore
from windlass.stores.sqlite import SqliteStore
from windlass.testing import ScriptedModel, say


@pytest.mark.parametrize("where", ["memory", "sqlite"])
async def test_callers_are_refused_where_only_errands_begin_turns(
    where: str, tmp_path: Path
) -> None:
    store: Store = MemoryStore() if where == "memory" else SqliteStore(tmp_path / "w.db")
    helper = Agent("helper", model=ScriptedModel([say("Dug."), say("Hello.")]))
    asked = NewTurn(agent="helper", request=TurnRequest(input=(Text(text="Dig."),)))
    elsewhere = NewTurn(agent="elsewhere", request=asked.request)

    await store.open()
    async with asyncio.timeout(HANGS_S), Runtime(helper, store=store) as rt:
        told = AcceptTurn(session_id="c1", turn_id="t1", turn=asked, kind="child")
        waits = AcceptTurn(session_id="c2", turn_id="t1", turn=elsewhere, kind="child")
        await store.run_errands((told, waits), now_ms=0)
        ended = await rt.turn("c1", "t1").result()
        assert ended.outcome == Finished(text="Dug.")

        for session_id in ("c1", "c2"):  # one is idle, one has a turn that waits
            session = rt.session(session_id)
            with pytest.raises(Forbidden, match="only errands begin turns"):
                await session.run("Dig on.")
            with pytest.raises(Forbidden, match="only errands post items"):
                await session.enqueue("Dig on.")
        assert (await rt.session("talk").run("Hi.")).text == "Hello."

        view = await store.load_session("c1")
        assert (view.head, view.queued, view.kind) == (1, (), "child")
    await store.close()
