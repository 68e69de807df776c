"""Arguments as the model wrote them, checked by hints or by a ready schema.

Law 1. JSON types are taken as they are: "1" is not a number, 1 may stand for 1.0.
Law 2. No argument that a body gets is part of the history: the body may change it.
Law 3. A refusal names the argument, what was found and what was wanted, so that the model can correct it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

import msgspec

from windlass.errors import ArgsInvalid, InvalidInput, WindlassError
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel import canonical
from windlass.kernel.value import FrozenDict, Json, freeze, thaw
from windlass.ports.tool import Tool
from windlass.tools.schema import is_model, validated

_PATH: Final = re.compile(r" - at `([^`]*)`(?: in `([^`]*)`)?")
_EXPECTED: Final = re.compile(r"Expected (?P<wanted>.+?)(?:, got (?P<found>.+))?\Z")
_MAX_NAME: Final = 40
_MAX_BYTES: Final = INPUT_LIMITS.tool_args_bytes


def frozen_args(args: object) -> Mapping[str, Json]:
    """Return arguments as frozen JSON within the limits.

    What is frozen already is part of a value, and was measured where that arose: a turn measures what its model wrote.

    Raises:
        ArgsInvalid: not an object, not JSON, or too large.
    """
    if not isinstance(args, (dict, Mapping)):
        raise ArgsInvalid.at("args", type(args).__name__, "an object")
    if type(args) is FrozenDict:
        return args
    try:
        given = args if isinstance(args, dict) else dict(args)
        frozen: Mapping[str, Json] = freeze(given, field="args")
        size = len(canonical.encode(frozen))
    except WindlassError as error:
        raise ArgsInvalid(
            str(error), field=error.field, found=error.found, wanted=error.wanted
        ) from None
    check_args_size(size, limit=_MAX_BYTES)
    return frozen


def check_args_size(size: int, *, limit: int) -> None:
    """Refuse arguments of more bytes than they may have.

    Raises:
        ArgsInvalid: naming both.
    """
    if size > limit:
        raise ArgsInvalid.at("args", f"{size:,} bytes", f"at most {limit:,}")


def check_names(
    args: Mapping[str, Json], known: Mapping[str, Any], required: frozenset[str]
) -> None:
    """Refuse arguments that are missing or unknown.

    Raises:
        ArgsInvalid: naming them.
    """
    if not args.keys() >= required:
        missing = next(name for name in known if name in required and name not in args)
        raise ArgsInvalid.at(f"args.{missing}", "nothing", "a value: this argument is required")
    if not args.keys() <= known.keys():
        unknown = next(name for name in args if name not in known)
        wanted = "one of: " + ", ".join(known) if known else "no arguments"
        place = f"args.{unknown[:_MAX_NAME]}"
        raise ArgsInvalid.at(place, "an argument that does not exist", wanted)


def converted(name: str, value: Json, hint: Any, schema: Mapping[str, Any]) -> object:  # noqa: ANN401 - hint
    """Return one argument as its hint has it, made anew.

    Raises:
        ArgsInvalid: naming the place inside the argument.
    """
    try:
        return msgspec.convert(thaw(value), hint, dec_hook=build, str_keys=True)
    except msgspec.ValidationError as error:
        raise _refusal(name, error, schema) from None
    except RecursionError:
        raise ArgsInvalid.at(f"args.{name}", "too many levels", "shallower nesting") from None


def effective_args(tool: Tool, args: Mapping[str, Any]) -> dict[str, Json]:
    """Return what a call would run with, as JSON: checked, converted, and with the defaults of what it leaves out.

    Calls that do the same have the same, however they are spelled.

    Raises:
        ArgsInvalid: the tool does not take these arguments.
    """
    effective: dict[str, Json] = {}
    for name, value in {**getattr(tool, "defaults", {}), **tool.check(args)}.items():
        try:
            effective[name] = freeze(_plain(value), field=name)
        except (WindlassError, TypeError, ValueError, RecursionError):
            # What has no JSON form is told by the text it was made of; a default like that cannot be spelled.
            if name in args:
                effective[name] = args[name]
    return effective


def _plain(value: Any) -> Json:  # noqa: ANN401 - an argument as its hint has it
    """Return a value as JSON, with all fields of what has fields, and whole numbers written in one way: 5.0 is 5."""
    kind = type(value)
    if is_model(kind):
        return _plain(value.model_dump(mode="json"))
    # Not by `to_builtins`: of a dataclass that msgspec made it leaves out the fields that have their default.
    fields = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        return {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {str(msgspec.to_builtins(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=canonical.encode)
    plain = msgspec.to_builtins(value)
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def build(kind: Any, value: object) -> object:  # noqa: ANN401 - a class of the user's
    """Make what msgspec cannot: a pydantic model."""
    if is_model(kind):
        return validated(kind, value)
    raise TypeError(f"{kind.__name__} cannot be made from JSON")


def _refusal(name: str, error: msgspec.ValidationError, schema: Mapping[str, Any]) -> ArgsInvalid:
    text = str(error)
    place = _PATH.search(text)
    inside = (place[2] or place[1]).removeprefix("$") if place else ""
    field = f"args.{name}{inside}"
    cause = error.__cause__
    if isinstance(cause, InvalidInput):  # what a pydantic model said
        field = f"{field}{cause.field or ''}"
        return ArgsInvalid(f"{field}: {cause}", field=field, found=cause.found)
    reason = _PATH.sub("", text).partition("\n")[0][:200].replace("`", "")
    if reason.startswith("Invalid enum value"):
        return ArgsInvalid.at(field, "another value", _choices(schema, inside))
    expected = _EXPECTED.match(reason)
    if expected is None:
        return ArgsInvalid(f"{field}: {reason}", field=field, found=reason)
    key = "a key of type " if place and place[2] else ""
    return ArgsInvalid.at(field, key + (expected["found"] or "another value"), expected["wanted"])


def _choices(schema: Mapping[str, Any], inside: str) -> str:
    """Return the values of an enum as the model may write them, when it is the argument itself."""
    options = [schema, *schema.get("anyOf", ())] if not inside else []
    listed = [value for option in options for value in option.get("enum", ())]
    if not listed:
        return "one of the values in the schema"
    return "one of: " + ", ".join(canonical.encode(value).decode() for value in listed)


# ------------------------------------------------------------------------ by a ready schema
# The common part of JSON Schema, without regular expressions. What this does not know (`format`, `if`,
# `not`, `dependentSchemas` ...) it leaves to the tool behind it.


def check_against(value: Json, schema: Any, path: str) -> None:  # noqa: ANN401 - JSON
    """Refuse a value that its schema does not take.

    Raises:
        ArgsInvalid: naming the first place that does not fit.
    """
    if schema is False:
        raise ArgsInvalid.at(path, "a value", "nothing: the schema takes none here")
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
    raise ArgsInvalid.at(path, found, " or ".join(str(name) for name in names))


def _check_choices(value: Json, schema: Mapping[str, Any], path: str) -> None:
    choices = schema.get("enum")
    if "const" in schema:
        choices = [schema["const"]]
    if isinstance(choices, list) and not any(_same(value, choice) for choice in choices):
        listed = ", ".join(canonical.encode(choice).decode()[:60] for choice in choices[:20])
        raise ArgsInvalid.at(path, "another value", f"one of: {listed}")


def _same(value: Json, choice: Json) -> bool:
    if isinstance(value, Mapping) and isinstance(choice, Mapping):
        return value.keys() == choice.keys() and all(
            _same(value[name], choice[name]) for name in value
        )
    if isinstance(value, list) and isinstance(choice, list):
        return len(value) == len(choice) and all(map(_same, value, choice))
    # In Python True == 1; in JSON it is not.
    return bool(value == choice) and isinstance(value, bool) == isinstance(choice, bool)


def _check_branches(value: Json, schema: Mapping[str, Any], path: str) -> None:
    for part in _listed(schema, "allOf"):
        check_against(value, part, path)
    for key in ("anyOf", "oneOf"):
        options = _listed(schema, key)
        refusals = [refusal for part in options if (refusal := _refusal_of(value, part, path))]
        n_fitting = len(options) - len(refusals)
        if options and not n_fitting:
            # The option that came furthest is the one that was meant.
            raise max(refusals, key=lambda refusal: len(refusal.field or ""))
        if key == "oneOf" and n_fitting > 1:
            found = f"a value that fits {n_fitting} of the options"
            raise ArgsInvalid.at(path, found, "exactly one")


def _refusal_of(value: Json, schema: Json, path: str) -> ArgsInvalid | None:
    try:
        check_against(value, schema, path)
    except ArgsInvalid as refusal:
        return refusal
    return None


def _check_object(value: dict[str, Json], schema: Mapping[str, Any], path: str) -> None:
    for name in _listed(schema, "required"):
        if name not in value:
            raise ArgsInvalid.at(f"{path}.{name}", "nothing", "a value: it is required")
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    others = schema.get("additionalProperties", True)
    for name, item in value.items():
        place = f"{path}.{name[:_MAX_NAME]}"
        if name in known:
            check_against(item, known[name], place)
        elif others is False:
            wanted = "one of: " + ", ".join(known) if known else "no such name"
            raise ArgsInvalid.at(place, "a name that does not exist", wanted)
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
            raise ArgsInvalid.at(path, "an item twice", "each item once")


def _check_scalar(value: Json, schema: Mapping[str, Any], path: str) -> None:
    if isinstance(value, str):
        _check_bounds(len(value), schema, path, ("minLength", "maxLength"))
    elif _is_number(value):
        for key, fits, words in _NUMBER_RULES:
            limit = schema.get(key)
            if _is_number(limit) and not fits(value, limit):
                raise ArgsInvalid.at(path, "another number", f"{words} {limit}")


def _is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_bounds(size: int, schema: Mapping[str, Any], path: str, keys: tuple[str, str]) -> None:
    least, most = schema.get(keys[0]), schema.get(keys[1])
    if isinstance(least, int) and size < least:
        raise ArgsInvalid.at(path, f"a length of {size:,}", f"at least {least:,}")
    if isinstance(most, int) and size > most:
        raise ArgsInvalid.at(path, f"a length of {size:,}", f"at most {most:,}")


def _is_multiple(value: float, step: float) -> bool:
    if step <= 0:
        return True
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        quotient = value / step
    except OverflowError:
        return False
    if not math.isfinite(quotient):
        return False
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
