"""Hooks that are recorded nowhere: what is shown on the way, and what is told beside the turn."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.playing import page_bytes
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, Runtime, tool
from windlass.errors import Unavailable
from windlass.kernel import ModelReply, ModelRequest, events
from windlass.kernel.outcomes import Finished
from windlass.ports.directives import Retry
from windlass.ports.model import EmitModelEvent, TextChunk
from windlass.ports.plugin import Chunk, CommittedTurn, Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import ScriptedModel, call, say


class Talker:
    """A model that speaks in pieces, and may be held after the first."""

    name = "talker"

    def __init__(self, *, is_held: bool = False) -> None:
        self.spoke = asyncio.Event()
        self.gate = asyncio.Event()
        if not is_held:
            self.gate.set()

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        emit(TextChunk(text="My secret "))
        self.spoke.set()
        await self.gate.wait()
        emit(TextChunk(text="is safe."))
        return ModelReply(text="My secret is safe.")


class Hushes(Plugin):
    """Shows a piece without its secret, and wants to keep something of it, which nobody does."""

    def __init__(self, saw: list[str]) -> None:
        self._saw = saw

    def on_stream(self, turn: PluginTurn, chunk: Chunk) -> Chunk:
        self._saw.append(chunk.text)
        turn.remember(saw=chunk.text)
        return TextChunk(text=chunk.text.replace("secret", "******"))


class Mutters(Plugin):
    def on_stream(self, turn: PluginTurn, chunk: Chunk) -> Chunk | None:
        if "secret" in chunk.text:
            raise ValueError(chunk.text)
        return None


async def shown_by(stage: Stage, plugin: Plugin) -> tuple[list[str], Any]:
    agent = Agent("a", model=Talker(), plugins=[plugin])
    async with stage.runtime(agent) as rt:
        async with rt.session("s").stream("Go.", turn_id="t") as turn:
            seen = [one.text async for one in turn if isinstance(one, events.TextDelta)]
        return seen, await rt.turn("s", "t").result(timeout=HANGS_S)


async def test_a_piece_of_a_reply_is_shown_as_a_plugin_wants_and_kept_as_it_was(
    stage: Stage,
) -> None:
    saw: list[str] = []
    seen, result = await shown_by(stage, Hushes(saw))

    assert "".join(seen) == "My ****** is safe."
    assert saw == ["My secret ", "is safe."]
    assert result.text == "My secret is safe."


async def test_a_piece_on_which_a_plugin_fails_is_not_shown_and_nothing_else_is_lost(
    stage: Stage,
) -> None:
    seen, result = await shown_by(stage, Mutters())

    assert seen == ["is safe."]
    assert result.text == "My secret is safe."
    assert [issue.message for issue in result.issues] == [
        "the plugin mutters raised ValueError in on_stream"
    ]


class Babbles(Plugin):
    """Answers with what is no piece of a reply."""

    name = "babbles"

    def __init__(self, said: Any) -> None:  # noqa: ANN401 - whatever a plugin gives
        self._said = said

    def on_stream(self, _turn: PluginTurn, _chunk: Chunk) -> Any:  # noqa: ANN401 - the same
        return self._said


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("a text", "on_stream: found str, wanted TextChunk or ReasoningChunk or CallChunk"),
        (TextChunk(text=5), "on_stream.text: found int, wanted text"),  # type: ignore[arg-type]  # the point
        (
            TextChunk(text="\ud800"),
            "on_stream.text: found a lone surrogate at character 0, wanted text without it",
        ),
    ],
    ids=["no chunk", "no text", "no clean text"],
)
async def test_a_piece_for_which_a_plugin_gives_nonsense_is_not_shown_and_the_reply_stays(
    stage: Stage, said: object, why: str
) -> None:
    seen, result = await shown_by(stage, Babbles(said))

    assert seen == []
    assert result.text == "My secret is safe."
    assert [issue.message for issue in result.issues] == [
        f"the plugin babbles gave something that cannot be used: {why}"
    ]


async def is_running(rt: Runtime[Any]) -> bool:
    view = await rt._services.store.load_turn("s", "t")
    return view is not None and view.state == "running"


async def test_what_was_shown_before_a_crash_is_shown_again_and_kept_once(stage: Stage) -> None:
    saw: list[str] = []
    held = Talker(is_held=True)
    async with stage.runtime(Agent("a", model=held, plugins=[Hushes(saw)])) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await held.spoke.wait()
        # The beginning of the turn is on disk; without it another worker would begin it anew, and race with this one.
        await until(lambda: is_running(lost))
        stage.kill(lost)
        async with stage.runtime(Agent("a", model=Talker(), plugins=[Hushes(saw)])) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
            page = (await rt._services.store.load_session("s")).pages[0]
            assert saw == ["My secret ", "My secret ", "is safe."]
            async with stage.runtime(Agent("a", model=Talker(), plugins=[Hushes([])])) as other:
                await other.session("o").run("Go.", turn_id="t")
                calm = (await other._services.store.load_session("o")).pages[0]
        held.gate.set()

    assert page.nodes[1].message.parts == calm.nodes[1].message.parts  # type: ignore[union-attr]  # records
    assert len(page.nodes) == 2  # and no memory of what was only shown
    assert page_bytes(page).count(b"secret") == 2  # the message and the outcome


# ---------------------------------------------------------------------- beside the turn


class Told(Plugin):
    """Notes what it is told, and fails afterwards if it is to."""

    def __init__(self, notes: list[Any], *, fails: bool = False) -> None:
        self._notes = notes
        self._fails = fails

    async def on_session_open(self, agent: str, session_id: str) -> None:
        self._note(("open", agent, session_id))

    async def after_commit(self, ended: CommittedTurn) -> None:
        self._note((ended.agent, ended.session_id, ended.turn_id, ended.outcome))

    def _note(self, what: Any) -> None:  # noqa: ANN401 - a note
        self._notes.append(what)
        if self._fails:
            raise ValueError("sk-live-4242")


OPENED = ("open", "a", "s")


def done(turn_id: str) -> Any:  # noqa: ANN401 - a note
    return ("a", "s", turn_id, Finished(text="Done."))


@pytest.mark.parametrize("fails", [False, True], ids=["well", "badly"])
async def test_a_plugin_is_told_of_the_session_once_and_of_every_turn(
    fails: bool, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="windlass")
    notes: list[Any] = []
    agent = Agent("a", model=ScriptedModel([say("Done.")] * 2), plugins=[Told(notes, fails=fails)])
    async with stage.runtime(agent) as rt:
        one = await rt.session("s").run("Go.", turn_id="t1")
        two = await rt.session("s").run("On.", turn_id="t2")
        await until(lambda: len(notes) == 3)

    assert sorted(notes, key=str) == sorted([OPENED, done("t1"), done("t2")], key=str)
    assert (one.text, two.text, one.issues, two.issues) == ("Done.", "Done.", (), ())


async def test_after_a_crash_a_session_is_opened_again_and_a_commit_is_told_by_who_made_it(
    stage: Stage,
) -> None:
    notes: list[Any] = []
    desk = Desk(is_open=False)

    def agent(at: Desk) -> Agent[Any, Any]:
        @tool(effect="keyed")
        async def work() -> str:
            """Work."""
            await at.work()
            return "worked"

        model = ScriptedModel([call("work"), say("Done.")])
        return Agent("a", model=model, tools=[work], plugins=[Told(notes)])

    async with stage.runtime(agent(desk)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        assert notes == [OPENED]
        stage.kill(lost)
        async with stage.runtime(agent(Desk())) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            await until(lambda: len(notes) == 3)
        desk.gate.set()

    assert notes == [OPENED, OPENED, done("t")]
    assert result.text == "Done."


async def test_a_slow_listener_holds_up_no_turn(stage: Stage) -> None:
    gate, told = asyncio.Event(), asyncio.Event()

    async def after_commit(_ended: CommittedTurn) -> None:
        told.set()
        await gate.wait()

    async def on_session_open(_agent: str, _session: str) -> None:
        await gate.wait()

    slow = hooked("slow", after_commit=after_commit, on_session_open=on_session_open)
    agent = Agent("a", model=ScriptedModel([say("Done.")] * 2), plugins=[slow])
    async with stage.runtime(agent) as rt:
        assert (await rt.session("s").run("Go.", turn_id="t1")).text == "Done."
        await told.wait()
        assert (await rt.session("s").run("On.", turn_id="t2")).text == "Done."
        gate.set()


async def test_a_model_that_starts_over_takes_back_what_a_plugin_let_through(
    stage: Stage,
) -> None:
    class Stutters(Talker):
        async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
            if "Again." not in str(request.messages[-1]):
                emit(TextChunk(text="My secret"))
                raise Unavailable("Gone.")
            return await super().complete(request, emit)

    plugins = [Hushes([]), hooked("again", on_error=Retry("Again."))]
    async with (
        stage.runtime(Agent("a", model=Stutters(), plugins=plugins)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = [
            getattr(one, "text", type(one).__name__)
            async for one in turn
            if isinstance(one, (events.TextDelta, events.Retracted, events.Retrying))
        ]

    # Pieces that nobody waited for are shown together, or not at all if they were taken back.
    after = seen.index("Retracted")
    assert seen[after + 1] == "Retrying"
    assert "".join(seen[after + 2 :]) == "My ****** is safe."
    assert "secret" not in str(seen)
