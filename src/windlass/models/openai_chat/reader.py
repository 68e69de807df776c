"""The chunks of one chat completion, read into a reply.

Law 1. A reply is whole when the server said why it ended; what it says after that, but for usage, is not
    part of it. Which servers have to say `[DONE]`, too, and for which it is enough, is the dialect's.
Law 2. What is left out of a reply is named in its diagnostic, and so is why a reply says nothing.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from windlass.errors import ProviderError, Unavailable
from windlass.kernel import Json, Reasoning, Text, canonical
from windlass.kernel.messages import Citation, ServerToolCall
from windlass.kernel.model_call import KnownTerminal, ModelReply, ReplyPart
from windlass.models.message_parts import Words, text_at, whole_text
from windlass.models.openai.parts import objects_in, reply_of
from windlass.models.openai_chat.calls import CallPieces, failed_calls
from windlass.models.openai_chat.dialects import Dialect
from windlass.models.provider_errors import (
    clip,
    cut_off,
    from_error_object,
    wrong_kind,
)
from windlass.models.route import Route, replay_blob
from windlass.models.usage_report import UsageReport
from windlass.ports.model import EmitModelEvent, ReasoningChunk

TOOL_USE_FAILED = "tool_use_failed"
"""Groq's code for a call that does not fit its tool, or for none where one was required."""

_TERMINALS: dict[str, KnownTerminal] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "output_limit",
    "model_length": "output_limit",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "model_context_window_exceeded": "context_overflow",
}
# The server gave up in the middle, and says so in the place of a reason.
_GAVE_UP = frozenset({"abort", "error", "insufficient_system_resource"})
# Fields of a delta that are read, or that say nothing of their own.
_READ = frozenset(
    {
        "role", "content", "refusal", "tool_calls", "annotations", "executed_tools",
        "name", "prefix", "token_id", "channel", "obfuscation",
    }
)  # fmt: skip


class ChatReader:
    """Reads one completion. `wants_value`: a schema was asked for, so a refusal is not an answer."""

    def __init__(
        self, route: Route, dialect: Dialect, emit: EmitModelEvent, *, wants_value: bool = False
    ) -> None:
        self._route = route
        self._dialect = dialect
        self._wants_value = wants_value
        self._words = Words(emit)
        self._thoughts = Words(emit, ReasoningChunk)
        self._keeps_details = dialect.replay_field == "reasoning_details"
        self._details: list[dict[str, Any]] = []
        self._calls = CallPieces(route.provider, emit, numbered=dialect.calls_numbered)
        self._ran: dict[object, dict[str, Any]] = {}
        self._sources = _Sources()
        self._usage = UsageReport(route)
        details = {"reasoning_details"} if self._keeps_details else set()
        self._read = _READ.union(dialect.reasoning_fields, details)
        self._left_out: dict[str, None] = {}
        self._told: list[str] = []
        self._reason: str | None = None
        self._refused = False
        self._has_chunks = False
        self.is_over = False

    def take(self, event: dict[str, Any] | None) -> None:
        """Read one chunk; None is `[DONE]`.

        Raises:
            ProviderError: the chunk says so, or is not in the protocol.
        """
        if self.is_over:
            return
        if event is None:
            self.is_over = True
            return
        if event.get("error"):
            self._take_error(event["error"])
            return
        self._has_chunks = True
        self._usage.take(event.get("usage"), served=event.get("model"))
        if self._dialect.usage_inside is not None:
            inside = event.get(self._dialect.usage_inside)
            self._usage.take(inside.get("usage") if isinstance(inside, dict) else None)
        for choice in objects_in(event, "choices", self._route.provider):
            if not choice.get("index"):
                self._take_choice(choice)
        if "citations" in event:
            self._sources.list(event["citations"])

    def reply(self) -> ModelReply:
        """Return the reply.

        Raises:
            Unavailable: the stream broke off before its end.
            Malformed: what it says is not in the protocol.
        """
        dialect = self._dialect
        is_ended = self.is_over or not dialect.done_needed
        if self._reason is None:
            is_ended = self.is_over and dialect.done_is_enough and self._has_chunks
        if not is_ended:
            raise cut_off(self._route.provider)
        terminal = _TERMINALS.get("stop" if self._reason is None else self._reason, "unknown")
        said = self._said()
        calls = self._calls.calls(self._named_by_details())
        diagnostic = self._diagnostic(terminal, is_empty=not (calls or self._words.text))
        is_refused = self._refused and self._wants_value
        return reply_of((*said, *calls), self._usage, terminal, diagnostic, is_refused=is_refused)

    # --- chunks -------------------------------------------------------------------------------------

    def _take_choice(self, choice: dict[str, Any]) -> None:
        if self._reason is not None:
            return
        if choice.get("error"):
            self._take_error(choice["error"])
            return
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise wrong_kind(self._route.provider, "delta", delta, "an object")
        if not self._read.issuperset(delta):
            self._note_others(delta)
        self._think(delta)
        content = delta.get("content")
        if isinstance(content, str):
            self._words.add(content)
        elif content is not None:
            self._take_parts(content)
        if delta.get("refusal"):
            refusal = text_at(delta, "refusal")
            self._refused = self._refused or bool(refusal)
            self._words.add(refusal)
        if delta.get("tool_calls") is not None:
            for piece in objects_in(delta, "tool_calls", self._route.provider):
                self._calls.take(piece)
        self._take_extras(delta)
        self._end(choice)

    def _think(self, delta: dict[str, Any]) -> None:
        for field in self._dialect.reasoning_fields:
            thoughts = delta.get(field)
            if thoughts and isinstance(thoughts, str):
                self._thoughts.add(thoughts)
                break
        if self._keeps_details and isinstance(delta.get("reasoning_details"), list):
            for detail in delta["reasoning_details"]:
                if isinstance(detail, dict):
                    _add_detail(self._details, detail)

    def _take_parts(self, content: object) -> None:
        """Read content that is a list of parts, as some servers write it: words, and what was thought before them."""
        if not isinstance(content, list):
            raise wrong_kind(self._route.provider, "content", content, "text")
        for part in content:
            thoughts = part.get("thinking") if isinstance(part, dict) else None
            if isinstance(thoughts, list):
                thoughts = "".join([text_at(each, "text") for each in thoughts])
            if isinstance(thoughts, str):
                self._thoughts.add(thoughts)
            elif isinstance(part, dict) and "text" in part:
                self._words.add(text_at(part, "text"))
            else:
                self._left_out[f"content ({text_at(part, 'type') or 'unknown'})"] = None

    def _take_extras(self, delta: dict[str, Any]) -> None:
        """Read what only servers send that search or run tools by themselves."""
        if delta.get("annotations"):
            for kind in self._sources.annotate(delta["annotations"]):
                self._left_out[f"annotations ({kind})"] = None
        if delta.get("executed_tools"):
            for ran in objects_in(delta, "executed_tools", self._route.provider):
                self._ran[str(ran.get("index", len(self._ran)))] = ran

    def _note_others(self, delta: dict[str, Any]) -> None:
        for field, value in delta.items():
            if field not in self._read and _says_something(value):
                self._left_out[field] = None

    def _end(self, choice: dict[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if reason is None or reason == "":
            return
        if not isinstance(reason, str):
            raise wrong_kind(self._route.provider, "finish_reason", reason, "text")
        if reason in _GAVE_UP:
            raise self._fault({"type": "server_error", "message": f"finish_reason {reason}"})
        self._reason = reason
        native = text_at(choice, "native_finish_reason")
        if native and not (self._words.text or self._calls):
            self._told.append(f"native_finish_reason: {clip(native)}")

    # --- errors -------------------------------------------------------------------------------------

    def _take_error(self, error: object) -> None:
        """Take the error as what the model wrote, if that is what was refused.

        Raises:
            ProviderError: it is anything else, or nothing was written.
        """
        if text_at(error, "code") != TOOL_USE_FAILED:
            raise self._fault(error)
        written = text_at(error, "failed_generation")
        told = clip(text_at(error, "message"))
        calls = [] if self._calls else failed_calls(written)
        for name, arguments in calls:
            self._calls.take({"function": {"name": name, "arguments": arguments}})
        if not calls and not self._words.text and "<function" not in written:
            self._words.add(written)
        if not calls and (self._calls or not self._words.text):
            # Asked again, the model may write something that can be read.
            raise Unavailable(f"{self._route.provider}: {TOOL_USE_FAILED}: {told}")
        self._told.append(f"{TOOL_USE_FAILED}: {told}")
        self._reason = "stop"
        self.is_over = True

    def _fault(self, error: object) -> ProviderError:
        return from_error_object(error, provider=self._route.provider)

    # --- the reply ----------------------------------------------------------------------------------

    def _said(self) -> list[ReplyPart]:
        parts: list[ReplyPart] = []
        thoughts, words = self._thoughts.text, self._words.text
        replay = self._replay(thoughts)
        if thoughts or replay is not None:
            parts.append(Reasoning(text=thoughts, replay=replay))
        parts += [_ran_tool(ran) for ran in self._ran.values()]
        if words:
            parts.append(Text(text=words, citations=self._sources.citations(words)))
        return parts

    def _replay(self, thoughts: str) -> Json:
        field = self._dialect.replay_field
        kept: object = self._details if self._keeps_details else thoughts
        if field is None or not kept:
            return None
        if field == "content":
            kept = [{"type": "thinking", "thinking": [{"type": "text", "text": thoughts}]}]
        return replay_blob({field: kept}, self._route)

    def _named_by_details(self) -> dict[str, Json]:
        """Return what keeps the server's own id of each call that a detail refers to: the call may get another."""
        named = {text_at(detail, "id") for detail in self._details} - {""}
        return {name: replay_blob({"id": name}, self._route) for name in named}

    def _diagnostic(self, terminal: str, *, is_empty: bool) -> str | None:
        told = list(self._told)
        if terminal == "unknown":
            told.insert(0, f"finish_reason: {clip(str(self._reason))}")
        elif is_empty and terminal == "stop":
            told.insert(0, f"no words and no calls; finish_reason: {self._reason or 'none'}")
        if self._left_out:
            told.append(f"left out of the reply: {clip(', '.join(self._left_out))}")
        return "; ".join(told) or None


class _Sources:
    """Collects the citations of one reply, each once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int | None, int | None], Citation] = {}

    def annotate(self, annotations: object) -> list[str]:
        """Take the `annotations` of a delta; return the kinds of those that are no citation."""
        others: list[str] = []
        for each in annotations if isinstance(annotations, list) else ():
            cited = each.get("url_citation") if isinstance(each, dict) else None
            if isinstance(cited, dict):
                self._add(cited, quote=text_at(cited, "content"))
            else:
                others.append(text_at(each, "type") or "unknown")
        return others

    def list(self, sources: object) -> None:
        """Take a list of addresses, or of objects with one, that stands beside the choices of a chunk."""
        known = {url for url, _, _ in self._found}
        for each in sources if isinstance(sources, list) else ():
            source = {"url": each} if isinstance(each, str) else each
            if isinstance(source, dict) and text_at(source, "url") not in known | {""}:
                self._add(source)

    def _add(self, source: dict[str, Any], *, quote: str = "") -> None:
        url, title = text_at(source, "url"), text_at(source, "title")
        start, end = source.get("start_index"), source.get("end_index")
        if type(start) is not int or type(end) is not int or not 0 <= start < end:
            start = end = None  # servers send 0 and 0 where they do not know the place
        cited = Citation(url=url, title=title, quote=quote, start=start, end=end)
        self._found.setdefault((url, start, end), cited)

    def citations(self, text: str) -> tuple[Citation, ...]:
        """Return the citations of a text; places beyond its end are left out."""
        return tuple(
            [
                each
                if each.end is None or each.end <= len(text)
                else replace(each, start=None, end=None)
                for each in self._found.values()
            ]
        )


def _ran_tool(ran: dict[str, Any]) -> ServerToolCall:
    """Return a tool that the server ran, with what it was asked for."""
    asked = text_at(ran, "arguments")
    try:
        arguments = canonical.parse(asked)
    except ValueError:
        arguments = None
    values = list(arguments.values()) if isinstance(arguments, dict) else []
    told = values[0] if len(values) == 1 and isinstance(values[0], str) else asked
    return ServerToolCall(name=whole_text(text_at(ran, "type") or "tool"), text=whole_text(told))


def _says_something(value: object) -> bool:
    """Whether there is anything in a value; some servers fill fields with empty objects."""
    if isinstance(value, dict):
        return any(map(_says_something, value.values()))
    if isinstance(value, list):
        return any(map(_says_something, value))
    return bool(value)


def _add_detail(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Add a piece of a thought to the thought it belongs to, or begin another."""
    last = details[-1] if details else None
    if last is None or not _is_same_detail(last, piece):
        details.append(dict(piece))
        return
    for name, value in piece.items():
        if name in ("text", "summary", "data") and isinstance(value, str):
            last[name] = (last.get(name) or "") + value
        elif value is not None:
            last[name] = value


def _is_same_detail(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    before, after = last.get("id"), piece.get("id")
    if before is not None and after is not None and before != after:
        return False
    return all(last.get(name) == piece.get(name) for name in ("type", "index"))
