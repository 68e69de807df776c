"""Event handlers: a function that sees every event of a turn, and can neither hold the turn up nor end it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.limits import HANGS_S
from tests.scenarios.handling import ORDER, OddHandlerError, awaited, plain, working
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.watching import names, shown_text
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime, TurnResult, tool
from windlass.api.turn_options import EventHandler
from windlass.errors import InvalidInput, SessionParked, UnknownSession
from windlass.kernel import ModelReply, ModelRequest, events
from windlass.kernel.events import Event
from windlass.kernel.outcomes import Finished
from windlass.ports import SessionView
from windlass.ports.model import EmitModelEvent, TextChunk
from windlass.stores.memory import MemoryStore
from windlass.testing import ScriptedModel, call, say

# --- every event, in order -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [plain, awaited])
async def test_a_handler_sees_every_event_of_its_turn_in_order(
    stage: Stage, make: Callable[[list[Event]], EventHandler]
) -> None:
    seen: list[Event] = []
    async with stage.runtime(working()) as rt:
        result = await rt.session("s").run("Go.", turn_id="t", on_event=make(seen))

    assert names(seen) == ORDER
    assert len({event.id for event in seen}) == len(seen)
    assert all(event.cursor for event in seen)
    assert result.text == "All done."


async def test_collect_returns_every_event_with_what_the_turn_came_to(stage: Stage) -> None:
    async with stage.runtime(working()) as rt:
        collected = await rt.session("s").collect("Go.", turn_id="t")
        shown, result = collected

    assert names(shown) == ORDER
    assert shown == collected.events
    assert result is collected.result
    assert result.outcome == Finished(text="All done.")
    last = shown[-1]
    assert isinstance(last, events.TurnEnded)
    assert last.outcome == result.outcome


async def test_events_of_other_turns_are_not_handed_over(stage: Stage) -> None:
    seen: list[Event] = []
    async with stage.runtime(worker(Desk(), echo())) as rt:
        first = asyncio.get_running_loop().create_task(rt.session("s").run("One.", turn_id="t1"))
        await asyncio.sleep(0)
        await rt.session("s").run("Two.", turn_id="t2", on_event=seen.append)
        await first

    assert shown_text(seen) == "You said: Two."
    assert names(seen).count("TurnEnded") == 1


class Talker:
    """A model that says more words than wait for anybody one by one."""

    name = "talker"
    words = tuple(f"word{n} " for n in range(5_000))

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        if len(request.messages) == 1:
            return call("note", n=1)
        for at, word in enumerate(self.words):
            emit(TextChunk(text=word))
            if at % 100 == 0:
                await asyncio.sleep(0)
        return say("".join(self.words))


@tool(effect="pure")
def note(n: int) -> str:
    """Note something."""
    return f"noted {n}"


async def test_a_slow_handler_holds_nothing_up_and_misses_no_fact_and_no_word(
    stage: Stage,
) -> None:
    """It is still busy with the first event when the turn has ended; words come joined, all else as it was."""
    seen: list[Event] = []
    async with stage.runtime(Agent("t", model=Talker(), tools=[note])) as rt:

        async def on_event(event: Event) -> None:
            seen.append(event)
            if len(seen) == 1:
                await rt.turn("s", "t").result(timeout=HANGS_S)  # no sooner than this

        result = await rt.session("s").run("Go.", turn_id="t", on_event=on_event)

    assert [name for name in names(seen) if name != "TextDelta"] == [
        "ModelStarted", "UsageReported", "ModelFinished", "ToolStarted", "ToolFinished",
        "ModelStarted", "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip
    assert shown_text(seen) == "".join(Talker.words) == result.text
    assert names(seen).count("TextDelta") < 100


# --- a handler that raises, and one that is left ------------------------------------------------------


def raising(at: str, *, is_awaited: bool) -> EventHandler:
    def on_event(event: Event) -> None:
        if type(event).__name__ == at:
            raise OddHandlerError(at)

    async def on_event_later(event: Event) -> None:
        await asyncio.sleep(0)
        on_event(event)

    return on_event_later if is_awaited else on_event


@pytest.mark.parametrize("is_awaited", [False, True])
@pytest.mark.parametrize("at", ["ModelStarted", "ToolStarted", "ToolFinished", "TurnEnded"])
async def test_what_a_handler_raises_reaches_the_caller_and_the_turn_goes_on(
    stage: Stage, at: str, is_awaited: bool
) -> None:
    async with stage.runtime(working()) as rt:
        with pytest.raises(OddHandlerError, match=at):
            await rt.session("s").run(
                "Go.", turn_id="t", on_event=raising(at, is_awaited=is_awaited)
            )
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        again = await rt.session("s").run("Go.", turn_id="t")

    assert result.outcome == again.outcome == Finished(text="All done.")


async def test_a_turn_whose_handler_is_cancelled_goes_on(stage: Stage) -> None:
    desk, entered = Desk(is_open=False), asyncio.Event()

    async def on_event(event: Event) -> None:
        entered.set()
        await asyncio.Event().wait()  # for ever

    async with stage.runtime(working(desk)) as rt:
        running = asyncio.get_running_loop().create_task(
            rt.session("s").run("Go.", turn_id="t", on_event=on_event)
        )
        await entered.wait()
        await desk.entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        desk.gate.set()
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "All done."


# --- with the rest of run ---------------------------------------------------------------------------


async def test_a_turn_that_may_not_begin_calls_no_handler(stage: Stage) -> None:
    seen: list[Event] = []
    async with stage.runtime(payer(Desk(), script())) as rt:
        await rt.session("s").run("Pay.", turn_id="t")
        with pytest.raises(SessionParked):
            await rt.session("s").run("More.", on_event=seen.append)

    assert seen == []


@pytest.mark.parametrize("given", [5, "print", [print]])
async def test_what_cannot_be_called_is_refused_before_the_turn_is_accepted(
    memory_stage: Stage, given: object
) -> None:
    async with memory_stage.runtime(working()) as rt:
        with pytest.raises(
            InvalidInput, match=r"on_event: found .*, wanted a function of one event"
        ):
            await rt.session("s").run("Go.", turn_id="t", on_event=given)  # type: ignore[call-overload]  # that is the point
        with pytest.raises(UnknownSession):
            await rt.turn("s", "t").status()


@pytest.mark.parametrize("method", ["submit", "stream", "collect"])
async def test_a_handler_has_no_place_where_nobody_waits_or_the_events_are_given_back(
    memory_stage: Stage, method: str
) -> None:
    async def use(rt: Runtime[str]) -> None:
        made = getattr(rt.session("s"), method)("Go.", on_event=print)
        if isinstance(made, Awaitable):
            await made
        else:
            async with made:
                pass

    async with memory_stage.runtime(working()) as rt:
        with pytest.raises(TypeError, match="unexpected keyword argument 'on_event'"):
            await use(rt)


async def test_an_agent_that_runs_by_itself_takes_a_handler_too() -> None:
    seen: list[Event] = []
    result = await working().run("Go.", on_event=awaited(seen))

    assert names(seen) == ORDER
    assert result.text == "All done."


def test_code_that_does_not_await_takes_a_handler_too() -> None:
    seen: list[Event] = []
    result: TurnResult[str] = Agent("a", model=ScriptedModel([say("Hi.")])).run_sync(
        "Go.", on_event=awaited(seen)
    )

    assert names(seen)[-1] == "TurnEnded"
    assert result.text == "Hi."
    with pytest.raises(OddHandlerError):
        Agent("a", model=ScriptedModel([say("Hi.")])).run_sync(
            "Go.", on_event=raising("ModelStarted", is_awaited=False)
        )


@dataclass
class Shop:
    name: str


async def test_a_collected_turn_may_have_an_output_of_its_own(memory_stage: Stage) -> None:
    agent = Agent("a", model=ScriptedModel([say('{"name": "Ann"}')]))
    async with memory_stage.runtime(agent) as rt:
        _, result = await rt.session("s").collect("Who?", output_type=Shop)

    assert result.output == Shop("Ann")


class TidiedStore(MemoryStore):
    """While a session is looked up, its worker tidies its feeds."""

    runtime: Runtime[str]

    async def load_session(
        self, session_id: str, *, history: bool = True, frame: bool = False
    ) -> SessionView:
        self.runtime._services.feeds.tidy()
        return await super().load_session(session_id, history=history, frame=frame)


@pytest.mark.parametrize("way", ["stream", "collect"])
async def test_a_feed_is_not_tidied_away_under_a_turn_that_begins(way: str) -> None:
    store = TidiedStore()
    async with Runtime(working(), store=store) as rt:
        store.runtime = rt
        if way == "collect":
            shown, _ = await rt.session("s").collect("Go.")
        else:
            async with rt.session("s").stream("Go.") as turn:
                shown = tuple([event async for event in turn])

    assert names(shown) == ORDER
