"""The compaction plugin in a runtime: near the window a new frame is opened by itself, over it the work goes on there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Stage, until
from tests.scenarios.summing import is_wish
from windlass import Agent, Runtime, Session
from windlass.journal import FrameOpened
from windlass.kernel import ModelReply, ModelRequest, Usage
from windlass.kernel.outcomes import Finished, Outcome, Stopped
from windlass.kernel.summary import SEED
from windlass.plugins.compaction import CONTINUE, Compaction
from windlass.plugins.context_window import ContextWindow
from windlass.ports.model import EmitModelEvent, TextChunk
from windlass.ports.plugin import Plugin
from windlass.testing import FunctionModel, Scenario, kill_everywhere
from windlass.testing.provider_rules import broken_rules

FULL = ModelReply(terminal="context_overflow")
OVERFLOWN = repr(
    Stopped(
        reason="provider_error",
        detail="The request no longer fits the model's context window.",
    )
)
WINDOW = 1_000
SUMMARY = "<summary>SUM</summary>"


class Mind:
    """Says what it was told to, in order, with how much it read; sums up when it is asked to."""

    def __init__(self, *replies: ModelReply, summary: ModelReply | str = SUMMARY) -> None:
        self.replies = list(replies)
        self.summary = summary
        self.model = FunctionModel(self._answer, name="m")
        # Replies come while this is set.
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def _answer(self, request: ModelRequest) -> ModelReply | str:
        await self.may_answer.wait()
        if is_wish(request):
            return self.summary
        return self.replies.pop(0) if self.replies else "Fine."

    @property
    def wishes(self) -> list[ModelRequest]:
        return [request for request in self.model.requests if is_wish(request)]

    @property
    def talk(self) -> list[list[str]]:
        """What the user had said in each request that was no wish."""
        return [said_by_user(one) for one in self.model.requests if not is_wish(one)]


def read(tokens: int, text: str = "Fine.") -> ModelReply:
    return ModelReply(text=text, usage=Usage(input_tokens=tokens))


def agent(mind: Mind, *plugins: Plugin, **settings: Any) -> Agent[None, str]:
    compaction = Compaction(**{"window": WINDOW, "keep": 0, **settings})
    return Agent("a", model=mind.model, plugins=[compaction, *plugins])


async def idle(runtime: Runtime[Any], session: Session[Any]) -> None:
    """Wait until nothing waits to enter, and nothing runs."""

    async def is_idle() -> bool:
        view = await runtime._services.store.load_session(session.id, history=False)
        return not (await session.inbox()).items and view.active is None and not view.queued

    await until(is_idle)


async def outcomes(runtime: Runtime[Any], session_id: str = "s") -> list[Outcome]:
    view = await runtime._services.store.load_session(session_id)
    return [page.outcome for page in view.pages]


async def test_near_the_window_a_frame_is_opened_after_the_turn(stage: Stage) -> None:
    mind = Mind(read(799), read(800))
    async with stage.runtime(agent(mind, instructions="Keep prices.")) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        await idle(rt, session)
        assert mind.wishes == []
        await session.run("Two.", turn_id="t2")
        await idle(rt, session)
        await session.run("Three.", turn_id="t3")
        nodes = await session.nodes()

    (wish,) = mind.wishes
    assert said_by_user(wish)[-1].endswith("\nBesides: Keep prices.")
    assert mind.talk == [["One."], ["One.", "Two."], [f"{SEED}SUM", "Three."]]
    assert sum(isinstance(node.body, FrameOpened) for node in nodes) == 1
    for request in mind.model.requests:
        assert broken_rules(request) == []


async def test_a_turn_that_ran_over_the_window_goes_on_in_the_new_frame(stage: Stage) -> None:
    mind = Mind(read(100), FULL, read(100, "Done."))
    async with stage.runtime(agent(mind)) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        result = await session.run("Two.", turn_id="t2")
        await idle(rt, session)
        ends = await outcomes(rt)

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "provider_error"
    assert mind.talk == [["One."], ["One.", "Two."], [f"{SEED}SUM", CONTINUE]]
    assert ends[2:] == [Finished(text="SUM"), Finished(text="Done.")]


async def test_a_compaction_asks_for_no_compaction(stage: Stage) -> None:
    """Its own request was near the window, too: that is why it was made."""
    summary = ModelReply(text=SUMMARY, usage=Usage(input_tokens=950))
    mind = Mind(read(900), summary=summary)
    async with stage.runtime(agent(mind)) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        await idle(rt, session)
        await session.compact()
        ends = await outcomes(rt)

    assert len(mind.wishes) == 1
    assert ends == [Finished(text="Fine."), Finished(text="SUM"), Finished(text="")]


async def test_compactions_that_fail_and_overflows_do_not_keep_each_other_going(
    stage: Stage,
) -> None:
    mind = Mind(*[FULL] * 9, summary=ModelReply(text="<summary>SU", terminal="output_limit"))
    async with stage.runtime(agent(mind)) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        await idle(rt, session)
        ends = await outcomes(rt)
        history = await session.history()
        last = (await rt._services.store.load_session("s")).pages[-1]

    reasons = [end.reason for end in ends if isinstance(end, Stopped)]
    assert reasons == ["provider_error", "incomplete"] * 2 + ["provider_error"]
    assert len(history) == 3  # the input, and twice the wish to continue
    assert [getattr(event, "message", "") for event in last.events] == [
        "The request no longer fits the model's context window.",
        (
            "compaction: 2 in a row opened no new frame (the summary was cut off at its output limit); "
            "the next waits until the history has grown"
        ),
    ]


async def test_work_that_never_fits_stops_by_itself(stage: Stage) -> None:
    mind = Mind(*[FULL] * 9)
    async with stage.runtime(agent(mind)) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        await idle(rt, session)

    assert len(mind.talk) == 3
    assert len(mind.wishes) == 3


async def test_what_waited_before_the_overflow_does_not_lead_to_a_second_summary_of_nothing(
    stage: Stage,
) -> None:
    """An input that was queued first runs first, over the window as well: one new frame serves both."""
    mind = Mind(FULL, FULL)
    async with stage.runtime(agent(mind)) as rt:
        session = rt.session("s")
        mind.may_answer.clear()
        first = await session.submit("One.", turn_id="t1")
        await session.submit("Two.", turn_id="t2")
        mind.may_answer.set()
        await first.result(timeout=HANGS_S)
        await idle(rt, session)
        ends = await outcomes(rt)

    assert len(mind.wishes) == 1
    assert ends.count(Finished(text="")) == 1  # the second wish found a newer frame
    assert mind.talk[2][0] == f"{SEED}SUM"


class Spy(Plugin):
    """Notes which hooks run in which turn, and counts turns in its memory."""

    name = "spy"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.counts: list[int] = []

    async def on_session_open(self, agent: str, session_id: str) -> None:
        pass

    async def on_input(self, turn: Any, parts: Any) -> None:  # noqa: ANN401 - whatever it is
        self._note(turn, "on_input")

    async def before_turn(self, turn: Any) -> None:  # noqa: ANN401
        self._note(turn, "before_turn")

    async def prompt(self, turn: Any) -> None:  # noqa: ANN401
        self._note(turn, "prompt")

    async def view(self, turn: Any) -> None:  # noqa: ANN401
        self._note(turn, "view")

    async def before_model(self, turn: Any, request: Any) -> None:  # noqa: ANN401
        self._note(turn, "before_model")

    def on_stream(self, turn: Any, chunk: Any) -> None:  # noqa: ANN401
        self._note(turn, "on_stream")

    async def after_model(self, turn: Any, reply: Any) -> None:  # noqa: ANN401
        self._note(turn, "after_model")
        self.counts.append(turn.memory.get("replies", 0))
        turn.remember(replies=turn.memory.get("replies", 0) + 1)

    async def at_checkpoint(self, turn: Any, at: Any) -> None:  # noqa: ANN401
        self._note(turn, "at_checkpoint")

    async def after_turn(self, turn: Any, outcome: Any) -> None:  # noqa: ANN401
        self._note(turn, "after_turn")

    async def after_commit(self, ended: Any) -> None:  # noqa: ANN401
        self._note(ended, "after_commit")

    def _note(self, turn: Any, hook: str) -> None:  # noqa: ANN401
        self.seen.append((turn.turn_id, hook))


class Streaming(FunctionModel):
    """Shows what it says."""

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        reply = await super().complete(request, emit)
        emit(TextChunk(text=reply.text))
        return reply


async def test_in_a_compaction_only_the_hooks_of_its_model_call_run_and_memories_go_on(
    stage: Stage,
) -> None:
    spy = Spy()
    model = Streaming(lambda request: SUMMARY if is_wish(request) else "Fine.", name="m")
    async with stage.runtime(Agent("a", model=model, plugins=[spy])) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        await session.compact(turn_id="c")
        await session.run("Two.", turn_id="t2")
        await until(lambda: ("t2", "after_commit") in spy.seen)

    seen = [hook for turn, hook in spy.seen if turn == "c"]
    assert seen == ["before_model", "on_stream", "after_model", "after_commit"]
    assert "after_turn" in [hook for turn, hook in spy.seen if turn == "t2"]
    assert spy.counts == [0, 1, 2]


async def test_with_the_window_known_a_history_that_overflowed_is_shortened_before_it_is_sent(
    stage: Stage,
) -> None:
    long = "word " * 2_000
    mind = Mind(FULL, read(100))
    async with stage.runtime(agent(mind)) as rt:
        session = rt.session("s")
        await session.run(long, turn_id="t1")
        await idle(rt, session)

    (wish,) = mind.wishes
    assert sum(map(len, said_by_user(wish))) < WINDOW * 3
    assert len(mind.talk) == 2


async def test_a_window_that_trims_never_hides_the_summary(stage: Stage) -> None:
    mind = Mind()
    window = ContextWindow(window=400, reserve=100)
    async with stage.runtime(agent(mind, window, window=400, at=0.6)) as rt:
        session = rt.session("s")
        for at in range(12):
            await session.run(f"Question {at}. " + "word " * 60, turn_id=f"t{at}")
            await idle(rt, session)

    assert len(mind.wishes) > 2
    for request in mind.model.requests:
        assert broken_rules(request) == []
    first = next(at for at, talk in enumerate(mind.talk) if talk[0].startswith(SEED))
    assert all(talk[0].startswith(SEED) for talk in mind.talk[first:])


# ---------------------------------------------------------------------- crashes


def overflowing() -> Callable[[], Scenario]:
    async def program(rt: Runtime[Any]) -> list[str]:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        await session.run("Two.", turn_id="t2")
        await idle(rt, session)
        kinds = [type(node.body).__name__ for node in await session.nodes()]
        return [*kinds, *(repr(end) for end in await outcomes(rt))]

    def answer(request: ModelRequest) -> ModelReply | str:
        if is_wish(request):
            return SUMMARY
        return FULL if said_by_user(request)[-1] == "Two." else "Fine."

    def make() -> Scenario:
        def agents() -> Agent[None, str]:
            mind = Mind()
            mind.model = FunctionModel(answer, name="m")
            return agent(mind)

        def check(result: list[str]) -> None:
            assert result == [
                "ConversationRecord",
                "ConversationRecord",
                "ConversationRecord",
                "PluginRemembered",
                "FrameOpened",
                "ConversationRecord",
                "PluginRemembered",
                "ConversationRecord",
                "ConversationRecord",
                "PluginRemembered",
                "Finished(text='Fine.')",
                OVERFLOWN,
                "Finished(text='SUM')",
                "Finished(text='Fine.')",
            ]

        return Scenario(agents=agents, run=program, check=check, allow_unknown=False)

    return make


async def test_killed_anywhere_the_overflow_the_frame_and_the_work_come_once_each() -> None:
    report = await kill_everywhere(overflowing())

    assert (report.unknown, report.missed, report.left_out) == ((), (), 0)
