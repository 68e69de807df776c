"""Pieces of the prompt: an agent's, a caller's for one turn, and a prompter that writes what they make together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.test_overrides import prompt_of, survived
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime, tool
from windlass.errors import ConfigError, IdempotencyConflict, InvalidInput, LimitExceeded
from windlass.kernel import Stopped
from windlass.plugins import Contribution, Plugin, PluginTurn
from windlass.ports.unit import TurnRequest
from windlass.testing import ScriptedModel, call, say

BRIEF = Contribution("Be brief.", title="Tone")
SHOP = Contribution("The shop is closed.", slot="context")


def agent(model: Any, **options: Any) -> Agent[None, str]:  # noqa: ANN401 - any model
    return worker(Desk(), model, instructions="You help.", **options)


async def test_a_caller_adds_to_slots_for_one_turn(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(agent(model)) as rt:
        await rt.session("s").run("Hello.", prompt=[SHOP, BRIEF])
        await rt.session("s").run("Hello.", prompt=BRIEF)
        await rt.session("s").run("Hello.")

    assert list(map(prompt_of, model.requests)) == [
        "You help.\n\n## Guidance\n\n### Tone\n\nBe brief.\n\n## Context\n\nThe shop is closed.",
        "You help.\n\n## Guidance\n\n### Tone\n\nBe brief.",
        "You help.",
    ]


async def test_a_caller_replaces_or_clears_a_slot_of_the_agent(stage: Stage) -> None:
    model = echo()
    pieces = [Contribution("Ours.", slot="project"), Contribution("Be kind.")]
    async with stage.runtime(agent(model, prompt=pieces)) as rt:
        session = rt.session("s")
        await session.run("1")
        await session.run("2", prompt=Contribution("Theirs.", slot="project", replaces=True))
        await session.run("3", prompt=Contribution("", slot="project", replaces=True))
        await session.run("4", prompt=Contribution("You sing.", slot="intro", replaces=True))
        await session.run("5", prompt="Only this.")

    kind = "## Guidance\n\nBe kind."
    assert list(map(prompt_of, model.requests)) == [
        f"You help.\n\n{kind}\n\n## Project\n\nOurs.",
        f"You help.\n\n{kind}\n\n## Project\n\nTheirs.",
        f"You help.\n\n{kind}",
        f"You sing.\n\n{kind}\n\n## Project\n\nOurs.",
        f"Only this.\n\n{kind}\n\n## Project\n\nOurs.",
    ]


async def test_pieces_for_the_session_stand_below_those_for_the_turn(stage: Stage) -> None:
    model = echo()
    session_piece = Contribution("From the session.", slot="context", layer="session")
    turn_piece = Contribution("From the turn.", slot="context", replaces=True)
    async with stage.runtime(agent(model, prompt=SHOP)) as rt:
        await rt.session("s").run("1", prompt=[session_piece])
        await rt.session("s").run("2", prompt=[session_piece, turn_piece])

    assert list(map(prompt_of, model.requests)) == [
        "You help.\n\n## Context\n\nThe shop is closed.\n\nFrom the session.",
        "You help.\n\n## Context\n\nFrom the turn.",
    ]


class Weather(Plugin):
    """Tells the weather."""

    name = "weather"
    version = "1"

    async def prompt(self, turn: PluginTurn) -> list[Contribution]:
        """Return it."""
        return [Contribution("It rains.", slot="context")]


async def test_pieces_of_callers_and_of_plugins_stand_together(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(agent(model, plugins=[Weather()])) as rt:
        await rt.session("s").run("work", prompt=SHOP)
        await rt.session("s").run("1", prompt=Contribution("", slot="context", replaces=True))

    both = "You help.\n\n## Context\n\nIt rains.\n\nThe shop is closed."
    assert list(map(prompt_of, model.requests)) == [both, both, "You help."]


async def test_pieces_for_one_turn_survive_its_worker(stage: Stage) -> None:
    first, second = echo(), echo()
    result = await survived(stage, first, second, prompt=[SHOP])

    wanted = "The agent's.\n\n## Context\n\nThe shop is closed."
    assert result.text == "worked"
    assert [prompt_of(request) for request in first.requests] == [wanted]
    assert [prompt_of(request) for request in second.requests] == [wanted, "New words."]


async def test_a_piece_behind_a_gate_comes_with_the_tool(stage: Stage) -> None:
    """The tool is found in the first iteration; so its piece is there from the second one on."""

    @tool(effect="pure", expose="deferred")
    def pay_bill() -> str:
        """Pay a bill."""
        return "paid"

    model = ScriptedModel([call("find_tools", query="pay a bill"), say("Done.")])
    made = Agent("a", model=model, instructions="You help.", tools=[pay_bill])
    async with stage.runtime(made) as rt:
        await rt.session("s").run("Pay.", prompt=Contribution("Ask first.", gate=("pay_bill",)))

    assert list(map(prompt_of, model.requests)) == [
        "You help.",
        "You help.\n\n## Guidance\n\nAsk first.",
    ]


async def test_another_prompt_under_a_known_turn_id_conflicts(stage: Stage) -> None:
    async with stage.runtime(agent(echo())) as rt:
        session = rt.session("s")
        first = await session.run("1", turn_id="t", prompt=[SHOP, BRIEF])
        again = await session.run("1", turn_id="t", prompt=[BRIEF, SHOP, SHOP])
        for other in (None, "Text.", [SHOP], [SHOP, Contribution("Be brief.")]):
            with pytest.raises(IdempotencyConflict):
                await session.run("1", turn_id="t", prompt=other)

    assert again.text == first.text


def test_a_request_without_pieces_has_the_digest_that_it_had() -> None:
    assert TurnRequest(overrides={"prompt": "Only now."}).digest() == (
        "296f2f9ffacc8bbbbb7c76937d6f3fd9dd17a46916fbad54252ce789e8477761"
    )


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (7, "prompt"),
        ({"text": "x"}, "prompt"),
        (["text"], "prompt[0]"),
        ([SHOP, None], "prompt[1]"),
        ([Contribution("x" * 600_000), Contribution("y" * 600_000)], "prompt"),
        ([Contribution(str(n)) for n in range(257)], "prompt"),
    ],
)
async def test_a_piece_that_is_none_is_refused_at_the_door(
    memory_stage: Stage,
    given: Any,  # noqa: ANN401 - wrong on purpose
    field: str,
) -> None:
    async with memory_stage.runtime(agent(echo())) as rt:
        with pytest.raises((InvalidInput, LimitExceeded)) as refused:
            await rt.session("s").run("1", prompt=given)
        assert refused.value.field == field
        assert await rt.sessions() == ()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"prompt": "text"}, "Agent.prompt"),
        ({"prompt": [1]}, "Agent.prompt[0]"),
        ({"prompter": "text"}, "Agent.prompter"),
    ],
)
def test_an_agent_refuses_what_is_no_piece_and_no_prompter(
    options: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        agent(echo(), **options)

    assert refused.value.field == field


# ---------------------------------------------------------------------- prompters


def lines(pieces: Any) -> str:  # noqa: ANN401 - contributions
    return "\n".join(f"[{one.slot}] {one.text}" for one in pieces)


async def test_a_prompter_writes_every_prompt_of_its_agent(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(agent(model, prompter=lines)) as rt:
        await rt.session("s").run("1")
        await rt.session("s").run("2", prompt=SHOP)
        await rt.session("s").run("3", prompt="Only this.")

    assert list(map(prompt_of, model.requests)) == [
        "[intro] You help.",
        "[intro] You help.\n[context] The shop is closed.",
        "[intro] Only this.",
    ]


async def test_what_a_prompter_wrote_is_not_asked_for_again_after_a_crash(stage: Stage) -> None:
    asked: list[str] = []

    def counted(name: str) -> Any:  # noqa: ANN401 - a prompter
        def write(pieces: Any) -> str:  # noqa: ANN401 - contributions
            asked.append(name)
            return f"{name}: {lines(pieces)}"

        return write

    desk, first, second = Desk(is_open=False), echo(), echo()
    async with stage.runtime(worker(desk, first, prompter=counted("first"))) as lost:
        await lost.session("s").submit("work", turn_id="t", prompt=SHOP)
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), second, prompter=counted("second"))) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    wanted = ["first: [context] The shop is closed."]
    assert [prompt_of(request) for request in first.requests] == wanted
    assert [prompt_of(request) for request in second.requests] == wanted
    assert asked == ["first"]


@pytest.mark.parametrize(
    ("made", "detail"),
    [
        (lambda _pieces: 7, "the prompt cannot be used: prompt: found int, wanted text"),
        (lambda _pieces: dict[str, str]()["secret"], "the prompter raised KeyError"),
    ],
)
async def test_a_prompter_that_fails_ends_the_turn_and_is_named(
    memory_stage: Stage,
    made: Any,  # noqa: ANN401 - a prompter
    detail: str,
) -> None:
    model = echo()
    async with memory_stage.runtime(agent(model, prompter=made)) as rt:
        result = await rt.session("s").run("1")

    assert result.outcome == Stopped(reason="runtime_error", detail=detail)
    assert model.requests == []


async def test_a_compaction_has_its_own_prompt(memory_stage: Stage) -> None:
    model = echo()
    async with memory_stage.runtime(agent(model, prompter=lines, prompt=SHOP)) as rt:
        await _compacted(rt)

    assert "[context]" not in prompt_of(model.requests[-1])


async def _compacted(rt: Runtime[Any]) -> None:
    await rt.session("s").run("1")
    await rt.session("s").compact()
