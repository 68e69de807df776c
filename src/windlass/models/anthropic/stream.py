"""Reads the events of Anthropic's stream into a reply.

Law 1. There is a reply only after `message_stop`. Until then neither text nor calls count.
Law 2. Blocks stand in the order of their numbers; what is unknown is passed over, what contradicts itself is
    malformed.
"""

from __future__ import annotations

from typing import Any

from windlass.errors import CallerError
from windlass.kernel import Json, Reasoning, Text, ToolCall
from windlass.kernel.model_call import KnownTerminal, ModelReply, ReplyPart, Usage
from windlass.models.anthropic.request import AnswerTool
from windlass.models.message_parts import Words, paired, text_at, tool_call, whole_text
from windlass.models.provider_errors import clip, cut_off, from_error_object, malformed
from windlass.models.route import Route, replay_blob
from windlass.models.usage_report import UsageReport
from windlass.ports.model import EmitModelEvent, ReasoningChunk, TextChunk

_PROVIDER = "anthropic"
_TERMINALS: dict[str, KnownTerminal] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_use",
    "max_tokens": "output_limit",
    "refusal": "content_filter",
    "model_context_window_exceeded": "context_overflow",
}
# By a delta's type: the kind of block that it continues, and its field.
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
_KINDS = frozenset(kind for kind, _ in _DELTAS.values())


class _Block:
    """A block as far as it has come."""

    def __init__(self, start: dict[str, Any], emit: EmitModelEvent) -> None:
        self.kind = start.get("type")
        self.start = start
        self.text: list[str] = []
        self.shown = Words(emit, TextChunk if self.kind == "text" else ReasoningChunk)
        self.signature = [text_at(start, "signature")]
        self.is_whole = False
        self.add(text_at(start, "text" if self.kind == "text" else "thinking"))

    def add(self, said: str) -> None:
        """Take more of it; words and thoughts are shown, arguments are not."""
        self.text.append(said)
        if self.kind in ("text", "thinking"):
            self.shown.add(said)


class StreamReader:
    """Takes events one by one; `reply` is there once `is_over`.

    `answer_tool` is a tool whose arguments are the answer: its call becomes text.
    """

    def __init__(
        self, route: Route, emit: EmitModelEvent, *, answer_tool: AnswerTool | None
    ) -> None:
        self._route = route
        self._emit = emit
        self._answer_tool = answer_tool
        self._blocks: dict[int, _Block] = {}
        self._usage = UsageReport(route)
        self._stop: dict[str, Any] = {}
        self._is_begun = False
        self.is_over = False

    def take(self, event: dict[str, Any] | None) -> None:
        """Read one event; what comes behind the last one is nothing.

        Raises:
            ProviderError: it says that there will be no reply, or cannot be understood.
        """
        if self.is_over or event is None:
            return
        kind = event.get("type")
        if kind == "error":
            raise from_error_object(event.get("error"), provider=_PROVIDER)
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if read is not None:
            read(self, event)

    def _message_start(self, event: dict[str, Any]) -> None:
        if self._is_begun:
            raise malformed(_PROVIDER, "a second message began in one reply")
        self._is_begun = True
        message = _part(event, "message")
        self._add_usage(message, served=message.get("model"))

    def _block_start(self, event: dict[str, Any]) -> None:
        at = _number(event)
        if at in self._blocks:
            raise malformed(_PROVIDER, "one block of a reply began twice")
        self._blocks[at] = _Block(_part(event, "content_block"), self._emit)

    def _block_delta(self, event: dict[str, Any]) -> None:
        block = self._open_block(event)
        delta = _part(event, "delta")
        kind = delta.get("type")
        if kind not in _DELTAS:
            return
        wanted, field = _DELTAS[kind]
        if block.kind in _KINDS and block.kind != wanted:
            raise malformed(_PROVIDER, "a block was continued as one of another kind")
        said = text_at(delta, field)
        if kind == "signature_delta":
            block.signature.append(said)
        else:
            block.add(said)

    def _block_stop(self, event: dict[str, Any]) -> None:
        self._open_block(event).is_whole = True

    def _open_block(self, event: dict[str, Any]) -> _Block:
        block = self._blocks.get(_number(event))
        if block is None or block.is_whole:
            raise malformed(_PROVIDER, "a block was continued that is not open")
        return block

    def _message_delta(self, event: dict[str, Any]) -> None:
        self._stop.update({key: value for key, value in _part(event, "delta").items() if value})
        self._add_usage(event)

    def _message_stop(self, _event: dict[str, Any]) -> None:
        self.is_over = True

    def _add_usage(self, owner: dict[str, Any], *, served: object = None) -> None:
        """Counts are sums so far; one that is null says nothing."""
        found = owner.get("usage")
        if isinstance(found, dict):
            found = {key: value for key, value in found.items() if value is not None}
        self._usage.take(found, served=served)

    # --- the reply --------------------------------------------------------------------------------

    def reply(self) -> ModelReply:
        """Return the reply.

        Raises:
            ProviderError: the stream ended before the reply did, or contradicts itself.
        """
        if not self.is_over:
            raise cut_off(_PROVIDER)
        reason = self._stop.get("stop_reason")
        blocks = [self._blocks[at] for at in sorted(self._blocks)]
        if not isinstance(reason, str) or not all(block.is_whole for block in blocks):
            raise malformed(_PROVIDER, "a reply ended that was not whole")
        parts = [part for part in map(self._reply_part, blocks) if part is not None]
        terminal = _TERMINALS.get(reason) or clip(reason)
        if self._answer_tool is not None:
            parts, terminal = self._answer_tool.read(parts, terminal)
        return ModelReply(
            parts=tuple(parts),
            usage=_usage(self._usage),
            terminal=terminal,
            diagnostic=self._diagnostic(),
            provider_usage=self._usage.provider_usage(),
        )

    def _reply_part(self, block: _Block) -> ReplyPart | None:
        said = block.shown.text
        match block.kind:
            case "text":
                return Text(text=said) if said else None
            case "thinking":
                return Reasoning(text=said, replay=self._signed(block))
            case "redacted_thinking":
                data = text_at(block.start, "data")
                blob = {"type": "redacted_thinking", "data": data}
                return Reasoning(replay=replay_blob(blob, self._route))
            case "tool_use":
                return _call(block)
            case _:
                return None

    def _signed(self, block: _Block) -> Json:
        """Return the thought as it has to be shown again: to the letter, with its signature."""
        signature = "".join(block.signature)
        if not signature:
            return None
        thought = paired("".join(block.text))
        blob = {"type": "thinking", "thinking": thought, "signature": signature}
        return replay_blob(blob, self._route)

    def _diagnostic(self) -> str | None:
        told = text_at(self._stop.get("stop_details"), "explanation")
        if told:
            return clip(told)
        served = self._usage.other_model
        if served is not None and not served.startswith(self._route.model):
            return clip(f"answered by {served}")
        return None


_READERS = {
    "message_start": StreamReader._message_start,  # noqa: SLF001 - its own table
    "content_block_start": StreamReader._block_start,  # noqa: SLF001
    "content_block_delta": StreamReader._block_delta,  # noqa: SLF001
    "content_block_stop": StreamReader._block_stop,  # noqa: SLF001
    "message_delta": StreamReader._message_delta,  # noqa: SLF001
    "message_stop": StreamReader._message_stop,  # noqa: SLF001
}


def _call(block: _Block) -> ToolCall:
    """Return a call with its arguments, if they can be read; the text is kept either way."""
    call_id, name = text_at(block.start, "id"), text_at(block.start, "name")
    if not call_id or not name:
        raise malformed(_PROVIDER, "a call without an id or a name")
    written = "".join(block.text)
    given = block.start.get("input")
    if written.strip() or not isinstance(given, dict):
        return tool_call(call_id, name, written)
    try:
        return ToolCall(call_id=whole_text(call_id), name=whole_text(name), args=given)
    except CallerError:
        return tool_call(call_id, name, written)


def _usage(report: UsageReport) -> Usage:
    return Usage(
        input_tokens=report.count("input_tokens"),
        output_tokens=report.count("output_tokens"),
        cached_input_tokens=report.count("cache_read_input_tokens"),
        cache_write_tokens=report.count("cache_creation_input_tokens"),
        reasoning_tokens=report.count("thinking_tokens", of="output_tokens_details"),
    )


def _part(owner: dict[str, Any], field: str) -> dict[str, Any]:
    found = owner.get(field)
    if not isinstance(found, dict):
        raise malformed(_PROVIDER, f"an event without its {field}")
    return found


def _number(event: dict[str, Any]) -> int:
    found = event.get("index")
    if type(found) is not int:
        raise malformed(_PROVIDER, "a block without its number")
    return found
