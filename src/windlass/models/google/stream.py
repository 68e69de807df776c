"""A reply out of Gemini's stream: chunks in, parts, usage and the reason why it ended out.

Law 1. A reply is whole when the stream gave a finish reason, or said that the prompt was blocked. Any other
    end is a broken stream, and nothing of it is a reply.
Law 2. What was signed is not joined with what comes behind it: a signature belongs to its own part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from windlass.guards.text import clean_text
from windlass.kernel import Chain, Json, Reasoning, Text, ToolCall, canonical
from windlass.kernel.model_call import KnownTerminal, ModelReply, ModelRequest, ReplyPart, Usage
from windlass.models.google.request import signature_blob
from windlass.models.message_parts import Words
from windlass.models.provider_errors import cut_off, malformed, wrong_kind
from windlass.models.route import Route, replay_blob
from windlass.models.server_events import ByteSource, EventReader, check_is_stream, object_in
from windlass.models.usage_report import UsageReport, count_in
from windlass.ports.model import EmitModelEvent, ReasoningChunk, TextChunk

if TYPE_CHECKING:
    from google.genai import types

_PROVIDER = "google"

_FILTERED = (
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
)  # fmt: skip
_FAILED = (
    "LANGUAGE", "OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS", "NO_IMAGE", "IMAGE_OTHER",
)  # fmt: skip
_TERMINALS: dict[str, KnownTerminal] = {
    "STOP": "stop",
    "MAX_TOKENS": "output_limit",
    # It stopped at the limit of one request, with more to say.
    "CONTINUATION": "output_limit",
    **dict.fromkeys(_FILTERED, "content_filter"),
    **dict.fromkeys(_FAILED, "provider_error"),
}
_UNSAID = "FINISH_REASON_UNSPECIFIED"


class ReplyReader:
    """Takes the chunks of one reply, shows what comes, and ends with the reply."""

    def __init__(self, request: ModelRequest, route: Route, emit: EmitModelEvent) -> None:
        self._request = request
        self._route = route
        self._emit = emit
        self._parts: list[_Open] = []
        self._usage = UsageReport(route)
        self._finish: str | None = None
        self._blocked: str | None = None
        self._left_out: set[str] = set()

    def take(self, chunk: types.GenerateContentResponse) -> None:
        """Read one event.

        Raises:
            Malformed: it is not what Gemini may send.
        """
        used = chunk.usage_metadata
        counts = used and used.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._usage.take(counts, served=chunk.model_version)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            self._blocked = _word(chunk.prompt_feedback.block_reason)
        for candidate in (chunk.candidates or [])[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                self._take_part(part)
            reason = _word(candidate.finish_reason)
            # Older models say STOP with every chunk; the last word is another one, if there is another.
            if reason not in ("", _UNSAID, "STOP") or (reason == "STOP" and self._finish is None):
                self._finish = reason

    def reply(self) -> ModelReply:
        """Return what was said.

        Raises:
            Unavailable: the stream ended before it was over.
            Malformed: its counts are none.
        """
        if self._finish is None and self._blocked is None:
            raise cut_off(_PROVIDER)
        parts = self._closed()
        terminal, diagnostic = self._end()
        if terminal == "stop" and any(type(part) is ToolCall for part in parts):
            terminal = "tool_use"
        return ModelReply(
            parts=parts,
            usage=_usage(self._usage),
            terminal=terminal,
            diagnostic=diagnostic,
            provider_usage=self._usage.provider_usage(),
        )

    def _end(self) -> tuple[str, str | None]:
        if self._finish is None:
            return "content_filter", f"Gemini refused the prompt: {self._blocked}"
        terminal = _TERMINALS.get(self._finish, "unknown")
        if terminal != "stop":
            return terminal, f"Gemini ended the reply with {clean_text(self._finish)[:80]}"
        if self._left_out:
            return terminal, f"left out of the reply: {', '.join(sorted(self._left_out))}"
        return terminal, None

    # --- parts ------------------------------------------------------------------------------------

    def _take_part(self, part: types.Part) -> None:
        signature = part.thought_signature or None
        if part.function_call is not None:
            made = self._call(part.function_call)
            self._parts.append(_Open("call", Words(self._emit), signature, made))
        elif part.text is not None:
            self._take_text(part.text, "thought" if part.thought else "text", signature)
        elif signature is not None and part.thought:
            self._take_text("", "thought", signature)
        else:
            self._left_out |= part.model_fields_set - {"thought", "thought_signature"}

    def _take_text(self, given: str, kind: str, signature: bytes | None) -> None:
        last = self._parts[-1] if self._parts else None
        if last is None or last.kind != kind or last.signature is not None:
            chunk = TextChunk if kind == "text" else ReasoningChunk
            last = _Open(kind, Words(self._emit, chunk))
            self._parts.append(last)
        last.words.add(given)
        last.signature = signature

    def _call(self, said: types.FunctionCall) -> ToolCall:
        if not said.name or said.will_continue or said.partial_args:
            raise malformed(_PROVIDER, "a function call that has no name, or is not whole")
        args = said.args or {}
        at = sum(1 for part in self._parts if part.kind == "call")
        return ToolCall(
            call_id=said.id or self._minted(at),
            name=clean_text(said.name),
            args=args,
            raw=canonical.encode(args).decode(),
        )

    def _minted(self, at: int) -> str:
        """Return the id of a call that came without one: the same again for the same request."""
        return f"call_{Chain.of(self._request.messages).chain_digest()[:16]}_{at}"

    def _closed(self) -> tuple[ReplyPart, ...]:
        """Return the parts as they are stored.

        Words have no place for a signature: it stands on a thought before them, an empty one if need be.
        """
        parts: list[ReplyPart] = []
        for part in self._parts:
            replay = part.replay(self._route)
            text = part.words.text
            if part.call is not None:
                parts.append(replace(part.call, replay=replay))
            elif part.kind == "thought":
                parts.append(Reasoning(text=text, replay=replay))
            elif text:
                parts += self._words(parts, text, replay)
        return tuple(parts)

    @staticmethod
    def _words(before: list[ReplyPart], text: str, replay: Json) -> list[ReplyPart]:
        words: list[ReplyPart] = [Text(text=text)]
        if replay is None:
            return words
        last = before[-1] if before else None
        thought = ""
        if isinstance(last, Reasoning) and last.replay is None:
            thought = last.text
            before.pop()
        return [Reasoning(text=thought, replay=replay), *words]


class _Open(msgspec.Struct):
    """A part that may still grow."""

    kind: str
    words: Words
    signature: bytes | None = None
    call: ToolCall | None = None

    def replay(self, route: Route) -> Json:
        if self.signature is None:
            return None
        return replay_blob(signature_blob(self.signature, on=self.kind), route)


def _usage(report: UsageReport) -> Usage:
    """Return the counts in windlass's buckets.

    Gemini's prompt includes what was read from a cache; its candidates do not include thoughts.
    """
    prompt = report.count("promptTokenCount") + report.count("toolUsePromptTokenCount")
    cached = min(report.count("cachedContentTokenCount"), prompt)
    thoughts = report.count("thoughtsTokenCount")
    return Usage(
        input_tokens=prompt - cached,
        cached_input_tokens=cached,
        output_tokens=report.count("candidatesTokenCount") + thoughts,
        reasoning_tokens=thoughts,
    )


def _word(reason: object) -> str:
    """Return an enum's own word; also of one that the SDK does not know."""
    return str(getattr(reason, "value", reason) or "")


# -------------------------------------------------------------------------------- lines for the SDK


async def event_lines(response: ByteSource) -> AsyncIterator[str]:
    """Yield each event of a response as one line that ends with a blank one, as the SDK reads them.

    The SDK takes its lines from `httpx2`, which also cuts at U+2028 and its like, in the middle of a text; it takes
    a comment, or `data:` without a blank behind it, for an answer that is not JSON, and `"12"` or `true` for a count.
    It has no limit, and reads a web page to its end without an error. Servers other than Google's send all of these.

    Raises:
        LimitExceeded: an event, or all of them, is larger than any provider means.
        Malformed: it is not a stream of events, or one of them is not Gemini's.
    """
    check_is_stream(response.headers.get("content-type", ""), _PROVIDER)
    events = EventReader(_PROVIDER)
    async for piece in response.aiter_bytes():
        for data in events.feed(piece):
            if words := data.strip():
                _check(words)
                yield f"data: {words}"
                yield ""
    if not events.n_bytes:
        raise malformed(_PROVIDER, "found an empty body, wanted events")


def _check(data: str) -> None:
    """Refuse what the SDK would take for something else."""
    usage = object_in(data, _PROVIDER).get("usageMetadata") or {}
    if not isinstance(usage, dict):
        raise wrong_kind(_PROVIDER, "usageMetadata", usage, "an object")
    for name in usage:
        if name.endswith("TokenCount"):
            count_in(usage, name, _PROVIDER)
