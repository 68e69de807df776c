"""What a model may write as arguments, and what it is told when they do not fit."""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from windlass.errors import ArgsInvalid
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel.value import freeze
from windlass.ports.tool import ToolContext
from windlass.tools import FunctionTool, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Address(TypedDict):
    street: str


class Item(msgspec.Struct):
    name: str
    count: int = 1


class Pair(NamedTuple):
    left: int
    right: str


class Line(pydantic.BaseModel):
    n: int = pydantic.Field(ge=1)


class Order(pydantic.BaseModel):
    lines: list[Line]


def taking(hint: Any) -> FunctionTool[Any, ..., object]:  # noqa: ANN401 - a hint is any object
    def body(x: object) -> object:
        return x

    body.__annotations__["x"] = hint
    return tool(body)


@pytest.mark.parametrize(
    ("hint", "given", "wanted"),
    [
        (str, "a", "a"),
        (int, 7, 7),
        (int, 2**70, 2**70),
        (float, 1, 1.0),
        (bool, True, True),
        (None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
        (Literal["a", 1], 1, 1),
        (Colour, "red", Colour.RED),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, str], {"7": "a"}, {7: "a"}),
        (int | None, None, None),
        (int | str, "a", "a"),
        (datetime.datetime, "2024-01-02T03:04:05", datetime.datetime(2024, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - as given
        (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
        (bytes, "aGk=", b"hi"),
        (Point, {"x": 1}, Point(1, 0)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2)]),
        (Address, {"street": "A"}, {"street": "A"}),
        (Item, {"name": "nut"}, Item("nut", 1)),
        (Pair, [1, "a"], Pair(1, "a")),
        (Order, {"lines": [{"n": 1}]}, Order(lines=[Line(n=1)])),
        (Order | None, None, None),
        (list[Line], [{"n": 2}], [Line(n=2)]),
        (Annotated[int, msgspec.Meta(ge=1)], 1, 1),
    ],
    ids=str,
)  # fmt: skip
def test_json_becomes_what_the_hint_says(hint: object, given: object, wanted: object) -> None:
    for args in ({"x": given}, freeze({"x": given})):
        found = taking(hint).check(args)["x"]

        assert found == wanted
        assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("hint", "given", "message"),
    [
        (int, "1", "args.x: found str, wanted int"),
        (int, True, "args.x: found bool, wanted int"),
        (int, 1.5, "args.x: found float, wanted int"),
        (int, None, "args.x: found null, wanted int"),
        (str, 1, "args.x: found int, wanted str"),
        (bool, 1, "args.x: found int, wanted bool"),
        (bool, "true", "args.x: found str, wanted bool"),
        (float, "1.0", "args.x: found str, wanted float"),
        (list[int], {"0": 1}, "args.x: found object, wanted array"),
        (list[int], [1, "2"], "args.x[1]: found str, wanted int"),
        (dict[str, list[int]], {"a": ["b"]}, "args.x[...][0]: found str, wanted int"),
        (dict[int, str], {"a": "b"}, "args.x: found a key of type str, wanted int"),
        (Colour, "green", 'args.x: found another value, wanted one of: "blue", "red"'),
        (Colour | None, "green", 'args.x: found another value, wanted one of: "blue", "red"'),
        (list[Colour], ["green"], "args.x[0]: found another value, wanted one of the values in the schema"),
        (Literal["a"], "b", 'args.x: found another value, wanted one of: "a"'),
        (Point, {"y": 1}, "args.x: Object missing required field x"),
        (Point, {"x": "1"}, "args.x.x: found str, wanted int"),
        (list[Point], [{"x": "1"}], "args.x[0].x: found str, wanted int"),
        (tuple[int, int], [1], "args.x: found 1, wanted array of length 2"),
        (datetime.datetime, "yesterday", "args.x: Invalid RFC3339 encoded datetime"),
        (bytes, "***", "args.x: Invalid base64 encoded string"),
        (Annotated[int, msgspec.Meta(ge=1)], 0, "args.x: found another value, wanted int >= 1"),
        (Annotated[str, msgspec.Meta(max_length=1)], "ab", "args.x: found another value, wanted str of length <= 1"),
        (Order, {"lines": [{"n": 0}]}, "args.x.lines[0].n: Input should be greater than or equal to 1"),
        (Order, {}, "args.x.lines: Field required"),
        (list[Line], [{"n": 1}, {}], "args.x[1].n: Field required"),
        (Any, float("nan"), "args.x: found nan, wanted a finite number"),
        (str, "a\x00", "args.x: found NUL or a lone surrogate, wanted clean text"),
        (str, "\ud800", "args.x: found NUL or a lone surrogate, wanted clean text"),
        (Any, {1: 2}, "args.x: found a key of type int, wanted text keys"),
        (Any, b"x", "args.x: found bytes, wanted JSON (null, bool, number, text, list or dict)"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(
    hint: object, given: object, message: str
) -> None:
    with pytest.raises(ArgsInvalid) as caught:
        taking(hint).check({"x": given})

    assert str(caught.value) == message
    assert str(caught.value.field).startswith("args.x")


@pytest.mark.parametrize(
    ("hint", "given"), [(int, "1"), (Point, {"x": "1"}), (Order, {}), (Literal["a"], "b")], ids=str
)
def test_frozen_arguments_are_refused_in_the_same_words(hint: object, given: object) -> None:
    said = []
    for args in ({"x": given}, freeze({"x": given})):
        with pytest.raises(ArgsInvalid) as caught:
            taking(hint).check(args)
        said.append(str(caught.value))

    assert said[0] == said[1]


@tool
def move(x: int, y: int = 0) -> None: ...


@tool
def stay() -> None: ...


@pytest.mark.parametrize(
    ("made", "args", "message"),
    [
        (move, {}, "args.x: found nothing, wanted a value: this argument is required"),
        (move, {"x": 1, "z": 2}, "args.z: found an argument that does not exist, wanted one of: x, y"),
        (move, {"x": 1, "a" * 99: 2}, f"args.{'a' * 40}: found an argument that does not exist, wanted one of: x, y"),
        (stay, {"z": 2}, "args.z: found an argument that does not exist, wanted no arguments"),
        (move, [1], "args: found list, wanted an object"),
        (move, None, "args: found NoneType, wanted an object"),
        (move, "x", "args: found str, wanted an object"),
    ],
)  # fmt: skip
def test_missing_unknown_and_shapeless_arguments_are_refused(
    made: FunctionTool[Any, ..., object],
    args: Any,  # noqa: ANN401 - whatever a model writes
    message: str,
) -> None:
    for given in (args, freeze(args) if isinstance(args, dict) else args):
        with pytest.raises(ArgsInvalid) as caught:
            made.check(given)

        assert str(caught.value) == message


def test_an_argument_left_out_is_left_to_the_function() -> None:
    assert move.check({"x": 1}) == move.check(freeze({"x": 1})) == {"x": 1}


def test_a_context_cannot_be_given_by_the_model() -> None:
    @tool
    def peek(ctx: ToolContext[None]) -> None: ...

    with pytest.raises(ArgsInvalid, match=r"args\.ctx"):
        peek.check({"ctx": {}})


def test_arguments_at_the_size_limit_pass_and_one_byte_more_does_not() -> None:
    limit = INPUT_LIMITS.tool_args_bytes
    taken = limit - len('{"x":""}')
    made = taking(str)

    assert made.check({"x": "a" * taken})["x"] == "a" * taken
    for size in (taken + 1, taken * 10):
        with pytest.raises(ArgsInvalid, match=f"at most {limit:,}"):
            made.check({"x": "a" * size})


def test_arguments_of_a_value_were_measured_where_it_arose() -> None:
    long = "a" * (INPUT_LIMITS.tool_args_bytes + 1)

    assert taking(str).check(freeze({"x": long}))["x"] == long


def test_arguments_nested_too_deeply_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(1_000):
        deep = [deep]

    with pytest.raises(ArgsInvalid, match="levels"):
        taking(Any).check({"x": deep})


async def test_a_body_that_changes_its_arguments_harms_neither_history_nor_another_attempt() -> (
    None
):
    seen: list[Any] = []

    @tool(effect="pure")
    async def spoil(items: list[int], free: Any, point: Point) -> None:  # noqa: ANN401 - the claim
        seen.append(copy.deepcopy((items, free, point.x)))
        items.append(9)
        free["a"].append(9)
        free["b"] = 1
        point.x = 9

    history = freeze({"items": [1], "free": {"a": [1]}, "point": {"x": 1}})
    checked = spoil.check(history)
    ctx = ToolContext(deps=None)

    await spoil.run(ctx, checked)
    await spoil.run(ctx, checked)

    assert history == {"items": [1], "free": {"a": [1]}, "point": {"x": 1}}
    assert seen == [([1], {"a": [1]}, 1)] * 2
