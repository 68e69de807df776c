"""JSON schemas from type hints: without references, without titles, within the limits.

Not every provider follows references, and none of them needs to: each `$ref` is replaced by what it points to.
Pydantic models are recognised by their attributes; windlass never imports pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.errors import ConfigError, InvalidInput, WindlassError
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel import canonical, freeze

_REF: Final = "#/$defs/{name}"
_PATTERNS: Final = ("pattern", "patternProperties")
_JSON_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NOT_MENTIONED: Final = object()


def schema_of_hint(hint: Any, *, field: str) -> dict[str, Any]:  # noqa: ANN401 - a hint is any object
    """Return the schema of one hint, which is readable (see `signature.readable`).

    Raises:
        ConfigError: it has no JSON form, contains itself, or holds a regular expression.
    """
    models: dict[str, Any] = {}

    def of_custom(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a class of the user's
        if not is_model(kind):
            raise NotImplementedError
        # The id tells two models of one name apart; it is gone when the reference is written out.
        name = f"{kind.__name__}@{id(kind)}"
        models[name] = kind
        return {"$ref": _REF.format(name=name)}

    try:
        (schema,), definitions = msgspec.json.schema_components(
            [hint], schema_hook=of_custom, ref_template=_REF
        )
    except (TypeError, NameError, NotImplementedError) as error:
        raise _no_schema(hint, error, field) from None
    # Only what msgspec runs is looked at: pydantic's own engine takes linear time.
    refuse_patterns({"anyOf": [schema, *definitions.values()]}, field=field)
    for name, model in models.items():
        definitions |= _of_model(model, name)
    tidy: dict[str, Any] = _tidied(inline(schema, definitions, field=field))
    return tidy


def check_size(schema: dict[str, Any], *, field: str) -> dict[str, Any]:
    """Return the schema if it is within the limits.

    Raises:
        ConfigError: naming the size and the limit, or the place that is not JSON.
    """
    try:
        size = len(canonical.encode(freeze(schema, field=field)))
    except WindlassError as error:
        raise ConfigError(str(error), field=error.field, found=error.found) from None
    limit = INPUT_LIMITS.schema_bytes
    if size > limit:
        raise ConfigError.at(field, f"a schema of {size:,} bytes", f"at most {limit:,}")
    return schema


def default_as_json(default: object) -> object:
    """Return a default as the schema shows it, or `...` when it is not to be shown."""
    if default is None:
        return ...
    try:
        return freeze(msgspec.to_builtins(default), field="default")
    except (WindlassError, TypeError, ValueError, RecursionError):
        return ...


def refuse_patterns(node: object, *, field: str) -> None:
    """Refuse a schema with a regular expression.

    Raises:
        ConfigError: always, when there is one.
    """
    if isinstance(node, Mapping):
        if any(name in node and _is_keyword(node, name) for name in _PATTERNS):
            raise pattern_refused(field)
        for item in node.values():
            refuse_patterns(item, field=field)
    elif isinstance(node, list | tuple):
        for item in node:
            refuse_patterns(item, field=field)


def _is_keyword(node: Mapping[str, Any], name: str) -> bool:
    # A property may be called `pattern`; then it holds a schema and not text.
    value = node[name]
    return isinstance(value, str) if name == "pattern" else "type" not in value


def _of_model(model: Any, name: str) -> dict[str, Any]:  # noqa: ANN401 - a class of the user's
    schema = model.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    parts = {f"{name}.{part}": body for part, body in schema.get("$defs", {}).items()}
    return {name: schema, **parts}


def _tidied(node: Any) -> Any:  # noqa: ANN401 - JSON
    """Give enums their type, which some providers want, and drop `default: null`, which says nothing."""
    if isinstance(node, list):
        return [_tidied(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {
        key: value if key in {"enum", "const", "default", "examples"} else _tidied(value)
        for key, value in node.items()
    }
    if tidy.get("default", _NOT_MENTIONED) is None:
        del tidy["default"]
    kinds = {type(value) for value in tidy["enum"]} if isinstance(tidy.get("enum"), list) else set()
    if "type" not in tidy and len(kinds) == 1 and (kind := _JSON_TYPES.get(kinds.pop())):
        tidy = {"type": kind, **tidy}
    return tidy


def _no_schema(hint: object, error: Exception, field: str) -> ConfigError:
    reason = str(error).strip().splitlines()
    because = reason[-1] if reason else "no such type is known"
    name = getattr(hint, "__name__", None) or str(hint)
    return ConfigError.at(field, f"the hint {name}", f"one with a JSON form ({because})")


def pattern_refused(field: str) -> ConfigError:
    """Return the refusal of a regular expression: one that backtracks would stop the whole process."""
    instead = "check the text in the tool's body, where it can raise ToolError"
    told = f"{field}: found a regular expression, wanted none; {instead}"
    return ConfigError(told, field=field, found="a regular expression")


# --------------------------------------------------------------------- references written out

_OBJECTS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS_OF_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS: Final = frozenset(
    {
        "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
        "unevaluatedProperties", "unevaluatedItems", "additionalItems",
    }
)  # fmt: skip
# They name the document, or hold what `inline` writes out.
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
    """Holds what the walk needs: the definitions, and how much more it may write."""

    def __init__(self, definitions: Mapping[str, Any], field: str) -> None:
        self.definitions = definitions
        self.field = field
        # A node takes two bytes at least; types that share parts can grow without bound.
        self.room = INPUT_LIMITS.schema_bytes // 2

    def written_out(self, node: object, trail: tuple[str, ...], depth: int = 0) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(node, Mapping):
            return node  # true and false are schemas, too
        self.room -= 1
        if self.room < 0 or depth > INPUT_LIMITS.json_depth:
            limit = f"{INPUT_LIMITS.json_depth} levels and {INPUT_LIMITS.schema_bytes:,} bytes"
            raise ConfigError.at(self.field, "a schema that is too large", f"at most {limit}")
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
            raise ConfigError.at(self.field, key, "a schema without it")
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
            found = "a reference to another document"
            raise ConfigError.at(self.field, found, "a schema without one")
        if text == "#" or name in trail:
            found = f"a type that contains itself ({name or 'the whole schema'})"
            instead = "take a list of flat items, or JSON as dict[str, Any]"
            raise ConfigError.at(self.field, found, f"a type that can be written out; {instead}")
        if name is None or name not in self.definitions:
            raise ConfigError.at(self.field, "a reference to nothing", "one to #/$defs/<name>")
        return name


# --------------------------------------------------------------------------- pydantic's models

_MARK: Final = "__pydantic_core_schema__"


def is_model(hint: object) -> bool:
    """Whether `hint` is a pydantic model."""
    return isinstance(hint, type) and hasattr(hint, _MARK) and hasattr(hint, "model_validate")


def is_from_pydantic(note: object) -> bool:
    """Whether `note`, found in an `Annotated`, belongs to pydantic or to what it builds on."""
    return type(note).__module__.partition(".")[0] in {"annotated_types", "pydantic"}


def validated(model: Any, value: object) -> object:  # noqa: ANN401 - no type of ours
    """Return the model built from JSON, by its own rules.

    Raises:
        InvalidInput: `field` is the path inside the model; the values found are not repeated.
    """
    try:
        return model.model_validate(value)
    except ValueError as error:
        errors = getattr(error, "errors", None)
        if errors is None:
            raise
        first = errors(include_url=False, include_context=False, include_input=False)[0]
        path = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
        raise InvalidInput(first["msg"], field=path, found=first["type"]) from None
