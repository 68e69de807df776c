"""Forks that begin inside a turn: after any iteration of it, finished or not, and what they take along."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer
from tests.scenarios.readings import said_by_user, told, words
from tests.scenarios.stage import DAY_S, Desk, Stage
from tests.scenarios.workers import worker
from windlass import Agent, Attachment, ToolContext, tool
from windlass.errors import IdempotencyConflict, InvalidInput
from windlass.journal import ForkedFrom
from windlass.kernel import Attachment as StoredAttachment
from windlass.kernel import (
    Message,
    ModelReply,
    ModelRequest,
    Stopped,
    Text,
    ToolCall,
    ToolResult,
    events,
)
from windlass.testing import (
    FunctionModel,
    ScriptedModel,
    call,
    say,
)
from windlass.testing.provider_rules import broken_rules

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)


def looker(*replies: ModelReply, **options: Any) -> tuple[Agent[None, str], ScriptedModel]:
    """Return an agent with a tool that looks, and its model."""

    @tool(effect="pure")
    def look(what: str) -> str:
        """Look."""
        return f"saw {what}"

    model = ScriptedModel(list(replies))
    return Agent("looker", model=model, tools=[look], **options), model


def shown(messages: tuple[Message, ...]) -> list[str]:
    """Return messages as a person would note them: who, and what."""
    lines = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                lines.append(f"call {part.name} {dict(part.args)}")
            elif isinstance(part, ToolResult):
                lines.append(f"result {words(part.content)}")
            elif isinstance(part, Text):
                lines.append(f"{message.role}: {part.text}")
    return lines


TURN = [
    "user: Look.",
    "call look {'what': 'a'}",
    "result saw a",
    "call look {'what': 'b'}",
    "result saw b",
    "assistant: Seen.",
]


@pytest.mark.parametrize(("iterations", "kept"), [(1, 3), (2, 5), (3, 6)])
async def test_a_fork_begins_after_an_iteration_of_a_turn_that_ended(
    stage: Stage, iterations: int, kept: int
) -> None:
    agent, model = looker(
        say("Hello."), call("look", what="a"), call("look", what="b"), say("Seen."), say("Other.")
    )
    async with stage.runtime(agent) as rt:
        session = rt.session("s")
        await session.run("Hi.", turn_id="t0")
        await session.run("Look.", turn_id="t1")
        before = await session.history()
        fork = await session.fork("t1", id="f", iterations=iterations)
        begun = await fork.history()
        result = await fork.run("Go another way.", turn_id="t1")  # ids are not copied
        after, own = await session.history(), await fork.history()

    assert shown(begun) == ["user: Hi.", "assistant: Hello.", *TURN[:kept]]
    assert begun == before[: len(begun)]
    assert result.text == "Other."
    assert broken_rules(model.requests[-1]) == []
    assert shown(own)[2 + kept :] == ["user: Go another way.", "assistant: Other."]
    assert after == before


async def test_the_page_of_a_fork_names_the_turn_and_says_that_it_is_a_part(stage: Stage) -> None:
    agent, _ = looker(call("look", what="a"), say("Seen."))
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Look.", turn_id="t1")
        await rt.session("s").fork("t1", id="f", iterations=1)
        view = await rt._services.store.load_session("f")

    (page,) = view.pages
    assert page.forked == ForkedFrom(session_id="s", turn_id="t1", iterations=1)
    assert isinstance(page.outcome, Stopped)
    assert (page.usage, page.events, view.usage) == ((), (), ())
    assert (view.head, view.parent, view.parent_head) == (1, "s", 0)


async def test_a_fork_of_a_parked_turn_goes_on_without_its_question(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel(
        [call("look", what="a"), call("pay", cents=5), say("Free."), say("Paid.")]
    )
    async with stage.runtime(payer(desk, model)) as rt:
        session = rt.session("s")
        parked = await session.run("Buy it.", turn_id="t")
        await session.enqueue("and a bow", when="next_turn")
        fork = await session.fork("t", id="f", iterations=1)
        result = await fork.run("Do without.", turn_id="t")
        calls_of_fork = (await fork.usage()).calls
        assert (await fork.inbox()).items == ()
        assert await rt.waits() == parked.waits
        assert model.requests[2].messages[-1].role == "user"

        await rt.approve(parked.waits[0].key)
        paid = await rt.turn("s", "t").result()

    assert parked.parked
    assert result.text == "Free."
    assert told(model.requests[2])[0].text == "saw a"
    assert calls_of_fork == 1
    assert desk.runs == ["a", 5]
    assert paid.tool_calls[-1].outcome.value == "paid 5"


async def test_a_fork_of_a_running_turn_shares_what_it_has_done(stage: Stage) -> None:
    desk = Desk(is_open=False)
    script = ScriptedModel([call("look", what="a"), call("work"), say("Forked."), say("Worked.")])

    @tool(effect="pure")
    def look(what: str) -> str:
        """Look."""
        return f"saw {what}"

    agent = Agent("worker", model=script, tools=[look, *worker(desk, script).toolbox])
    async with stage.runtime(agent) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        with pytest.raises(InvalidInput, match="1 to 1, the iterations of turn t that have ended"):
            await rt.session("s").fork("t", id="f", iterations=2)
        fork = await rt.session("s").fork("t", id="f", iterations=1)
        result = await fork.run("What did you see?")
        desk.gate.set()
        worked = await handle.result(timeout=HANGS_S)

    assert (result.text, worked.text) == ("Forked.", "Worked.")
    assert shown(await _history(stage, agent, "f"))[:3] == ["user: Go.", *TURN[1:3]]
    assert desk.runs == [0]


async def _history(stage: Stage, agent: Agent[None, str], session_id: str) -> tuple[Message, ...]:
    async with stage.runtime(agent) as rt:
        return await rt.session(session_id).history()


async def test_what_entered_at_the_checkpoint_behind_an_iteration_is_not_part_of_it(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    script = ScriptedModel([call("work"), say("Both."), say("Done.")])
    async with stage.runtime(worker(desk, script)) as rt:
        session = rt.session("s")
        handle = await session.submit("work", turn_id="t")
        await desk.entered.wait()
        await session.enqueue("And this.")
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        fork = await session.fork("t", id="f", iterations=1)

        assert shown(await session.history())[3] == "user: And this."
        assert shown(await fork.history()) == ["user: work", "call work {}", "result worked 0"]


async def test_a_fork_works_when_the_journal_is_gone(stage: Stage) -> None:
    agent, _ = looker(call("look", what="a"), say("Seen."))
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Look.", turn_id="t")
        stage.later(30 * DAY_S)
        await rt.vacuum()
        fork = await rt.session("s").fork("t", id="f", iterations=1)
        history = await fork.history()

    assert shown(history) == TURN[:3]


async def test_files_of_the_shared_part_outlive_the_session_they_came_from(stage: Stage) -> None:
    @tool(effect="pure")
    async def draw(ctx: ToolContext[None]) -> list[Any]:
        """Draw."""
        return [await ctx.attach(PNG, media_type="image/png")]

    model = ScriptedModel([call("draw"), say("Drawn."), say("Seen.")])
    async with stage.runtime(Agent("painter", model=model, tools=[draw])) as rt:
        await rt.session("s").run(["Draw.", Attachment.from_bytes(PNG[:-1], media_type="image/png")], turn_id="t")  # fmt: skip
        fork = await rt.session("s").fork("t", id="f", iterations=1)
        await rt.session("s").delete()
        stage.later(30 * DAY_S)
        await rt.vacuum()
        await fork.run("Look at it.")
        refs = {
            one.ref
            for message in model.requests[-1].messages
            for part in message.parts
            for one in getattr(part, "content", (part,))
            if isinstance(one, StoredAttachment)
        }
        found = [await rt._services.store.get_blob(ref) for ref in sorted(refs)]

    assert sorted(found) == sorted([PNG, PNG[:-1]])


async def test_a_call_of_unknown_outcome_is_asked_for_in_the_fork(stage: Stage) -> None:
    desk = Desk(is_open=False)

    def reply(request: ModelRequest) -> ModelReply:
        said = said_by_user(request)[-1]
        is_asked = said == "Again." or not told(request)
        return call("work", n=1) if is_asked else say("Done.")

    async with stage.runtime(worker(desk, FunctionModel(reply), effect="once")) as lost:
        await lost.session("s").submit("work", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), FunctionModel(reply), effect="once")) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
            fork = await rt.session("s").fork("t", id="f", iterations=1)
            result = await fork.run("Again.")
        desk.gate.set()

    assert [wait.kind for wait in result.waits] == ["approval"]


async def test_what_was_allowed_for_the_session_is_not_allowed_in_the_fork(stage: Stage) -> None:
    model = ScriptedModel([call("pay", cents=5), say("Paid."), call("pay", cents=5)])
    async with stage.runtime(payer(Desk(), model)) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        await rt.approve(parked.waits[0].key, remember="session")
        await rt.turn("s", "t").result()
        fork = await rt.session("s").fork("t", id="f", iterations=1)
        result = await fork.run("Pay again.")

    assert result.parked


@pytest.mark.parametrize(
    ("at", "iterations", "field"),
    [
        (None, 1, "at"),
        (1, 1, "at"),
        ("nobody", 1, "at"),
        ("t1", 0, "iterations"),
        ("t1", 3, "iterations"),
        ("t1", True, "iterations"),
        ("t1", "1", "iterations"),
        ("sum", 1, "at"),
        ("queued", 1, "at"),
    ],
)
async def test_a_place_inside_a_turn_that_is_none_is_refused_by_name(
    memory_stage: Stage, at: str | int | None, iterations: int, field: str
) -> None:
    model = ScriptedModel([call("look", what="a"), say("Seen."), say("Summary."), call("pay", cents=1)])  # fmt: skip
    async with memory_stage.runtime(payer(Desk(), model)) as rt:
        session = rt.session("s")
        await session.run("Look.", turn_id="t1")
        await session.compact(turn_id="sum")
        await session.run("Pay.", turn_id="parked")
        await session.submit("Later.", turn_id="queued")
        with pytest.raises(InvalidInput) as refused:
            await session.fork(at, id="f", iterations=iterations)
        assert refused.value.field == field
        assert [row.session_id for row in await rt.sessions()] == ["s"]


async def test_a_fork_inside_a_turn_onto_an_id_that_is_taken_changes_nothing(stage: Stage) -> None:
    agent, _ = looker(call("look", what="a"), say("Seen."), say("Other."))
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Look.", turn_id="t")
        await rt.session("f").run("Mine.")
        with pytest.raises(IdempotencyConflict):
            await rt.session("s").fork("t", id="f", iterations=1)

        assert shown(await rt.session("f").history()) == ["user: Mine.", "assistant: Other."]


async def test_a_fork_of_such_a_fork_shares_its_part_of_the_turn(stage: Stage) -> None:
    agent, model = looker(
        call("look", what="a"), say("Seen."), call("look", what="c"), say("C."), say("Last.")
    )
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Look.", turn_id="t")
        fork = await rt.session("s").fork("t", id="f", iterations=1)
        await fork.run("More.", turn_id="t")
        whole = await fork.fork(1, id="g")
        part = await fork.fork("t", id="h", iterations=1)
        assert shown(await whole.history()) == TURN[:3]
        await rt.session("s").delete()
        await fork.delete()
        await part.run("And now?")

    assert said_by_user(model.requests[-1]) == ["Look.", "More.", "And now?"]
    assert [one.text for one in told(model.requests[-1])] == ["saw a", "saw c"]


async def test_watchers_of_a_fork_are_told_of_its_own_turns_once(stage: Stage) -> None:
    agent, _ = looker(call("look", what="a"), say("Seen."), say("Mine."))
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Look.", turn_id="t")
        fork = await rt.session("s").fork("t", id="f", iterations=1)
        async with fork.observe() as seen:
            cursor = seen.cursor
        await fork.run("Go.", turn_id="t")
        ends = []
        async with fork.observe(cursor) as seen:
            async for event in seen:
                if isinstance(event, events.TurnEnded):
                    ends.append(event.outcome.text)  # type: ignore[union-attr]  # it finished
                    break
        nodes, parents = await fork.nodes(), await rt.session("s").nodes()

    assert ends == ["Mine."]
    assert [node.id for node in nodes[:3]] == [node.id for node in parents[:3]]
    assert len({node.id for node in nodes}) == len(nodes) == 5
