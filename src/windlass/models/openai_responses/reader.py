"""The events of one response, read into a reply.

Law 1. Items count as the provider completed them; deltas are only shown. Where a reply was cut off, what
    came of its last item is kept, for the words in it have been paid for.
Law 2. No reply before `response.completed`, `.incomplete` or `.failed`; what comes after is not read.
Law 3. Two messages stay two texts, each with its phase. What has no place in a reply is named in its diagnostic.
Law 4. A thought is sent back with the item that it led to, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from windlass.errors import ProviderError
from windlass.kernel.messages import Reasoning, Text, ToolCall
from windlass.kernel.model_call import KnownTerminal, ModelReply, ReplyPart
from windlass.models.message_parts import Words, Written, text_at, tool_call, whole_text
from windlass.models.openai.parts import reply_of, texts_in
from windlass.models.openai_responses.items import (
    citations_of,
    is_server_call,
    left_out,
    message_replay,
    phase_of,
    server_call,
    told_of,
    words_of,
)
from windlass.models.provider_errors import (
    clip,
    cut_off,
    from_error_object,
    malformed,
    wrong_kind,
)
from windlass.models.provider_errors.kinds import FILTERED_NAMES
from windlass.models.route import Route, replay_blob
from windlass.models.usage_report import UsageReport
from windlass.ports.model import EmitModelEvent, ReasoningChunk

_CUT_BY: dict[str, KnownTerminal] = {
    "max_output_tokens": "output_limit",
    "content_filter": "content_filter",
}
# What these begin lies in the request: an image that cannot be read, a prompt that is too long.
_REQUESTS_FAULT = ("context_length_", "empty_", "image_", "invalid_", "unsupported_")
_WORDS = frozenset({"output_text", "refusal"})
_BLOB_FIELDS = ("id", "type", "summary", "content", "encrypted_content")


class _Item:
    """One item of the output, as far as it is there."""

    def __init__(self, order: int, emit: EmitModelEvent) -> None:
        self.order = order
        self.found: dict[str, Any] = {}
        self.is_done = False
        self.words = Words(emit)
        self.thoughts = Words(emit, ReasoningChunk)
        self.written = Written(emit)
        self.call_id = self.name = ""

    def take(self, found: dict[str, Any], *, is_done: bool) -> None:
        """Take the item as the provider tells it now."""
        self.found, self.is_done = found, is_done
        self.words.phase = phase_of(found) or self.words.phase
        self.call_id, self.name = text_at(found, "call_id"), text_at(found, "name")


class ResponseReader:
    """Reads one response. `wants_value`: a schema was asked for, so a refusal is not an answer."""

    def __init__(self, route: Route, emit: EmitModelEvent, *, wants_value: bool = False) -> None:
        self._route = route
        self._emit = emit
        self._wants_value = wants_value
        self._items: dict[object, _Item] = {}
        self._last_number = -1
        self._refused = False
        self._told: dict[str, None] = {}  # as a set that keeps its order
        self._left_out: dict[str, None] = {}
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
        reply = reply_of(parts, self._usage, terminal, diagnostic, is_refused=is_refused)
        notes = self._notes(parts, ended)
        if not notes:
            return reply
        return replace(reply, diagnostic="; ".join(filter(None, [reply.diagnostic, *notes])))

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
        is_done = event["type"] == "response.output_item.done"
        self._item_of(event).take(found, is_done=is_done)

    def _on_words(self, event: dict[str, Any]) -> None:
        self._item_of(event).words.add(self._delta(event))

    def _on_thought_begun(self, event: dict[str, Any]) -> None:
        item = self._item_of(event)
        if item.thoughts.text:
            item.thoughts.add("\n\n")

    def _on_thought(self, event: dict[str, Any]) -> None:
        self._item_of(event).thoughts.add(self._delta(event))

    def _on_arguments(self, event: dict[str, Any]) -> None:
        item = self._item_of(event)
        item.written.add(self._delta(event), call_id=item.call_id, name=item.name)

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
        if text_at(error, "code") not in FILTERED_NAMES:
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
            is_placed = place in self._items or not self._items
            key = place if is_placed else text_at(found, "id") or place
            item = self._items.setdefault(key, _Item(place, self._emit))
            if not item.is_done:
                item.take(found, is_done=True)

    def _terminal(self, ended: dict[str, Any]) -> tuple[str, str | None]:
        if ended["type"] == "response.failed":
            return "content_filter", clip(text_at(ended.get("error"), "message")) or None
        if ended["type"] == "response.completed" and ended.get("status") != "incomplete":
            return "stop", None
        reason = text_at(ended.get("incomplete_details"), "reason")
        return _CUT_BY.get(reason, "unknown"), f"incomplete: {clip(reason) or 'no reason given'}"

    def _notes(self, parts: tuple[ReplyPart, ...], ended: dict[str, Any]) -> list[str]:
        """Return what else there is to tell of the reply."""
        notes = list(self._told)
        if self._left_out:
            notes.append(clip(f"left out of the reply: {', '.join(self._left_out)}"))
        if not any(isinstance(part, (Text, ToolCall)) for part in parts):
            kinds = [text_at(item.found, "type") for item in self._in_order()]
            named = ["an empty message" if kind == "message" else kind for kind in kinds]
            what = f"{clip(', '.join(dict.fromkeys(named)))} only" if named else "nothing"
            notes.append(f"ended with {what}, status {clip(text_at(ended, 'status')) or 'unknown'}")
        return notes

    def _in_order(self) -> list[_Item]:
        return sorted(self._items.values(), key=lambda each: each.order)

    def _parts(self, *, is_whole: bool) -> tuple[ReplyPart, ...]:
        parts: list[ReplyPart] = []
        for item in self._in_order():
            if is_whole and not item.is_done:
                raise malformed(self._route.provider, "output: found an item that never ended")
            kind = item.found.get("type")
            if kind == "message":
                parts += self._message(item)
            elif kind == "function_call":
                parts.append(self._call(item))
            elif kind == "reasoning":
                parts += self._reasoning(item)
            else:
                self._add_other(parts, item)
        return tuple(parts)

    def _add_other(self, parts: list[ReplyPart], item: _Item) -> None:
        """Add an item of another kind, if a reply has a place for it: a tool that the provider ran."""
        kind = text_at(item.found, "type")
        if not kind or not item.is_done or not is_server_call(item.found):
            self._left_out[left_out(item.found)] = None
            _keep_no_thought(parts)
            return
        call = server_call(item.found, self._route)
        told = told_of(call, kind)
        if told is not None:
            self._told[told] = None
        if call.replay is None:
            _keep_no_thought(parts)
        parts.append(call)

    def _message(self, item: _Item) -> list[ReplyPart]:
        content: list[dict[str, Any]] = []
        found = item.found.get("content") if item.is_done else None
        for part in found if isinstance(found, list) else ():
            kind = text_at(part, "type")
            self._refused = self._refused or kind == "refusal"
            if isinstance(part, dict) and (words_of(part) or kind in _WORDS):
                content.append(part)
            else:
                self._left_out[f"content of the kind {clip(kind) or 'unknown'}"] = None
        text = whole_text("".join(map(words_of, content))) if item.is_done else item.words.text
        if not text:
            return []
        phase = item.words.phase
        replay = message_replay(phase, content, self._route)
        return [Text(text=text, phase=phase, citations=citations_of(content), replay=replay)]

    def _call(self, item: _Item) -> ToolCall:
        found = item.found
        name = text_at(found, "name")
        written = found.get("arguments") if item.is_done else item.written.text
        if not name or not isinstance(written, str):
            what = "function_call: found no name or arguments, wanted text"
            raise malformed(self._route.provider, what)
        call = tool_call(text_at(found, "call_id"), name, written)
        namespace = whole_text(text_at(found, "namespace"))
        if not namespace:
            return call
        # Where its tool search found the function: the call goes back with it.
        return replace(call, replay=replay_blob({"namespace": namespace}, self._route))

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


def _keep_no_thought(parts: list[ReplyPart]) -> None:
    """Take their blobs from the last thoughts: what they led to is not sent back."""
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if not isinstance(part, Reasoning):
            return
        parts[at] = replace(part, replay=None)
