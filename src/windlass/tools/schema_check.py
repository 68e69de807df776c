"""JSON checked against a ready schema: the common part of JSON Schema, without regular expressions.

What this does not know (`format`, `if`, `not`, `dependentSchemas` …) it leaves to the tool behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from windlass.errors import ArgsInvalid
from windlass.kernel import canonical
from windlass.kernel.value import Json
from windlass.tools.arguments import refused

_MAX_NAME: Final = 40


def check_against(value: Json, schema: Any, path: str) -> None:  # noqa: ANN401 - JSON
    """Refuse a value that its schema does not take.

    Raises:
        ArgsInvalid: naming the first place that does not fit.
    """
    if schema is False:
        raise refused(path, "a value", "nothing: the schema takes none here")
    if not isinstance(schema, Mapping):
        return
    _check_type(value, schema, path)
    _check_choices(value, schema, path)
    _check_branches(value, schema, path)
    if isinstance(value, dict):
        _check_object(value, schema, path)
    elif isinstance(value, list):
        _check_list(value, schema, path)
    else:
        _check_scalar(value, schema, path)


def kind_of(value: Json) -> str:
    """Return what JSON calls this value."""
    if value is None:
        return "null"
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return type(value).__name__


_KINDS: Final = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"),
    (dict, "object"),
)  # fmt: skip


def _check_type(value: Json, schema: Mapping[str, Any], path: str) -> None:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(names, list):
        return
    found = kind_of(value)
    if found in names or (found == "integer" and "number" in names):
        return
    if found == "number" and "integer" in names and float(value).is_integer():
        return  # JSON has one kind of number: 1.0 is an integer there
    raise refused(path, found, " or ".join(str(name) for name in names))


def _check_choices(value: Json, schema: Mapping[str, Any], path: str) -> None:
    choices = schema.get("enum")
    if "const" in schema:
        choices = [schema["const"]]
    if isinstance(choices, list) and not any(_same(value, choice) for choice in choices):
        listed = ", ".join(canonical.encode(choice).decode()[:60] for choice in choices[:20])
        raise refused(path, "another value", f"one of: {listed}")


def _same(value: Json, choice: Json) -> bool:
    # In Python True == 1; in JSON it is not.
    return bool(value == choice) and isinstance(value, bool) == isinstance(choice, bool)


def _check_branches(value: Json, schema: Mapping[str, Any], path: str) -> None:
    for part in _listed(schema, "allOf"):
        check_against(value, part, path)
    for key in ("anyOf", "oneOf"):
        options = _listed(schema, key)
        refusals = [refusal for part in options if (refusal := _refusal(value, part, path))]
        n_fitting = len(options) - len(refusals)
        if options and not n_fitting:
            # The option that came furthest is the one that was meant.
            raise max(refusals, key=lambda refusal: len(refusal.field or ""))
        if key == "oneOf" and n_fitting > 1:
            raise refused(path, f"a value that fits {n_fitting} of the options", "exactly one")


def _refusal(value: Json, schema: Json, path: str) -> ArgsInvalid | None:
    try:
        check_against(value, schema, path)
    except ArgsInvalid as refusal:
        return refusal
    return None


def _check_object(value: dict[str, Json], schema: Mapping[str, Any], path: str) -> None:
    for name in _listed(schema, "required"):
        if name not in value:
            raise refused(f"{path}.{name}", "nothing", "a value: it is required")
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    others = schema.get("additionalProperties", True)
    for name, item in value.items():
        place = f"{path}.{name[:_MAX_NAME]}"
        if name in known:
            check_against(item, known[name], place)
        elif others is False:
            wanted = "one of: " + ", ".join(known) if known else "no such name"
            raise refused(place, "a name that does not exist", wanted)
        else:
            check_against(item, others, place)
    _check_bounds(len(value), schema, path, ("minProperties", "maxProperties"))


def _check_list(value: list[Json], schema: Mapping[str, Any], path: str) -> None:
    first = _listed(schema, "prefixItems")
    rest = schema.get("items", True)
    for at, item in enumerate(value):
        check_against(item, first[at] if at < len(first) else rest, f"{path}[{at}]")
    _check_bounds(len(value), schema, path, ("minItems", "maxItems"))
    if schema.get("uniqueItems") is True:
        distinct = {canonical.encode([item]) for item in value}
        if len(distinct) < len(value):
            raise refused(path, "an item twice", "each item once")


def _check_scalar(value: Json, schema: Mapping[str, Any], path: str) -> None:
    if isinstance(value, str):
        _check_bounds(len(value), schema, path, ("minLength", "maxLength"))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for key, fits, words in _NUMBER_RULES:
            limit = schema.get(key)
            if (
                isinstance(limit, int | float)
                and not isinstance(limit, bool)
                and not fits(value, limit)
            ):
                raise refused(path, "another number", f"{words} {limit}")


def _check_bounds(size: int, schema: Mapping[str, Any], path: str, keys: tuple[str, str]) -> None:
    least, most = schema.get(keys[0]), schema.get(keys[1])
    if isinstance(least, int) and size < least:
        raise refused(path, f"a length of {size:,}", f"at least {least:,}")
    if isinstance(most, int) and size > most:
        raise refused(path, f"a length of {size:,}", f"at most {most:,}")


def _is_multiple(value: float, step: float) -> bool:
    if step <= 0:
        return True
    quotient = value / step if isinstance(step, float) or isinstance(value, float) else None
    if quotient is None:
        return value % step == 0
    return math.isclose(quotient, round(quotient), rel_tol=1e-9, abs_tol=1e-9)


_NUMBER_RULES: Final[tuple[tuple[str, Callable[[float, float], bool], str], ...]] = (
    ("minimum", lambda value, limit: value >= limit, "a number of at least"),
    ("maximum", lambda value, limit: value <= limit, "a number of at most"),
    ("exclusiveMinimum", lambda value, limit: value > limit, "a number above"),
    ("exclusiveMaximum", lambda value, limit: value < limit, "a number below"),
    ("multipleOf", _is_multiple, "a multiple of"),
)


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []
