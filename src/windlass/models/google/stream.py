"""A reply out of Gemini's stream: events in, parts, usage and the reason why it ended out.

Law 1. A reply is whole when the stream gave a finish reason, or said that the prompt was blocked. Any other
    end is a broken stream, and nothing of it is a reply.
Law 2. What was signed is not joined with what comes behind it: a signature belongs to its own part.
Law 3. What a tool of Gemini's own left behind is kept as it came, in its place.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from windlass.guards.text import clean_text
from windlass.kernel import Chain, Json, Reasoning, ServerToolCall, Text, ToolCall
from windlass.kernel.model_call import KnownTerminal, ModelReply, ModelRequest, ReplyPart, Usage
from windlass.models.google.grounding import Grounding
from windlass.models.google.request import server_blob, signature_blob
from windlass.models.message_parts import Words, arguments_of, ran_elsewhere, text_at, whole_text
from windlass.models.provider_errors import (
    clip,
    cut_off,
    from_error_object,
    list_at,
    malformed,
    object_at,
    wrong_kind,
)
from windlass.models.route import Route, replay_blob
from windlass.models.usage_report import UsageReport
from windlass.ports.model import CallChunk, EmitModelEvent, ReasoningChunk, TextChunk

_FILTERED = (
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
)  # fmt: skip
_FAILED = (
    "LANGUAGE", "OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "NO_IMAGE", "IMAGE_OTHER",
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

_ASKED = ("executableCode", "toolCall")
_CAME_BACK = ("codeExecutionResult", "toolResponse")
_TOOL_NAMES = {"GOOGLE_SEARCH_WEB": "web_search"}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+=*")


class ReplyReader:
    """Takes the events of one reply, shows what comes, and ends with the reply."""

    # No event is the last one by itself: older models say STOP with each.
    is_over = False

    def __init__(self, request: ModelRequest, route: Route, emit: EmitModelEvent) -> None:
        self._request = request
        self._route = route
        self._emit = emit
        self._parts: list[_Open] = []
        self._usage = UsageReport(route)
        self._grounding = Grounding(route.provider)
        self._finish = ""
        self._finish_words = ""
        self._blocked = ""
        self._left_out: set[str] = set()

    def take(self, event: dict[str, Any] | None) -> None:
        """Read one event.

        Raises:
            ProviderError: Gemini reports an error with it, or it does not follow Gemini's protocol.
        """
        if event is None:
            return
        if "error" in event:
            raise from_error_object(event["error"], provider=self._route.provider)
        provider = self._route.provider
        self._usage.take(event.get("usageMetadata"), served=event.get("modelVersion"))
        if "promptFeedback" in event:
            self._take_feedback(object_at(event, "promptFeedback", provider))
        for candidate in list_at(event, "candidates", provider)[:1]:
            if not isinstance(candidate, dict):
                raise wrong_kind(provider, "candidates", candidate, "objects")
            self._take_candidate(candidate)

    def _take_feedback(self, feedback: dict[str, Any]) -> None:
        reason = text_at(feedback, "blockReason")
        if reason:
            self._blocked = _reason(reason, text_at(feedback, "blockReasonMessage"))

    def _take_candidate(self, candidate: dict[str, Any]) -> None:
        content = object_at(candidate, "content", self._route.provider)
        for part in list_at(content, "parts", self._route.provider):
            self._take_part(part)
        self._grounding.take(candidate)
        reason = text_at(candidate, "finishReason")
        # Older models say STOP with every chunk; the last word is another one, if there is another.
        if reason not in ("", _UNSAID, "STOP") or (reason == "STOP" and not self._finish):
            self._finish = reason
            self._finish_words = text_at(candidate, "finishMessage")

    def reply(self) -> ModelReply:
        """Return what was said.

        Raises:
            Unavailable: the stream ended before it was over.
            Malformed: its counts are none.
        """
        if not self._finish and not self._blocked:
            raise cut_off(self._route.provider)
        parts = self._closed()
        terminal = _TERMINALS.get(self._finish, "unknown") if self._finish else "content_filter"
        if terminal == "stop" and any(type(part) is ToolCall for part in parts):
            terminal = "tool_use"
        return ModelReply(
            parts=parts,
            usage=_usage(self._usage),
            terminal=terminal,
            diagnostic=self._diagnostic(parts),
            provider_usage=self._usage.provider_usage(),
        )

    def _diagnostic(self, parts: tuple[ReplyPart, ...]) -> str | None:
        """Say why a reply ended early, why it is empty, and what of it is not there."""
        said = []
        if not self._finish:
            said.append(f"Gemini refused the prompt: {self._blocked}")
        elif self._finish != "STOP":
            reason = _reason(self._finish, self._finish_words)
            said.append(f"Gemini ended the reply with {reason}")
        elif not parts:
            said.append("Gemini ended the reply without a word")
        said += ran_elsewhere(parts)
        if self._left_out:
            said.append(f"left out of the reply: {', '.join(sorted(self._left_out))}")
        return "; ".join(said) or None

    # --- parts ------------------------------------------------------------------------------------

    def _take_part(self, part: object) -> None:
        if not isinstance(part, dict):
            raise wrong_kind(self._route.provider, "parts", part, "objects")
        signature = self._signature(part)
        if "text" in part:
            self._take_text(part["text"], "thought" if part.get("thought") else "text", signature)
        elif "functionCall" in part:
            made = self._call(object_at(part, "functionCall", self._route.provider))
            self._parts.append(_Open("call", Words(self._emit), signature, made))
        elif any(name in part for name in _ASKED):
            self._parts.append(_Open("server", Words(self._emit), came=[part]))
        elif any(name in part for name in _CAME_BACK):
            self._take_result(part)
        else:
            others = [clean_text(name)[:40] for name in part if name not in _MARKS]
            self._left_out.update(others)
            if signature is not None and not others:
                self._take_text("", "thought" if part.get("thought") else "text", signature)

    def _signature(self, part: dict[str, Any]) -> str | None:
        found = part.get("thoughtSignature")
        if not found:
            return None
        if not isinstance(found, str) or not _BASE64.fullmatch(found):
            raise wrong_kind(self._route.provider, "thoughtSignature", found, "base64")
        return found

    def _take_text(self, given: object, kind: str, signature: str | None) -> None:
        if not isinstance(given, str):
            raise wrong_kind(self._route.provider, "text", given, "text")
        if not given and signature is None:
            return
        last = self._parts[-1] if self._parts else None
        if last is None or last.kind != kind or last.signature is not None:
            chunk = TextChunk if kind == "text" else ReasoningChunk
            last = _Open(kind, Words(self._emit, chunk))
            self._parts.append(last)
        last.words.add(given)
        last.signature = signature

    def _call(self, said: dict[str, Any]) -> ToolCall:
        name, args = said.get("name"), said.get("args")
        if (
            not name
            or not isinstance(name, str)
            or said.get("willContinue")
            or "partialArgs" in said
        ):
            what = "a function call that has no name, or is not whole"
            raise malformed(self._route.provider, what)
        if not isinstance(args, dict | None):
            raise wrong_kind(self._route.provider, "functionCall.args", args, "an object")
        at = sum(1 for part in self._parts if part.kind == "call")
        call_id = whole_text(text_at(said, "id")) or self._minted(at)
        made = ToolCall(call_id=call_id, name=whole_text(name), args=args or {})
        # Gemini sends a call whole, and its arguments as a value: what is shown is all that was written.
        raw = arguments_of(made)
        self._emit(CallChunk(call_id=call_id, name=made.name, text=raw))
        return msgspec.structs.replace(made, raw=raw)

    def _minted(self, at: int) -> str:
        """Return the id of a call that came without one: the same again for the same request."""
        return f"call_{Chain.of(self._request.messages).chain_digest()[:16]}_{at}"

    def _take_result(self, part: dict[str, Any]) -> None:
        """Keep what a tool of Gemini's own gave back: with what asked for it, if that is right before it."""
        last = self._parts[-1] if self._parts else None
        if last is None or last.kind != "server" or len(last.came) > 1:
            last = _Open("server", Words(self._emit))
            self._parts.append(last)
        last.came.append(part)

    def _closed(self) -> tuple[ReplyPart, ...]:
        """Return the parts as they are stored."""
        texts = [part.words.text for part in self._parts if part.kind == "text"]
        cited = iter(self._grounding.citations(texts))
        if self._grounding.has_sources and not any(texts):
            self._left_out.add("groundingMetadata")
        parts: list[ReplyPart] = []
        for part in self._parts:
            replay, text = part.replay(self._route), part.words.text
            if part.call is not None:
                parts.append(msgspec.structs.replace(part.call, replay=replay))
            elif part.kind == "server":
                parts.append(_ran(part.came, replay))
            elif part.kind == "thought":
                parts.append(Reasoning(text=text, replay=replay))
            else:
                citations = next(cited)
                if text:
                    parts.append(Text(text=text, citations=citations, replay=replay))
        return (*self._searches(parts), *parts)

    def _searches(self, parts: list[ReplyPart]) -> list[ReplyPart]:
        """Return the tools that Gemini names without showing them among the parts. They ran before its words."""
        shown = {part.name for part in parts if type(part) is ServerToolCall}
        named = self._grounding.ran()
        return [ServerToolCall(name=name, text=asked) for name, asked in named if name not in shown]


_MARKS = ("thought", "thoughtSignature", "partMetadata")


class _Open(msgspec.Struct):
    """A part that may still grow. `came` are the parts of a tool of Gemini's own."""

    kind: str
    words: Words
    signature: str | None = None
    call: ToolCall | None = None
    came: list[dict[str, Any]] = msgspec.field(default_factory=list)

    def replay(self, route: Route) -> Json:
        if self.came:
            return replay_blob(server_blob(self.came), route)
        if self.signature is None:
            return None
        return replay_blob(signature_blob(self.signature, on=self.kind), route)


def _ran(came: list[dict[str, Any]], replay: Json) -> ServerToolCall:
    """Return a tool that Gemini ran: what it is called, and what it was asked for."""
    first = came[0]
    if "executableCode" in first or "codeExecutionResult" in first:
        name, asked = "code_execution", text_at(first.get("executableCode"), "code")
    else:
        call = first.get("toolCall")
        kind = text_at(call or first.get("toolResponse"), "toolType")
        name, asked = _TOOL_NAMES.get(kind, kind.lower()) or "server_tool", _asked(call)
    return ServerToolCall(name=whole_text(name), text=whole_text(asked), replay=replay)


def _asked(call: object) -> str:
    """Return the queries or addresses that a tool was called with."""
    args = call.get("args") if isinstance(call, dict) else None
    found = args.values() if isinstance(args, dict) else ()
    each = [one for value in found for one in (value if isinstance(value, list) else [value])]
    return "\n".join(one for one in each if isinstance(one, str) and one)


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


def _reason(word: str, told: str) -> str:
    """Return Gemini's word for why, and its sentence if it has one."""
    return clip(": ".join(filter(None, [clean_text(word)[:80], told])))
