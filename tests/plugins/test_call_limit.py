"""Call limit: exactly the first so many calls run, in the order in which the model asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.plugins.fake_turn import FakeHost, FakeTurn
from tests.plugins.scene import play as play_turn
from tests.plugins.spoken import INPUT, asked
from tests.scenarios.stage import STORES, Stage
from windlass import Agent, tool
from windlass.errors import ConfigError
from windlass.kernel.outcomes import Finished, Stopped
from windlass.plugins.call_limit import CallLimit
from windlass.ports.directives import Stop
from windlass.ports.plugin import AskedCall, AtCheckpoint
from windlass.ports.policy import Deny
from windlass.testing import ScriptedModel, call, calls, say

AFTER_WORK = AtCheckpoint(kind="after_work")


async def play(plugin: CallLimit, host: FakeHost, tools: str, *, backwards: bool = False) -> str:
    """Let one reply ask for tools, a letter each; return the letters of those that may run, - for the others."""
    n = len(host.turn_messages)
    calls = [
        AskedCall(call_id=f"c{n}-{at}", name=tool, args={}, ordinal=at, of=len(tools))
        for at, tool in enumerate(tools)
    ]
    said = asked(*((call.call_id, call.name, {}) for call in calls))
    host.turn_messages = [*host.turn_messages, said]
    turns = [FakeTurn("call_limit", host) for _ in calls]
    found = {}
    for at in range(len(calls))[:: -1 if backwards else 1]:
        found[at] = await plugin.before_tool(turns[at], calls[at])
    for turn in turns:
        turn.settle()
    return "".join("-" if found[at] else tool for at, tool in enumerate(tools))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("limits", "replies", "wanted"),
    [
        ({"per_turn": 3}, "a a a a a", "a a a - -"),
        ({"per_turn": 3}, "aa aa", "aa a-"),
        ({"per_turn": 3}, "aaaaa a", "aaa-- -"),
        ({"per_turn": 0}, "a", "-"),
        ({"per_turn": None, "per_tool": {"a": 2}}, "a b a b a b", "a b a b - b"),
        ({"per_turn": None, "per_tool": {"a": 2}}, "abaca aba", "abac- -b-"),
        ({"per_turn": None, "per_tool": {"a": 2, "b": 1}}, "abab ba", "aba- --"),
        ({"per_turn": 4, "per_tool": {"a": 2}}, "aaab b", "aa-b -"),
    ],
)
async def test_the_first_calls_run_whichever_is_decided_first(
    limits: dict[str, Any], replies: str, wanted: str, backwards: bool
) -> None:
    plugin, host = CallLimit(**limits), FakeHost()
    host.turn_messages = [INPUT]

    found = [await play(plugin, host, reply, backwards=backwards) for reply in replies.split()]

    assert found == wanted.split()


async def test_the_model_is_told_what_is_used_up_and_to_sum_up() -> None:
    plugin, turn = CallLimit(per_turn=5, per_tool={"find": 0}), FakeTurn("call_limit")

    of_tool = await plugin.before_tool(turn, AskedCall(call_id="c", name="find", args={}))
    turn.host.states["call_limit"] = {"calls": 5}
    of_turn = await plugin.before_tool(turn, AskedCall(call_id="d", name="pay", args={}))

    assert of_tool == Deny(
        reason="Not run: the turn's limit of 0 calls of find is used up. "
        "Do not call it again. Sum up what you have and answer."
    )
    assert of_turn == Deny(
        reason="Not run: the turn's limit of 5 tool calls is used up. "
        "Call no more tools. Sum up what you have and answer."
    )


async def test_a_call_that_is_shown_once_more_counts_once() -> None:
    """Another plugin changed its arguments: the hook sees its own first look, and the call is still the last allowed."""
    plugin, turn = CallLimit(per_turn=2, per_tool={"a": 2}), FakeTurn("call_limit")
    turn.host.states["call_limit"] = {"calls": 1, "tools": {"a": 1}, "last": "c1"}
    call = AskedCall(call_id="c2", name="a", args={})

    first = await plugin.before_tool(turn, call)
    turn.settle()
    again = await plugin.before_tool(turn, call)
    turn.settle()

    assert (first, again) == (None, None)
    assert turn.state == {"calls": 2, "tools": {"a": 2}, "last": "c2"}


async def test_a_call_that_could_not_run_at_all_does_not_take_a_place() -> None:
    """The reply had three calls, the first was malformed: the others are the first and second that may run."""
    plugin, turn = CallLimit(per_turn=2, per_tool={"a": 2}), FakeTurn("call_limit")
    turn.host.turn_messages = [INPUT, asked(("bad", "a", {}), ("c", "a", {}), ("d", "a", {}))]

    found = [
        await plugin.before_tool(turn, AskedCall(call_id=id, name="a", args={}, ordinal=at, of=2))
        for at, id in enumerate(["c", "d"])
    ]

    assert found == [None, None]


@pytest.mark.parametrize(
    ("limits", "replies", "wanted"),
    [
        ({"per_turn": 2}, "a a", None),  # all that was allowed, and no more
        ({"per_turn": 2}, "a aa", Stop("the turn's limit of 2 tool calls is used up")),
        ({"per_tool": {"a": 1}}, "ab bb", None),
        ({"per_tool": {"a": 1}}, "ab ba", Stop("the turn's limit of 1 calls of a is used up")),
    ],
)
async def test_a_turn_that_asks_for_more_is_stopped_if_that_was_wanted(
    limits: dict[str, Any], replies: str, wanted: Stop | None
) -> None:
    host = FakeHost()
    stopping, denying = CallLimit(**limits, then="stop"), CallLimit(**limits)
    for reply in replies.split():
        await play(stopping, host, reply)
    turn = FakeTurn("call_limit", host)

    assert await stopping.at_checkpoint(turn, AFTER_WORK) == wanted
    assert await denying.at_checkpoint(turn, AFTER_WORK) is None
    end = AtCheckpoint(kind="before_completion")
    assert await stopping.at_checkpoint(turn, end) is None  # it ends anyway


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"per_turn": -1}, "CallLimit.per_turn"),
        ({"per_turn": "many"}, "CallLimit.per_turn"),
        ({"per_turn": None}, "CallLimit.per_turn"),
        ({"per_tool": {"a": -1}}, "CallLimit.per_tool[a]"),
        ({"per_tool": {"a": None}}, "CallLimit.per_tool[a]"),
        ({"per_tool": [("a", 1)]}, "CallLimit.per_tool"),
        ({"then": "nudge"}, "CallLimit.then"),
    ],
)
def test_a_bad_option_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        CallLimit(**given)

    assert refused.value.field == field


# --- whole turns -------------------------------------------------------------------------------

OVER = "the turn's limit of 2 calls of find is used up"


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 1, 2])
async def test_the_first_two_of_three_parallel_calls_run_and_no_other_after_a_crash(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    runs: list[int] = []

    @tool(effect="keyed")
    async def find(q: int) -> str:
        """Find."""
        runs.append(q)
        return f"found {q}"

    three = calls(*(("find", {"q": q}) for q in (1, 2, 3)))
    played = await play_turn(
        Stage(kind, tmp_path),
        lambda: CallLimit(per_tool={"find": 2}),
        [three, call("find", q=4), say("All in all: 2.")],
        kill_at=kill_at,
        tools=[find],
    )

    assert sorted(runs) == [1, 2]
    assert played.result.outcome == Finished(text="All in all: 2.")
    assert [one.outcome.status for one in played.result.tool_calls] == ["ok", "ok", *["denied"] * 2]
    assert OVER in played.said[2]
    assert OVER in played.said[4]
    # Four calls, each decided once, whoever died in between.
    assert [hook for hook, _ in played.spoke].count("before_tool") == 4


@pytest.mark.parametrize("kind", STORES)
async def test_a_worker_that_dies_among_parallel_calls_does_not_change_which_of_them_run(
    kind: str, tmp_path: Path
) -> None:
    stage, entered, gate = Stage(kind, tmp_path), asyncio.Event(), asyncio.Event()
    runs: list[int] = []
    three = calls(*(("find", {"q": q}) for q in (1, 2, 3)))
    model = ScriptedModel([three, call("find", q=4), say("Done.")])

    def agent(is_first: bool) -> Agent[None, str]:
        @tool(effect="idempotent")
        async def find(q: int) -> str:
            """Find."""
            runs.append(q)
            if is_first:
                entered.set()
                await gate.wait()
            return f"found {q}"

        return Agent("a", model=model, tools=[find], plugins=[CallLimit(per_turn=2)])

    async with stage.runtime(agent(is_first=True)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await entered.wait()
        stage.kill(lost)
        async with stage.runtime(agent(is_first=False)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        gate.set()

    assert set(runs) == {1, 2}
    assert [one.outcome.status for one in result.tool_calls] == ["ok", "ok", "denied", "denied"]


@pytest.mark.parametrize("kill_at", [None, 1, 2])
async def test_stop_ends_the_turn_once_the_reply_that_asked_for_too_much_is_answered(
    kill_at: int | None, tmp_path: Path
) -> None:
    @tool(effect="pure")
    def find(q: int) -> str:
        """Find."""
        return f"found {q}"

    script = [call("find", q=1), call("find", q=2)]
    script += [calls(("find", {"q": 3}), ("find", {"q": 4})), say("never said")]
    played = await play_turn(
        Stage("memory", tmp_path),
        lambda: CallLimit(per_turn=3, then="stop"),
        script,
        kill_at=kill_at,
        tools=[find],
    )

    limit = "the turn's limit of 3 tool calls is used up"
    assert played.result.outcome == Stopped(reason="limit", detail=limit)
    assert [one.outcome.status for one in played.result.tool_calls] == ["ok", "ok", "ok", "denied"]
    assert played.said[-1].startswith("user: ok: found 3 | denied: ")
