"""JSON schemas from type hints: without references, without titles, within the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.errors import ConfigError, WindlassError
from windlass.guards.limits import DEFAULT_LIMITS
from windlass.kernel import canonical
from windlass.kernel.value import freeze
from windlass.tools.hints import pattern_refused
from windlass.tools.inlining import inline
from windlass.tools.pydantic_models import is_model, schema_of

_REF: Final = "#/$defs/{name}"
_PATTERNS: Final = ("pattern", "patternProperties")
_JSON_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NOT_MENTIONED: Final = object()


def schemas_of(hints: Mapping[str, Any], *, field: str) -> dict[str, dict[str, Any]]:
    """Return the schema of each hint, all of them readable (see `hints.readable`).

    Raises:
        ConfigError: a hint that has no JSON form, naming the parameter.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, hint in hints.items():
        found[name] = schema_of_hint(hint, field=f"{field}({name})")
    return found


def schema_of_hint(hint: Any, *, field: str) -> dict[str, Any]:  # noqa: ANN401 - a hint is any object
    """Return the schema of one hint.

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


def object_schema(
    properties: Mapping[str, Mapping[str, Any]], required: list[str], *, field: str
) -> dict[str, Any]:
    """Return the schema of a tool's arguments.

    Raises:
        ConfigError: over the limit for schemas.
    """
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return check_size(schema, field=field)


def check_size(schema: dict[str, Any], *, field: str) -> dict[str, Any]:
    """Return the schema if it is within the limits.

    Raises:
        ConfigError: naming the size and the limit, or the place that is not JSON.
    """
    try:
        size = len(canonical.encode(freeze(schema, field=field)))
    except WindlassError as error:
        raise ConfigError(str(error), field=error.field, found=error.found) from None
    limit = DEFAULT_LIMITS.schema_bytes
    if size > limit:
        raise ConfigError(
            f"{field}: the schema has {size:,} bytes, the limit is {limit:,}",
            field=field,
            found=size,
            wanted=limit,
        )
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
    schema = schema_of(model, f"#/$defs/{name}.{{model}}")
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
    return ConfigError(
        f"{field}: found the hint {name}, wanted one with a JSON form ({because})",
        field=field,
        found=name,
    )
