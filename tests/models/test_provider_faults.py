"""What providers do wrong, one table for every adapter: cases 42 to 55 of the list of bad input.

The rows are in `fault_adapters.py`. Statuses, redirects and broken streams are in `behaviours.py`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.models.behaviours import KEY, ClosableModel, ask
from tests.models.fault_adapters import ADAPTERS, HIGH, LEFT_OUT, LOW, Adapter
from tests.models.wire_server import Played, WireServer, in_random_pieces
from windlass.errors import (
    LimitExceeded,
    Malformed,
    Rejected,
    Throttled,
    Unavailable,
    WindlassError,
)
from windlass.kernel import ModelReply
from windlass.kernel.messages import Text, ToolCall


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test every adapter on whose wire its case can occur."""
    if "adapter" in metafunc.fixturenames:
        test = metafunc.function.__name__
        names = [name for name in ADAPTERS if test not in LEFT_OUT.get(name, {})]
        metafunc.parametrize("adapter", [ADAPTERS[name] for name in names], ids=names)


def test_a_test_that_is_left_out_is_one_of_these() -> None:
    for name, tests in LEFT_OUT.items():
        assert name in ADAPTERS
        assert set(tests) - set(globals()) == set()


@asynccontextmanager
async def served(adapter: Adapter, answer: Played) -> AsyncIterator[ClosableModel]:
    async with WireServer({adapter.endpoint: answer}) as server:
        model = adapter.make(server.url)
        yield model
        await model.aclose()


async def reply_to(adapter: Adapter, answer: Played | bytes) -> ModelReply:
    played = answer if isinstance(answer, Played) else Played(answer)
    async with served(adapter, played) as model:
        reply, _ = await ask(model, adapter.request)
    return reply


async def fault_of(adapter: Adapter, answer: Played | bytes) -> WindlassError:
    played = answer if isinstance(answer, Played) else Played(answer)
    async with served(adapter, played) as model:
        with pytest.raises(WindlassError) as raised:
            await ask(model, adapter.request)
    return raised.value


# --- 42: an answer of another kind ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html><body>Sign in to the hotel's network</body></html>", "text/html"),
        (b"", "text/event-stream"),
        (b"", "text/html"),
        (b'{"object": "list", "data": []}', "application/json"),
        (b"[1, 2]", "application/json"),
        (b"data: {}\n\n", "text/plain"),
        (b"data: {}\n\n", ""),
    ],
)
async def test_42_an_answer_of_another_kind_is_malformed(
    adapter: Adapter, body: bytes, content_type: str
) -> None:
    error = await fault_of(adapter, Played(body, 200, {}, content_type))
    assert type(error) is Malformed
    assert "hotel" not in str(error)


# --- 43: events, spelled otherwise ----------------------------------------------------------------------


def with_comments(body: bytes) -> bytes:
    return (b": still here\n\n" * 500) + body.replace(b"\n\n", b"\n\n: and now\n\n:\n\n")


SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "CR alone": lambda body: body.replace(b"\n", b"\r"),
    "no space after data:": lambda body: body.replace(b"data: ", b"data:"),
    "comments": with_comments,
    "ids": lambda body: body.replace(b"data: ", b"id: 7\ndata: ").replace(b"\n\n", b"\n\n\n\n"),
    "retry": lambda body: b"retry: 3000\n\nid\n\n" + body,
    "a byte order mark": lambda body: b"\xef\xbb\xbf" + body,
    "data in two lines": lambda body: body.replace(b", ", b",\ndata: "),
    "unknown fields": lambda body: body.replace(b"data: ", b"moon: full\ndata: "),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_43_events_may_be_spelled_otherwise(adapter: Adapter, spelling: str) -> None:
    body = SPELLINGS[spelling](adapter.text("Hel", "lo."))
    for seed in range(3):
        reply = await reply_to(adapter, Played(body, cut=in_random_pieces(seed)))
        assert (reply.text, reply.terminal) == ("Hello.", "stop")


async def test_43_an_endless_line_is_over_the_limit(adapter: Adapter) -> None:
    for begin in (b"data: ", b": ", b""):
        error = await fault_of(adapter, begin + b"x" * (10 * 1024 * 1024))
        assert type(error) is LimitExceeded


async def test_43_an_event_that_is_no_text_is_malformed(adapter: Adapter) -> None:
    assert type(await fault_of(adapter, b'data: {"a": "\xff\xfe"}\n\n')) is Malformed


@pytest.mark.parametrize("event", [b"[]", b"7", b'"x"', b"nul", b"{", b'{"a":1}{}', b'{"a":NaN}'])
async def test_43_an_event_that_is_no_object_is_malformed(adapter: Adapter, event: bytes) -> None:
    assert type(await fault_of(adapter, b"data: " + event + b"\n\n")) is Malformed


# --- 44, 45: the end (anywhere else: behaviours.py) -----------------------------------------------------


async def test_45_an_end_that_was_never_said_is_passing(adapter: Adapter) -> None:
    # All of it but the blank line behind the last event.
    whole = adapter.text("Hello.").rstrip(b"\n")
    assert type(await fault_of(adapter, whole)) is Unavailable


async def test_45_what_comes_after_the_end_is_not_read(adapter: Adapter) -> None:
    twice = adapter.text("Hello.") + adapter.text(" Again.") + b"data: {broken\n\n"
    reply = await reply_to(adapter, twice)
    assert (reply.text, reply.terminal) == ("Hello.", "stop")


async def test_45_who_hangs_after_the_end_is_not_waited_for(adapter: Adapter) -> None:
    reply = await reply_to(adapter, Played(adapter.text("Hello."), then="hang"))
    assert reply.text == "Hello."


# --- 46: cut inside of a character or an escape ---------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "city"),
    [
        (('{"city":"Caf\\u00', 'e9"}'), "Café"),
        (('{"city":"\\', 'n"}'), "\n"),
        (('{"city":"\\ud83d', '\\ude00"}'), "😀"),
        (('{"city":"\\ud83d\\u', 'de00"}'), "😀"),
        (("", '{"ci', "", 'ty":"a"', "}", ""), "a"),
    ],
)
async def test_46_arguments_cut_inside_of_an_escape_are_whole(
    adapter: Adapter, pieces: tuple[str, ...], city: str
) -> None:
    reply = await reply_to(adapter, adapter.call(*pieces))
    call = reply.parts[0]
    assert isinstance(call, ToolCall)
    assert (call.args, call.raw) == ({"city": city}, "".join(pieces))


async def test_46_words_cut_inside_of_a_character_are_whole(adapter: Adapter) -> None:
    shown: list[str] = []
    async with served(adapter, Played(adapter.text(f"a{HIGH}", f"{LOW}b"))) as model:
        reply = await model.complete(adapter.request, lambda event: shown.append(event.text))  # type: ignore[union-attr]
    assert reply.parts == (Text(text="a😀b"),)
    assert "".join(shown) == "a😀b"
    assert all("\ud83d" not in each for each in shown)


async def test_46_half_a_character_that_stays_alone_is_replaced(adapter: Adapter) -> None:
    reply = await reply_to(adapter, adapter.text(f"a{HIGH}", "b", HIGH))
    assert reply.parts == (Text(text="a\ufffdb\ufffd"),)


@pytest.mark.parametrize(
    "raw", ['{"city":"Par', "[1]", '"Paris"', "{}{}", '{"a":1,"a":2}', "{'a'}"]
)
async def test_46_arguments_that_do_not_parse_are_kept_as_they_were_written(
    adapter: Adapter, raw: str
) -> None:
    reply = await reply_to(adapter, adapter.call(raw))
    call = reply.parts[0]
    assert isinstance(call, ToolCall)
    assert (call.args, call.raw) == ({}, raw)


# --- 48: usage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [-1, "12", 2**63, 1.5, True, [1], {}])
async def test_48_a_count_that_is_none_is_malformed(adapter: Adapter, count: object) -> None:
    error = await fault_of(adapter, adapter.used({adapter.sent_key: count}))
    assert type(error) is Malformed
    assert adapter.sent_key in str(error)


async def test_48_usage_that_is_no_object_is_malformed(adapter: Adapter) -> None:
    assert type(await fault_of(adapter, adapter.used([1]))) is Malformed


async def test_48_the_largest_count_is_taken(adapter: Adapter) -> None:
    reply = await reply_to(adapter, adapter.used({adapter.sent_key: 2**63 - 1}))
    assert reply.usage.input_tokens == 2**63 - 1


# --- 50, 53: too much -----------------------------------------------------------------------------------


async def test_50_a_long_reply_is_taken(adapter: Adapter) -> None:
    reply = await reply_to(adapter, adapter.text("na " * 350_000))
    assert len(reply.text) == 1_050_000


async def test_50_a_reply_without_end_is_over_the_limit(adapter: Adapter) -> None:
    # 8 MB is the most of one event; a stream ends at 64 MB, here of comments.
    comments = (b": " + b"x" * 65_000 + b"\n") * 1100
    assert type(await fault_of(adapter, comments)) is LimitExceeded


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_53_packed_answers_are_unpacked(adapter: Adapter, encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    headers = {"content-encoding": encoding}
    reply = await reply_to(adapter, Played(pack(adapter.text("Hello.")), 200, headers))
    assert reply.text == "Hello."


async def test_53_a_bomb_is_over_the_limit(adapter: Adapter) -> None:
    bomb = gzip.compress(b"data: " + b"x" * (80 * 1024 * 1024), compresslevel=9)
    assert len(bomb) < 100_000
    error = await fault_of(adapter, Played(bomb, 200, {"content-encoding": "gzip"}))
    assert type(error) is LimitExceeded


async def test_53_what_cannot_be_unpacked_is_no_reply(adapter: Adapter) -> None:
    whole = gzip.compress(adapter.text("Hello."))
    headers = {"content-encoding": "gzip"}
    for body in (whole[: len(whole) // 2], b"this is no gzip", whole[:8] + b"\x00" * 50):
        error = await fault_of(adapter, Played(body, 200, headers))
        assert type(error) in (Malformed, Unavailable)


# --- 51, 55: how long to wait ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "20"}, 0.25),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "abc"}, None),
        ({"retry-after": "inf"}, 300.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "315360000"}, 300.0),
        # By the provider's own clock: ours may be an hour off.
        (
            {
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
                "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT",
            },
            30.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, None),
        (
            {
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
                "retry-after": "Sun, 21 Oct 2035 07:28:00 GMT",
            },
            300.0,
        ),
    ],
)
async def test_51_a_wish_to_wait_is_bounded(
    adapter: Adapter, headers: dict[str, str], seconds: float | None
) -> None:
    body = b'{"error": {"message": "Slow down.", "type": "rate_limit_error"}}'
    error = await fault_of(adapter, Played(body, 429, headers, "application/json"))
    assert type(error) is Throttled
    assert error.retry_after_s == seconds


# --- refusals: as the SDKs hand them on -----------------------------------------------------------------


FILTERED = json.dumps(
    {"error": {"code": "content_filter", "message": "Filtered.", "status": 400, "type": None}}
).encode()


async def test_what_a_filter_stopped_is_a_reply_with_the_reason(adapter: Adapter) -> None:
    reply = await reply_to(adapter, Played(FILTERED, 400, {}, "application/json"))
    assert (reply.terminal, reply.parts) == ("content_filter", ())
    assert "Filtered." in (reply.diagnostic or "")


async def test_a_filter_that_stops_a_reply_in_the_middle_is_a_reply(adapter: Adapter) -> None:
    begun = adapter.text("Hel", "lo.").split(b"\n\n")[:3]
    stopped = b"\n\n".join([*begun, b'data: {"type": "error", ' + FILTERED[1:], b""])
    reply = await reply_to(adapter, stopped)
    assert reply.terminal == "content_filter"
    assert "Filtered." in (reply.diagnostic or "")


async def test_an_error_instead_of_a_stream_is_read_as_one(adapter: Adapter) -> None:
    reply = await reply_to(adapter, Played(FILTERED, 200, {}, "application/json"))
    assert reply.terminal == "content_filter"


@pytest.mark.parametrize(
    "body",
    [
        '{"detail": "Not with KEY here."}',
        '{"detail": [{"loc": ["body"], "msg": "Not with KEY here."}]}',
        '{"error": "Not with KEY here."}',
        '{"message": "Not with KEY here."}',
        '{"errors": [{"message": "Not with KEY here."}]}',
        '{"error": {"message": "Not with KEY here."}}',
        '{"error": {"message": "no", "metadata": {"raw": "Not with KEY here."}}}',
        "Not with KEY here.",
    ],
)
async def test_the_reason_of_a_refusal_is_told_without_the_key(adapter: Adapter, body: str) -> None:
    for status in (401, 429, 500):
        answer = Played(body.replace("KEY", KEY).encode(), status, {}, "application/json")
        error = await fault_of(adapter, answer)
        assert "Not with [api_key] here." in str(error)
        assert KEY not in f"{error!r} {vars(error)}"


# --- 52: redirects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_52_no_redirect_takes_the_key_elsewhere(adapter: Adapter, status: int) -> None:
    async with WireServer({}) as elsewhere, WireServer({}) as home:
        own = f"{home.url}{adapter.endpoint.partition(' ')[2]}"
        for to in (f"{elsewhere.url}/v1/x", "http://localhost/x", "https://example.test/", own):
            answer = Played(b"", status, {"location": to}, "text/plain")
            error = await fault_of(adapter, answer)
            assert type(error) is Rejected
            assert "redirect" in str(error)
        assert elsewhere.requests == []


# --- 54: another model ----------------------------------------------------------------------------------


async def test_54_the_model_that_served_is_written_down(adapter: Adapter) -> None:
    reply = await reply_to(adapter, adapter.used({adapter.sent_key: 3}))
    assert reply.provider_usage == {adapter.sent_key: 3, "served_model": adapter.served}
