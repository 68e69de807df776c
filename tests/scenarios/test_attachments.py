"""Attachments: bytes go in and come out by reference, and too long a text is kept whole beside its cut."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from tests.scenarios.stage import Stage
from windlass import Agent, Attachment, Text, ToolContext, tool
from windlass.errors import CallerError, InvalidInput, PathDenied, WindlassError
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel import ToolResult, messages
from windlass.testing import ScriptedModel, call, say

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 100
DIGEST = sha256(PNG).hexdigest()


def seer(model: ScriptedModel) -> Agent[None, str]:
    @tool(effect="pure")
    async def photo(ctx: ToolContext[None]) -> list[object]:
        """Take a photo."""
        return ["A photo.", await ctx.attach(PNG, media_type="image/png", name="p.png")]

    @tool(effect="once", output_limit=64)
    async def novel() -> str:
        """Write."""
        return "word " * 1_000

    return Agent("seer", model=model, tools=[photo, novel])


def attached(parts: tuple[object, ...]) -> list[messages.Attachment]:
    return [part for part in parts if isinstance(part, messages.Attachment)]


@pytest.mark.parametrize("source", ["bytes", "path"])
async def test_an_image_in_the_input_reaches_the_model_and_the_history(
    stage: Stage, tmp_path: Path, source: str
) -> None:
    file = tmp_path / "p.png"
    file.write_bytes(PNG)
    image = (
        Attachment.from_path(file)
        if source == "path"
        else Attachment.from_bytes(PNG, media_type="image/png", name="p.png")
    )
    model = ScriptedModel([say("Nice.")])
    async with stage.runtime(seer(model)) as rt:
        result = await rt.session("s").run([Text(text="What is this?"), image], turn_id="t")
    async with stage.runtime(seer(model)) as rt:
        again = await rt.session("s").run([Text(text="What is this?"), image], turn_id="t")
        history = await rt.session("s").history()
        data = await rt._services.store.get_blob(DIGEST)

    wanted = messages.Attachment(ref=DIGEST, media_type="image/png", name="p.png", n_bytes=108)
    assert attached(model.requests[0].messages[0].parts) == [wanted]
    assert attached(history[0].parts) == [wanted]
    assert data == PNG
    assert result.text == again.text == "Nice."
    assert len(model.requests) == 1  # the same bytes are the same request


async def test_an_image_in_a_result_reaches_the_model_and_survives(stage: Stage) -> None:
    model = ScriptedModel([call("photo"), say("Nice."), say("Still nice.")])
    async with stage.runtime(seer(model)) as rt:
        await rt.session("s").run("Look.", turn_id="t")
    stage.later(10 * 86_400)
    async with stage.runtime(seer(model)) as rt:
        await rt.vacuum()  # what a history refers to stays
        await rt.session("s").run("And?", turn_id="t2")
        data = await rt._services.store.get_blob(DIGEST)

    for request in model.requests[1:]:
        (result,) = [
            part
            for message in request.messages
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
        assert result.content[0] == Text(text="A photo.")
        assert [part.ref for part in attached(result.content)] == [DIGEST]
    assert data == PNG


async def test_a_text_over_its_limit_is_cut_for_the_model_and_kept_whole(stage: Stage) -> None:
    model = ScriptedModel([call("novel"), say("Read.")])
    async with stage.runtime(seer(model)) as rt:
        result = await rt.session("s").run("Write.", turn_id="t")
        (part,) = model.requests[1].messages[-1].parts
        assert isinstance(part, ToolResult)
        shown = "".join(one.text for one in part.content if isinstance(one, Text))
        kept = attached(result.tool_calls[0].outcome.content)
        data = await rt._services.store.get_blob(kept[0].ref)

    assert len(shown.encode()) <= 64 + 200  # the cut itself says that it is one
    assert shown.startswith("word word")
    assert data == ("word " * 1_000).encode()
    assert (kept[0].media_type, kept[0].name, kept[0].n_bytes) == (
        "text/plain",
        "full-output",
        5_000,
    )


def test_a_path_that_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    for bad in (tmp_path, tmp_path / "absent"):
        with pytest.raises(PathDenied):
            Attachment.from_path(bad)


@pytest.mark.parametrize("bad", ["text", 7, None, bytearray(b"x")])
def test_an_attachment_is_made_of_bytes(bad: bytes) -> None:
    with pytest.raises(CallerError):
        Attachment.from_bytes(bad)


def test_an_attachment_that_is_too_large_is_refused_before_it_is_kept() -> None:
    with pytest.raises(WindlassError):
        Attachment.from_bytes(bytes(INPUT_LIMITS.attachment_bytes + 1))


async def test_a_reference_to_bytes_that_are_nowhere_is_refused_at_the_door(
    stage: Stage,
) -> None:
    lost = messages.Attachment(ref="ab" * 32, media_type="image/png")
    async with stage.runtime(seer(ScriptedModel([say("?")]))) as rt:
        with pytest.raises(WindlassError):
            await rt.session("s").run(["Look.", lost], turn_id="t")
        result = await rt.session("s").run("Look.", turn_id="t2")

    assert result.text == "?"


@pytest.mark.parametrize(
    ("data", "options", "field"),
    [
        (b"", {"media_type": "image/png"}, "Upload.data"),
        (b"<html>", {"media_type": "image/png"}, "Upload.data"),
        (b"x", {"media_type": "text/html\r\nX: y"}, "Upload.media_type"),
        (b"x", {"media_type": ""}, "Upload.media_type"),
        (b"x", {"name": "../../etc/passwd"}, "Upload.name"),
        (b"x", {"name": "x" * 5_000}, "Upload.name"),
    ],
)
def test_a_file_that_no_provider_takes_is_refused_at_the_door(
    data: bytes, options: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Attachment.from_bytes(data, **options)

    assert refused.value.field == field


async def test_an_attachment_that_is_given_by_its_ref_is_looked_at_as_well(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=ScriptedModel([say("ok")]))) as rt:
        odd = messages.Attachment(ref="ab" * 32, media_type="text/html\r\nX: y")
        with pytest.raises(InvalidInput) as refused:
            await rt.session("s").run([Text(text="Look."), odd])

    assert refused.value.field == "input[1].media_type"


async def test_a_tool_cannot_attach_what_no_provider_takes(stage: Stage) -> None:
    refused: list[str | None] = []

    @tool(effect="pure")
    async def act(ctx: ToolContext[None]) -> list[object]:
        """Act."""
        for data, media_type, name in (
            (b"", "image/png", None),
            (b"x", "nothing", None),
            (b"x", "text/plain", "a/b"),
        ):
            try:
                await ctx.attach(data, media_type=media_type, name=name)
            except InvalidInput as error:
                refused.append(error.field)
        good = await ctx.attach(b"x", media_type="text/plain", name="a.txt")
        return ["kept", msgspec.structs.replace(good, name="a/b")]

    agent = Agent("a", model=ScriptedModel([call("act"), say("done")]), tools=[act])
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert refused == ["data", "media_type", "name"]
    note = (
        "(It succeeded; 1 of its attachments are left out: not kept anywhere, or of a media type or "
        "name that is none.)"
    )
    assert result.tool_calls[0].outcome.content == (Text(text="kept"), Text(text=note))
