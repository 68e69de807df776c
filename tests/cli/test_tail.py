"""`windlass tail`: each fact is a line, and a turn that goes on while it is watched is shown to its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.started import values, windlass
from windlass import Agent, Runtime, tool
from windlass.cli.commands.tail import _in_words, _Tail
from windlass.kernel import (
    Error,
    Finished,
    InputAccepted,
    ModelFinished,
    PendingToolCall,
    ToolFinished,
    ToolOutcome,
    TurnEnded,
    Usage,
    UsageReported,
    WaitOpened,
    WaitResolved,
)
from windlass.kernel.events import CodeFinished, Event
from windlass.testing import ScriptedModel, call, say

KEY = f"w_{'a' * 64}"
PAY = PendingToolCall(call_id="c", name="pay", args={"cents": 5})
SPENT = Usage(input_tokens=12, output_tokens=3)
LINES: list[tuple[Event, tuple[str, str]]] = [
    (ModelFinished(iteration=0, text="I pay.", calls=(PAY,)), ("reply", "I pay. → pay(cents=5)")),
    (UsageReported(iteration=0, usage=SPENT, cumulative=SPENT), ("used", "12 tokens in, 3 out")),
    (
        ToolFinished(call_id="c", name="pay", args={"cents": 5}, outcome=ToolOutcome(value="paid")),
        ("result", "pay(cents=5) ok: paid"),
    ),
    (InputAccepted(input_id="i1"), ("input", "i1")),
    (
        WaitOpened(key=KEY, kind="approval", title="Run pay?"),
        ("wait", "w_aaaaaaaaaaaa approval: Run pay?"),
    ),
    (
        WaitResolved(key=KEY, kind="approval", status="answered", by="eva"),
        ("answer", "w_aaaaaaaaaaaa approval: answered by eva"),
    ),
    (
        WaitResolved(key=KEY, kind="timer", status="expired"),
        ("answer", "w_aaaaaaaaaaaa timer: expired"),
    ),
    (
        Error(message="It is\x1b[31m down.", code="unavailable"),
        ("error", "unavailable: It is\\u001b[31m down."),
    ),
    (Error(message="Down."), ("error", "Down.")),
    (TurnEnded(outcome=Finished(text="a")), ("end", "finished")),
    (CodeFinished(language="python"), ("event", "CodeFinished")),
]


@pytest.mark.parametrize(("fact", "words"), LINES, ids=lambda one: type(one).__name__)
def test_each_fact_is_a_line(fact: Event, words: tuple[str, str]) -> None:
    assert _in_words(fact) == words


@tool(effect="once", approval="ask")
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


async def test_a_turn_that_goes_on_is_shown_to_its_end_and_no_fact_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Agent("a", model=ScriptedModel([call("pay", cents=5), say("Done.")]), tools=[pay])
    async with Runtime(agent, store=f"sqlite:///{tmp_path / 'windlass.db'}") as runtime:
        parked = await runtime.session("s").run("Pay.", turn_id="t")
        rows, watched = runtime._services.store, _Tail("s", is_json=False)
        await watched.watch(rows, follow=False)
        await runtime.approve(parked.waits[0].key, by="eva")
        await runtime.turn("s", "t").result()
        await watched.watch(rows, follow=False)

    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        "used", "reply", "wait", "turn",
        "answer", "result", "used", "reply", "end", "turn",
    ]  # fmt: skip


def test_a_turn_that_waits_in_a_queue_is_no_fact(tmp_path: Path) -> None:
    async def fill() -> None:
        agent = Agent("a", model=ScriptedModel([call("pay", cents=5)]), tools=[pay])
        async with Runtime(agent, store=f"sqlite:///{tmp_path / 'windlass.db'}") as runtime:
            await runtime.session("s").run("Pay.", turn_id="t")
            await runtime.session("s").submit("And then?", turn_id="next")

    asyncio.run(fill())
    (queued,) = values(windlass("show", "s", "--turn", "next", "--json", cwd=tmp_path))
    shown = windlass("show", "s", "--turn", "next", cwd=tmp_path).stdout

    # Plugins may change what was said before the turn begins with it.
    assert (queued["input"], queued["messages"]) == (None, [])
    assert shown.split() == ["next", "queued,", "unfinished", "a"]
