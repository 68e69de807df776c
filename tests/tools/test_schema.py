"""Schemas from hints, each compared with one written by hand."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import types
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict, Union

import msgspec
import pydantic
import pytest

from windlass.errors import ConfigError
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel import canonical
from windlass.tools import tool
from windlass.tools.schema import schema_of_hint
from windlass.tools.signature import readable


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    """A place."""

    x: int
    title: str = "here"
    tags: list[str] = field(default_factory=list)


@dataclass
class Undocumented:
    x: int


class Address(TypedDict):
    street: str
    zip: NotRequired[str]


class Partial(TypedDict, total=False):
    a: int


class Item(msgspec.Struct, rename="camel"):
    item_id: int
    colour: Colour = Colour.RED


class Pair(NamedTuple):
    left: int
    right: str


class Inner(pydantic.BaseModel):
    n: int = pydantic.Field(ge=1, description="how many")


class Order(pydantic.BaseModel):
    """An order."""

    inners: list[Inner]
    note: str | None = None


class Tree(msgspec.Struct):
    children: list[Tree]


class Leaf(pydantic.BaseModel):
    below: list[Leaf]


POINT = {
    "description": "A place.",
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "title": {"type": "string", "default": "here"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
}
INNER = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1, "description": "how many"}},
    "required": ["n"],
}
ORDER = {
    "description": "An order.",
    "type": "object",
    "properties": {
        "inners": {"type": "array", "items": INNER},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["inners"],
}
COLOUR = {"type": "string", "enum": ["blue", "red"]}


def of(hint: object) -> dict[str, Any]:
    return schema_of_hint(readable(hint, field="f(x)"), field="f(x)")


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "a"], {"enum": [1, "a"]}),
        (Colour, COLOUR),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "minItems": 2,
                "maxItems": 2,
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
            },
        ),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045 - an older spelling
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007 - the same
        (datetime.datetime, {"type": "string"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {"type": "string", "format": "decimal"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (Point, POINT),
        (
            Undocumented,
            {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        ),
        (
            Address,
            {
                "type": "object",
                "properties": {"street": {"type": "string"}, "zip": {"type": "string"}},
                "required": ["street"],
            },
        ),
        (Partial, {"type": "object", "properties": {"a": {"type": "integer"}}, "required": []}),
        (
            Item,
            {
                "type": "object",
                "properties": {
                    "itemId": {"type": "integer"},
                    "colour": {**COLOUR, "default": "red"},
                },
                "required": ["itemId"],
            },
        ),
        (
            Pair,
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (Order, ORDER),
        (list[Order], {"type": "array", "items": ORDER}),
        (Order | None, {"anyOf": [ORDER, {"type": "null"}]}),
        (dict[str, Point], {"type": "object", "additionalProperties": POINT}),
        (Annotated[str, "who"], {"type": "string", "description": "who"}),
        (
            list[Annotated[str, "a name"]],
            {"type": "array", "items": {"type": "string", "description": "a name"}},
        ),
        (
            Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")],
            {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many"},
        ),
        (
            Annotated[str, msgspec.Meta(max_length=3), "short"],
            {"type": "string", "maxLength": 3, "description": "short"},
        ),
        (
            Annotated[int, pydantic.Field(ge=0, lt=5, description="a digit")],
            {"type": "integer", "minimum": 0, "exclusiveMaximum": 5, "description": "a digit"},
        ),
        (Annotated[Point, "where"], {**POINT, "description": "where"}),
        (Annotated[str, object()], {"type": "string"}),
    ],
    ids=str,
)  # fmt: skip
def test_a_hint_has_this_schema(hint: object, schema: dict[str, Any]) -> None:
    assert of(hint) == schema


def test_two_types_of_one_name_are_told_apart() -> None:
    def other() -> type:
        @dataclass
        class Point:
            y: str

        return Point

    first, second = of(types.GenericAlias(tuple, (Point, other())))["prefixItems"]

    assert list(first["properties"]) == ["x", "title", "tags"]
    assert list(second["properties"]) == ["y"]


@pytest.mark.parametrize(
    ("hint", "because"),
    [
        (pathlib.Path, "Path"),
        (complex, "complex"),
        (object, "object"),
        (list[pathlib.Path], "Path"),
        (Tree, "contains itself (Tree)"),
        (list[Tree], "contains itself"),
        (Leaf, "contains itself"),
        (Annotated[str, msgspec.Meta(pattern="(a+)+$")], "a regular expression"),
        (list[Annotated[str, msgspec.Meta(pattern="a")]], "a regular expression"),
        (Annotated[str, pydantic.Field(pattern="(a+)+$")], "a regular expression"),
        (Annotated[str, pydantic.StringConstraints(to_lower=True)], "StringConstraints"),
        (Point | Undocumented, "unions"),
    ],
    ids=str,
)
def test_a_hint_without_a_json_form_is_refused_by_name(hint: object, because: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of(hint)

    assert caught.value.field == "f(x)"
    assert because in str(caught.value)


class Limited(msgspec.Struct):
    code: Annotated[str, msgspec.Meta(pattern="(a+)+$")]


def test_a_regular_expression_deep_in_a_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="regular expression"):
        of(list[Limited])


def test_a_parameter_that_is_called_title_or_pattern_is_a_parameter() -> None:
    @tool
    def find(title: str, pattern: str, default: int) -> None: ...

    assert find.spec.parameters["properties"] == {
        "title": {"type": "string"},
        "pattern": {"type": "string"},
        "default": {"type": "integer"},
    }


def test_types_that_share_parts_without_bound_are_refused_in_bounded_time() -> None:
    kind: type = int
    for at in range(16):
        kind = msgspec.defstruct(f"T{at}", [("a", kind), ("b", kind)])

    with pytest.raises(ConfigError, match="too large"):
        of(kind)


def test_a_schema_at_the_limit_passes_and_one_byte_more_does_not() -> None:
    def sized(n_chars: int) -> int:
        def fn(x: Annotated[str, "d" * n_chars]) -> None: ...

        return len(canonical.encode(tool(fn).spec.parameters))

    limit = INPUT_LIMITS.schema_bytes
    frame = sized(1) - 1

    assert sized(limit - frame) == limit
    with pytest.raises(ConfigError, match=f"{limit + 1:,} bytes"):
        sized(limit - frame + 1)
