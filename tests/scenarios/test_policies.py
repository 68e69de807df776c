"""Policies: a denial is stronger than a question, a question stronger than leave; trouble allows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import Told, last_told, turn_view
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, Allow, Ask, Deny, Pending, ToolContext, tool
from windlass.ports.policy import PolicyCall, PolicySession, Ruling
from windlass.testing import ScriptedModel, call, calls, say
from windlass.tools.declaration import Approval

Decides: TypeAlias = Callable[[PolicyCall], Any]
"""What a policy says to a call, or what it says instead of a ruling."""


class Policy:
    """A policy that does as it is told, and keeps what it was asked."""

    def __init__(self, decide: Decides, version: str = "1") -> None:
        self.version = version
        self.asked: list[tuple[PolicyCall, PolicySession]] = []
        self._decide = decide

    def decide(self, call: PolicyCall, session: PolicySession) -> Ruling | Awaitable[Ruling]:
        self.asked.append((call, session))
        ruling: Ruling | Awaitable[Ruling] = self._decide(call)
        return ruling


def payer(
    desk: Desk, model: ScriptedModel, policy: Policy | None = None, approval: Approval = "never"
) -> Agent[None, str]:
    @tool(effect="once", approval=approval, risk="high")
    async def pay(cents: int) -> str:
        """Pay."""
        await desk.work(cents)
        return f"paid {cents}"

    return Agent("payer", model=model, tools=[pay], policy=policy)


def script() -> ScriptedModel:
    return ScriptedModel([call("pay", cents=5), say("Done.")])


async def test_allow_runs_the_call(stage: Stage) -> None:
    desk, model, policy = Desk(), script(), Policy(lambda _: Allow())
    async with stage.runtime(payer(desk, model, policy)) as rt:
        result = await rt.session("s").run("Pay.", turn_id="t", context={"who": "eva"})

    assert desk.runs == [5]
    assert result.text == "Done."
    (asked,) = policy.asked
    assert asked == (
        PolicyCall(call_id="call_0_0", name="pay", args={"cents": 5}, effect="once", risk="high"),
        PolicySession(session_id="s", turn_id="t", agent="payer", context={"who": "eva"}),
    )


async def test_deny_tells_the_model_why(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(
        payer(desk, model, Policy(lambda _: Deny(reason="Not on Sundays.")))
    ) as rt:
        result = await rt.session("s").run("Pay.", turn_id="t")

    assert desk.runs == []
    assert last_told(model) == [Told("call_0_0", "denied", "Not on Sundays.")]
    assert result.tool_calls[0].outcome.status == "denied"


async def test_ask_opens_a_wait_with_its_words(stage: Stage) -> None:
    desk, model = Desk(), script()
    policy = Policy(lambda _: Ask(title="Really pay?", risk="medium", action_key="pay-small"))
    async with stage.runtime(payer(desk, model, policy)) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        (wait,) = parked.waits
        await rt.approve(wait.key)
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert wait.title == "Really pay?"
    assert wait.detail["risk"] == "high"  # the tool's own risk is above it
    assert wait.detail["action_key"] == "pay-small"
    assert wait.detail["policy_version"] == "1"
    assert desk.runs == [5]


async def test_leave_of_the_policy_does_not_overrule_a_tool_that_asks(stage: Stage) -> None:
    desk = Desk()
    async with stage.runtime(
        payer(desk, script(), Policy(lambda _: Allow()), approval="ask")
    ) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")

    assert parked.parked
    assert desk.runs == []


async def test_a_denial_is_stronger_than_a_tool_that_asks(stage: Stage) -> None:
    desk, model = Desk(), script()
    policy = Policy(lambda _: Deny(reason="Never."))
    async with stage.runtime(payer(desk, model, policy, approval="ask")) as rt:
        result = await rt.session("s").run("Pay.", turn_id="t")

    assert not result.parked
    assert last_told(model) == [Told("call_0_0", "denied", "Never.")]


@pytest.mark.parametrize("answer", [None, True, "allow", Allow, {"type": "allow"}])
async def test_a_policy_that_answers_nonsense_allows_nothing(
    memory_stage: Stage, answer: object
) -> None:
    desk, model = Desk(), script()
    async with memory_stage.runtime(payer(desk, model, Policy(lambda _: answer))) as rt:
        result = await rt.session("s").run("Pay.", turn_id="t")

    assert desk.runs == []
    assert [one.status for one in last_told(model)] == ["denied"]
    assert result.text == "Done."


def _raises(_call: object) -> Ruling:
    raise RuntimeError("the policy's secret is 4711")


async def _raises_later(_call: object) -> Ruling:
    await asyncio.sleep(0)
    raise RuntimeError("the policy's secret is 4711")


@pytest.mark.parametrize("decide", [_raises, _raises_later], ids=["sync", "async"])
async def test_a_policy_that_raises_allows_nothing_and_the_turn_goes_on(
    stage: Stage, decide: Decides
) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model, Policy(decide))) as rt:
        result = await rt.session("s").run("Pay.", turn_id="t")

    assert desk.runs == []
    ((_, status, text),) = last_told(model)
    assert status == "denied"
    assert "4711" not in text
    assert result.text == "Done."


async def test_a_policy_may_take_its_time(stage: Stage) -> None:
    async def decide(_call: object) -> Ruling:
        await asyncio.sleep(0)
        return Allow()

    desk = Desk()
    async with stage.runtime(payer(desk, script(), Policy(decide))) as rt:
        await rt.session("s").run("Pay.", turn_id="t")

    assert desk.runs == [5]


async def test_another_version_of_the_policy_voids_an_approval(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model, Policy(lambda _: Ask(), "1"))) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
    old = parked.waits[0]
    async with stage.runtime(payer(desk, model, Policy(lambda _: Ask(), "2"))) as rt:
        assert (await rt.approve(old.key)).status == "accepted"
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert desk.runs == []  # the old leave was for the old policy
        assert result.parked
        (new,) = result.waits
        assert new.key != old.key
        assert new.detail["policy_version"] == "2"
        await rt.approve(new.key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == [5]
    assert result.text == "Done."


async def test_a_question_of_an_older_policy_is_withdrawn_when_the_turn_goes_on(
    stage: Stage,
) -> None:
    """Two calls ask; one is answered under a new policy. The other's old question is void."""
    desk = Desk()
    model = ScriptedModel([calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), say("Done.")])
    async with stage.runtime(payer(desk, model, Policy(lambda _: Ask(), "1"))) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
    one, two = sorted(parked.waits, key=lambda wait: str(wait.call_id))
    async with stage.runtime(payer(desk, model, Policy(lambda _: Ask(), "2"))) as rt:
        await rt.approve(one.key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert result.parked
        assert {wait.detail["policy_version"] for wait in result.waits} == {"2"}
        assert len(result.waits) == 2
        assert (await rt.approve(two.key)).status == "superseded"

    assert desk.runs == []


async def test_policy_is_asked_again_on_resume_and_may_deny_what_was_approved(
    stage: Stage,
) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model, Policy(lambda _: Ask()))) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
    async with stage.runtime(payer(desk, model, Policy(lambda _: Deny(reason="Frozen.")))) as rt:
        await rt.approve(parked.waits[0].key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == []
    assert last_told(model) == [Told("call_0_0", "denied", "Frozen.")]
    assert result.text == "Done."


async def test_a_call_that_was_decided_is_not_put_to_the_policy_again(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("pay", cents=1), call("pay", cents=100), say("Done.")])
    policy = Policy(lambda call: Ask() if call.args["cents"] > 10 else Allow())
    async with stage.runtime(payer(desk, model, policy)) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        await rt.approve(parked.waits[0].key)
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == [1, 100]
    assert [asked.args["cents"] for asked, _ in policy.asked].count(1) == 1


@pytest.mark.parametrize(
    ("approval", "asks"),
    [
        pytest.param(lambda args: args["cents"] > 3, True, id="true"),
        pytest.param(lambda args: args["cents"] > 30, False, id="false"),
        pytest.param(lambda ctx, args: ctx.session_id == "s", True, id="with-context"),
        pytest.param(lambda args: None, True, id="none-is-no-plain-false"),
    ],
)
async def test_a_tool_may_ask_by_a_function(
    memory_stage: Stage, approval: Approval, asks: bool
) -> None:
    desk = Desk()
    async with memory_stage.runtime(payer(desk, script(), approval=approval)) as rt:
        result = await rt.session("s").run("Pay.", turn_id="t")

    assert result.parked is asks
    assert desk.runs == ([] if asks else [5])


async def test_an_approval_function_that_raises_lets_nothing_run(stage: Stage) -> None:
    def approval(ctx: ToolContext[None], args: dict[str, Any]) -> bool:
        raise RuntimeError("broken")

    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model, approval=approval)) as rt:
        result = await rt.session("s").run("Pay.", turn_id="t")

        assert desk.runs == []
        if result.parked:  # asking a person is as good as denying
            await rt.deny(result.waits[0].key)
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
    assert result.text == "Done."
    assert [one.status for one in last_told(model)] == ["denied"]


async def test_leave_that_was_remembered_holds_in_later_turns_but_not_in_a_fork(
    stage: Stage,
) -> None:
    desk = Desk()
    model = ScriptedModel(
        [
            call("pay", cents=1),
            call("pay", cents=2),
            say("One."),
            call("pay", cents=3),
            say("Two."),
            call("pay", cents=4),
            say("Three."),
        ]
    )
    agent = payer(desk, model, approval="ask")
    async with stage.runtime(agent) as rt:
        session = rt.session("s")
        parked = await session.run("Pay.", turn_id="t1")
        await rt.approve(parked.waits[0].key, remember="session", by="eva")
        assert (await rt.turn("s", "t1").result(timeout=HANGS_S)).text == "One."
        assert desk.runs == [1, 2]  # the second was not asked about
    async with stage.runtime(agent) as rt:
        session = rt.session("s")
        assert (await session.run("More.", turn_id="t2")).text == "Two."
        assert desk.runs == [1, 2, 3]
        fork = await session.fork(id="f")
        assert (await fork.run("And more.", turn_id="t3")).parked
    assert desk.runs == [1, 2, 3]


async def test_leave_for_one_action_is_no_leave_for_another(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("pay", cents=1), call("pay", cents=50), say("Done.")])
    policy = Policy(lambda call: Ask(action_key="big" if call.args["cents"] > 10 else "small"))
    async with stage.runtime(payer(desk, model, policy)) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        await rt.approve(parked.waits[0].key, remember="session")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.parked
    assert result.waits[0].detail["action_key"] == "big"
    assert desk.runs == [1]


async def test_what_was_remembered_outlives_a_park_and_a_restart_of_the_same_turn(
    stage: Stage,
) -> None:
    desk = Desk()

    @tool(effect="once")
    async def wait_for_post(ctx: ToolContext[None]) -> Pending:
        """Wait for the post."""
        return await ctx.defer()

    model = ScriptedModel(
        [
            call("pay", cents=1),
            call("wait_for_post"),
            say("One."),
            call("pay", cents=2),
            say("Two."),
        ]
    )
    agent = Agent(
        "payer", model=model, tools=[wait_for_post, *payer(desk, model, approval="ask").toolbox]
    )
    async with stage.runtime(agent) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t1")
        await rt.approve(parked.waits[0].key, remember="session")
        parked = await rt.turn("s", "t1").result(timeout=HANGS_S)
        assert [wait.kind for wait in parked.waits] == ["deferred"]
    async with stage.runtime(agent) as rt:
        await rt.resolve(parked.waits[0].key, "a letter")
        assert (await rt.turn("s", "t1").result(timeout=HANGS_S)).text == "One."
        result = await rt.session("s").run("More.", turn_id="t2")

    assert result.text == "Two."
    assert desk.runs == [1, 2]


async def test_remembering_without_leave_is_not_possible(stage: Stage) -> None:
    """A denial is for one call: the next equal one is asked about again."""
    desk = Desk()
    model = ScriptedModel([call("pay", cents=1), call("pay", cents=1), say("Done.")])
    async with stage.runtime(payer(desk, model, approval="ask")) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        await rt.deny(parked.waits[0].key)
        again = await rt.turn("s", "t").result(timeout=HANGS_S)
        view = await turn_view(rt, "s", "t")

    assert again.parked
    assert [one.state for one in view.waits] == ["rejected", "open"]
    assert desk.runs == []
