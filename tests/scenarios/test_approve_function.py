"""`approve=`, the function that answers in the process: one of those who may answer, and never in the way."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, pays, script
from tests.scenarios.readings import Told, last_told
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, Approve, Deny, Limits, Runtime, Wait, tool
from windlass.errors import EngineError
from windlass.testing import ScriptedModel, calls, say


class Thinking:
    """An async function that answers when it is told to."""

    def __init__(self, says: Any = True) -> None:  # noqa: ANN401 - whatever it says
        self.says = says
        self.asked: list[Wait] = []
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self, wait: Wait) -> Any:  # noqa: ANN401 - whatever it says
        self.asked.append(wait)
        self.entered.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return self.says


class Blocking:
    """A plain function that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Wait] = []
        self.entered = threading.Event()
        self.gate = threading.Event()

    def __call__(self, wait: Wait) -> bool:
        self.asked.append(wait)
        self.entered.set()
        self.gate.wait(HANGS_S)
        return True


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("allowed", [True, False])
async def test_anyone_may_answer_while_the_function_thinks(
    stage: Stage, allowed: bool, elsewhere: bool
) -> None:
    desk, model, thinking = Desk(), script(), Thinking(says=not allowed)
    async with (
        stage.runtime(payer(desk, model), approve=thinking) as rt,
        stage.runtime() as office,
    ):
        handle = await rt.session("s").submit("Pay 5.", turn_id="t")
        await thinking.entered.wait()
        answerer = office if elsewhere else rt
        (wait,) = await answerer.waits()
        assert wait == thinking.asked[0]
        assert await handle.status() == "running"
        receipt = await (
            answerer.approve(wait.key, by="eva") if allowed else answerer.deny(wait.key, by="eva")
        )
        result = await handle.result(timeout=HANGS_S)

    assert receipt.status == "accepted"
    assert desk.runs == ([5] if allowed else [])
    assert result.text == "Done."
    expected = (
        Told("call_0_0", "ok", "paid 5")
        if allowed
        else Told("call_0_0", "denied", "Denied by eva.")
    )
    assert last_told(model) == [expected]
    assert thinking.was_cancelled


async def test_an_answer_that_comes_after_another_one_changes_nothing(stage: Stage) -> None:
    desk, model, blocking = Desk(), script(), Blocking()
    async with stage.runtime(payer(desk, model), approve=blocking) as rt:
        handle = await rt.session("s").submit("Pay 5.", turn_id="t")
        await until(blocking.entered.is_set)
        (wait,) = await rt.waits()
        await rt.deny(wait.key, reason="Not today.", by="eva")
        result = await handle.result(timeout=HANGS_S)
        blocking.gate.set()

    assert desk.runs == []
    assert result.tool_calls[0].outcome.value == "Denied by eva: Not today."


@pytest.mark.parametrize("kind", [Thinking, Blocking])
async def test_the_time_to_answer_runs_while_the_function_thinks(
    stage: Stage, kind: type[Thinking | Blocking]
) -> None:
    desk, model, approve = Desk(), script(), kind()
    agent = payer(desk, model, limits=Limits(approval_timeout=60))
    async with stage.runtime(agent, approve=approve) as rt:
        handle = await rt.session("s").submit("Pay 5.", turn_id="t")
        await until(approve.entered.is_set)
        assert len(await rt.waits()) == 1
        stage.later(61, rt)
        result = await handle.result(timeout=HANGS_S)
        approve.gate.set()

    assert desk.runs == []
    assert result.tool_calls[0].outcome.value == "Nobody answered in time, so it was not allowed."


async def test_a_plain_function_does_not_block_the_loop(stage: Stage) -> None:
    blocking = Blocking()
    async with stage.runtime(payer(Desk(), script()), approve=blocking) as rt:
        handle = await rt.session("s").submit("Pay 5.", turn_id="t")
        # If it ran on the loop, nothing here could open its gate.
        await until(blocking.entered.is_set)
        assert threading.main_thread() is threading.current_thread()
        blocking.gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert result.text == "Done."


@pytest.mark.parametrize("kind", [Thinking, Blocking])
async def test_a_function_that_hangs_does_not_keep_the_runtime_from_closing(
    stage: Stage, kind: type[Thinking | Blocking]
) -> None:
    desk, model, hanging = Desk(), script(), kind()
    async with stage.runtime(payer(desk, model), approve=hanging) as rt:
        running = asyncio.create_task(rt.session("s").run("Pay 5.", turn_id="t"))
        await until(hanging.entered.is_set)
        before = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - before < 5  # the grace of a body is 10 s
    with pytest.raises(EngineError, match="closed"):
        await running
    async with stage.runtime(payer(desk, model), approve=lambda _wait: True) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
    hanging.gate.set()

    assert desk.runs == [5]
    assert len(model.requests) == 2
    assert result.text == "Done."


async def test_a_turn_can_be_cancelled_while_the_function_thinks(stage: Stage) -> None:
    desk, thinking = Desk(), Thinking()
    async with stage.runtime(payer(desk, script()), approve=thinking) as rt:
        handle = await rt.session("s").submit("Pay 5.", turn_id="t")
        await thinking.entered.wait()
        await handle.cancel("enough")
        result = await handle.result(timeout=HANGS_S)

    assert desk.runs == []
    assert getattr(result.outcome, "reason", None) == "cancelled"
    assert thinking.was_cancelled


class Rude(BaseException):
    """Not meant to be caught."""


def _raises(error: BaseException) -> Any:  # noqa: ANN401 - a function
    def approve(_wait: Wait) -> bool:
        raise error

    return approve


def _raises_later(error: BaseException) -> Any:  # noqa: ANN401 - a function
    async def approve(_wait: Wait) -> bool:
        raise error

    return approve


async def _cancels_itself(_wait: Wait) -> bool:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return True


FAILING = {
    "an error": _raises(ValueError("sk-123")),
    "a later error": _raises_later(ValueError("sk-123")),
    "CancelledError": _raises(asyncio.CancelledError()),
    "a later CancelledError": _raises_later(asyncio.CancelledError()),
    "SystemExit": _raises(SystemExit(1)),
    "a later SystemExit": _raises_later(SystemExit(1)),
    "something rude": _raises(Rude()),
    "something rude, later": _raises_later(Rude()),
    "cancels its task": _cancels_itself,
    "an edit that does not fit": lambda _wait: Approve(edit={"cents": "many"}),
    "an edit that is nothing": lambda _wait: Approve(edit={}),
    "a memory that does not exist": lambda _wait: Approve(remember="always"),  # type: ignore[arg-type]  # that is it
    "a reason with NUL": lambda _wait: Deny(reason="\x00"),
    "a name with a surrogate": lambda _wait: Approve(by="\ud800"),
    "a reason that is too long": lambda _wait: Deny(reason="x" * 2_000_000),
}


@pytest.mark.parametrize("failing", FAILING)
async def test_a_function_that_fails_has_not_answered(
    stage: Stage, failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    desk, model = Desk(), script()
    with caplog.at_level(logging.ERROR, logger="windlass"):
        async with stage.runtime(payer(desk, model), approve=FAILING[failing]) as rt:
            parked = await rt.session("s").run("Pay 5.", turn_id="t")
            assert (parked.parked, await rt.waits()) == (True, parked.waits)
            assert desk.runs == []
            await rt.approve(parked.waits[0].key, by="eva")
            result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == [5]
    assert last_told(model) == [Told("call_0_0", "ok", "paid 5")]
    assert result.text == "Done."
    assert "approve=" in caplog.text
    assert "the question about pay stays open" in caplog.text
    assert "sk-123" not in caplog.text


async def test_that_the_function_failed_is_an_issue_of_a_turn_that_goes_on_all_the_same(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Desk(is_open=False)

    @tool(effect="once")
    async def act() -> str:
        """Act slowly."""
        await slow.work()
        return "acted"

    desk = Desk()
    model = ScriptedModel([calls(("act", {}), ("pay", {"cents": 5})), say("Done.")])
    agent = Agent("payer", model=model, tools=[act, *payer(desk, model).toolbox])

    def approve(_wait: Wait) -> bool:
        raise ValueError

    caplog.set_level(logging.ERROR, "windlass")
    async with stage.runtime(agent, approve=approve) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        # It runs in a thread: an answer before the turn has heard how that ended would overrule it.
        await until(lambda: "stays open" in caplog.text)
        await slow.entered.wait()
        (wait,) = await rt.waits()
        await rt.approve(wait.key)
        await desk.entered.wait()
        slow.gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert [(issue.code, issue.message) for issue in result.issues] == [
        ("approver_failed", "approve= raised ValueError; the question about pay stays open")
    ]


async def test_a_denial_may_have_a_reason(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(
        payer(desk, model), approve=lambda _wait: Deny(reason="The till is closed.")
    ) as rt:
        await rt.session("s").run("Pay 5.")

    assert desk.runs == []
    assert last_told(model) == [
        Told("call_0_0", "denied", "Denied by approver: The till is closed.")
    ]


async def test_a_yes_may_change_the_arguments_and_name_who_said_it(stage: Stage) -> None:
    desk, model = Desk(), script()

    async def approve(_wait: Wait) -> Approve:
        return Approve(edit={"cents": 3}, by="eva")

    async with stage.runtime(payer(desk, model), approve=approve) as rt:
        result = await rt.session("s").run("Pay 5.")

    assert desk.runs == [3]
    assert result.tool_calls[0].args == {"cents": 3}
    assert "(The approver (eva) changed the arguments" in last_told(model)[0].text


async def test_a_function_may_ask_another_agent_with_one_slot_and_not_the_same_session(
    memory_stage: Stage,
) -> None:
    desk = Desk()
    judge = Agent("judge", model=ScriptedModel([say("yes")]))
    rt: Runtime[Any]

    async def approve(wait: Wait) -> bool:
        if wait.session_id == "same":
            await rt.session("same", "payer").run("May I?")
        return (await rt.session("court", "judge").run("May it?")).text == "yes"

    agents = payer(desk, pays(2)), judge
    async with memory_stage.runtime(*agents, approve=approve, max_turns=1) as rt:
        async with asyncio.timeout(HANGS_S):
            result = await rt.session("s", "payer").run("Pay 5.")
            parked = await rt.session("same", "payer").run("Pay 5.")

    assert (desk.runs, result.text, parked.parked) == ([5], "Done.", True)
