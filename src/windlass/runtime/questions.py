"""Questions to a person: what one may ask for, and whether an answer fits.

Law 1. What a question asks for is checked in whole: a schema with an unsupported keyword is refused to the tool that asks.
Law 2. An answer that does not fit is refused to the person who gives it, and uses nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from windlass.errors import ArgsInvalid, InvalidInput
from windlass.guards.limits import check_limit
from windlass.guards.text import check_words
from windlass.kernel import Json, canonical, freeze
from windlass.ports import Wait
from windlass.tools.arguments import check_against

_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
# They say something to readers and nothing about the value.
_NOTES: Final = frozenset(
    {
        "$comment", "$schema", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly",
    }
)  # fmt: skip
_ONE: Final = frozenset({"additionalProperties", "items"})
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = "properties"


def check_question(question: object) -> None:
    """Refuse a question without words, and one that is too long.

    Raises:
        InvalidInput: it is not text, or has no words.
        LimitExceeded: it is too long.
    """
    if not check_words(question, field="question").strip():
        raise InvalidInput.at("question", "no words", "what the person is asked")


def checked_schema(schema: object) -> Json:
    """Return the schema of an answer, frozen, if answers can be checked by all that it says.

    Raises:
        InvalidInput: naming the place and what was wanted there.
        LimitExceeded: it is too large.
    """
    if not isinstance(schema, Mapping):
        raise InvalidInput.at("schema", type(schema).__name__, "a JSON schema, as an object")
    frozen = freeze(dict(schema), field="schema")
    check_limit("schema_bytes", len(canonical.encode(frozen)), field="schema")
    _check_schema(frozen, "schema")
    return frozen


def check_answer(value: Json, wait: Wait) -> None:
    """Refuse an answer that does not fit the schema of its question.

    Raises:
        InvalidInput: naming the place, what was found and what was wanted.
    """
    schema = wait.detail.get("schema") if isinstance(wait.detail, dict) else None
    if schema is None:
        return
    try:
        check_against(value, schema, "value")
    except ArgsInvalid as error:
        raise InvalidInput(
            str(error), field=error.field, found=error.found, wanted=error.wanted
        ) from None


# ---------------------------------------------------------------------- schemas


def _check_schema(schema: Json, path: str) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise InvalidInput.at(path, type(schema).__name__, "a schema: an object, true or false")
    for name, value in schema.items():
        _check_word(name, value, f"{path}.{name[:40]}")


def _check_word(name: str, value: Json, path: str) -> None:
    """Refuse a keyword that `check_against` does not know, and a value of one that it would pass over."""
    if name in _NOTES:
        return
    fits, wanted = _WORDS.get(name, (None, ""))
    if fits is None:
        raise InvalidInput.at(
            path, "an unsupported keyword", "one of: " + ", ".join(sorted(_WORDS))
        )
    if not fits(value):
        raise InvalidInput.at(path, "another value", wanted)
    for place, part in _parts(name, value, path):
        _check_schema(part, place)


def _parts(name: str, value: Any, path: str) -> Iterator[tuple[str, Json]]:  # noqa: ANN401 - JSON
    if name in _ONE:
        yield path, value
    elif name in _SEVERAL:
        yield from ((f"{path}[{at}]", part) for at, part in enumerate(value))
    elif name == _NAMED:
        yield from ((f"{path}.{key[:40]}", part) for key, part in value.items())


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_size(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_listed(value: Json) -> bool:
    return isinstance(value, list) and len(value) > 0


def _is_type(value: Json) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and len(names) > 0 and all(name in _TYPES for name in names)


def _are_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_SIZE: Final = (_is_size, "a whole number of 0 or more")
_NUMBER: Final = (_is_number, "a number")
_SCHEMA: Final = (lambda value: isinstance(value, dict | bool), "a schema")
_LIST: Final = (_is_listed, "a list with at least one item")
_WORDS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "type": (_is_type, "one or several of: " + ", ".join(_TYPES)),
    "enum": _LIST,
    "const": (lambda _: True, "a value"),
    **dict.fromkeys(_SEVERAL, _LIST),
    **dict.fromkeys(_ONE, _SCHEMA),
    _NAMED: (lambda value: isinstance(value, dict), "an object of schemas"),
    "required": (_are_names, "a list of names"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _SIZE),
    **dict.fromkeys(("minProperties", "maxProperties"), _SIZE),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
}
