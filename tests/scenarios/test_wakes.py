"""A wake: an event that another session posts. It tells the turn that it enters, or the turn that it begins."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import worker
from windlass import Runtime
from windlass.kernel import Message, ModelReply, ModelRequest, Text
from windlass.ports import NewItem, PostItem
from windlass.ports.inbox import turn_of_item
from windlass.testing import FunctionModel, ScriptedModel, call, say

WAKE = NewItem(
    item_id="ship-7", kind="wake", content={"event_type": "arrived", "text": "The ship is in."}
)
BEGUN = turn_of_item("ship-7")


async def post(rt: Runtime[Any]) -> None:
    """Post the wake, as a turn of another session would."""
    errand = PostItem(session_id="s", item=WAKE)
    (receipt,) = await rt._services.store.run_errands([errand], now_ms=1)
    assert receipt.status == "done"
    rt._worker.wake("s")


async def is_quiet(rt: Runtime[Any]) -> bool:
    return not rt._worker.driving and (await rt.session("s").inbox()).items == ()


def told(turn_id: str, name: str = "ship-7") -> str:
    """Return what a model is told of the wake by the turn that it came into."""
    return (
        f"[what woke this turn]\n\n1. arrived ({name}), from input of turn {turn_id}:\n"
        "The ship is in."
    )


def told_at_its_beginning(turn_id: str) -> str:
    """Return what a model is told of the wake by a turn that it began; the event's id is of that turn."""
    place = sha256(f"s/{turn_id}".encode()).hexdigest()[:16]
    return told(turn_id, f"m_{place}.in.wake")


def said(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [
        (one.role, part.text) for one in messages for part in one.parts if isinstance(part, Text)
    ]


async def test_in_an_idle_session_a_wake_begins_a_turn_that_is_told_of_it(stage: Stage) -> None:
    model = FunctionModel(lambda request: f"{len(request.messages)} heard")
    async with stage.runtime(worker(Desk(), model)) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        await post(rt)
        await until(lambda: is_quiet(rt))
        result = await rt.turn("s", BEGUN).result(timeout=HANGS_S)
        history = await rt.session("s").history()
        await rt.session("s").run("And now?")

    assert said_by_user(model.requests[1]) == ["Go.", told_at_its_beginning(BEGUN)]
    # The event is part of the history, once; the next turn is not woken by it again.
    assert said(result.messages) == [("event", "The ship is in."), ("assistant", "3 heard")]
    assert said(history)[2:] == [("event", "The ship is in."), ("assistant", "3 heard")]
    assert said_by_user(model.requests[2])[-1] == "And now?"


async def test_a_wake_enters_a_turn_under_way(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Noted.")])
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await post(rt)
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert said_by_user(model.requests[1]) == ["Go.", told("t")]
    assert said(result.messages).count(("event", "The ship is in.")) == 1


async def test_a_turn_that_a_wake_began_is_told_of_it_by_whichever_worker_goes_on(
    stage: Stage,
) -> None:
    model = ScriptedModel([say("Hello."), call("work"), say("Unloaded.")])
    held, desk = Desk(is_open=False), Desk()
    async with stage.runtime(worker(held, model, effect="keyed")) as dying:
        await dying.session("s").run("Go.", turn_id="t")
        await post(dying)
        await held.entered.wait()
        # Another process sees what the turn was begun with.
        async with stage.runtime(worker=False) as watching:
            under_way = await watching.turn("s", BEGUN).messages()
        stage.kill(dying)
        async with stage.runtime(worker(desk, model, effect="keyed")) as rt:
            result = await rt.turn("s", BEGUN).result(timeout=HANGS_S)
        held.gate.set()

    assert said(under_way) == [("event", "The ship is in.")]
    assert said_by_user(model.requests[2])[-1] == told_at_its_beginning(BEGUN)
    assert said(result.messages) == [("event", "The ship is in."), ("assistant", "Unloaded.")]


@pytest.mark.parametrize("enters_first", [True, False])
async def test_a_wake_that_was_reclaimed_and_comes_again_begins_a_turn_again(
    stage: Stage, enters_first: bool
) -> None:
    """The store has forgotten it: it knows an item for as long as `retention`."""
    desk, model = Desk(is_open=not enters_first), FunctionModel(_works_first)
    async with stage.runtime(worker(desk, model), retention=0) as rt:
        first = await rt.session("s").submit("work", turn_id="t")
        await desk.entered.wait()
        if enters_first:
            await post(rt)
            desk.gate.set()
        await first.result(timeout=HANGS_S)
        for _ in range(2):
            stage.clock.advance(1)
            await rt.vacuum()
            await post(rt)
            await until(lambda: is_quiet(rt))
        history = await rt.session("s").history()
        turns = (await rt._services.store.load_session("s")).pages

    assert said(history).count(("event", "The ship is in.")) == 2 + enters_first
    assert len({one.turn_id for one in turns}) == 3
    assert [one.turn_id for one in turns[:2]] == ["t", BEGUN]


def _works_first(request: ModelRequest) -> ModelReply | str:
    return call("work") if len(request.messages) == 1 else "Done."
