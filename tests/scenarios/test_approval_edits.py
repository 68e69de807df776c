"""Edits: a person may change the arguments; what was approved is what runs, and the model is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import last_told, turn_view
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, Allow, Ask, Deny, tool
from windlass.errors import InvalidInput
from windlass.ports import Tool, WaitAnswer
from windlass.ports.policy import PolicyCall, PolicySession, Ruling
from windlass.testing import ScriptedModel, call, say

TOLD = (
    "paid 3 to Ann\n"
    "(The approver (eva) changed the arguments before it ran; it ran with the changed ones.)"
)


class CapPolicy:
    """Asks about everything, and denies what is above the cap."""

    version = "1"

    def __init__(self, cap: int) -> None:
        self._cap = cap

    def decide(self, call: PolicyCall, session: PolicySession) -> Ruling:
        if call.args["cents"] > self._cap:
            return Deny(reason=f"More than {self._cap} cents.")
        return Ask()


def payer(desk: Desk, model: ScriptedModel, policy: CapPolicy | None = None) -> Agent[None, str]:
    @tool(effect="once", approval="ask")
    async def pay(to: str, cents: int) -> str:
        """Pay."""
        await desk.work((to, cents))
        return f"paid {cents} to {to}"

    return Agent("payer", model=model, tools=[pay], policy=policy)


def script() -> ScriptedModel:
    return ScriptedModel([call("pay", to="Ann", cents=5), say("Done.")])


async def test_an_edit_runs_what_was_approved_and_tells_the_model(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        receipt = await rt.approve(parked.waits[0].key, edit={"to": "Ann", "cents": 3}, by="eva")
        live = await rt.turn("s", "t").result(timeout=HANGS_S)
        stored = await rt.session("s").run("Pay 5.", turn_id="t")

    assert receipt.status == "accepted"
    assert desk.runs == [("Ann", 3)]
    for result in (live, stored):
        (done,) = result.tool_calls
        assert done.args == {"to": "Ann", "cents": 3}
        assert done.outcome.value == "paid 3 to Ann"
    ((_, status, text),) = last_told(model)
    assert (status, text) == ("ok", TOLD)


async def test_an_edit_survives_the_worker_that_was_to_run_it(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
    async with stage.runtime() as office:
        await office.approve(parked.waits[0].key, edit={"to": "Ann", "cents": 3}, by="eva")
    async with stage.runtime(payer(desk, model)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == [("Ann", 3)]
    assert result.tool_calls[0].args == {"to": "Ann", "cents": 3}


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"to": "Ann", "cents": "three"}, id="wrong-type"),
        pytest.param({"cents": 3}, id="one-missing"),
        pytest.param({"to": "Ann", "cents": 3, "why": "x"}, id="one-too-many"),
        pytest.param({}, id="nothing"),
        pytest.param(["Ann", 3], id="no-arguments-at-all"),
    ],
)
async def test_an_edit_that_does_not_fit_is_refused_at_the_door_and_uses_nothing_up(
    memory_stage: Stage, edit: dict[str, object]
) -> None:
    desk, model = Desk(), script()
    async with memory_stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        with pytest.raises(InvalidInput, match="edit"):
            await rt.approve(parked.waits[0].key, edit=edit)
        assert await rt.approvals() == parked.waits
        assert (await rt.approve(parked.waits[0].key)).status == "accepted"
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == [("Ann", 5)]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"to": "Ann", "cents": "three"}, "edit.cents: found string, wanted integer"),
        ({"cents": 3}, "edit.to: found nothing, wanted a value: it is required"),
        ({"to": "Ann", "cents": 3, "why": "x"}, "edit.why: found a name that does not exist"),
        ({}, "edit: wanted the call's arguments"),
    ],
)
async def test_a_process_without_the_agent_refuses_an_edit_by_the_recorded_schema(
    stage: Stage, edit: dict[str, object], says: str
) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
    (wait,) = parked.waits
    async with stage.runtime() as office:
        with pytest.raises(InvalidInput) as caught:
            await office.approve(wait.key, edit=edit, by="eva")
        assert says in str(caught.value)
        assert await office.approvals() == (wait,)
        receipt = await office.approve(wait.key, edit={"to": "Ann", "cents": 3}, by="eva")
    assert receipt.status == "accepted"
    async with stage.runtime(payer(desk, model)) as rt:
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == [("Ann", 3)]


async def test_a_process_without_the_agent_knows_the_tools_that_a_provider_brought(
    stage: Stage,
) -> None:
    desk, model = Desk(), script()

    class Server:
        def tools(self, _context: Mapping[str, Any]) -> list[Tool]:
            return [one for one in payer(desk, model).toolbox if one.spec.name == "pay"]

    async with stage.runtime(Agent("payer", model=model, tools=[Server()])) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
    async with stage.runtime() as office:
        with pytest.raises(InvalidInput, match=r"edit\.cents: found string"):
            await office.approve(parked.waits[0].key, edit={"to": "Ann", "cents": "three"})
        assert await office.approvals() == parked.waits


async def test_an_edit_that_got_past_the_door_is_refused_where_it_would_run(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
    async with stage.runtime() as office:
        edited = WaitAnswer(value={"edit": {"to": "Ann", "cents": "three"}})
        await office._services.store.resolve_wait(parked.waits[0].key, edited)
    async with stage.runtime(payer(desk, model)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == []
    ((_, status, text),) = last_told(model)
    assert status == "denied"
    assert text.startswith("The arguments that the approver wrote do not fit")
    assert result.text == "Done."


async def test_an_edit_is_put_to_the_policy_again(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model, CapPolicy(10))) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        await rt.approve(parked.waits[0].key, edit={"to": "Ann", "cents": 99})
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == []
    ((_, status, text),) = last_told(model)
    assert status == "denied"
    assert "More than 10 cents." in text
    assert result.tool_calls[0].outcome.status == "denied"


async def test_a_policy_that_fails_on_an_edit_denies_it_and_the_turn_goes_on(stage: Stage) -> None:
    class Fails(CapPolicy):
        def decide(self, call: PolicyCall, session: PolicySession) -> Ruling:
            if call.args["cents"] == 99:
                raise RuntimeError("the rules are gone")
            return super().decide(call, session)

    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model, Fails(10))) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        await rt.approve(parked.waits[0].key, edit={"to": "Ann", "cents": 99})
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == []
    assert result.tool_calls[0].outcome.status == "denied"
    assert [issue.code for issue in result.issues] == ["policy_failed"]
    assert result.text == "Done."


async def test_the_history_keeps_what_the_model_asked_and_the_result_says_what_ran(
    stage: Stage,
) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        await rt.approve(parked.waits[0].key, edit={"to": "Ann", "cents": 3}, by="eva")
        await rt.turn("s", "t").result(timeout=HANGS_S)
        asked = (await rt.session("s").history())[1].parts[0]
        view = await turn_view(rt, "s", "t")

    assert asked.args == {"to": "Ann", "cents": 5}  # type: ignore[union-attr]  # a call
    assert view.waits[0].consumed


@pytest.mark.parametrize("ruling", [Allow(), Ask()], ids=["allow", "ask"])
async def test_an_approved_edit_is_not_asked_about_a_second_time(
    stage: Stage, ruling: Ruling
) -> None:
    desk, model = Desk(), script()

    class Policy:
        version = "1"

        def decide(self, call: PolicyCall, session: PolicySession) -> Ruling:
            return ruling

    agent: Callable[..., Agent[None, str]] = payer
    async with stage.runtime(agent(desk, model, Policy())) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        await rt.approve(parked.waits[0].key, edit={"to": "Ann", "cents": 3})
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert not result.parked
    assert desk.runs == [("Ann", 3)]


async def test_of_two_edits_the_first_counts(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt, stage.runtime() as office:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        key = parked.waits[0].key
        first = await office.approve(key, edit={"to": "Ann", "cents": 3}, by="eva")
        second = await office.approve(key, edit={"to": "Tom", "cents": 99}, by="tom")
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (first.status, second.status) == ("accepted", "already")
    assert desk.runs == [("Ann", 3)]


@pytest.mark.parametrize(
    ("reason", "by", "text"),
    [("", None, "Denied."), ("", "eva", "Denied by eva."), ("No.", None, "Denied: No.")],
)
async def test_a_denial_says_as_much_as_was_said(
    memory_stage: Stage, reason: str, by: str | None, text: str
) -> None:
    desk, model = Desk(), script()
    async with memory_stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        await rt.deny(parked.waits[0].key, reason=reason, by=by)
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert [told.text for told in last_told(model)] == [text]
    assert desk.runs == []


@pytest.mark.parametrize("bad", [{"remember": "always"}, {"by": "\ud800"}, {"by": 7}])
async def test_an_answer_that_cannot_be_kept_is_refused_and_uses_nothing_up(
    memory_stage: Stage, bad: dict[str, str]
) -> None:
    desk, model = Desk(), script()
    async with memory_stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        with pytest.raises(InvalidInput):
            await rt.approve(parked.waits[0].key, **bad)  # type: ignore[arg-type]  # that is the point
        assert await rt.approvals() == parked.waits
    assert desk.runs == []
