"""Whatever a body, an adapter or a new release does, a call gets its one honest result, and the turn goes on."""

from __future__ import annotations

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import last_told
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, ToolError, ToolUncertain, Unknown, tool
from windlass.errors import Rejected, ToolDenied
from windlass.journal import Contract
from windlass.kernel import ModelReply, ModelRequest, ToolCall
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import WaitAnswer
from windlass.testing import FunctionModel, ScriptedModel, call, say

CRASHED = "the process ended while it ran"


def script() -> ScriptedModel:
    return ScriptedModel([call("act"), say("Done.")])


# ---------------------------------------------------------------------- errors that cannot be told


def mute(kind: type[Exception]) -> Exception:
    """Return an error of this kind that raises when it is asked what it says."""

    def no_words(_self: object) -> str:
        raise RuntimeError("no words")

    made: Exception = type("Mute", (kind,), {"__str__": no_words, "__repr__": no_words})("x")
    return made


@pytest.mark.parametrize("effect", ["pure", "keyed", "once"])
@pytest.mark.parametrize(
    ("kind", "status", "told"),
    [
        (ValueError, "error", "Mute"),
        (ToolError, "error", "It failed without a word."),
        (ToolDenied, "denied", "It failed without a word."),
    ],
)
async def test_an_error_that_cannot_say_what_it_is_is_an_answer_all_the_same(
    stage: Stage, effect: Contract, kind: type[Exception], status: str, told: str
) -> None:
    bodies: list[int] = []

    @tool(effect=effect)
    async def act() -> str:
        """Act."""
        bodies.append(1)
        raise mute(kind)

    model = script()
    async with stage.runtime(Agent("actor", model=model, tools=[act])) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.outcome == Finished(text="Done.")
    assert [(one.status, one.text) for one in last_told(model)] == [(status, told)]
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("said", "shown"),
    [("file \udcff.txt", "file \ufffd.txt"), ("a\x00b", "a\ufffdb"), ("line lost.", "line lost")],
    ids=["surrogate", "NUL", "plain"],
)
async def test_a_tool_that_does_not_know_says_why_in_clean_text_and_no_crash_is_blamed(
    stage: Stage, said: str, shown: str
) -> None:
    bodies: list[int] = []

    @tool
    async def act() -> str:
        """Act."""
        bodies.append(1)
        raise ToolUncertain(said)

    model = script()
    async with stage.runtime(Agent("actor", model=model, tools=[act])) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    (told,) = last_told(model)
    assert told.status == "unknown"
    assert told.text.startswith(
        f"It is not known whether act acted: {shown}. It was not run again."
    )
    assert (result.text, len(bodies)) == ("Done.", 1)


async def test_a_mute_tool_that_does_not_know_is_named(stage: Stage) -> None:
    @tool
    async def act() -> str:
        """Act."""
        raise mute(ToolUncertain)

    model = script()
    async with stage.runtime(Agent("actor", model=model, tools=[act])) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    (told,) = last_told(model)
    assert told.text.startswith("It is not known whether act acted: Mute. ")


async def test_a_provider_that_cannot_say_what_it_is_ends_the_turn_with_its_code(
    stage: Stage,
) -> None:
    def refusing(_request: object) -> ModelReply:
        raise mute(Rejected)

    async with stage.runtime(Agent("actor", model=FunctionModel(refusing))) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "provider_error"
    assert [issue.code for issue in result.issues] == ["rejected"]


async def test_when_nobody_says_what_happened_the_reason_is_the_tools_own(stage: Stage) -> None:
    """The question to a person runs out; the process never died."""

    async def found(_args: object) -> Unknown:
        return Unknown()

    @tool(reconcile=found)
    async def act() -> str:
        """Act."""
        raise ToolUncertain("line lost")

    model = script()
    async with stage.runtime(Agent("actor", model=model, tools=[act])) as rt:
        session = rt.session("s")
        parked = await session.run("Go.", turn_id="t")
        (wait,) = parked.waits
        expired = WaitAnswer(status="expired", now_ms=stage.clock.now_ms())
        await rt._services.store.resolve_wait(wait.key, expired)
        rt._worker.kick()
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    (told,) = last_told(model)
    assert told.status == "unknown"
    assert CRASHED not in told.text
    assert result.text == "Done."


# ---------------------------------------------------------------------- another release


@pytest.mark.parametrize("effect", ["idempotent", "keyed"])
async def test_a_schema_that_changed_between_crash_and_resume_is_told_to_the_model(
    stage: Stage, effect: Contract
) -> None:
    desk, again = Desk(is_open=False), Desk()

    @tool(effect=effect, name="act")
    async def before(cents: int) -> str:
        """Act."""
        await desk.work(cents)
        return "acted"

    @tool(effect=effect, name="act")
    async def after(amount: str) -> str:
        """Act."""
        await again.work(amount)
        return "acted"

    replies = [call("act", cents=5), say("Done.")]
    first, second = ScriptedModel(replies), ScriptedModel(replies)
    async with stage.runtime(Agent("actor", model=first, tools=[before])) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(Agent("actor", model=second, tools=[after])) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    (told,) = last_told(second)
    assert told.status == "unknown"
    assert told.text.startswith(
        f"It is not known whether act acted: {CRASHED}, "
        "and its arguments do not fit the tool any more: args.amount: found nothing, wanted a value"
    )
    assert (result.text, again.runs) == ("Done.", [])


# ---------------------------------------------------------------------- arguments that cannot be stored


@pytest.mark.parametrize("bad", ["a\x00b", "a\udcffb"], ids=["NUL", "surrogate"])
async def test_a_call_with_text_that_cannot_be_stored_is_told_to_the_model(
    stage: Stage, bad: str
) -> None:
    bodies: list[str] = []

    @tool
    async def act(what: str = "") -> str:
        """Act."""
        bodies.append(what)
        return "acted"

    def reply(request: ModelRequest) -> ModelReply:
        if len(request.messages) > 1:
            return say("Done.")
        asked = ToolCall(call_id="c1", name="act", args={"what": bad})
        return ModelReply(parts=(asked,), terminal="tool_use")

    model = FunctionModel(reply)
    async with stage.runtime(Agent("actor", model=model, tools=[act])) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.outcome == Finished(text="Done.")
    (completed,) = result.tool_calls
    assert completed.outcome.status == "error"
    assert bodies == []
