"""How the lines of a stream are cut: as its standard says, whatever stands in them."""

from __future__ import annotations

import pytest

from tests.models.behaviours import ask
from tests.models.google_cases import Google, request
from tests.models.wire_google import ended, said, stream
from tests.models.wire_server import Cut, Played, every_byte, in_random_pieces, whole
from windlass.errors import Malformed
from windlass.models.google_lines import MAX_LINE

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


async def test_a_line_without_an_end_is_malformed() -> None:
    endless = Played(b'data: {"x": "' + b"x" * (MAX_LINE + 1))
    assert type(await GOOGLE.fault(endless)) is Malformed
