"""Arguments as the model wrote them, checked and turned into what the body takes.

Law 1. JSON types are taken as they are: "1" is not a number, 1 may stand for 1.0.
Law 2. Nothing handed to a body is part of the history: it may change what it got.
Law 3. A refusal names the argument, what was found and what was wanted, so that the model can mend it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.errors import ArgsInvalid, InvalidInput, WindlassError
from windlass.guards.limits import DEFAULT_LIMITS
from windlass.kernel import canonical
from windlass.kernel.value import Json, freeze, thaw
from windlass.tools.pydantic_models import is_model, validated

_PATH: Final = re.compile(r" - at `([^`]*)`(?: in `([^`]*)`)?")
_EXPECTED: Final = re.compile(r"Expected (?P<wanted>.+?)(?:, got (?P<found>.+))?\Z")
_MAX_NAME: Final = 40


def frozen_args(args: object) -> Mapping[str, Json]:
    """Return arguments as frozen JSON within the limits.

    Raises:
        ArgsInvalid: not an object, not JSON, or too large.
    """
    if not isinstance(args, (dict, Mapping)):
        raise refused("args", type(args).__name__, "an object")
    try:
        frozen = freeze(args if isinstance(args, dict) else dict(args), field="args")
        size = len(canonical.encode(frozen))
    except WindlassError as error:
        raise ArgsInvalid(
            str(error), field=error.field, found=error.found, wanted=error.wanted
        ) from None
    limit = DEFAULT_LIMITS.tool_args_bytes
    if size > limit:
        raise refused("args", f"{size:,} bytes", f"at most {limit:,}")
    checked: Mapping[str, Json] = frozen
    return checked


def check_names(
    args: Mapping[str, Json], known: Mapping[str, Any], required: frozenset[str]
) -> None:
    """Refuse arguments that are missing or unknown.

    Raises:
        ArgsInvalid: naming them.
    """
    if not args.keys() >= required:
        missing = next(name for name in known if name in required and name not in args)
        raise refused(f"args.{missing}", "nothing", "a value: this argument is required")
    if not args.keys() <= known.keys():
        unknown = next(name for name in args if name not in known)
        wanted = "one of: " + ", ".join(known) if known else "no arguments"
        raise refused(f"args.{unknown[:_MAX_NAME]}", "an argument that does not exist", wanted)


def converted(name: str, value: Json, hint: Any, schema: Mapping[str, Any]) -> object:  # noqa: ANN401 - hint
    """Return one argument as its hint has it, made anew.

    Raises:
        ArgsInvalid: naming the place inside the argument.
    """
    try:
        return msgspec.convert(thaw(value), hint, dec_hook=_build, str_keys=True)
    except msgspec.ValidationError as error:
        raise _refusal(name, error, schema) from None
    except RecursionError:
        raise refused(f"args.{name}", "too many levels", "shallower nesting") from None


def refused(field: str, found: str, wanted: str) -> ArgsInvalid:
    """Return the refusal of one place."""
    return ArgsInvalid(
        f"{field}: found {found}, wanted {wanted}", field=field, found=found, wanted=wanted
    )


def _build(kind: Any, value: object) -> object:  # noqa: ANN401 - a class of the user's
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
        return refused(field, "another value", _choices(schema, inside))
    expected = _EXPECTED.match(reason)
    if expected is None:
        return ArgsInvalid(f"{field}: {reason}", field=field, found=reason)
    key = "a key of type " if place and place[2] else ""
    return refused(field, key + (expected["found"] or "another value"), expected["wanted"])


def _choices(schema: Mapping[str, Any], inside: str) -> str:
    """Return the values of an enum as the model may write them, when it is the argument itself."""
    options = [schema, *schema.get("anyOf", ())] if not inside else []
    listed = [value for option in options for value in option.get("enum", ())]
    if not listed:
        return "one of the values in the schema"
    return "one of: " + ", ".join(canonical.encode(value).decode() for value in listed)
