"""Turn facts: what the last turn's tools did stands before the next input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.plugins.fake_turn import FakeTurn
from tests.plugins.scene import play as play_turn
from tests.plugins.scene import shown
from tests.plugins.spoken import INPUT, answered, asked, said, worked
from tests.scenarios.stage import STORES, Stage
from windlass import Agent, tool
from windlass.errors import ConfigError
from windlass.kernel.messages import Message
from windlass.kernel.outcomes import Finished
from windlass.plugins.turn_facts import TurnFacts
from windlass.runtime.hooked_turn import checked
from windlass.testing import ScriptedModel, broken_rules, call, say

END = Finished(text="Done.")


async def told_after(plugin: TurnFacts, *turns: list[Message]) -> Sequence[str] | None:
    """Return what is said before the turn that follows these."""
    turn = FakeTurn("turn_facts")
    for messages in turns:
        turn.host.turn_messages = [INPUT, *messages]
        await plugin.after_turn(turn, END)
        turn.settle()
    return await plugin.before_turn(turn)


async def test_each_call_is_told_with_its_arguments_and_how_it_ended() -> None:
    failed = [asked(("c2", "pay", {"cents": 5})), answered(("c2", "pay", "no"), status="error")]

    found = await told_after(TurnFacts(), [*worked("c1", "find", {"q": "x"}, "it"), *failed])

    assert found == [
        '[what the tools did in the turn before]\n- find {"q":"x"}: ok\n- pay {"cents":5}: error'
    ]


async def test_only_the_last_turn_is_told() -> None:
    before, last = worked("c1", "find", {}, "it"), worked("c2", "pay", {}, "it")

    assert await told_after(TurnFacts(), before, last) == [
        "[what the tools did in the turn before]\n- pay {}: ok"
    ]
    assert await told_after(TurnFacts(), before, [said("Hello.")]) is None


async def test_a_turn_without_calls_says_and_keeps_nothing() -> None:
    turn = FakeTurn("turn_facts")
    turn.host.turn_messages = [INPUT, said("Hello.")]

    await TurnFacts().after_turn(turn, END)

    assert turn._changes == {}
    assert await TurnFacts().before_turn(turn) is None


async def test_long_turns_and_long_arguments_stay_short() -> None:
    calls = [one for n in range(5) for one in worked(f"c{n}", f"t{n}", {"q": "x" * 999}, "it")]

    (found,) = await told_after(TurnFacts(keep=2), calls) or ()

    args = '{"q":"' + "x" * 113 + "…"  # 120 characters
    assert found.splitlines() == [
        "[what the tools did in the turn before]",
        "- 3 earlier calls",
        f"- t3 {args}: ok",
        f"- t4 {args}: ok",
    ]


async def test_as_many_as_may_be_kept_can_be_remembered_in_any_alphabet() -> None:
    calls = [one for n in range(200) for one in worked(f"c{n}", "t" * 64, {"q": "🦉" * 999}, "it")]
    turn = FakeTurn("turn_facts")
    turn.host.turn_messages = [INPUT, *calls]

    await TurnFacts(keep=100).after_turn(turn, END)

    assert checked(turn._changes, plugin="turn_facts")


@pytest.mark.parametrize("keep", [0, -1, None, 101])
def test_a_bad_option_is_refused_by_name(keep: int) -> None:
    with pytest.raises(ConfigError) as refused:
        TurnFacts(keep=keep)

    assert refused.value.field == "TurnFacts.keep"


# --- whole turns -------------------------------------------------------------------------------


@tool(effect="pure")
def find(q: int = 0) -> str:
    """Find."""
    return f"found {q}"


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 1])
async def test_the_next_input_is_preceded_by_the_facts_also_after_a_crash(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    stage = Stage(kind, tmp_path)

    await play_turn(stage, TurnFacts, [call("find", q=1), say("1.")], kill_at=kill_at, tools=[find])
    model = ScriptedModel([say("It was 1."), say("Yes.")], name="script")
    async with stage.runtime(Agent("a", model=model, tools=[find], plugins=[TurnFacts()])) as rt:
        await rt.session("s").run("What was it?")
        await rt.session("s").run("Sure?")
        history = await rt.session("s").history()

    assert [shown(message) for message in history][4:] == [
        'user: [what the tools did in the turn before]\n- find {"q":1}: ok',
        "user: What was it?",
        "assistant: It was 1.",
        "user: Sure?",
        "assistant: Yes.",
    ]
    assert [broken for request in model.requests for broken in broken_rules(request)] == []


@pytest.mark.parametrize("kind", STORES)
async def test_a_turn_that_has_begun_is_not_told_its_facts_again(kind: str, tmp_path: Path) -> None:
    stage = Stage(kind, tmp_path)
    first = ScriptedModel([call("find", q=1), say("1.")], name="script")
    async with stage.runtime(Agent("a", model=first, tools=[find], plugins=[TurnFacts()])) as rt:
        await rt.session("s").run("Find it.", turn_id="before")

    played = await play_turn(
        stage, TurnFacts, [call("find", q=2), say("2.")], kill_at=1, tools=[find]
    )

    facts = '[what the tools did in the turn before]\n- find {"q":1}: ok'
    assert played.told_by("before_turn") == [[facts]]
    assert played.said[:2] == [f"user: {facts}", "user: Go."]
