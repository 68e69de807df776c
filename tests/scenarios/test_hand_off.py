"""Hand-off: a turn gives its session to another agent, and callers, watchers and later inputs go along."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.limits import HANGS_S
from tests.scenarios.desks import TRANSFER, asked, billing, triage
from tests.scenarios.readings import said_by_user, turn_view
from tests.scenarios.stage import Stage, until
from windlass import Agent, Runtime, TurnInfo, TurnResult, events, tool
from windlass.api.watcher import Watcher
from windlass.errors import ConfigError, InvalidInput
from windlass.kernel import ModelReply, ModelRequest, ToolCall
from windlass.kernel.outcomes import Finished, HandedOff, Stopped
from windlass.ports.hand_off import turn_after
from windlass.testing import FunctionModel, ScriptedModel, call, say


class Bill(msgspec.Struct):
    amount: int


# ------------------------------------------------------------------------- the chain


async def test_the_result_is_that_of_the_agent_that_took_over(stage: Stage) -> None:
    target = billing()
    async with stage.runtime(triage(), target) as rt:
        result = await rt.session("s", "triage").run("My money, please.", turn_id="t")
        row = (await rt.sessions())[0]

    (first,) = result.followed
    assert (result.text, result.turn_id) == ("Refunded.", turn_after("t"))
    assert (first.turn_id, first.followed) == ("t", ())
    assert first.outcome == HandedOff(target="billing", task="Refund order 17.")
    assert row.agent == "billing"


async def test_the_next_input_goes_to_the_agent_that_took_over(stage: Stage) -> None:
    source, target = triage(), billing()
    async with stage.runtime(source, target) as rt:
        session = rt.session("s", source)
        await session.run("My money, please.")
        again = await session.run("More.")
        named = await rt.session("s", source).submit("Nothing.", turn_id="third")
        agent = (await turn_view(rt, "s", named.id)).agent

    assert (again.text, again.followed) == ("And again.", ())
    assert agent == "billing"
    assert len(asked(source)) == 1


async def test_two_sessions_of_one_agent_are_handed_off_apart(stage: Stage) -> None:
    def answer(request: ModelRequest) -> ModelReply | str:
        return TRANSFER if "refund" in said_by_user(request)[-1] else "I can do that."

    source = Agent("triage", model=FunctionModel(answer, name="t"), handoffs=["billing"])
    async with stage.runtime(source, billing()) as rt:
        moved = await rt.session("a", source).run("A refund: refund me.")
        stays = await rt.session("b", source).run("Hello.")
        agents = {row.session_id: row.agent for row in await rt.sessions()}

    assert (moved.text, stays.text) == ("Refunded.", "I can do that.")
    assert agents == {"a": "billing", "b": "triage"}


async def test_a_caller_that_comes_later_finds_the_chain_by_its_first_turn(stage: Stage) -> None:
    async with stage.runtime(triage(), billing()) as rt:
        await rt.session("s", "triage").run("My money, please.", turn_id="t")
    async with stage.runtime(triage(), billing()) as rt:
        found = await rt.turn("s", "t").result(timeout=HANGS_S)
        again = await rt.session("s", "triage").run("My money, please.", turn_id="t")

    for result in (found, again):
        assert (result.text, [one.turn_id for one in result.followed]) == ("Refunded.", ["t"])


async def test_a_chain_of_three_is_followed_to_its_end(stage: Stage) -> None:
    one = triage()
    two = billing(call("transfer_to_legal", task="Read it."), handoffs=["legal"])
    three = Agent("legal", model=ScriptedModel([say("It is legal.")], name="l"))
    async with stage.runtime(one, two, three) as rt:
        result = await rt.session("s", one).run("Is it?")

    assert result.text == "It is legal."
    targets = [one.outcome.target for one in result.followed if one.outcome is not None]  # type: ignore[union-attr]
    assert targets == ["billing", "legal"]


async def test_ping_pong_ends_at_the_limit(stage: Stage) -> None:
    def agent(name: str, other: str) -> Agent[None, str]:
        reply = call(f"transfer_to_{other}", task="You do it.")
        return Agent(name, model=FunctionModel(lambda _: reply, name=name), handoffs=[other])

    async with stage.runtime(agent("a", "b"), agent("b", "a")) as rt:
        result = await rt.session("s", "a").run("Who?")
        once_more = await rt.session("s").run("And now?")

    detail = "The session was handed off 8 times for one input, the limit is 8; a did not hand it off to b."
    assert result.outcome == Stopped(reason="limit", detail=detail)
    assert len(result.followed) == 8
    assert len(once_more.followed) == 8  # another input has its own


async def test_a_target_that_is_not_here_goes_on_where_it_is(stage: Stage) -> None:
    async with stage.runtime(triage()) as rt:
        handle = await rt.session("s").submit("My money, please.", turn_id="t")
        await until(lambda: _is_done(rt, "t"))
        status = await rt.status()
        with pytest.raises(ConfigError, match="belongs to the agent billing"):
            await rt.session("s").run("More.")
        async with stage.runtime(billing()):
            result = await handle.result(timeout=HANGS_S)

    assert [(one.turn_id, one.agent) for one in status.foreign] == [(turn_after("t"), "billing")]
    assert (result.text, len(result.followed)) == ("Refunded.", 1)


async def _is_done(rt: Runtime[Any], turn_id: str) -> bool:
    return (await turn_view(rt, "s", turn_id)).state == "done"


async def test_a_target_that_asks_for_approval_parks_the_chain(stage: Stage) -> None:
    paid: list[int] = []

    @tool(effect="keyed", approval="ask")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def target() -> Agent[Any, Any]:
        return billing(call("pay", amount=5), say("Paid."), tools=[pay])

    async with stage.runtime(triage(), target()) as rt:
        parked = await rt.session("s", "triage").run("My money, please.", turn_id="t")
        assert parked.parked
        assert [one.turn_id for one in parked.followed] == ["t"]
        through = asyncio.create_task(rt.turn("s", "t").result(through_parks=True))
        await rt.approve(parked.waits[0].key)
        result = await asyncio.wait_for(through, HANGS_S)

    assert (result.text, len(result.followed), paid) == ("Paid.", 1, [5])


async def test_the_last_agent_says_what_shape_the_output_has(stage: Stage) -> None:
    target = billing(say('{"amount": 5}'), output_type=Bill)
    async with stage.runtime(triage(), target) as rt:
        result = await rt.session("s", "triage").run("My money, please.", turn_id="t")
        later = await rt.turn("s", "t").result()

    assert (result.output, later.output) == (Bill(amount=5), Bill(amount=5))


async def test_the_shape_that_the_caller_asks_for_holds_for_the_last_agent(stage: Stage) -> None:
    target = billing(say('{"amount": 5}'))
    async with stage.runtime(triage(), target) as rt:
        result = await rt.session("s", "triage").run("How much?", output_type=Bill)

    assert result.output == Bill(amount=5)
    assert asked(target)[0].output is not None


async def test_context_and_who_asked_go_along(stage: Stage) -> None:
    seen: list[Any] = []

    def instructions(info: TurnInfo) -> str:
        seen.append(info.context)
        return "Be quick."

    async with stage.runtime(triage(), billing(instructions=instructions)) as rt:
        session = rt.session("s", "triage")
        result = await session.run("My money, please.", context={"tenant": "acme"}, by="ann")
        view = await turn_view(rt, "s", result.turn_id)

    assert seen == [{"tenant": "acme"}]
    assert view.by == "ann"


async def test_deps_that_fit_the_target_go_along(stage: Stage) -> None:
    class Till:
        name = "till"

    got: list[str] = []

    def instructions(_info: TurnInfo, deps: Till) -> str:
        got.append(deps.name)
        return "Be quick."

    source = triage(deps_type=Till)
    target = billing(deps_type=Till, instructions=instructions)
    async with stage.runtime(source, target) as rt:
        result = await rt.session("s", source).run("My money, please.", deps=Till())

    assert (result.text, got) == ("Refunded.", ["till"])


# ------------------------------------------------------------------------- queues and cancels


async def test_what_waits_in_the_session_comes_after_the_target_and_goes_to_it(
    stage: Stage,
) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow(_request: ModelRequest) -> ModelReply:
        begun.set()
        await gate.wait()
        return TRANSFER

    source = Agent("triage", model=FunctionModel(slow, name="t"), handoffs=["billing"])
    target = billing(say("Refunded."), say("And again."))
    async with stage.runtime(source, target) as rt:
        first = await rt.session("s", source).submit("My money, please.")
        await begun.wait()
        second = await rt.session("s", source).submit("More.")
        gate.set()
        one, two = await first.result(timeout=HANGS_S), await second.result(timeout=HANGS_S)

    assert (one.text, two.text, two.followed) == ("Refunded.", "And again.", ())


async def test_a_cancel_of_the_first_turn_ends_the_one_that_follows(stage: Stage) -> None:
    begun = asyncio.Event()

    async def slow(_request: ModelRequest) -> ModelReply:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    target = Agent("billing", model=FunctionModel(slow, name="b"))
    async with stage.runtime(triage(), target) as rt:
        handle = await rt.session("s", "triage").submit("My money, please.", turn_id="t")
        await begun.wait()
        receipt = await handle.cancel("enough")
        result = await handle.result(timeout=HANGS_S)

    assert receipt.status == "requested"
    assert result.outcome == Stopped(reason="cancelled", detail="enough")
    assert [one.turn_id for one in result.followed] == ["t"]


async def test_a_turn_that_is_cancelled_before_its_end_hands_nothing_off(stage: Stage) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    @tool(effect="pure")
    async def hold() -> str:
        """Hold."""
        begun.set()
        await gate.wait()
        return "held"

    both = ModelReply(
        parts=(
            ToolCall(call_id="c1", name="transfer_to_billing", args={"task": "Refund."}),
            ToolCall(call_id="c2", name="hold", args={}),
        )
    )
    async with stage.runtime(triage(both, tools=[hold]), billing()) as rt:
        handle = await rt.session("s", "triage").submit("My money, please.")
        await begun.wait()
        await handle.cancel("no")
        result = await handle.result(timeout=HANGS_S)
        (row,) = await rt.sessions()

    assert result.outcome == Stopped(reason="cancelled", detail="no")
    assert (row.agent, result.followed) == ("triage", ())


async def test_a_session_whose_chain_is_under_way_can_be_deleted(stage: Stage) -> None:
    begun = asyncio.Event()

    async def slow(_request: ModelRequest) -> ModelReply:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    target = Agent("billing", model=FunctionModel(slow, name="b"))
    async with stage.runtime(triage(), target) as rt:
        await rt.session("s", "triage").submit("My money, please.")
        await begun.wait()
        await asyncio.wait_for(rt.session("s").delete(), HANGS_S)
        assert await rt.sessions() == ()


# ------------------------------------------------------------------------- watching


async def test_a_stream_goes_on_with_the_events_of_the_target(stage: Stage) -> None:
    async with stage.runtime(triage(), billing()) as rt:
        session = rt.session("s", "triage")
        async with session.stream("My money, please.", turn_id="t") as turn:
            shown = [event async for event in turn]
            result = await turn.result()
        known = [event async for event in rt.turn("s", "t").events()]
        ended = [event for event in shown if isinstance(event, events.TurnEnded)]
        behind = [event async for event in rt.turn("s", "t").events(ended[0].cursor)]
        last = [event async for event in rt.turn("s", "t").events(shown[-2].cursor)]

    facts = [event.id for event in shown if not event.preview]
    assert [type(one.outcome) for one in ended] == [HandedOff, Finished]
    assert (result.text, [one.turn_id for one in result.followed]) == ("Refunded.", ["t"])
    assert "Refunded." in [one.text for one in shown if isinstance(one, events.TextDelta)]
    assert [event.id for event in known] == facts
    place = facts.index(ended[0].id) + 1
    assert [event.id for event in behind if not event.preview] == facts[place:]
    assert [event.id for event in last] == facts[-1:]


async def test_a_stream_loses_no_preview_of_a_target_that_is_done_before_it_is_watched(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is asked for facts of the target when it has not begun, and answers when it has ended."""
    behind, after, may_begin = Watcher._behind, turn_after("t"), asyncio.Event()

    async def instructions(_info: TurnInfo) -> str:
        await may_begin.wait()
        return "Be quick."

    async def late(self: Watcher, until: Any) -> Any:  # noqa: ANN401 - as that one says
        if self._only == after:
            may_begin.set()
            await rt.turn("s", after).result(timeout=HANGS_S)
        return await behind(self, until)

    monkeypatch.setattr(Watcher, "_behind", late)
    monkeypatch.setattr(Watcher, "_is_driven", property(lambda self: self._only != after))
    async with stage.runtime(triage(), billing(instructions=instructions)) as rt:
        async with rt.session("s", "triage").stream("My money, please.", turn_id="t") as turn:
            shown = [event async for event in turn]
        known = [event async for event in rt.turn("s", "t").events()]

    assert "Refunded." in [one.text for one in shown if isinstance(one, events.TextDelta)]
    assert [event.id for event in shown if not event.preview] == [event.id for event in known]


async def test_a_function_sees_the_events_of_the_whole_chain(stage: Stage) -> None:
    seen: list[events.Event] = []
    async with stage.runtime(triage(), billing()) as rt:
        result: TurnResult[str] = await rt.session("s", "triage").run("Go.", on_event=seen.append)

    assert result.text == "Refunded."
    assert isinstance(seen[-1], events.TurnEnded)
    assert sum(isinstance(one, events.TurnEnded) for one in seen) == 2


async def test_a_cursor_of_a_turn_outside_the_chain_is_refused(stage: Stage) -> None:
    async with stage.runtime(triage(), billing()) as rt:
        await rt.session("s", "triage").run("My money, please.", turn_id="t")
        other = await rt.session("s").submit("More.", turn_id="u")
        with pytest.raises(InvalidInput, match="another turn"):
            rt.turn("s", "t").events(other.cursor)
