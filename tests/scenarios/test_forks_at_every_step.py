"""Forks inside turns, at every step and at every death of the process: whole or not there, and valid for every provider."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.limits import times
from tests.scenarios.readings import said_by_user, told
from tests.scenarios.stage import Stage
from tests.scenarios.test_forks_inside_turns import TURN, looker, shown
from windlass import Agent, Runtime, tool
from windlass.errors import IdempotencyConflict
from windlass.kernel import ModelReply, ModelRequest, Text
from windlass.testing import FunctionModel, Scenario, call, calls, kill_everywhere, say
from windlass.testing.crashing.kill_everywhere import StoreKind
from windlass.testing.provider_rules import broken_rules


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_wherever_the_process_dies_the_fork_is_there_whole_or_not_at_all(
    store: StoreKind,
) -> None:
    def scenario() -> Scenario:
        agent_model = [call("look", what="a"), call("look", what="b"), say("Seen."), say("Forked.")]

        def agents() -> Agent[None, str]:
            def reply(request: ModelRequest) -> ModelReply:
                if said_by_user(request)[-1] == "Go on.":
                    return agent_model[3]
                return agent_model[len(told(request))]

            made, _ = looker()
            return Agent("looker", model=FunctionModel(reply), tools=list(made.toolbox))

        async def run(rt: Runtime[Any]) -> object:
            session = rt.session("s")
            await session.run("Look.", turn_id="t")
            try:
                fork = await session.fork("t", id="f", iterations=1)
            except IdempotencyConflict:
                fork = rt.session("f")  # an earlier life made it
            result = await fork.run("Go on.", turn_id="own")
            return shown(await fork.history()), result.text

        def check(found: object) -> None:
            assert found == ([*TURN[:3], "user: Go on.", "assistant: Forked."], "Forked.")

        return Scenario(agents=agents, run=run, check=check, allow_unknown=False)

    report = await kill_everywhere(scenario, store=store)

    assert any("a fork" in str(point) for point in report.points)


async def test_a_fork_at_every_step_of_random_turns_suits_every_provider(tmp_path: Path) -> None:
    """Turns of random replies: words, calls side by side, calls that fail, are unknown or malformed."""
    for seed in range(times(12)):
        chance = random.Random(seed)
        replies = [_random_reply(chance, at) for at in range(chance.randint(1, 6))]
        stage = Stage(chance.choice(("memory", "sqlite")), tmp_path / str(seed))
        stage.path.parent.mkdir()
        model = FunctionModel(_in_order([*replies, say("Done.")]))
        async with stage.runtime(_random_agent(model)) as rt:
            session = rt.session("s")
            result = await session.run("Go.", turn_id="t")
            whole = await session.history()
            for iterations in range(1, result.iterations + 1):
                fork = await session.fork("t", iterations=iterations)
                begun = await fork.history()
                assert begun == whole[: len(begun)]
                await fork.run("And now?")
                assert broken_rules(model.requests[-1]) == [], (seed, iterations)


def _in_order(replies: list[ModelReply]) -> Callable[[ModelRequest], ModelReply]:
    left = iter(replies)
    return lambda _request: next(left, say("Forked."))


def _random_agent(model: FunctionModel) -> Agent[None, str]:
    @tool(effect="pure")
    def look(what: str) -> str:
        """Look."""
        return f"saw {what}"

    @tool(effect="pure")
    def fail() -> str:
        """Fail."""
        raise RuntimeError

    return Agent("random", model=model, tools=[look, fail])


def _random_reply(chance: random.Random, at: int) -> ModelReply:
    made = [
        chance.choice([("look", {"what": f"{at}.{n}"}), ("fail", {}), ("look", {}), ("gone", {})])
        for n in range(chance.randint(1, 3))
    ]
    reply = calls(*made)
    if chance.random() < 0.5:
        parts = (Text(text=f"Step {at}."), *reply.parts)
        return ModelReply(text=f"Step {at}.", parts=parts, terminal="tool_use")
    return reply
