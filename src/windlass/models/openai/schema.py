"""JSON schemas as OpenAI's strict mode takes them, or as words for whoever has no such mode."""

from __future__ import annotations

from typing import Any

from windlass.kernel.value import Json

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
