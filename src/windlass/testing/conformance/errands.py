"""Errands as a unit would send them, and what is looked at after."""

from __future__ import annotations

from typing import Any

from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    ErrandReceipt,
    NewItem,
    PostItem,
    WaitAnswer,
)
from windlass.testing.conformance.scene import Driven, Scene, new_turn

YES = WaitAnswer(value="yes", by="eva", now_ms=5)


def post(session_id: str = "s2", item_id: str = "i1", *, now_ms: int = 0, **more: Any) -> PostItem:
    """Return the errand that posts an item."""
    item = NewItem(item_id=item_id, **more)
    return PostItem(session_id=session_id, item=item, now_ms=now_ms)


def begin(session_id: str = "s2", turn_id: str = "t2", text: str = "go", **more: Any) -> AcceptTurn:
    """Return the errand that begins a turn."""
    turn = new_turn(text, now_ms=7)
    return AcceptTurn(session_id=session_id, turn_id=turn_id, turn=turn, **more)


def child(session_id: str, **more: Any) -> AcceptTurn:
    """Return the errand that begins a child, with the turn `t1`."""
    return begin(session_id, "t1", **({"kind": "child"} | more))


def one_of_each() -> tuple[Errand, ...]:
    """Return an errand of each kind, to what `waiting_session` makes."""
    return (
        begin(),
        post(),
        AnswerWait(key="w", answer=YES),
        CancelTurn(session_id="s2", turn_id="t1", reason="enough"),
    )


async def waiting_session(scene: Scene) -> Driven:
    """Let the session `s2`, with a worker of its own, have a parked turn `t1` that waits for `w`."""
    other = await scene.begin(session_id="s2")
    await scene.write(other.unit(waits=(other.wait("w"),), parks=True))
    return other


def statuses(receipts: tuple[ErrandReceipt, ...]) -> list[str]:
    """Return what became of errands."""
    return [receipt.status for receipt in receipts]


async def items_in(scene: Scene, session_id: str) -> list[str]:
    """Return the ids of the items that wait in a session."""
    return [item.item_id for item in (await scene.store.inbox(session_id)).items]
