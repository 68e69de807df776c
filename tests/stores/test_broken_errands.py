"""An errand that no store knows is a bug of the caller: its unit changes nothing, in no session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conformance.harnesses import MemoryHarness, SqliteHarness
from windlass.ports import AcceptTurn, AnswerWait, CancelTurn, Errand, NewItem, PostItem, WaitAnswer
from windlass.testing.conformance import StoreHarness
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Driven, Scene, new_turn


@pytest.mark.parametrize("harness", [MemoryHarness, SqliteHarness])
async def test_a_unit_whose_errands_fail_as_a_whole_changes_nothing(harness: type[Any]) -> None:
    made = cast("StoreHarness", harness())
    scene = Scene(made, await made.make())
    turn = await scene.begin()
    other = await scene.begin(session_id="s2")
    await scene.write(other.unit(waits=(other.wait("w"),), parks=True))
    good: tuple[Errand, ...] = (
        AcceptTurn(session_id="s2", turn_id="t2", turn=new_turn()),
        AcceptTurn(session_id="c1", turn_id="t1", turn=new_turn(), kind="child"),
        PostItem(session_id="s2", item=NewItem(item_id="i1")),
        AnswerWait(key="w", answer=WaitAnswer()),
        CancelTurn(session_id="s2", turn_id="t1"),
    )
    # It is run last, because of its session.
    unknown = cast("Errand", SimpleNamespace(session_id="z", turn_id="t1"))
    before = await scene.everything()

    with pytest.raises(Exception, match=r"."):
        await scene.run(*good, unknown)
    assert await scene.everything() == before
    for unit in (
        turn.unit(reply(turn), errands=(*good, unknown)),
        turn.unit(errands=(unknown, *good)),
    ):
        with pytest.raises(Exception, match=r"."):
            await scene.write(unit)
        assert await scene.everything() == before

    receipts = await scene.send(turn, *good)
    assert [one.status for one in receipts] == ["done"] * 5
    assert [item.arrived for item in (await scene.store.inbox("s2")).items] == [3]
    await goes_on(scene, turn, other)
    await made.close()


async def goes_on(scene: Scene, turn: Driven, other: Driven) -> None:
    """Let both turns write on, where they were."""
    for one in (turn, other):
        receipt = await scene.write(one.unit(reply(one)))
        assert receipt.page == 1
