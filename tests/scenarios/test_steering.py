"""Steering: what comes while a turn works enters all at once, or one item at each checkpoint; none is lost or doubled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime, Session, TurnResult, tool
from windlass.errors import ConfigError
from windlass.kernel import ModelReply, ModelRequest
from windlass.kernel.events import InputAccepted
from windlass.ports import InboxItem
from windlass.stores.memory import MemoryStore
from windlass.testing import FunctionModel, Scenario, ScriptedModel, call, kill_everywhere, say

NOTES = ("Anna.", "Ben.", "Cleo.")


async def put_in(session: Session[str], notes: tuple[str, ...] = NOTES) -> None:
    for text in notes:
        await session.enqueue(text, key=text.lower())


def working_twice() -> ScriptedModel:
    """Two calls, two answers: three checkpoints after which the model is asked again."""
    return ScriptedModel(
        [call("work", n=1), call("work", n=2), say("So far."), say("Done."), say("Spare.")]
    )


async def _settled(session: Session[str]) -> bool:
    return (await session.inbox()).items == ()


async def test_by_default_all_that_waits_enters_at_the_next_checkpoint(stage: Stage) -> None:
    desk, model = Desk(is_open=False), working_twice()
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await put_in(rt.session("s"))
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert said_by_user(model.requests[1]) == ["Go.", *NOTES]
    assert result.text == "So far."


async def test_one_at_a_time_each_checkpoint_lets_the_oldest_in(stage: Stage) -> None:
    desk, model = Desk(is_open=False), working_twice()
    async with stage.runtime(worker(desk, model, steering="one")) as rt:
        session = rt.session("s")
        handle = await session.submit("Go.", turn_id="t")
        await desk.entered.wait()
        await put_in(session)
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)
        inbox = await session.inbox()
        turns = {node.turn_id for node in await session.nodes()}

    assert [said_by_user(request) for request in model.requests] == [
        ["Go."],
        ["Go.", "Anna."],  # after the first call
        ["Go.", "Anna.", "Ben."],  # after the second
        ["Go.", "Anna.", "Ben.", "Cleo."],  # instead of the end
    ]
    assert result.text == "Done."
    assert inbox.items == ()
    assert turns == {"t"}


async def test_what_has_not_entered_yet_can_be_taken_back(stage: Stage) -> None:
    desk, model = Desk(is_open=False), working_twice()
    async with stage.runtime(worker(desk, model, steering="one")) as rt:
        session = rt.session("s")
        async with session.stream("Go.", turn_id="t") as turn:
            await desk.entered.wait()
            await put_in(session)
            desk.entered.clear()
            desk.gate.set()
            desk.gate = asyncio.Event()
            await desk.entered.wait()  # the second call: Anna is in
            states = [(item.item_id, item.state) for item in (await session.inbox()).items]
            receipts = [(await session.withdraw(key)).status for key in ("anna.", "ben.")]
            desk.gate.set()
            seen = [event async for event in turn]

    assert states == [("anna.", "taken"), ("ben.", "pending"), ("cleo.", "pending")]
    assert receipts == ["taken", "withdrawn"]
    accepted = [event.input_id for event in seen if isinstance(event, InputAccepted)]
    assert accepted == ["anna.", "cleo."]
    assert said_by_user(model.requests[2]) == ["Go.", "Anna.", "Cleo."]


async def test_an_item_that_began_the_turn_does_not_count(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([say("Hello."), call("work", n=1), say("So far."), say("Done.")])
    async with stage.runtime(worker(desk, model, steering="one")) as rt:
        session = rt.session("s")
        await session.run("Hi.", turn_id="t")
        await session.enqueue("Work.", key="work")
        await desk.entered.wait()
        await put_in(session, NOTES[:2])
        desk.gate.set()
        await until(lambda: _settled(session))

    assert [said_by_user(request)[1:] for request in model.requests] == [
        [], ["Work."], ["Work.", "Anna."], ["Work.", "Anna.", "Ben."],
    ]  # fmt: skip


async def test_a_crash_after_one_of_three_has_entered_lets_the_others_in_after_it(
    stage: Stage,
) -> None:
    desk, fresh, model = Desk(is_open=False), Desk(), working_twice()
    async with stage.runtime(worker(desk, model, steering="one")) as lost:
        session = lost.session("s")
        await session.submit("Go.", turn_id="t")
        await desk.entered.wait()
        await put_in(session)
        desk.entered.clear()
        desk.gate.set()
        desk.gate = asyncio.Event()
        await desk.entered.wait()  # the second call: Anna is in, and written down
        stage.kill(lost)
        async with stage.runtime(worker(fresh, model, steering="one")) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            inbox = await rt.session("s").inbox()
        desk.gate.set()

    assert (desk.runs, fresh.runs) == ([1, 2], [2])
    assert [said_by_user(request) for request in model.requests[2:]] == [
        ["Go.", "Anna.", "Ben."],
        ["Go.", "Anna.", "Ben.", "Cleo."],
    ]
    assert result.text == "Done."
    assert inbox.items == ()


def _by_place(request: ModelRequest) -> ModelReply:
    """Answer by how many replies there are: what people say in between changes nothing."""
    script = (call("work", n=1), call("work", n=2), say("So far."), say("Done."))
    return script[sum(message.role == "assistant" for message in request.messages)]


class Mail:
    """Puts notes in from inside a tool, in whichever process it runs."""

    def __init__(self) -> None:
        self.session: Session[str] | None = None
        self.has_begun = asyncio.Event()

    def agents(self) -> Agent[None, str]:
        self.has_begun = asyncio.Event()

        @tool(effect="idempotent")
        async def work(n: int) -> str:
            """Work, and be written to meanwhile."""
            await self.has_begun.wait()
            assert self.session is not None
            if n == 1:
                await put_in(self.session)
            return "worked"

        return Agent("a", model=FunctionModel(_by_place), tools=[work], steering="one")

    async def run(self, rt: Runtime[Any]) -> TurnResult[str]:
        self.session = rt.session("s")
        self.has_begun.set()
        return await self.session.run("Go.", turn_id="t")


async def test_no_crash_anywhere_loses_doubles_or_reorders_what_enters() -> None:
    def scenario() -> Scenario:
        mail = Mail()

        def check(result: TurnResult[str]) -> None:
            parts = [message.parts[0] for message in result.messages if message.role == "user"]
            said = [text for part in parts if (text := getattr(part, "text", None)) is not None]
            assert said == ["Go.", *NOTES]
            assert result.text == "Done."

        return Scenario(agents=mail.agents, run=mail.run, check=check)

    report = await kill_everywhere(scenario)

    assert sum("the inbox is emptied" in point for point in map(str, report.points)) >= 6


class CountingStore(MemoryStore):
    """Counts how often a turn asks for its mail."""

    asked = 0

    async def take_inbox(
        self, session_id: str, turn_id: str, *, generation: int, limit: int = 64
    ) -> tuple[InboxItem, ...]:
        self.asked += 1
        return await super().take_inbox(session_id, turn_id, generation=generation, limit=limit)


@pytest.mark.parametrize(("steering", "asked"), [("all", 1), ("one", 3)])
async def test_a_turn_asks_for_its_mail_only_while_there_is_some(steering: str, asked: int) -> None:
    store, desk = CountingStore(), Desk(is_open=False)
    model = ScriptedModel([*(call("work", n=n) for n in range(6)), say("Done.")])
    async with Runtime(worker(desk, model, steering=steering), store=store) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        before = store.asked
        await put_in(rt.session("s"))
        desk.gate.set()
        await handle.result(timeout=HANGS_S)

    assert store.asked - before <= asked + 1  # one more if the worker was about to look by itself
    assert said_by_user(model.requests[-1]) == ["Go.", *NOTES]


async def test_more_than_enter_at_once_enter_all_the_same_in_order(stage: Stage) -> None:
    """A store hands out 64 at a time, and again what it handed out before."""
    notes = tuple(f"Note {n:03}." for n in range(150))
    desk = Desk(is_open=False)
    model = ScriptedModel([*(call("work", n=n) for n in range(4)), say("Done."), say("Spare.")])
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        for at, text in enumerate(notes):
            await rt.session("s").enqueue(text, key=f"n{at}")
        desk.gate.set()
        await handle.result(timeout=HANGS_S)

    assert len(said_by_user(model.requests[1])) == 1 + 64
    assert said_by_user(model.requests[3]) == ["Go.", *notes]


@pytest.mark.parametrize("steering", ["two", "", None, 1])
def test_another_way_of_steering_is_refused(steering: object) -> None:
    with pytest.raises(ConfigError, match=r"Agent\.steering: wanted all or one"):
        worker(Desk(), echo(), steering=steering)
