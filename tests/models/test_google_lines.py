"""How the lines of a stream are cut: as its standard says, whatever stands in them."""

from __future__ import annotations

import httpx2
import pytest

from tests.models.behaviours import ask
from tests.models.google_cases import Google, request
from tests.models.wire_google import ended, said, stream
from tests.models.wire_server import Cut, Played, every_byte, in_random_pieces, whole
from windlass.errors import LimitExceeded, Unavailable
from windlass.models.server_events import MAX_EVENT_BYTES

GOOGLE = Google()


@pytest.mark.parametrize("cut", [whole, every_byte, in_random_pieces(1)])
async def test_text_with_other_line_ends_in_it_is_one_text(cut: Cut) -> None:
    words = "one\u2028two\u2029three\u0085four\x7f"
    answer = stream(said({"text": words}), ended())._replace(cut=cut)
    async with GOOGLE.playing(answer) as (_, model):
        reply, _ = await ask(model, request())
    assert reply.text == words


@pytest.mark.parametrize("cut", [whole, every_byte, in_random_pieces(1)])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\r\n", b"\n"),
        (b"\r\n", b"\r"),
        (b"data: ", b"data:"),
        (b"data: ", b": are you there?\r\ndata: "),
        (b"data: ", b"event: message\r\nid: 7\r\nretry: 3\r\ndata: "),
        (b", ", b", \r\ndata: "),
    ],
    ids=["LF", "CR", "no blank", "comments", "other fields", "data over several lines"],
)
async def test_events_are_read_as_their_standard_writes_them(
    old: bytes, new: bytes, cut: Cut
) -> None:
    answer = stream(said({"text": "Hel"}), ended({"text": "lo"}))
    spoilt = answer._replace(body=answer.body.replace(old, new), cut=cut)
    async with GOOGLE.playing(spoilt) as (_, model):
        reply, _ = await ask(model, request())
    assert (reply.text, reply.terminal) == ("Hello", "stop")


@pytest.mark.parametrize("owner", ["the model's client", "a client of one's own"])
async def test_a_line_without_an_end_is_over_the_limit(owner: str) -> None:
    endless = Played(b'data: {"x": "' + b"x" * (MAX_EVENT_BYTES + 1))
    async with httpx2.AsyncClient() as http:
        own = {"http_client": http} if owner == "a client of one's own" else {}
        async with GOOGLE.playing(endless, **own) as (_, model):
            with pytest.raises(LimitExceeded):
                await ask(model, request())


async def test_a_client_of_ones_own_that_loses_the_stream_is_passing() -> None:
    body = stream(said({"text": "a \\ \u00e9"}), said({"text": "b"})).body
    places = range(1, len(body) // 2, 7)
    async with httpx2.AsyncClient() as http:
        answers = [Played(body[:place]) for place in places]
        async with GOOGLE.playing(answers, http_client=http) as (_, model):
            for _ in places:
                with pytest.raises(Unavailable, match="broke off"):
                    await ask(model, request())


async def test_what_comes_behind_a_finish_still_belongs_to_the_reply() -> None:
    first = ended({"text": "Hel"})
    async with GOOGLE.playing(stream(first, ended({"text": "lo."}))) as (_, model):
        reply, _ = await ask(model, request())
    assert (reply.text, reply.terminal) == ("Hello.", "stop")
