"""`rt.map`: a turn for each input, so many at a time; failures are items, and the same script finds its turns again."""

from __future__ import annotations

import asyncio
import gc
import io
import re
import sys
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Agent, Attachment, Limits
from windlass.api.batch import BatchItem
from windlass.api.progress import BatchProgress
from windlass.errors import (
    ConfigError,
    EngineError,
    IdempotencyConflict,
    InvalidInput,
    NoOutput,
    Unavailable,
)
from windlass.kernel import ModelRequest, Text
from windlass.testing import FunctionModel, ScriptedModel, say


def said(request: ModelRequest) -> str:
    return "".join(part.text for part in request.messages[-1].parts if isinstance(part, Text))


def sorter(desk: Desk) -> Agent[None, str]:
    """Return an agent that notes what it is asked; it refuses what is bad."""

    async def answer(request: ModelRequest) -> str:
        words = said(request)
        await desk.work(words)
        if "bad" in words:
            raise Unavailable("503") if "down" in words else ValueError("no")
        return words.upper()

    return Agent("sorter", model=FunctionModel(answer), limits=Limits(provider_patience=0))


def texts(items: list[BatchItem[Any]]) -> list[str]:
    return [item.result.text for item in items if item.result is not None]


async def test_results_come_in_the_order_of_the_inputs_however_they_end(stage: Stage) -> None:
    gates = {name: asyncio.Event() for name in "abc"}
    ended: list[str] = []

    async def answer(request: ModelRequest) -> str:
        await gates[said(request)].wait()
        return said(request).upper()

    def progress(now: BatchProgress) -> None:
        ended.append(f"{now.done}/{now.total}")
        if now.done < 3:
            gates["cba"[now.done]].set()

    async with stage.runtime(Agent("a", model=FunctionModel(answer))) as rt:
        async with asyncio.timeout(HANGS_S):
            items = await rt.map(["a", "b", "c"], concurrency=3, progress=progress)

    assert texts(items) == ["A", "B", "C"]
    assert [item.index for item in items] == [0, 1, 2]
    assert ended == ["0/3", "1/3", "2/3", "3/3"]


async def test_no_more_inputs_are_taken_than_are_worked_on(stage: Stage) -> None:
    desk, taken = Desk(is_open=False), []

    def inputs() -> Iterator[str]:
        for number in range(10):
            taken.append(number)
            yield f"mail {number}"

    async with stage.runtime(sorter(desk)) as rt:
        batch = aiter(rt.map(inputs(), concurrency=3))
        first = asyncio.ensure_future(anext(batch))
        await until(lambda: len(desk.runs) == 3)
        assert taken == [0, 1, 2]
        desk.gate.set()
        items = [await asyncio.wait_for(first, HANGS_S), *[item async for item in batch]]

    assert sorted(texts(items)) == [f"MAIL {number}" for number in range(10)]
    assert len(desk.runs) == 10


async def test_a_batch_that_is_run_again_buys_nothing(stage: Stage) -> None:
    desk = Desk()
    inputs = ["one", "two", "one"]  # equal inputs are one turn
    async with stage.runtime(sorter(desk)) as rt:
        first = await rt.map(inputs, batch="mails")
    async with stage.runtime(sorter(desk)) as rt:
        again = await rt.map([*inputs, "three"], batch="mails")
        other = await rt.map(["one"], batch="letters")

    assert texts(again) == ["ONE", "TWO", "ONE", "THREE"]
    assert (sorted(desk.runs[:2]), desk.runs[2]) == (["one", "two"], "three")
    assert desk.runs[3:] == ["one"]  # for the other batch
    assert [item.session_id for item in again[:3]] == [item.session_id for item in first]
    assert {item.turn_id for item in again} == {"mails"}
    assert other[0].session_id != again[0].session_id


async def test_an_input_may_name_its_session_and_its_turn(stage: Stage) -> None:
    picture = Attachment.from_bytes(b"\x89PNG\r\n\x1a\n", media_type="image/png")

    async def inputs() -> AsyncIterator[Any]:
        yield ("ada", "hello")
        yield ("eva", ["hello", picture], "m1")
        yield ["hello", picture]

    async with stage.runtime(worker(Desk(), echo())) as rt:
        items = await rt.map(inputs(), batch="greet", concurrency=1)
        again = await rt.turn("eva", "m1").result()

    named = [(item.session_id, item.turn_id) for item in items[:2]]
    assert named == [("ada", "greet"), ("eva", "m1")]
    assert items[2].session_id.startswith("greet.")
    assert not any(item.failed for item in items)
    assert again.text == "You said: hello"


async def test_failures_are_items_and_the_others_are_done(stage: Stage) -> None:
    inputs: list[Any] = ["good", "bad", 5, ("ada", "x"), ("ada", "y"), ("a b", "x"), "fine"]
    async with stage.runtime(sorter(Desk())) as rt:
        items = await rt.map(inputs, concurrency=1)

    assert [item.failed for item in items] == [False, True, True, False, True, True, False]
    assert isinstance(items[1].failure, NoOutput)
    assert items[1].result is not None
    assert items[1].error is None
    for at, kind in {2: InvalidInput, 4: IdempotencyConflict, 5: InvalidInput}.items():
        assert isinstance(items[at].error, kind)
        with pytest.raises(kind):
            _ = items[at].output
    assert items[6].output == "FINE"


async def test_failures_may_be_raised_together_at_the_end(stage: Stage) -> None:
    desk = Desk()
    async with stage.runtime(sorter(desk)) as rt:
        with pytest.raises(ExceptionGroup, match="batch map: 2 of 4 items failed") as raised:
            await rt.map(["bad 1", "good", "bad 2", "fine"], raise_failures=True)

    assert [type(error) for error in raised.value.exceptions] == [NoOutput, NoOutput]
    assert {"good", "fine"} <= set(desk.runs)  # nothing was cut short


async def test_a_provider_that_is_down_is_waited_for(stage: Stage) -> None:
    model = ScriptedModel([Unavailable("503"), say("I am back.")])
    async with stage.runtime(Agent("a", model=model)) as rt:
        batch = asyncio.ensure_future(_whole(rt.map(["x"])))
        await until(lambda: bool(rt._worker.resting._patient))
        stage.later(2, rt)
        items = await asyncio.wait_for(batch, HANGS_S)

    assert texts(items) == ["I am back."]


async def _whole(batch: Any) -> list[BatchItem[Any]]:  # noqa: ANN401 - a batch
    items: list[BatchItem[Any]] = await batch
    return items


async def test_an_item_that_waits_for_a_person_is_given_as_parked_or_waited_for(
    stage: Stage,
) -> None:
    async with stage.runtime(payer(Desk(), script())) as rt:
        (item,) = await rt.map([("s", "Pay.")])
        assert item.failed
        assert item.result is not None
        assert item.result.parked
        batch = asyncio.ensure_future(_whole(rt.map([("s", "Pay.")], through_parks=True)))
        await until(lambda: bool(rt._worker.resting._patient))
        await rt.approve(item.result.waits[0].key)
        (item,) = await asyncio.wait_for(batch, HANGS_S)

    assert not item.failed
    assert item.output == "Done."


async def test_leaving_the_loop_ends_the_watching_and_not_the_turns(stage: Stage) -> None:
    desk = Desk()
    async with stage.runtime(sorter(desk)) as rt:
        batch = rt.map([("s1", "one"), ("s2", "two")], concurrency=2)
        async for _ in batch:
            break
        for session_id in ("s1", "s2"):
            await rt.session(session_id).wait(HANGS_S)
        assert len(desk.runs) == 2


async def test_items_that_were_read_are_not_kept(stage: Stage) -> None:
    alive: list[weakref.ref[object]] = []
    async with stage.runtime(sorter(Desk())) as rt:
        async for item in rt.map((f"mail {n}" for n in range(100)), concurrency=4):
            assert item.result is not None
            alive.append(weakref.ref(item.result))
    del item
    gc.collect()

    assert len(alive) == 100
    assert [one for one in alive if one() is not None] == []


async def test_a_runtime_that_closes_ends_the_batch(stage: Stage) -> None:
    async with stage.runtime(sorter(Desk(is_open=False))) as rt:
        batch = asyncio.ensure_future(_whole(rt.map(["a", "b", "c"], concurrency=1)))
        await until(lambda: bool(rt._worker.driving))

    with pytest.raises((ConfigError, EngineError), match=r"was closed|is not open"):
        await asyncio.wait_for(batch, HANGS_S)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"concurrency": 0}, "concurrency: found 0, wanted a whole number above 0"),
        ({"progress": 5}, "progress: found int, wanted True, False or a function"),
        ({"total": -1}, "total: found -1, wanted a whole number, or None"),
        ({"through_parks": ["rain"]}, "through_parks: wanted True, False or a list of: approval"),
        ({"turn_id": "t"}, "turn_id: found one for the whole batch"),
        ({"batch": "two words"}, "batch: "),
    ],
)
async def test_a_wrong_option_is_refused_before_anything_is_bought(
    memory_stage: Stage, options: dict[str, Any], told: str
) -> None:
    desk = Desk()
    async with memory_stage.runtime(sorter(desk)) as rt:
        with pytest.raises(InvalidInput) as refused:
            rt.map(["a"], **options)
        with pytest.raises(InvalidInput, match="inputs: found str, wanted a list or a generator"):
            rt.map("abc")
        with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
            rt.map(["a"], **dict[str, Any](colour="red"))

    assert str(refused.value).startswith(told)
    assert desk.runs == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("has_rich", [True, False])
async def test_a_bar_is_drawn_on_a_terminal(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch, has_rich: bool
) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    async with memory_stage.runtime(sorter(Desk())) as rt:
        await rt.map(["one", "bad", "three"], progress=True)

    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n")
    last = drawn.strip().splitlines()[-1]
    assert "3/3" in last
    assert "1 failed" in last
    assert has_rich or last == "[##############################] 3/3, 1 failed"


async def test_no_bar_is_drawn_where_nobody_looks(
    memory_stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    async with memory_stage.runtime(sorter(Desk())) as rt:
        await rt.map(["one"], progress=True)

    assert capsys.readouterr().err == ""
