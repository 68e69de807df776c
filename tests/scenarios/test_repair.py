"""A session whose history a provider rejects goes on: what it rejects is hidden, the rest is kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.stage import Stage
from windlass import Agent, Attachment, Runtime, Text, ToolContext, tool
from windlass.api.turn_options import Input
from windlass.errors import InvalidInput, Rejected
from windlass.journal import FrameOpened
from windlass.kernel import Attachment as Kept
from windlass.kernel import ModelReply, ModelRequest, ToolResult
from windlass.kernel.outcomes import Finished, Stopped
from windlass.testing import FunctionModel, Scenario, call, kill_everywhere, say
from windlass.testing.crashing.kill_everywhere import StoreKind

PNG = b"\x89PNG\r\n\x1a\n then nothing that is an image"


def files_in(request: ModelRequest) -> int:
    parts = [part for message in request.messages for part in message.parts]
    results = [one for part in parts if isinstance(part, ToolResult) for one in part.content]
    return sum(isinstance(one, Kept) for one in (*parts, *results))


def picky(request: ModelRequest) -> ModelReply:
    """Answer, unless a file is sent: then refuse, as a provider does that cannot read it."""
    if files_in(request):
        raise Rejected("could not process image")
    said = [part.text for one in request.messages for part in one.parts if isinstance(part, Text)]
    return say(" | ".join(said))


def agent() -> Agent[None, str]:
    return Agent("a", model=FunctionModel(picky))


async def rejected(rt: Runtime[None]) -> None:
    session = rt.session("s")
    assert (await session.run("One.", turn_id="t1")).text == "One."
    image = Attachment.from_bytes(PNG, media_type="image/png", name="cat.png")
    inputs: list[Input] = [[Text(text="Look."), image], "Never mind."]
    for number, said in enumerate(inputs, start=2):
        result = await session.run(said, turn_id=f"t{number}")
        assert result.outcome == Stopped(reason="provider_error", detail="could not process image")


async def test_the_names_of_attachments_stand_for_them_and_the_session_goes_on(
    stage: Stage,
) -> None:
    async with stage.runtime(agent()) as rt:
        await rejected(rt)
        session = rt.session("s")
        before = await session.history()
        repaired = await session.repair(attachments=True)
        after = await session.run("And now?")
        history = await session.history()

    assert repaired.outcome == Finished(text="Hidden from the model: 0 messages, 1 attachment.")
    assert after.text == "One. | One. | Look. | [attachment cat.png] | Never mind. | And now?"
    assert history[: len(before)] == before  # nothing of it is gone
    assert len({message.id for message in history}) == len(history)


async def test_one_message_is_hidden_and_the_rest_is_kept(stage: Stage) -> None:
    async with stage.runtime(agent()) as rt:
        await rejected(rt)
        session = rt.session("s")
        [bad] = [one.id for one in await session.frame() if len(one.parts) == 2]
        repaired = await session.repair(hide=[bad])
        after = await session.run("And now?")

    assert repaired.text == "Hidden from the model: 1 message, 1 attachment."
    assert after.text == "One. | One. | Never mind. | And now?"


async def test_an_attachment_in_a_result_is_hidden_and_its_call_stays_answered(
    stage: Stage,
) -> None:
    @tool(effect="pure")
    async def shoot(ctx: ToolContext[None]) -> Kept:
        """Take a picture."""
        return await ctx.attach(PNG, media_type="image/png", name="shot.png")

    def answer(request: ModelRequest) -> ModelReply:
        asked = any(one.role == "assistant" for one in request.messages)
        return picky(request) if asked else call("shoot")

    async with stage.runtime(Agent("a", model=FunctionModel(answer), tools=[shoot])) as rt:
        session = rt.session("s")
        first = await session.run("Shoot.")
        await session.repair(attachments=True)
        after = await session.run("And now?")
        results = [
            part
            for message in await session.frame()
            for part in message.parts
            if isinstance(part, ToolResult)
        ]

    assert isinstance(first.outcome, Stopped)
    assert isinstance(after.outcome, Finished)
    assert [part.content for part in results] == [(Text(text="[attachment shot.png]"),)]


async def test_a_repair_asks_no_model_and_a_second_one_finds_nothing(stage: Stage) -> None:
    model = FunctionModel(picky)
    async with stage.runtime(Agent("a", model=model)) as rt:
        await rejected(rt)
        asked = len(model.requests)
        await rt.session("s").repair(attachments=True)
        again = await rt.session("s").repair(attachments=True)

        assert len(model.requests) == asked
        assert again.outcome == Finished(text="")
        nodes = await rt.session("s").nodes()
        assert sum(isinstance(node.body, FrameOpened) for node in nodes) == 1


async def test_what_cannot_be_hidden_is_refused(stage: Stage) -> None:
    async with stage.runtime(agent()) as rt:
        await rejected(rt)
        session = rt.session("s")
        before = await session.nodes()
        with pytest.raises(InvalidInput) as nothing:
            await session.repair()
        with pytest.raises(InvalidInput) as unknown:
            await session.repair(hide=["m_no.such"])
        after = await session.nodes()

    assert nothing.value.field == "hide"
    assert unknown.value.field == "hide[0]"
    assert after == before


class Killed:
    """What outlives every kill: what the model was asked."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def answer(self, request: ModelRequest) -> ModelReply:
        """Answer as a picky provider."""
        self.requests.append(request)
        return picky(request)


async def _repairing(rt: Runtime[Any]) -> dict[str, Any]:
    session = rt.session("s")
    await rejected(rt)
    repaired = await session.repair(attachments=True, turn_id="repair")
    after = await session.run("And now?", turn_id="t4")
    nodes = await session.nodes()
    return {
        "repaired": repaired.text,
        "after": after.text,
        "turns": list(dict.fromkeys(node.turn_id for node in nodes)),
        "frames": sum(isinstance(node.body, FrameOpened) for node in nodes),
    }


def _scenario() -> Scenario:
    killed = Killed()

    def check(result: dict[str, Any]) -> None:
        assert result == {
            "repaired": "Hidden from the model: 0 messages, 1 attachment.",
            "after": "One. | One. | Look. | [attachment cat.png] | Never mind. | And now?",
            "turns": ["t1", "t2", "t3", "repair", "t4"],
            "frames": 1,
        }
        # The model saw the file until the repair, and not after it.
        sent = [files_in(request) > 0 for request in killed.requests]
        assert sent[-1] is False
        assert sent == sorted(sent[: sent.index(True)]) + [True] * sum(sent) + [False] * (
            len(sent) - sent.index(True) - sum(sent)
        )

    return Scenario(
        agents=lambda: Agent("a", model=FunctionModel(killed.answer, name="m")),
        run=_repairing,
        check=check,
        allow_unknown=False,
    )


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_repair_that_is_killed_anywhere_is_whole_or_not_there_yet(store: StoreKind) -> None:
    report = await kill_everywhere(_scenario, store=store)

    assert (report.unknown, report.missed, report.left_out) == ((), (), 0)
