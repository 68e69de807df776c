"""Watching all sessions: `rt.observe()` tells of turns, waits and workers, in every process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import echo
from windlass import Agent, Runtime
from windlass.api.notices import Notice, NoticeKind
from windlass.errors import ConfigError, InvalidInput


async def seen(rt: Runtime[Any], n: int, **wanted: Any) -> list[Notice]:
    """Return the first notices."""
    found: list[Notice] = []
    async with asyncio.timeout(HANGS_S), rt.observe(**wanted) as notices:
        async for notice in notices:
            found.append(notice)
            if len(found) == n:
                break
    return found


def lines(notices: list[Notice]) -> list[tuple[str, str, str]]:
    return [(one.kind, one.session_id, one.turn_id) for one in notices]


async def test_turns_and_waits_of_all_sessions_are_told_in_order(stage: Stage) -> None:
    async with (
        stage.runtime(payer(Desk(), script())) as rt,
        stage.runtime(worker=False) as other,
        other.observe(kinds=_TURNS_AND_WAITS) as notices,
    ):
        parked = await rt.session("s").run("Pay.", turn_id="t")
        await rt.approve(parked.waits[0].key)
        await rt.turn("s", "t").result(timeout=HANGS_S)
        found: list[Notice] = []
        async with asyncio.timeout(HANGS_S):
            async for notice in notices:
                found.append(notice)
                if notice.kind == "turn_ended":
                    break

    assert lines(found) == [
        ("turn_began", "s", "t"),
        ("wait_opened", "s", "t"),
        ("turn_rested", "s", "t"),
        ("wait_answered", "s", "t"),
        ("turn_ended", "s", "t"),
    ]
    assert found[1].wait is not None
    assert found[1].wait.kind == "approval"


_TURNS_AND_WAITS: tuple[NoticeKind, ...] = (
    "turn_began",
    "turn_rested",
    "turn_ended",
    "wait_opened",
    "wait_answered",
)


async def test_every_cursor_goes_on_with_exactly_the_rest(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        async with rt.observe(kinds=["turn_began", "turn_ended"]) as notices:
            for n in range(3):
                await rt.session(f"s{n}").run("Hi.", turn_id="t")
            whole: list[Notice] = []
            async with asyncio.timeout(HANGS_S):
                async for notice in notices:
                    whole.append(notice)
                    if len(whole) == 6:
                        break
        for at in range(5):
            kinds = ["turn_began", "turn_ended"]
            rest = await seen(rt, 5 - at, kinds=kinds, cursor=whole[at].cursor)
            assert lines(rest) == lines(whole[at + 1 :])


async def test_a_cursor_goes_on_in_another_process(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        async with rt.observe(kinds=["turn_ended"]) as notices:
            await rt.session("s1").run("Hi.", turn_id="t")
            async with asyncio.timeout(HANGS_S):
                first = await anext(aiter(notices))
        await rt.session("s2").run("Hi.", turn_id="t")
    async with stage.runtime(worker=False) as other:
        (second,) = await seen(other, 1, kinds=["turn_ended"], cursor=first.cursor)
    assert second.session_id == "s2"


async def test_notices_may_be_of_some_sessions_only(stage: Stage) -> None:
    async with (
        stage.runtime(Agent("a", model=echo())) as rt,
        rt.observe(sessions=["s2"], kinds=["turn_ended"]) as notices,
    ):
        await rt.session("s1").run("Hi.", turn_id="t")
        await rt.session("s2").run("Hi.", turn_id="t")
        async with asyncio.timeout(HANGS_S):
            found = await anext(aiter(notices))
    assert found.session_id == "s2"


async def test_workers_come_and_go_and_one_that_is_killed_is_missed(stage: Stage) -> None:
    async with (
        stage.runtime(worker=False) as watching,
        watching.observe(kinds=["worker_came", "worker_went"]) as notices,
        stage.runtime(Agent("a", model=echo())) as rt,
    ):
        told, worker_id = aiter(notices), rt._services.worker_id
        async with asyncio.timeout(HANGS_S):
            came = await anext(told)
        stage.kill(rt)
        async with asyncio.timeout(HANGS_S):
            went = await anext(told)

    assert (came.kind, came.worker_id) == ("worker_came", worker_id)
    assert (went.kind, went.worker_id) == ("worker_went", worker_id)


@pytest.mark.parametrize("wanted", [
    {"kinds": ["no_such_kind"]}, {"kinds": "turn_began"}, {"sessions": "s"}, {"sessions": ["a b"]},
    {"cursor": "x"}, {"cursor": "/1"}, {"cursor": 7}, {"cursor": "1.2/" + "9" * 200},
])  # fmt: skip
async def test_what_makes_no_sense_is_refused_before_anything_is_watched(
    memory_stage: Stage, wanted: dict[str, Any]
) -> None:
    async with memory_stage.runtime(worker=False) as rt:
        with pytest.raises(InvalidInput):
            rt.observe(**wanted)


async def test_a_cursor_of_no_store_is_refused_on_entry(memory_stage: Stage) -> None:
    async with memory_stage.runtime(worker=False) as rt:
        with pytest.raises(InvalidInput):
            async with rt.observe(cursor="no-mark/1"):
                pass


async def test_notices_are_entered_first(memory_stage: Stage) -> None:
    async with memory_stage.runtime(worker=False) as rt:
        with pytest.raises(ConfigError):
            await anext(aiter(rt.observe()))
