"""Values are immutable all the way down, and only JSON goes into them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from windlass.errors import InvalidInput, LimitExceeded
from windlass.kernel import (
    Append,
    Finished,
    FinishedValue,
    Json,
    ToolOutcome,
    Value,
    canonical,
    freeze,
    thaw,
)


class Pair(Value, kw_only=True):
    left: int
    right: int = 0


# --- values ------------------------------------------------------------------------------------


def test_a_value_is_built_by_keyword_and_never_changes() -> None:
    pair = Pair(left=1)

    with pytest.raises(TypeError):
        Pair(1)  # type: ignore[call-arg] # what is tried
    with pytest.raises(AttributeError):
        pair.left = 2  # type: ignore[misc] # what is tried
    assert Pair(left=1, right=0) == pair
    assert hash(Pair(left=1)) == hash(pair)


@pytest.mark.parametrize(
    ("kind", "tag"),
    [
        (Pair, "pair"),
        (Finished, "finished"),
        (FinishedValue, "finished_value"),
        (ToolOutcome, "tool_outcome"),
    ],
)
def test_the_stored_tag_is_the_class_name_in_snake_case(kind: type[Any], tag: str) -> None:
    assert kind.__struct_config__.tag == tag


def test_an_unknown_field_is_refused_when_read() -> None:
    with pytest.raises(InvalidInput):
        canonical.decode(b'{"left":1,"type":"pair","up":1}', Pair)


def test_a_default_is_not_written() -> None:
    assert canonical.encode(Pair(left=1, right=0)) == b'{"left":1,"type":"pair"}'


# --- freezing ----------------------------------------------------------------------------------

PLAIN: list[Any] = [
    None,
    True,
    0,
    -1.5,
    "",
    "naïve ✓ 😀",
    [],
    {},
    [1, [2, {"a": None}]],
    {"a": {"b": [1.0, "x"]}},
]


@pytest.mark.parametrize("plain", PLAIN, ids=repr)
def test_a_frozen_copy_equals_what_it_was_copied_from(plain: Json) -> None:
    frozen = freeze(plain)

    assert frozen == plain
    assert canonical.encode(frozen) == canonical.encode(plain)
    assert thaw(frozen) == plain


def test_a_frozen_copy_does_not_follow_its_original() -> None:
    original: dict[str, Any] = {"a": [1, {"b": 2}]}
    frozen = freeze(original)

    original["a"][1]["b"] = 3
    original["a"].append(4)
    original["c"] = 5

    assert frozen == {"a": [1, {"b": 2}]}


def test_what_is_frozen_is_not_copied_again() -> None:
    frozen = freeze({"a": [1]})

    assert frozen is freeze(frozen)
    assert frozen["a"] is freeze({"x": frozen["a"]})["x"]


def test_a_tuple_is_frozen_as_a_list() -> None:
    assert freeze((1, (2,))) == [1, [2]]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.__setitem__("a", 2),
        lambda d: d.__delitem__("a"),
        lambda d: d.__ior__({"b": 1}),
        lambda d: d.clear(),
        lambda d: d.pop("a"),
        lambda d: d.popitem(),
        lambda d: d.setdefault("b", 1),
        lambda d: d.update(b=1),
    ],
)
def test_a_frozen_object_refuses_every_change(change: Callable[[Json], object]) -> None:
    frozen = freeze({"a": 1})

    with pytest.raises(TypeError, match="part of a frozen value; copy it to change it"):
        change(frozen)
    assert frozen == {"a": 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.__setitem__(0, 2),
        lambda x: x.__delitem__(0),
        lambda x: x.__iadd__([1]),
        lambda x: x.__imul__(2),
        lambda x: x.append(1),
        lambda x: x.clear(),
        lambda x: x.extend([1]),
        lambda x: x.insert(0, 1),
        lambda x: x.pop(),
        lambda x: x.remove(1),
        lambda x: x.reverse(),
        lambda x: x.sort(),
    ],
)
def test_a_frozen_list_refuses_every_change(change: Callable[[Json], object]) -> None:
    frozen = freeze([1])

    with pytest.raises(TypeError, match="part of a frozen value; copy it to change it"):
        change(frozen)
    assert frozen == [1]


def test_a_thawed_copy_may_be_changed_and_leaves_the_frozen_one_as_it_was() -> None:
    frozen = freeze({"a": [1, {"b": 2}]})
    thawed = thaw(frozen)

    thawed["a"][1]["b"] = 3
    thawed["a"].append(4)

    assert frozen == {"a": [1, {"b": 2}]}
    assert thawed == {"a": [1, {"b": 3}, 4]}
    assert (type(thawed), type(thawed["a"])) == (dict, list)


def test_a_frozen_value_survives_a_shallow_copy() -> None:
    value = FinishedValue(value={"a": [1]})

    assert copy.copy(value) == value


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        ({1}, "set"),
        (b"x", "bytes"),
        (object(), "object"),
        (1j, "complex"),
        (Finished(), "Finished"),
        ("\x00", "NUL or a lone surrogate"),
        ("\ud800", "NUL or a lone surrogate"),
        (2**14_000, "a huge integer"),
        (-(2**14_000), "a huge integer"),
    ],
)
def test_what_is_no_json_is_refused_with_the_path_to_it(bad: object, found: str) -> None:
    for value, path in ((bad, "v"), ({"a": [0, bad]}, "v.a[1]"), ([{"b": bad}], "v[0].b")):
        with pytest.raises(InvalidInput) as refused:
            freeze(value, field="v")
        assert (refused.value.field, refused.value.found) == (path, found)
        assert str(refused.value) == f"{path}: found {found}, wanted {refused.value.wanted}"


def test_the_largest_integer_that_can_be_printed_is_taken() -> None:
    assert freeze(2**14_000 - 1) == 2**14_000 - 1


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (1, "a key of type int"),
        (None, "a key of type NoneType"),
        ("\x00", "a key with NUL or a lone surrogate"),
        ("\ud800", "a key with NUL or a lone surrogate"),
    ],
    ids=ascii,
)
def test_a_key_that_is_no_clean_text_is_refused(key: object, found: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        freeze({"a": {key: 1}})
    assert (refused.value.field, refused.value.found) == ("value.a", found)


def test_a_long_key_is_cut_in_the_path() -> None:
    with pytest.raises(InvalidInput) as refused:
        freeze({"k" * 100: {1}})
    assert refused.value.field == "value." + "k" * 40


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: (x,)])
def test_sixty_four_levels_are_taken_and_one_more_is_refused(
    wrap: Callable[[object], object],
) -> None:
    nested: Any = 1
    for _ in range(64):
        nested = wrap(nested)
    freeze(nested)

    with pytest.raises(LimitExceeded) as refused:
        freeze(wrap(nested))
    assert (
        refused.value.found,
        refused.value.wanted,
    ) == ("more than 64 levels", "at most 64 levels")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    knot: dict[str, Any] = {}
    knot["self"] = knot

    for endless in (loop, knot):
        with pytest.raises(LimitExceeded):
            freeze(endless)


def test_a_thousand_and_twenty_four_keys_are_taken_and_one_more_is_refused() -> None:
    keys = {str(n): n for n in range(1024)}
    assert freeze(keys) == keys

    with pytest.raises(LimitExceeded) as refused:
        freeze([{**keys, "more": 1}])
    assert (
        refused.value.field,
        refused.value.found,
        refused.value.wanted,
    ) == ("value[0]", "1,025 keys", "at most 1,024")


def test_json_fields_of_a_value_are_frozen_when_it_is_read_too() -> None:
    read = canonical.decode(b'{"type":"finished_value","value":{"a":[1]}}', FinishedValue)

    with pytest.raises(TypeError):
        read.value["a"].append(2)
    with pytest.raises(TypeError):
        read.value["b"] = 2


@pytest.mark.parametrize("write", [canonical.encode, canonical.digest], ids=["encode", "digest"])
def test_a_foreign_object_in_a_value_is_refused_when_it_is_written(
    write: Callable[[object], object],
) -> None:
    foreign: Any = object()

    with pytest.raises(InvalidInput) as refused:
        write(Append(records=(foreign,)))
    assert str(refused.value) == "$: found object, wanted a windlass value"


def test_a_type_that_is_no_value_cannot_be_read() -> None:
    with pytest.raises(InvalidInput) as refused:
        canonical.decode(b"1", complex)
    assert refused.value.field == "$"
