"""Waits: all of them are found, and whoever answers one says so in a word."""

from __future__ import annotations

import pytest

from tests.scenarios.payers import payer, script
from tests.scenarios.stage import Desk, Stage
from windlass import Agent
from windlass.errors import LimitExceeded
from windlass.testing import FunctionModel, call


async def test_all_open_waits_are_listed_however_many_a_store_shows_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.api.answers._WAITS_AT_ONCE", 2)
    asks = FunctionModel(lambda _request: call("pay", cents=5))
    agent = Agent("payer", model=asks, tools=list(payer(Desk(), script()).toolbox))
    async with stage.runtime(agent) as rt:
        for number in range(3):
            await rt.session(f"s{number}").run("Pay 5.")
        listed = await rt.approvals()
        status = await rt.status()

    assert [wait.session_id for wait in listed] == ["s0", "s1", "s2"]
    assert status.open_waits == 3


async def test_who_answers_is_a_name_and_no_novel(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        with pytest.raises(LimitExceeded, match="by: metadata_bytes"):
            await rt.approve(parked.waits[0].key, by="e" * 20_000)
        assert len(await rt.approvals()) == 1
