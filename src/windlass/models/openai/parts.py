"""What the adapters to OpenAI's two protocols share: attachments, strict schemas, cache keys, counts of tokens."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.kernel import Attachment, Json, ToolCall, ToolSpec, thaw
from windlass.kernel.model_call import ModelReply, ModelRequest, ReplyPart, Usage
from windlass.models.capabilities import Capabilities
from windlass.models.message_parts import (
    arguments_of,
    attached_words,
    bytes_of,
    stand_in,
    text_at,
)
from windlass.models.provider_errors import list_at, wrong_kind
from windlass.models.usage_report import UsageReport

Kind: TypeAlias = Literal["image", "file", "text"]


class Shown(msgspec.Struct, frozen=True):
    """What is sent of an attachment: `content` is a data URL, or words for the kind `text`."""

    kind: Kind
    content: str
    name: str


async def shown(attachment: Attachment, able: Capabilities, *, is_result: bool = False) -> Shown:
    """Return what a model of these abilities is shown: images and files as data URLs, text as text, else the name.

    The text of a tool's result is only named: it is the whole of what was shortened on purpose.

    Raises:
        InvalidInput, StoreError: its bytes cannot be read.
    """
    name = attachment.name or "attachment"
    kind = able.taken_as(attachment.media_type)
    if kind is not None:
        coded = b64encode(await bytes_of(attachment)).decode()
        return Shown(kind, f"data:{attachment.media_type};base64,{coded}", name)
    words = stand_in(attachment) if is_result else await attached_words(attachment)
    return Shown("text", words, name)


# ------------------------------------------------------------------------------------------ schemas


# What strict mode has no grammar for. https://platform.openai.com/docs/guides/structured-outputs
_NOT_STRICT = frozenset(
    {
        "allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf",
        "patternProperties", "prefixItems", "propertyNames", "then", "unevaluatedProperties",
    }
)  # fmt: skip
_MAPS_OF_SCHEMAS = ("properties", "$defs", "definitions")
_SCHEMAS = ("items",)
_LISTS_OF_SCHEMAS = ("anyOf",)


def strict_schema(schema: Json) -> dict[str, Any] | None:
    """Return the schema closed as strict mode wants it, or None if it cannot be said there.

    Every property becomes required: a strict model always writes all of them, and what it then writes
    fits the looser schema, too.
    """
    try:
        return _closed(schema) if is_object_schema(schema) else None
    except _NotStrictError:
        return None


def is_object_schema(schema: Json) -> bool:
    """Whether a provider takes it as the shape of a whole reply, if not strictly."""
    return isinstance(schema, dict) and schema.get("type") == "object"


class _NotStrictError(Exception):
    """Something in the schema has no strict form."""


def _closed(schema: Json) -> dict[str, Any]:
    if not isinstance(schema, dict) or not _NOT_STRICT.isdisjoint(schema):
        raise _NotStrictError
    closed = {name: _closed_member(name, value) for name, value in schema.items()}
    closed.pop("default", None)
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties", False) is not False:
            raise _NotStrictError
        properties = closed.setdefault("properties", {})
        closed["required"] = list(properties)
        closed["additionalProperties"] = False
    return closed


def _closed_member(name: str, value: Json) -> Json:
    if name in _MAPS_OF_SCHEMAS:
        if not isinstance(value, dict):
            raise _NotStrictError
        return {key: _closed(item) for key, item in value.items()}
    if name in _LISTS_OF_SCHEMAS:
        return [_closed(item) for item in value]
    if name in _SCHEMAS:
        return _closed(value)
    return value


def function_of(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool as both protocols describe it."""
    parameters = thaw(tool.parameters) or {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description, "parameters": parameters}


def called(call: ToolCall) -> dict[str, str]:
    """Return a call that the model made as both protocols say it."""
    return {"name": call.name, "arguments": arguments_of(call)}


def named_schema(schema: Json, *, is_closed: bool = True) -> dict[str, Any]:
    """Return the shape of a whole reply, closed as strict mode wants it where that can be said."""
    strict = strict_schema(schema) if is_closed else None
    return {
        "name": "output",
        "schema": thaw(schema) if strict is None else strict,
        "strict": strict is not None or not is_closed,
    }


def cache_key(request: ModelRequest) -> str | None:
    """Return what groups the requests of a session for the provider's cache, without telling its id."""
    session_id = request.session_id
    return None if session_id is None else sha256(session_id.encode()).hexdigest()[:32]


# ------------------------------------------------------------------------------------------ replies


def objects_in(owner: dict[str, Any], field: str, provider: str) -> list[dict[str, Any]]:
    """Return the objects in a list; none if the field is not there.

    Raises:
        Malformed: it is not a list, or not of objects.
    """
    found = list_at(owner, field, provider)
    for each in found:
        if not isinstance(each, dict):
            raise wrong_kind(provider, f"{field}[]", each, "an object")
    return found


def texts_in(parts: object) -> list[str]:
    """Return the texts of a list of parts; what is not one is passed over."""
    texts = [text_at(part, "text") for part in (parts if isinstance(parts, list) else ())]
    return [text for text in texts if text]


def reply_of(
    parts: tuple[ReplyPart, ...],
    report: UsageReport,
    terminal: str,
    diagnostic: str | None,
    *,
    is_refused: bool,
) -> ModelReply:
    """Return a whole reply. `terminal` is `stop` for any usual end: whether there are calls says what it is.

    Raises:
        Malformed: a count is not a number of tokens.
    """
    if terminal == "stop" and any(isinstance(part, ToolCall) for part in parts):
        terminal = "tool_use"
    elif terminal == "stop" and is_refused:
        terminal, diagnostic = "content_filter", "The model refused to answer."
    return ModelReply(
        parts=parts,
        usage=_usage(report),
        terminal=terminal,
        diagnostic=diagnostic,
        provider_usage=report.provider_usage(),
    )


def _usage(report: UsageReport) -> Usage:
    """Return the counts of a reply in windlass's buckets."""
    is_chat = "prompt_tokens" in (report.said or {})
    sent, written = ("prompt", "completion") if is_chat else ("input", "output")
    n_sent, n_written = report.count(f"{sent}_tokens"), report.count(f"{written}_tokens")
    n_cached = report.count("cached_tokens", of=f"{sent}_tokens_details")
    # DeepSeek, Together and Mistral, each beside the details or in their place.
    for name in ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"):
        n_cached = n_cached or report.count(name)
    n_kept = report.count("cache_write_tokens", of=f"{sent}_tokens_details")
    n_thought = report.count("reasoning_tokens", of=f"{written}_tokens_details")
    return Usage(
        # Some gateways count what was cached beside what was sent, not within it.
        input_tokens=max(0, n_sent - n_cached - n_kept),
        cached_input_tokens=n_cached,
        cache_write_tokens=n_kept,
        output_tokens=n_written,
        reasoning_tokens=min(n_thought, n_written),
    )
