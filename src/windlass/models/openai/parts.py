"""What the adapters to OpenAI's two protocols share: attachments, strict schemas, cache keys, counts of tokens."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.guards.text import clean_text
from windlass.kernel.messages import Attachment
from windlass.kernel.model_call import NO_USAGE, Usage
from windlass.kernel.value import Json
from windlass.models.capabilities import Capabilities
from windlass.models.message_parts import bytes_of, stand_in
from windlass.models.provider_errors import malformed
from windlass.models.server_events import count_in

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
    kind = attachment.media_type
    if able.images and kind in able.image_types:
        return Shown("image", await _data_url(attachment), name)
    if able.files and kind in able.file_types:
        return Shown("file", await _data_url(attachment), name)
    if kind.startswith("text/") and not is_result:
        words = clean_text((await bytes_of(attachment)).decode(errors="replace"))
        return Shown("text", f"{stand_in(attachment)}\n{words}", name)
    return Shown("text", stand_in(attachment), name)


async def _data_url(attachment: Attachment) -> str:
    coded = b64encode(await bytes_of(attachment)).decode()
    return f"data:{attachment.media_type};base64,{coded}"


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
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    try:
        return _closed(schema)
    except _NotStrictError:
        return None


def is_object_schema(schema: Json) -> bool:
    """Whether a provider takes it as the shape of a whole reply, if not strictly."""
    return isinstance(schema, dict) and schema.get("type") == "object"


class _NotStrictError(Exception):
    """Something in the schema has no strict form."""


def _closed(schema: Json) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise _NotStrictError
    if not _NOT_STRICT.isdisjoint(schema):
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


def cache_key(session_id: str) -> str:
    """Return what groups the requests of a session for the provider's cache, without telling its id."""
    return sha256(session_id.encode()).hexdigest()[:32]


# -------------------------------------------------------------------------------------------- usage


class UsageReport:
    """The counts of one reply. None stands for a provider that said nothing, which is not zero."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.said: dict[str, Any] | None = None
        self.served_model: str | None = None

    def take(self, said: object) -> None:
        """Keep what was said last.

        Raises:
            Malformed: it is not an object.
        """
        if said is None:
            return
        if not isinstance(said, dict):
            raise malformed(self._provider, f"usage: found {type(said).__name__}, wanted an object")
        self.said = said

    def provider_usage(self, asked: str) -> Json:
        """Return what the provider said, and the model that it served where that is another."""
        if self.served_model is None or self.served_model == asked:
            return self.said
        return {**(self.said or {}), "served_model": self.served_model}

    def usage(self) -> Usage:
        """Return the counts in windlass's buckets.

        Raises:
            Malformed: a count is not a number of tokens.
        """
        if self.said is None:
            return NO_USAGE
        said = self.said
        is_chat = "prompt_tokens" in said
        sent, written = ("prompt", "completion") if is_chat else ("input", "output")
        of_sent = said.get(f"{sent}_tokens_details")
        of_written = said.get(f"{written}_tokens_details")
        n_sent = count_in(said, f"{sent}_tokens", self._provider)
        n_written = count_in(said, f"{written}_tokens", self._provider)
        n_cached = count_in(of_sent, "cached_tokens", self._provider)
        n_kept = count_in(of_sent, "cache_write_tokens", self._provider)
        n_thought = count_in(of_written, "reasoning_tokens", self._provider)
        return Usage(
            # Some gateways count what was cached beside what was sent, not within it.
            input_tokens=max(0, n_sent - n_cached - n_kept),
            cached_input_tokens=n_cached,
            cache_write_tokens=n_kept,
            output_tokens=n_written,
            reasoning_tokens=min(n_thought, n_written),
        )
