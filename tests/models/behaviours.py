"""What every adapter must do, as one table: each adapter's test file fills it and inherits its tests.

class TestAnthropic(Behaviours):
    endpoint = "POST /v1/messages"
    terminal = b"event: message_stop"
    cases = {"text": Case(...), ...}

    def model(self, base_url, **options):
        return AnthropicModel("claude-x", base_url=base_url, api_key=KEY, **options)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import pytest
from msgspec.structs import replace

from tests.limits import HANGS_S
from tests.models.wire_server import (
    Answers,
    Played,
    Seen,
    WireServer,
    every_byte,
    in_random_pieces,
)
from windlass.errors import Malformed, ProviderError, Rejected, Throttled, Unavailable
from windlass.kernel import ModelReply, ModelRequest
from windlass.ports.model import (
    READ_BLOB,
    AttemptFailed,
    CallChunk,
    Model,
    ModelEvent,
    ReasoningChunk,
    TextChunk,
)

BEHAVIOURS = (
    "text",
    "streaming",
    "tools",
    "parallel_tools",
    "required_tool",
    "reasoning",
    "reasoning_replay",
    "images",
    "files",
    "tool_result_image",
    "structured_output",
    "usage",
    "generation",
    "stop",
    "tool_use",
    "output_limit",
    "content_filter",
    "unknown_terminal",
)
"""Every key that `cases` must have. `context_overflow` and `provider_error` come as refusals, `cancelled` by
leaving: they are tested below, for all alike."""

KEY = "canary-key-d41d8cd98f00b204"

STATUSES: dict[int, type[ProviderError]] = {
    400: Rejected,
    401: Rejected,
    403: Rejected,
    404: Rejected,
    408: Unavailable,
    409: Unavailable,
    413: Rejected,
    422: Rejected,
    429: Throttled,
    500: Unavailable,
    502: Unavailable,
    503: Unavailable,
    529: Unavailable,
}


class ClosableModel(Model, Protocol):
    """A model with connections to close."""

    async def aclose(self) -> None: ...


class Case(NamedTuple):
    """A request, the bytes that answer it, and what must come of it.

    `shown` is what was emitted, with neighbours of a kind joined; None: not looked at. `sent` looks at the JSON
    that the server saw. `blobs` are the bytes of attachments by their `ref`.
    """

    request: ModelRequest
    answer: Played
    reply: ModelReply
    shown: tuple[ModelEvent, ...] | None = None
    sent: Callable[[Any], None] | None = None
    blobs: Mapping[str, bytes] = {}


def joined(events: list[ModelEvent]) -> tuple[ModelEvent, ...]:
    """Return events with neighbours of one kind made one: how a text was cut is not part of a claim.

    Words of two phases, and the arguments of two calls, stay two.
    """
    found: list[ModelEvent] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(last, (TextChunk, ReasoningChunk, CallChunk)) and not isinstance(
            event, AttemptFailed
        ):
            longer = replace(last, text=last.text + event.text)
            if replace(event, text=longer.text) == longer:
                found[-1] = longer
                continue
        found.append(event)
    return tuple(found)


def _is_one(last: CallChunk, event: CallChunk) -> bool:
    return (last.call_id, last.name) == (event.call_id, event.name)


async def ask(
    model: Model, request: ModelRequest, blobs: Mapping[str, bytes] = {}
) -> tuple[ModelReply, tuple[ModelEvent, ...]]:
    """Ask a model as the runtime does; return the reply and what was shown."""

    async def read(ref: str) -> bytes:
        return blobs[ref]

    shown: list[ModelEvent] = []
    reading = READ_BLOB.set(read)
    try:
        reply = await model.complete(request, shown.append)
    finally:
        READ_BLOB.reset(reading)
    return reply, joined(shown)


def check_reply(found: ModelReply, wanted: ModelReply) -> None:
    """Compare what a reply is made of; raw usage and diagnostics only where the case names them."""
    assert found.parts == wanted.parts
    assert found.terminal == wanted.terminal
    assert found.usage == wanted.usage
    if wanted.provider_usage is not None:
        assert found.provider_usage == wanted.provider_usage
    if wanted.diagnostic is not None:
        assert found.diagnostic == wanted.diagnostic


class Behaviours:
    """The tests of the table. `terminal` begins the event that ends the stream of the case `text`.

    `unreadable` is an event that is not in the protocol. `refusal` gives a body as this provider writes it.
    `overflow` is the status and body with which it says that the request is too long; `mid_stream_error` is an
    event that says the provider is overloaded, where it has such an event.
    """

    endpoint: ClassVar[str]
    terminal: ClassVar[bytes]
    cases: ClassVar[dict[str, Case]]
    overflow: ClassVar[tuple[int, bytes]]
    quota_429: ClassVar[bytes | None] = None
    quota_400: ClassVar[bytes | None] = None
    mid_stream_error: ClassVar[bytes | None] = None
    unreadable: ClassVar[bytes] = b"data: {this is no json\n\n"

    def model(self, base_url: str, **options: Any) -> ClosableModel:
        """Return the adapter, with `KEY` for its key and these options (`timeout`)."""
        raise NotImplementedError

    def refusal(self, status: int, reason: str) -> bytes:
        """Return an error's body as this provider writes it."""
        return json.dumps({"error": {"message": reason, "type": "some_error"}}).encode()

    @asynccontextmanager
    async def playing(
        self, answer: Answers, **options: Any
    ) -> AsyncIterator[tuple[WireServer, ClosableModel]]:
        """Serve an answer; yield the server and a model that asks it."""
        async with WireServer({self.endpoint: answer}) as server:
            model = self.model(server.url, **options)
            try:
                yield server, model
            finally:
                await model.aclose()

    async def fault(self, answer: Played, **options: Any) -> ProviderError:
        """Return the error that an answer to the case `text` gives."""
        async with self.playing(answer, **options) as (_, model):
            with pytest.raises(ProviderError) as raised:
                await ask(model, self.cases["text"].request)
        assert raised.value.__cause__ is None
        return raised.value

    # --- the table ----------------------------------------------------------------------------------

    def test_the_table_is_filled(self) -> None:
        assert set(BEHAVIOURS) - set(self.cases) == set()

    @pytest.mark.parametrize("behaviour", BEHAVIOURS)
    async def test_behaviour(self, behaviour: str) -> None:
        case = self.cases[behaviour]
        async with self.playing(case.answer) as (server, model):
            reply, shown = await ask(model, case.request, case.blobs)
        check_reply(reply, case.reply)
        if case.shown is not None:
            assert shown == joined(list(case.shown))
        assert len(server.requests) == 1
        if case.sent is not None:
            case.sent(server.requests[0].json)

    @pytest.mark.parametrize("behaviour", BEHAVIOURS)
    async def test_the_same_bytes_cut_otherwise_give_the_same_events(self, behaviour: str) -> None:
        """At all places at once, and at random ones; at each place by itself: `test_every_cut.py`."""
        case = self.cases[behaviour]
        async with self.playing(case.answer) as (server, model):
            wanted = await ask(model, case.request, case.blobs)
            for cut in (every_byte, *map(in_random_pieces, range(4))):
                server.cut = cut
                assert await ask(model, case.request, case.blobs) == wanted

    # --- the stream's end ---------------------------------------------------------------------------

    @pytest.mark.parametrize("then", ["end", "abort"])
    async def test_a_stream_that_breaks_off_anywhere_gives_no_reply(
        self, then: Literal["end", "abort"]
    ) -> None:
        for name in ("text", "tools"):
            case = self.cases[name]
            body = case.answer.body
            last = body.index(self.terminal)
            places = sorted({*range(0, last, max(1, last // 25)), last})
            answers = [case.answer._replace(body=body[:place], then=then) for place in places]
            async with self.playing(answers) as (_, model):
                for place in places:
                    with pytest.raises((Unavailable, Malformed)):
                        await ask(model, case.request)
                    assert place <= last

    async def test_an_event_that_cannot_be_read_is_malformed(self) -> None:
        case = self.cases["text"]
        body = case.answer.body
        last = body.index(self.terminal)
        spoilt = case.answer._replace(body=body[:last] + self.unreadable + body[last:])
        assert isinstance(await self.fault(spoilt), Malformed)

    async def test_an_error_in_mid_stream_is_passing(self) -> None:
        if self.mid_stream_error is None:
            return  # this protocol has no such event
        case = self.cases["text"]
        body = case.answer.body
        last = body.index(self.terminal)
        spoilt = case.answer._replace(body=body[:last] + self.mid_stream_error)
        assert isinstance(await self.fault(spoilt), Unavailable)

    # --- faults -------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("status", "kind"), STATUSES.items())
    async def test_a_status_has_its_class(self, status: int, kind: type[ProviderError]) -> None:
        body = self.refusal(status, "The reason, in the provider's words.")
        error = await self.fault(Played(body, status, {}, "application/json"))
        assert type(error) is kind
        assert str(status) in str(error)
        assert "The reason, in the provider's words." in str(error)

    @pytest.mark.parametrize(
        ("wish", "seconds"),
        [("7", 7.0), ("-1", None), ("abc", None), ("315360000", 300.0), ("nan", None)],
    )
    async def test_a_wish_to_wait_is_bounded(self, wish: str, seconds: float | None) -> None:
        body = self.refusal(429, "slow down")
        error = await self.fault(Played(body, 429, {"retry-after": wish}, "application/json"))
        assert isinstance(error, Throttled)
        assert error.retry_after_s == seconds

    async def test_a_spent_quota_is_no_throttle(self) -> None:
        for status, body in ((429, self.quota_429), (400, self.quota_400)):
            if body is not None:
                error = await self.fault(Played(body, status, {}, "application/json"))
                assert type(error) is Rejected
                assert "quota" in str(error)

    async def test_a_request_that_is_too_long_is_a_reply_that_says_so(self) -> None:
        status, body = self.overflow
        async with self.playing(Played(body, status, {}, "application/json")) as (_, model):
            reply, shown = await ask(model, self.cases["text"].request)
        assert reply.terminal == "context_overflow"
        assert (reply.parts, shown) == ((), ())

    async def test_an_echoed_key_is_not_in_the_error(self) -> None:
        for status in (400, 401, 429, 500):
            body = self.refusal(status, f"Incorrect API key provided: {KEY}")
            error = await self.fault(Played(body, status, {}, "application/json"))
            assert KEY not in f"{error} {error!r} {error.args} {vars(error)}"
            assert "Incorrect API key provided" in str(error)

    @pytest.mark.parametrize(
        "answer",
        [
            Played(b"<html>Welcome to the hotel</html>", 200, {}, "text/html"),
            Played(b"", 200, {}, "text/event-stream"),
            Played(b"", 200, {}, "application/json"),
        ],
        ids=["a web page", "nothing", "no JSON"],
    )
    async def test_an_answer_that_is_none_gives_no_reply(self, answer: Played) -> None:
        assert isinstance(await self.fault(answer), (Malformed, Unavailable))

    async def test_a_refusal_that_is_a_web_page_is_told_without_it(self) -> None:
        page = b"<html>502 Bad Gateway " + b"x" * 5000 + b"</html>"
        error = await self.fault(Played(page, 502, {}, "text/html"))
        assert isinstance(error, Unavailable)
        assert len(str(error)) < 400

    async def test_a_dropped_connection_is_passing(self) -> None:
        assert isinstance(await self.fault(Played(status=0)), Unavailable)

    async def test_nobody_at_the_address_is_passing(self) -> None:
        async with WireServer({}) as server:
            address = server.url
        model = self.model(address)
        with pytest.raises(Unavailable):
            await ask(model, self.cases["text"].request)
        await model.aclose()

    async def test_a_server_without_tls_where_it_should_have_it_is_passing(self) -> None:
        async with WireServer({self.endpoint: self.cases["text"].answer}) as server:
            model = self.model(server.url.replace("http://", "https://"))
            with pytest.raises(Unavailable):
                await ask(model, self.cases["text"].request)
            await model.aclose()
        assert server.requests == []

    async def test_a_stall_is_passing(self) -> None:
        body = self.cases["text"].answer.body
        half = Played(body[: body.index(self.terminal)], then="hang")
        assert isinstance(await self.fault(half, timeout=0.2), Unavailable)
        assert isinstance(await self.fault(Played(then="hang"), timeout=0.2), Unavailable)

    async def test_a_redirect_is_not_followed(self) -> None:
        async with WireServer({}) as elsewhere:
            headers = {"location": f"{elsewhere.url}/v1/elsewhere"}
            for status in (301, 302, 307, 308):
                error = await self.fault(Played(b"", status, headers, "text/plain"))
                assert isinstance(error, (Rejected, Malformed))
            assert elsewhere.requests == []

    async def test_the_provider_is_asked_once(self) -> None:
        async with self.playing(Played(b"{}", 500, {}, "application/json")) as (server, model):
            with pytest.raises(Unavailable):
                await ask(model, self.cases["text"].request)
        assert len(server.requests) == 1

    async def test_a_connection_is_used_again(self) -> None:
        async with self.playing(self.cases["text"].answer) as (server, model):
            for _ in range(3):
                await ask(model, self.cases["text"].request)
        assert server.n_connections == 1

    async def test_a_cancelled_call_hangs_up(self) -> None:
        body = self.cases["text"].answer.body
        half = Played(body[: body.index(self.terminal)], then="hang")
        async with self.playing(half) as (server, model):
            async with asyncio.TaskGroup() as tasks:
                call = tasks.create_task(ask(model, self.cases["text"].request))
                await server.hanging.wait()
                call.cancel()
            await asyncio.wait_for(server.left.wait(), HANGS_S)
        assert call.cancelled()

    async def test_the_key_goes_where_it_belongs_and_nowhere_else(self) -> None:
        seen: list[Seen] = []

        def answer(request: Seen) -> Played:
            seen.append(request)
            return self.cases["text"].answer

        async with self.playing(answer) as (_, model):
            await ask(model, self.cases["text"].request)
            assert KEY not in repr(model)
        assert KEY in " ".join(seen[0].headers.values())
        assert KEY not in seen[0].path
        assert KEY.encode() not in seen[0].body
