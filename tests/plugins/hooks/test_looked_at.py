"""What plugins looked at is recorded as looked at, so nobody is shown it earlier and they are not asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.plugins.scene import shown
from tests.scenarios.stage import Stage, until
from windlass import Agent, Runtime, ToolError
from windlass.journal import CallPresented, ModelAnswered, ReplyHooked, TurnStarted
from windlass.kernel import ModelReply
from windlass.kernel.tool_call import CompletedToolCall
from windlass.plugins import CallLimit
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import call, calls, say
from windlass.tools import tool

SECRET = "receipt 4711"
ONE_CALL = (call("pay", cents=5), say("Done."))
ONE_PARKS = (calls(("pay", {"cents": 5}), ("ship", {"order": "x"})), say("Done."))


@tool
async def pay(cents: int) -> str:
    """Pay."""
    return SECRET


@tool(approval="ask")
async def ship(order: str) -> str:
    """Ship."""
    return "shipped"


def agent(script: tuple[ModelReply, ...], *plugins: Plugin) -> Agent[None, str]:
    return Agent("a", model=Ledger().model(script), tools=[pay, ship], plugins=plugins)


def silent(*hooks: str) -> Plugin:
    """Return a plugin that looks and says nothing."""
    return hooked("silent", **dict.fromkeys(hooks))


async def entries(rt: Runtime[Any]) -> list[Any]:
    """Return what is written of the turn: its start, and each outcome."""
    view = await rt._services.store.load_turn("s", "t")
    assert view is not None
    found = [entry for page in view.pages for entry in page.entries]
    return [one if isinstance(one, TurnStarted) else getattr(one, "outcome", None) for one in found]


def has_journal(rt: Runtime[Any]) -> Callable[[], Awaitable[bool]]:
    """Return what tells whether the turn's reply is in the store."""

    async def has_reply() -> bool:
        return any(isinstance(one, ModelAnswered) for one in await entries(rt))

    return has_reply


def hanging(hook: str) -> tuple[Plugin, asyncio.Event]:
    """Return a plugin whose hook never ends, and what tells that it has begun."""
    has_begun = asyncio.Event()

    async def hang(*_given: object) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    return hooked("guard", **{hook: hang}), has_begun


@pytest.mark.parametrize(
    ("hooks", "looks", "n_replies", "n_results"),
    [
        (("before_tool", "before_model", "at_checkpoint"), (), 0, 0),
        (("after_model",), ("model",), 1, 0),
        (("after_tool",), ("tools",), 0, 1),
        (("present_result",), ("tools",), 0, 1),
        (("on_error",), ("tools",), 0, 1),
        (("after_model", "after_tool"), ("model", "tools"), 1, 1),
    ],
)
async def test_a_turn_says_what_is_looked_at_and_records_that_it_was(
    stage: Stage, hooks: tuple[str, ...], looks: tuple[str, ...], n_replies: int, n_results: int
) -> None:
    async with stage.runtime(agent(ONE_PARKS, silent(*hooks))) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        assert result.parked
        found = await entries(rt)
        (started,) = [one for one in found if isinstance(one, TurnStarted)]
        # The call that waits has no result yet.
        assert started.looks == looks
        assert [one for one in found if isinstance(one, ReplyHooked)] == [ReplyHooked()] * n_replies
        presented = [one for one in found if isinstance(one, CallPresented)]
        assert presented == [CallPresented()] * n_results
        (wait,) = await rt.approvals()
        await rt.approve(wait.key)
        assert (await rt.turn("s", "t").result()).text == "Done."


async def test_hooks_do_not_look_again_at_what_they_have_looked_at(stage: Stage) -> None:
    seen: list[str] = []

    def looks(_turn: PluginTurn, what: Any) -> None:  # noqa: ANN401 - a reply or a call
        seen.append(what.name if isinstance(what, CompletedToolCall) else "reply")

    def make() -> Agent[None, str]:
        return agent(ONE_PARKS, hooked("looking", after_model=looks, after_tool=looks))

    async with stage.runtime(make()) as rt:
        assert (await rt.session("s").run("Go.", turn_id="t")).parked
    assert seen == ["reply", "pay"]
    async with stage.runtime(make()) as rt:
        (wait,) = await rt.approvals()
        await rt.approve(wait.key)
        assert (await rt.turn("s", "t").result()).text == "Done."
    assert seen == ["reply", "pay", "ship", "reply"]


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(CallLimit(per_turn=10), id="nobody looks at results"),
        pytest.param(silent("on_error"), id="only failures are looked at"),
        pytest.param(silent("after_tool"), id="looked at"),
        pytest.param(silent("after_model", "present_result"), id="presented"),
    ],
)
@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_parked_turn_that_is_cancelled_keeps_its_results(
    stage: Stage, plugin: Plugin, is_elsewhere: bool
) -> None:
    async with stage.runtime(agent(ONE_PARKS, plugin)) as rt:
        assert (await rt.session("s").run("Go.", turn_id="t")).parked
        if not is_elsewhere:
            await rt.cancel("s", "t")
            result = await rt.turn("s", "t").result()
    if is_elsewhere:
        async with stage.runtime(agent(ONE_PARKS, plugin)) as rt:
            await rt.cancel("s", "t")
            result = await rt.turn("s", "t").result()
    assert [one.outcome.value for one in result.tool_calls if one.name == "pay"] == [SECRET]


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("after_model", ["user: Go."]),
        ("after_tool", ["user: Go.", "assistant: pay(cents=5)"]),
        ("present_result", ["user: Go.", "assistant: pay(cents=5)"]),
    ],
)
async def test_nobody_elsewhere_is_shown_what_plugins_still_look_at(
    stage: Stage, hook: str, said: list[str]
) -> None:
    guard, has_begun = hanging(hook)
    async with (
        stage.runtime(agent(ONE_CALL, guard)) as rt,
        stage.runtime(agent(ONE_CALL, guard)) as other,
    ):
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await has_begun.wait()
        await until(has_journal(rt))
        told = await other.turn("s", "t").messages()
        await rt.cancel("s", "t")
        await handle.result()
    assert [shown(message) for message in told] == said


async def test_a_result_that_a_cancel_kept_from_plugins_is_recorded_as_withheld(
    stage: Stage,
) -> None:
    guard, has_begun = hanging("after_tool")
    async with stage.runtime(agent(ONE_CALL, guard)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await has_begun.wait()
        await rt.cancel("s", "t")
        result = await handle.result()
        found = await entries(rt)
    (told,) = result.tool_calls
    assert "withheld" in str(told.outcome.value)
    presented = [one for one in found if isinstance(one, CallPresented)]
    assert presented == [CallPresented(outcome=told.outcome)]


async def test_a_failure_that_a_cancel_kept_from_on_error_is_kept_as_it_is(stage: Stage) -> None:
    @tool
    async def pay(cents: int) -> str:
        """Pay."""
        raise ToolError("The till is empty; receipt 4711 was printed.")

    guard, has_begun = hanging("on_error")
    model = Ledger().model((call("pay", cents=5), say("Done.")))
    async with stage.runtime(Agent("a", model=model, tools=[pay], plugins=[guard])) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await has_begun.wait()
        await rt.cancel("s", "t")
        result = await handle.result()
        found = await entries(rt)
    (told,) = result.tool_calls
    assert told.outcome.value == "The till is empty; receipt 4711 was printed."
    assert [one for one in found if isinstance(one, CallPresented)] == [CallPresented()]


@pytest.mark.parametrize(
    ("hook", "n_presented"), [("after_tool", 1), ("on_error", 1), ("before_tool", 0)]
)
async def test_a_call_that_a_cancel_cut_off_is_recorded_as_looked_at(
    stage: Stage, hook: str, n_presented: int
) -> None:
    has_begun = asyncio.Event()

    @tool
    async def dig(x: int) -> str:
        """Dig."""
        has_begun.set()
        await asyncio.Event().wait()
        return str(x)

    model = Ledger().model((call("dig", x=1), say("Done.")))
    async with stage.runtime(Agent("a", model=model, tools=[dig], plugins=[silent(hook)])) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await has_begun.wait()
        await rt.cancel("s", "t")
        result = await handle.result()
        found = await entries(rt)
    (told,) = result.tool_calls
    assert told.outcome.status == "unknown"
    assert "not known whether dig acted" in str(told.outcome.value)
    presented = [one for one in found if isinstance(one, CallPresented)]
    assert presented == [CallPresented()] * n_presented
