"""The events of one response, read into a reply.

Law 1. Items count as the provider completed them; deltas are only shown. Where a reply was cut off, what
    came of its last item is kept, for the words in it have been paid for.
Law 2. No reply before `response.completed`, `.incomplete` or `.failed`; what comes after is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.errors import ProviderError
from windlass.kernel.messages import Reasoning, Text, ToolCall
from windlass.kernel.model_call import KnownTerminal, ModelReply, ReplyPart
from windlass.models.message_parts import Words, text_at, tool_call, whole_text
from windlass.models.openai.parts import reply_of, texts_in
from windlass.models.provider_errors import (
    clip,
    cut_off,
    from_error_object,
    malformed,
    wrong_kind,
)
from windlass.models.route import Route, replay_blob
from windlass.models.usage_report import UsageReport
from windlass.ports.model import EmitModelEvent, ReasoningChunk

_CUT_BY: dict[str, KnownTerminal] = {
    "max_output_tokens": "output_limit",
    "content_filter": "content_filter",
}
# The provider's policy stopped it: an outcome to show, not a fault to repeat.
_POLICY = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "cyber_policy",
        "image_content_policy_violation",
        "misalignment_policy_violation",
    }
)
# What these begin lies in the request: an image that cannot be read, a prompt that is too long.
_REQUESTS_FAULT = ("context_length_", "empty_", "image_", "invalid_", "unsupported_")
_BLOB_FIELDS = ("id", "type", "summary", "content", "encrypted_content")


class _Item:
    """One item of the output, as far as it is there."""

    def __init__(self, order: int, emit: EmitModelEvent) -> None:
        self.order = order
        self.found: dict[str, Any] = {}
        self.is_done = False
        self.words = Words(emit)
        self.thoughts = Words(emit, ReasoningChunk)
        self.written: list[str] = []


class ResponseReader:
    """Reads one response. `wants_value`: a schema was asked for, so a refusal is not an answer."""

    def __init__(self, route: Route, emit: EmitModelEvent, *, wants_value: bool = False) -> None:
        self._route = route
        self._emit = emit
        self._wants_value = wants_value
        self._items: dict[object, _Item] = {}
        self._last_number = -1
        self._refused = False
        self._usage = UsageReport(route)
        self._ended: dict[str, Any] | None = None
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "response.output_item.added": self._on_item,
            "response.output_item.done": self._on_item,
            "response.output_text.delta": self._on_words,
            "response.refusal.delta": self._on_words,
            "response.reasoning_summary_part.added": self._on_thought_begun,
            "response.reasoning_summary_text.delta": self._on_thought,
            "response.reasoning_text.delta": self._on_thought,
            "response.function_call_arguments.delta": self._on_arguments,
            "response.completed": self._on_end,
            "response.incomplete": self._on_end,
            "response.failed": self._on_end,
            "error": self._on_error,
        }

    @property
    def is_over(self) -> bool:
        """Whether the response has ended."""
        return self._ended is not None

    def take(self, event: dict[str, Any] | None) -> None:
        """Read one event; those of kinds that are not known say nothing about the reply.

        Raises:
            ProviderError: the event says so, or is not in the protocol.
        """
        if event is None or self.is_over:
            return
        number = event.get("sequence_number")
        if type(number) is int:
            if number <= self._last_number:
                return  # sent twice
            self._last_number = number
        kind = event.get("type")
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(event)
        elif kind is None and event.get("error"):
            self._on_error(event)

    def reply(self) -> ModelReply:
        """Return the reply.

        Raises:
            Unavailable: the stream broke off before the response ended.
            Malformed: what it says of itself is not in the protocol.
        """
        ended = self._ended
        if ended is None:
            raise cut_off(self._route.provider)
        self._take_final_items(ended)
        terminal, diagnostic = self._terminal(ended)
        parts = self._parts(is_whole=terminal == "stop")
        is_refused = self._refused and self._wants_value
        return reply_of(parts, self._usage, terminal, diagnostic, is_refused=is_refused)

    # --- events -------------------------------------------------------------------------------------

    def _item_of(self, event: dict[str, Any]) -> _Item:
        """Return the item that an event is about: by its place, or by its id where places are not told."""
        place = event.get("output_index")
        named = text_at(event, "item_id") or text_at(event.get("item"), "id")
        key: int | str = place if type(place) is int else named
        if key == "":
            raise malformed(self._route.provider, "event: found no output_index, wanted a number")
        known = self._items.get(key)
        if known is None:
            order = key if isinstance(key, int) else len(self._items)
            known = self._items[key] = _Item(order, self._emit)
        return known

    def _on_item(self, event: dict[str, Any]) -> None:
        found = event.get("item")
        if not isinstance(found, dict):
            raise malformed(self._route.provider, "event: found no item, wanted an object")
        item = self._item_of(event)
        item.found = found
        item.is_done = event["type"] == "response.output_item.done"

    def _on_words(self, event: dict[str, Any]) -> None:
        self._item_of(event).words.add(self._delta(event))

    def _on_thought_begun(self, event: dict[str, Any]) -> None:
        item = self._item_of(event)
        if item.thoughts.text:
            item.thoughts.add("\n\n")

    def _on_thought(self, event: dict[str, Any]) -> None:
        self._item_of(event).thoughts.add(self._delta(event))

    def _on_arguments(self, event: dict[str, Any]) -> None:
        self._item_of(event).written.append(self._delta(event))

    def _delta(self, event: dict[str, Any]) -> str:
        delta = event.get("delta")
        if not isinstance(delta, str):
            raise wrong_kind(self._route.provider, "delta", delta, "text")
        return delta

    def _on_end(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            raise malformed(self._route.provider, "event: found no response, wanted an object")
        if event["type"] == "response.failed":
            self._on_failed(response)
        self._usage.take(response.get("usage"), served=response.get("model"))
        self._ended = {**response, "type": event["type"]}

    def _on_failed(self, response: dict[str, Any]) -> None:
        error = response.get("error")
        if text_at(error, "code") not in _POLICY:
            raise self._fault(error)

    def _on_error(self, event: dict[str, Any]) -> None:
        inner = event.get("error")
        raise self._fault(inner if isinstance(inner, dict) else {**event, "type": None})

    def _fault(self, error: object) -> ProviderError:
        """Return what an error of a running response means; an unknown one may pass."""
        if isinstance(error, dict) and text_at(error, "code").startswith(_REQUESTS_FAULT):
            error = {**error, "status": 400}
        return from_error_object(error, provider=self._route.provider)

    # --- the reply ----------------------------------------------------------------------------------

    def _take_final_items(self, ended: dict[str, Any]) -> None:
        """Take from the last event what no event of its own completed."""
        final = ended.get("output")
        for place, found in enumerate(final if isinstance(final, list) else ()):
            if not isinstance(found, dict):
                continue
            key = place if place in self._items or not self._items else found.get("id", place)
            item = self._items.setdefault(key, _Item(place, self._emit))
            if not item.is_done:
                item.found, item.is_done = found, True

    def _terminal(self, ended: dict[str, Any]) -> tuple[str, str | None]:
        if ended["type"] == "response.failed":
            return "content_filter", clip(text_at(ended.get("error"), "message")) or None
        if ended["type"] == "response.completed" and ended.get("status") != "incomplete":
            return "stop", None
        reason = text_at(ended.get("incomplete_details"), "reason")
        return _CUT_BY.get(reason, "unknown"), f"incomplete: {clip(reason) or 'no reason given'}"

    def _parts(self, *, is_whole: bool) -> tuple[ReplyPart, ...]:
        parts: list[ReplyPart] = []
        for item in sorted(self._items.values(), key=lambda each: each.order):
            if is_whole and not item.is_done:
                raise malformed(self._route.provider, "output: found an item that never ended")
            kind = item.found.get("type")
            if kind == "message":
                parts += self._message(item)
            elif kind == "function_call":
                parts.append(self._call(item))
            elif kind == "reasoning":
                parts += self._reasoning(item)
        return tuple(parts)

    def _message(self, item: _Item) -> list[ReplyPart]:
        content = item.found.get("content")
        texts: list[str] = []
        for part in content if item.is_done and isinstance(content, list) else ():
            is_refusal = text_at(part, "type") == "refusal"
            self._refused = self._refused or is_refusal
            texts.append(text_at(part, "refusal" if is_refusal else "text"))
        text = whole_text("".join(texts)) if item.is_done else item.words.text
        return [Text(text=text)] if text else []

    def _call(self, item: _Item) -> ToolCall:
        found = item.found
        name = text_at(found, "name")
        written = found.get("arguments") if item.is_done else "".join(item.written)
        if not name or not isinstance(written, str):
            what = "function_call: found no name or arguments, wanted text"
            raise malformed(self._route.provider, what)
        return tool_call(text_at(found, "call_id"), name, written)

    def _reasoning(self, item: _Item) -> list[ReplyPart]:
        found = item.found
        summary = texts_in(found.get("summary"))
        text = whole_text("\n\n".join(summary) or "".join(texts_in(found.get("content"))))
        text = text or item.thoughts.text
        replay = None
        # Without its encrypted content the provider could not know the item again.
        if item.is_done and found.get("encrypted_content"):
            blob = {name: found[name] for name in _BLOB_FIELDS if found.get(name) is not None}
            blob.setdefault("summary", [])
            replay = replay_blob(blob, self._route)
        return [Reasoning(text=text, replay=replay)] if text or replay else []
