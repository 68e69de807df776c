"""A call that may have acted already is known by what it does, and not by how it was spelled."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from windlass import Agent, Plugin, ToolContext, ToolUncertain, tool
from windlass.journal import OutcomeUnknown
from windlass.kernel.tool_call import ToolSpec
from windlass.plugins import ReplaceArgs
from windlass.ports import AskedCall, PluginTurn
from windlass.testing import ScriptedModel, call, say
from windlass.tools import DynamicTool

AGAIN = "pay may have acted already; run it again?"


class Currency(enum.Enum):
    EUR = "eur"
    USD = "usd"


@dataclasses.dataclass
class Account:
    iban: str
    bank: str = "any"


class Payments:
    """Payments that were begun; the first one is cut off."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, to: str) -> str:
        self.sent.append(to)
        if len(self.sent) == 1:
            raise ToolUncertain("the line was cut")
        return "paid"

    def tool(self) -> Any:  # noqa: ANN401 - a tool
        @tool
        async def pay(
            to: str,
            *,
            cents: float = 5,
            memo: str | None = None,
            account: Account = Account("DE1"),  # noqa: B008 - a default like any other
            currency: Currency = Currency.EUR,
            at: datetime.datetime | None = None,
            tags: frozenset[str] = frozenset({"a", "b"}),
        ) -> str:
            """Pay."""
            return self.send(to)

        return pay

    def dynamic_tool(self) -> DynamicTool:
        async def pay(_ctx: ToolContext[Any], args: dict[str, Any]) -> str:
            return self.send(args["to"])

        schema = {
            "type": "object",
            "properties": {"to": {"type": "string"}, "cents": {"type": "number", "default": 5}},
            "required": ["to"],
        }
        return DynamicTool(ToolSpec(name="pay", description="Pay.", parameters=schema), pay)


EQUAL: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"to": "eva"}, {"to": "eva"}),
    ({"to": "eva"}, {"to": "eva", "cents": 5}),
    ({"to": "eva", "cents": 5}, {"to": "eva"}),
    ({"to": "eva", "cents": 5}, {"to": "eva", "cents": 5.0}),
    ({"to": "eva"}, {"to": "eva", "memo": None}),
    ({"to": "eva"}, {"to": "eva", "account": {"iban": "DE1"}}),
    (
        {"to": "eva", "account": {"iban": "DE2"}},
        {"to": "eva", "account": {"iban": "DE2", "bank": "any"}},
    ),
    ({"to": "eva"}, {"to": "eva", "currency": "eur"}),
    (
        {"to": "eva", "at": "2026-05-01T00:00:00Z"},
        {"to": "eva", "at": "2026-05-01T00:00:00+00:00"},
    ),
    ({"to": "eva"}, {"to": "eva", "tags": ["b", "a"]}),
]
OTHER: list[dict[str, Any]] = [
    {"to": "tom"},
    {"to": "eva", "cents": 6},
    {"to": "eva", "memo": ""},
    {"to": "eva", "account": {"iban": "DE1", "bank": "other"}},
    {"to": "eva", "currency": "usd"},
]


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize(("first", "second"), EQUAL)
async def test_an_equal_call_asks_first_however_it_is_spelled(
    stage: Stage, first: dict[str, Any], second: dict[str, Any], turns: int
) -> None:
    payments = Payments()
    between = [say("Not sure.")] if turns == 2 else []
    model = ScriptedModel([call("pay", **first), *between, call("pay", **second), say("Done.")])
    agent = Agent("a", model=model, tools=[payments.tool()])
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t0")
    if turns == 2:
        # Another process, which has it from the store alone.
        async with stage.runtime(agent) as rt:
            result = await rt.session("s").run("Again.", turn_id="t1")

    assert payments.sent == ["eva"]
    assert [wait.title for wait in result.waits] == [AGAIN]
    assert result.waits[0].detail["may_have_acted"] is True


@pytest.mark.parametrize("second", OTHER)
async def test_a_call_that_does_something_else_is_not_asked_about(
    memory_stage: Stage, second: dict[str, Any]
) -> None:
    payments = Payments()
    model = ScriptedModel([call("pay", to="eva"), call("pay", **second), say("Done.")])
    async with memory_stage.runtime(Agent("a", model=model, tools=[payments.tool()])) as rt:
        result = await rt.session("s").run("Go.")

    assert (len(payments.sent), result.text) == (2, "Done.")


@pytest.mark.parametrize("second", [{"to": "eva", "cents": 5}, {"to": "eva", "cents": 5.0}])
async def test_the_defaults_of_a_ready_schema_count(
    memory_stage: Stage, second: dict[str, Any]
) -> None:
    payments = Payments()
    model = ScriptedModel([call("pay", to="eva"), call("pay", **second), say("Done.")])
    agent = Agent("a", model=model, tools=[payments.dynamic_tool()])
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert payments.sent == ["eva"]
    assert [wait.title for wait in result.waits] == [AGAIN]


async def test_it_is_still_known_in_a_new_frame(stage: Stage) -> None:
    payments = Payments()
    model = ScriptedModel(
        [
            call("pay", to="eva"),
            say("Not sure."),
            say("Summary: a payment was tried."),
            call("pay", to="eva", cents=5),
            say("Done."),
        ]
    )
    async with stage.runtime(Agent("a", model=model, tools=[payments.tool()])) as rt:
        session = rt.session("s")
        await session.run("Go.")
        await session.compact()
        result = await session.run("Again.")

    assert payments.sent == ["eva"]
    assert [wait.title for wait in result.waits] == [AGAIN]


async def test_what_ran_instead_of_what_was_asked_counts_with_its_defaults(stage: Stage) -> None:
    class ToEva(Plugin):
        async def before_tool(self, turn: PluginTurn, asked: AskedCall) -> ReplaceArgs | None:
            return ReplaceArgs({"to": "eva"}) if asked.args["to"] == "adam" else None

    payments = Payments()
    model = ScriptedModel([call("pay", to="adam"), call("pay", to="eva", cents=5), say("Done.")])
    agent = Agent("a", model=model, tools=[payments.tool()], plugins=[ToEva()])
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert payments.sent == ["eva"]
    assert [wait.title for wait in result.waits] == [AGAIN]


async def test_a_call_that_was_spelled_out_leaves_no_other_trace_than_before(stage: Stage) -> None:
    """What needs no effective arguments to be known is known from the history alone, as it always was."""

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        raise ToolUncertain("the line was cut")

    model = ScriptedModel([call("pay", to="eva"), say("Done.")])
    async with stage.runtime(Agent("a", model=model, tools=[pay])) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        view = await rt._services.store.load_turn("s", "t")

    assert view is not None
    assert view.page is not None
    assert [node for node in view.page.nodes if isinstance(node, OutcomeUnknown)] == []


async def test_a_person_sees_what_the_model_left_out(stage: Stage) -> None:
    @tool(approval="ask")
    async def pay(to: str, cents: int = 500, memo: str | None = None) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([call("pay", to="eva"), say("Done.")])
    async with stage.runtime(Agent("a", model=model, tools=[pay])) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        (wait,) = parked.waits
        await rt.approve(wait.key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (wait.detail["args"], wait.detail["defaults"]) == ({"to": "eva"}, {"cents": 500})
    assert "may_have_acted" not in wait.detail
    assert result.text == "Done."
