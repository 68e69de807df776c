"""A schema of an answer as Anthropic's structured output takes it."""

from __future__ import annotations

from typing import Any


def output_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the words that the API knows; what it does not know becomes part of a description.

    None if the API would hold the model to something else: it knows no object with keys of any name, and no
    place where anything may stand.
    """
    from anthropic import transform_schema  # noqa: PLC0415 - only who asks for a shape needs it

    one_type = _with_one_type(schema)
    if _is_open(one_type):
        return None
    try:
        return transform_schema(one_type)
    except (ValueError, TypeError, AttributeError, AssertionError):
        return None


def _with_one_type(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the schema with `{"type": [a, b]}` as a choice of two."""
    if isinstance(schema, list):
        return [_with_one_type(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _with_one_type(value) for key, value in schema.items()}
    kinds = found.get("type")
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        return found
    del found["type"]
    return {"anyOf": [{**(found if kind != "null" else {}), "type": kind} for kind in kinds]}


def _is_open(schema: object) -> bool:
    """Whether an object in it may have keys that it does not name."""
    if isinstance(schema, list):
        return any(map(_is_open, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        named = isinstance(schema.get("properties"), dict) and bool(schema["properties"])
        if not closed and not (named and "additionalProperties" not in schema):
            return True
    return any(map(_is_open, schema.values()))
