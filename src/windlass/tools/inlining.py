"""A schema without references: each `$ref` is replaced by what it points to.

Not every provider follows references, and none of them needs to. What cannot be written out (a type
that contains itself) or must not be looked up (a reference to another document) is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.errors import ConfigError
from windlass.guards.limits import DEFAULT_LIMITS

_OBJECTS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS_OF_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS: Final = frozenset(
    {
        "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
        "unevaluatedProperties", "unevaluatedItems", "additionalItems",
    }
)  # fmt: skip
# They name the document or hold what is written out now.
_DROPPED: Final = frozenset({"$defs", "definitions", "$schema", "$id", "$comment", "title"})
_FOREIGN: Final = ("$dynamicRef", "$recursiveRef")
_PLACES: Final = ("#/$defs/", "#/definitions/")


def inline(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], *, field: str
) -> dict[str, Any]:
    """Return the schema with every reference written out and without titles.

    Raises:
        ConfigError: a reference leads back to itself, to another document or to nothing; or what
            is written out is over the limits of depth and size.
    """
    written: dict[str, Any] = _Inliner(definitions, field).written_out(schema, ())
    return written


class _Inliner:
    """Carries what the walk needs: the definitions, and how much may still be written."""

    def __init__(self, definitions: Mapping[str, Any], field: str) -> None:
        self.definitions = definitions
        self.field = field
        # A node takes two bytes at least; types that share parts can grow without bound.
        self.room = DEFAULT_LIMITS.schema_bytes // 2

    def written_out(self, node: object, trail: tuple[str, ...], depth: int = 0) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(node, Mapping):
            return node  # true and false are schemas, too
        self.room -= 1
        if self.room < 0 or depth > DEFAULT_LIMITS.json_depth:
            limit = f"{DEFAULT_LIMITS.json_depth} levels and {DEFAULT_LIMITS.schema_bytes:,} bytes"
            raise self._refused("found a schema that is too large", f"at most {limit}")
        written = {
            key: self._value(key, value, trail, depth)
            for key, value in node.items()
            if key not in _DROPPED and key != "$ref"
        }
        if "$ref" in node:
            name = self._target(node["$ref"], trail)
            target = self.written_out(self.definitions[name], (*trail, name), depth + 1)
            # What stands beside a reference was said about this place, so it wins.
            written = {**target, **written} if isinstance(target, dict) else written
        return written

    def _value(self, key: str, value: object, trail: tuple[str, ...], depth: int) -> object:
        if key in _FOREIGN:
            raise self._refused(f"found {key}", "a schema without it")
        if key in _SCHEMAS and not isinstance(value, list):
            return self.written_out(value, trail, depth + 1)
        if key in _OBJECTS_OF_SCHEMAS and isinstance(value, Mapping):
            return {name: self.written_out(item, trail, depth + 2) for name, item in value.items()}
        if (key in _LISTS_OF_SCHEMAS or key == "items") and isinstance(value, list):
            return [self.written_out(item, trail, depth + 2) for item in value]
        return value

    def _target(self, ref: object, trail: tuple[str, ...]) -> str:
        text = ref if isinstance(ref, str) else ""
        name = next((text.removeprefix(p) for p in _PLACES if text.startswith(p)), None)
        if name is None and not text.startswith("#"):
            raise self._refused("found a reference to another document", "a schema without one")
        if text == "#" or name in trail:
            raise self._refused(
                f"found a type that contains itself ({name or 'the whole schema'})",
                "a type that can be written out; take a list of flat items, or JSON as dict[str, Any]",
            )
        if name is None or name not in self.definitions:
            raise self._refused("found a reference to nothing", "one to #/$defs/<name>")
        return name

    def _refused(self, found: str, wanted: str) -> ConfigError:
        return ConfigError(
            f"{self.field}: {found}, wanted {wanted}", field=self.field, found=found, wanted=wanted
        )
