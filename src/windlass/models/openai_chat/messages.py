"""A history as the messages of a chat completion.

Law 1. A call goes out with one id, in the call, in its result, and wherever a provider's blob refers to it. The id that
    its own server gave it is the first choice: only that one agrees with what else the server remembers.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any

from windlass.kernel import Attachment, Reasoning, Text, ToolCall, ToolResult, thaw
from windlass.kernel.model_call import ModelMessage
from windlass.models.capabilities import Capabilities
from windlass.models.message_parts import result_words, stand_in, words_said
from windlass.models.openai import parts
from windlass.models.openai_chat.dialects import Dialect
from windlass.models.route import Route, own_blob

Said = dict[str, Any]

# What Google takes for the signature of a call that another model made. https://ai.google.dev/gemini-api/docs/thought-signatures
_NOT_SIGNED = "skip_thought_signature_validator"


class ChatMessages:
    """Writes the messages of one request, in their order."""

    def __init__(self, route: Route, dialect: Dialect, capabilities: Capabilities) -> None:
        self._route = route
        self._dialect = dialect
        self._capabilities = capabilities
        self._ids = _WireIds(route, dialect)

    async def written(self, message: ModelMessage) -> list[Said]:
        """Return one message as those it takes.

        Raises:
            InvalidInput, StoreError: an attachment cannot be read.
        """
        if message.role == "assistant":
            return self._said(message)
        if message.role == "system":
            words = [part.text for part in message.parts if isinstance(part, Text)]
            return [{"role": "system", "content": "\n\n".join(words)}]
        results: list[Said] = []
        content: list[Said] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                results.append(self._result(part))
                content += await self._beside(part)
            elif isinstance(part, Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Attachment):
                content.append(await self._attached(part))
        return [*results, *_user(content)]

    # --- what the model said ------------------------------------------------------------------------

    def _said(self, message: ModelMessage) -> list[Said]:
        words = words_said(message.parts)
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        if not words and not calls:
            return []
        said: Said = {"role": "assistant", "content": words or None}
        named = [(self._ids.own(call), self._ids.of_call(call)) for call in calls]
        if calls:
            said["tool_calls"] = [
                {"id": sent, "type": "function", "function": parts.called(call)}
                for call, (_, sent) in zip(calls, named, strict=True)
            ]
        for part in message.parts:
            if isinstance(part, Reasoning):
                self._remember(said, thaw(own_blob(part.replay, self._route)) or {}, named)
        if self._dialect.replay_needed and self._dialect.replay_field is not None:
            said.setdefault(self._dialect.replay_field, "")
        if calls and self._route.model.startswith(self._dialect.signed_calls):
            _excuse(said, named[0][1])
        return [said]

    def _remember(self, said: Said, blob: Said, named: list[tuple[str, str]]) -> None:
        """Add what the server thought, as it gave it."""
        for field, value in blob.items():
            if field == "content":
                words = said["content"]
                text = [{"type": "text", "text": words}] if isinstance(words, str) else words or []
                said["content"] = [*value, *text]
            elif field == "reasoning_details":
                said[field] = [*said.get(field, ()), *_renamed(value, named)]
            else:
                said[field] = value

    # --- results and attachments --------------------------------------------------------------------

    def _result(self, result: ToolResult) -> Said:
        call_id = self._ids.of_result(result)
        return {"role": "tool", "tool_call_id": call_id, "content": result_words(result)}

    async def _beside(self, result: ToolResult) -> list[Said]:
        """Return the images of a result, which may only stand in a user's message."""
        found: list[Said] = []
        for part in result.content:
            if isinstance(part, Attachment) and part.media_type in self._capabilities.image_types:
                image = await self._attached(part)
                if image["type"] == "image_url":
                    about = f"{stand_in(part)} of the result of {result.name}:"
                    found += [{"type": "text", "text": about}, image]
        return found

    async def _attached(self, attachment: Attachment) -> Said:
        found = await parts.shown(attachment, self._capabilities)
        if found.kind == "image":
            return {"type": "image_url", "image_url": {"url": found.content}}
        if found.kind == "file":
            return {"type": "file", "file": {"filename": found.name, "file_data": found.content}}
        return {"type": "text", "text": found.content}


def _user(content: list[Said]) -> list[Said]:
    """Return a user's message; words alone as plain text, which every server takes."""
    if not content:
        return []
    if all(part["type"] == "text" for part in content):
        return [{"role": "user", "content": "\n\n".join([part["text"] for part in content])}]
    return [{"role": "user", "content": content}]


def strictly_ordered(messages: list[Said]) -> list[Said]:
    """Return messages in the order that Mistral insists on.

    System messages stand first, later ones are the user's; between results and a user's message the assistant speaks.
    """
    ordered: list[Said] = []
    for message in messages:
        before = ordered[-1]["role"] if ordered else "system"
        role = message["role"]
        if role == "system" and before != "system":
            role = "user"
        if role == "user" and before == "tool":
            ordered.append({"role": "assistant", "content": "OK."})
        ordered.append({**message, "role": role})
    return ordered


# ---------------------------------------------------------------------------------- ids of calls


class _WireIds:
    """The ids that the calls of one request are sent with: the server's own, or windlass's, fitted to its rule."""

    def __init__(self, route: Route, dialect: Dialect) -> None:
        self._route = route
        self._n_chars = dialect.call_id_chars
        self._sent: dict[str, str] = {}

    def own(self, call: ToolCall) -> str:
        """Return the id that this very server gave a call, if something refers to it; else nothing."""
        blob = own_blob(call.replay, self._route)
        found = blob.get("id") if isinstance(blob, dict) else None
        return found if isinstance(found, str) else ""

    def of_call(self, call: ToolCall) -> str:
        """Return the id of a call, which no call before it has."""
        own = self.own(call)
        is_free = bool(own) and own not in self._sent.values()
        sent = self._sent[call.call_id] = own if is_free else self._fitted(call.call_id)
        return sent

    def of_result(self, result: ToolResult) -> str:
        """Return the id of the call that a result answers."""
        return self._sent.get(result.call_id) or self._fitted(result.call_id)

    def _fitted(self, call_id: str) -> str:
        n_chars = self._n_chars
        fits = len(call_id) == n_chars and call_id.isascii() and call_id.isalnum()
        if n_chars is None or fits:
            return call_id
        return b64encode(sha256(call_id.encode()).digest(), b"Aa")[:n_chars].decode()


def _renamed(details: list[Said], named: list[tuple[str, str]]) -> list[Said]:
    """Return details that name the calls by the ids which are sent; `named` has the server's id of each beside it."""
    sent: dict[str, list[str]] = {}
    for own, other in named:
        if own:
            sent.setdefault(own, []).append(other)
    renamed = []
    for detail in details:
        waiting = sent.get(detail.get("id") or "")
        if waiting:
            # Of two calls by one id, the first detail belongs to the first.
            detail = {**detail, "id": waiting.pop(0) if len(waiting) > 1 else waiting[0]}  # noqa: PLW2901
        renamed.append(detail)
    return renamed


def _excuse(said: Said, call_id: str) -> None:
    """Say of calls that no signature came with them, as OpenRouter passes it on to Google: once, at the first call."""
    details = said.get("reasoning_details", [])
    if any(detail.get("type") == "reasoning.encrypted" for detail in details):
        return
    skipped = {
        "type": "reasoning.encrypted",
        "data": _NOT_SIGNED,
        "id": call_id,
        "format": "google-gemini-v1",
        "index": 0,
    }
    said["reasoning_details"] = [*details, skipped]


# --- marks for the cache --------------------------------------------------------------------------------


_MARK = {"type": "ephemeral"}


def mark_for_cache(body: Said) -> None:
    """Mark the ends of what stays, as Anthropic wants it behind a router: tools, system, the user's last two messages."""
    # A router's own tools never reach Anthropic.
    functions = [tool for tool in body.get("tools") or () if tool["type"] == "function"]
    for tool in functions[-1:]:
        tool["cache_control"] = dict(_MARK)
    messages = body["messages"]
    systems = [each for each in messages if each["role"] == "system"][-1:]
    for message in [*systems, *[each for each in messages if each["role"] == "user"][-2:]]:
        content = message["content"]
        if isinstance(content, str):
            content = message["content"] = [{"type": "text", "text": content}]
        content[-1]["cache_control"] = dict(_MARK)
