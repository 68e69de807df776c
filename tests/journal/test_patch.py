"""Patches: laid over state in order, they give the same state whoever lays them, and change nothing else."""

from __future__ import annotations

import copy
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import InvalidInput
from windlass.journal.patch import add, append, patched, recorded
from windlass.kernel import canonical

KEYS = st.sampled_from("abc")
LEAVES = st.one_of(
    st.booleans(),
    st.integers(-9, 9),
    st.text("xy", max_size=2),
    st.lists(st.integers(), max_size=2),
)
STATES = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3)), max_size=3
)
# What says where it ends, whatever was there before: no add, no append.
PLAIN = st.dictionaries(
    KEYS,
    st.recursive(
        st.one_of(LEAVES, st.none()), lambda inner: st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_size=3,
)
AMOUNTS = st.integers(-1000, 1000)
SPECIAL = st.one_of(
    AMOUNTS.map(add),
    st.builds(
        lambda items, keep: append(*items, keep=keep),
        st.lists(LEAVES),
        st.none() | st.integers(0, 3),
    ),
)
PATCHES = st.one_of(PLAIN, st.dictionaries(KEYS, st.one_of(SPECIAL, st.none(), LEAVES), max_size=3))


def folded(base: dict[str, Any], *patches: dict[str, Any]) -> dict[str, Any]:
    return reduce(patched, patches, base)


# --- by hand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "patch", "wanted"),
    [
        pytest.param({}, {}, {}, id="nothing on nothing"),
        pytest.param({"a": 1}, {}, {"a": 1}, id="nothing on something"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="a leaf replaces"),
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="another key is added"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="None removes"),
        pytest.param({}, {"a": None}, {}, id="None where nothing is"),
        pytest.param({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}, id="dicts merge"),
        pytest.param({"a": {"x": 1}}, {"a": {"x": None}}, {"a": {}}, id="None removes inside"),
        pytest.param({"a": 5}, {"a": {"x": 1}}, {"a": {"x": 1}}, id="a dict over a leaf"),
        pytest.param({"a": {"x": 1}}, {"a": 5}, {"a": 5}, id="a leaf over a dict"),
        pytest.param({"a": [1]}, {"a": [2]}, {"a": [2]}, id="a list replaces a list"),
        pytest.param({"a": 1}, {"a": False}, {"a": False}, id="False is not None"),
        pytest.param({"a": 2}, {"a": {"$add": 3}}, {"a": 5}, id="add, as it is written down"),
        pytest.param({}, {"a": add(3)}, {"a": 3}, id="add to nothing"),
        pytest.param({"a": "two"}, {"a": add(3)}, {"a": 3}, id="add to what is no number"),
        pytest.param({"a": 0.5}, {"a": add(0.25)}, {"a": 0.75}, id="add a fraction"),
        pytest.param({"a": {"n": 1}}, {"a": {"n": add(-1)}}, {"a": {"n": 0}}, id="add inside"),
        pytest.param({"a": [1]}, {"a": append(2, 3)}, {"a": [1, 2, 3]}, id="append"),
        pytest.param({"a": [1]}, {"a": {"$append": [[2], None]}}, {"a": [1, 2]}, id="append, as it is written down"),
        pytest.param({}, {"a": append(1)}, {"a": [1]}, id="append to nothing"),
        pytest.param({"a": 1}, {"a": append(2)}, {"a": [2]}, id="append to what is no list"),
        pytest.param({"a": [1, 2]}, {"a": append(3, keep=2)}, {"a": [2, 3]}, id="of the whole the last stay"),
        pytest.param({"a": [1]}, {"a": append(2, keep=5)}, {"a": [1, 2]}, id="there are fewer than may stay"),
        pytest.param({"a": [1]}, {"a": append(2, keep=0)}, {"a": []}, id="none may stay"),
        pytest.param({"a": [1]}, {"a": append(None)}, {"a": [1, None]}, id="None in a list is kept"),
        pytest.param({}, {"a": {"$add": 1, "b": 2}}, {"a": {"$add": 1, "b": 2}}, id="a leaf has no neighbours"),
    ],
)  # fmt: skip
def test_a_patch_by_hand(
    base: dict[str, Any], patch: dict[str, Any], wanted: dict[str, Any]
) -> None:
    made = patched(base, patch)

    assert made == wanted
    assert [type(made[key]) for key in made] == [type(wanted[key]) for key in made]  # 1 is not True


def test_three_calls_side_by_side_fold_in_call_order() -> None:
    """Each saw the state from before: what they add is added up, what they append stands in call order."""
    before = {"calls": 1, "tools": ["look"], "last": "look"}
    patches = [
        {"calls": add(1), "tools": append(name, keep=3), "last": name}
        for name in ("pay", "ship", "mail")
    ]

    assert folded(before, *patches) == {
        "calls": 4,
        "tools": ["pay", "ship", "mail"],
        "last": "mail",
    }


# --- laws -------------------------------------------------------------------------------------------


@given(STATES, PATCHES)
def test_neither_the_state_nor_the_patch_is_changed(
    base: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = copy.deepcopy((base, patch))
    made = patched(base, patch)
    patched(made, patch)

    assert (base, patch) == before


@given(STATES, PATCHES)
def test_what_comes_out_is_json_as_what_went_in(
    base: dict[str, Any], patch: dict[str, Any]
) -> None:
    made = patched(base, patch)

    assert canonical.decode(canonical.encode(made), dict[str, Any]) == made


@given(STATES, st.lists(PATCHES, max_size=4))
def test_a_fold_that_is_recorded_and_gone_on_with_elsewhere_ends_the_same(
    base: dict[str, Any], patches: list[dict[str, Any]]
) -> None:
    """Wherever the process dies in between: the state so far is stored, the rest is laid over it."""
    whole = folded(base, *patches)
    for at in range(len(patches) + 1):
        stored = canonical.encode(folded(base, *patches[:at]))
        rest = [canonical.decode(canonical.encode(one), dict[str, Any]) for one in patches[at:]]
        assert folded(canonical.decode(stored, dict[str, Any]), *rest) == whole


@given(STATES, st.lists(st.dictionaries(KEYS, st.none() | LEAVES), max_size=5))
def test_of_several_leaves_the_last_one_counts(
    base: dict[str, Any], patches: list[dict[str, Any]]
) -> None:
    made = folded(base, *patches)

    for key in "abc":
        said = [patch[key] for patch in patches if key in patch]
        wanted = said[-1] if said else base.get(key)
        assert made.get(key) == wanted
        assert (key in made) == (wanted is not None)


@given(STATES, PLAIN)
def test_a_plain_patch_may_be_laid_twice(base: dict[str, Any], patch: dict[str, Any]) -> None:
    once = patched(base, patch)

    assert patched(once, patch) == once


@given(STATES)
def test_an_empty_patch_changes_nothing(base: dict[str, Any]) -> None:
    assert patched(base, {}) == base


@given(STATES, KEYS)
def test_none_removes_a_key_and_no_other(base: dict[str, Any], key: str) -> None:
    made = patched(base, {key: None})

    assert key not in made
    assert {**base, **made} == base
    assert set(base) - set(made) <= {key}


@given(STATES, PATCHES, PATCHES)
def test_patches_of_different_keys_may_change_places(
    base: dict[str, Any], one: dict[str, Any], two: dict[str, Any]
) -> None:
    two = {f"{key}'": value for key, value in two.items()}

    assert folded(base, one, two) == folded(base, two, one)


@given(STATES, KEYS, PATCHES)
def test_inside_a_dict_a_patch_means_the_same(
    base: dict[str, Any], key: str, patch: dict[str, Any]
) -> None:
    inner = base.get(key)
    made = patched(base, {key: patch})

    assert made[key] == patched(inner if isinstance(inner, dict) else {}, patch)


@given(AMOUNTS, st.lists(AMOUNTS))
def test_amounts_add_up_in_any_order(start: int, amounts: list[int]) -> None:
    patches = [{"n": add(amount)} for amount in amounts]

    assert folded({"n": start}, *patches) == {"n": start + sum(amounts)}
    assert folded({"n": start}, *reversed(patches)) == {"n": start + sum(amounts)}


@given(st.lists(LEAVES), st.lists(st.lists(LEAVES)), st.none() | st.integers(0, 4))
def test_what_is_appended_stands_in_order_and_the_last_stay(
    start: list[Any], batches: list[list[Any]], keep: int | None
) -> None:
    made = folded({"n": start}, *({"n": append(*items, keep=keep)} for items in batches))

    whole = [*start, *(item for items in batches for item in items)]
    if keep is None or not batches:
        assert made == {"n": whole}
    else:
        assert made == {"n": whole[len(whole) - min(keep, len(whole)) :]}


# --- what only looks like a leaf ------------------------------------------------------------------------

ODD_KEYS = st.sampled_from(["a", "b", "$add", "$append", "$data", "$"])
ODD = st.dictionaries(
    ODD_KEYS,
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ODD_KEYS, inner, max_size=2),
    ),
    max_size=2,
)


@given(STATES, ODD, ODD)
def test_whatever_was_recorded_can_be_laid_over_anything(
    base: dict[str, Any], one: dict[str, Any], two: dict[str, Any]
) -> None:
    folded(base, one, two, one)


@given(ODD)
def test_data_that_looks_like_a_leaf_stays_data(data: dict[str, Any]) -> None:
    """A model may have written it; only `add` and `append` make leaves."""
    written = canonical.decode(canonical.encode(recorded({"k": data})), dict[str, Any])

    assert patched({}, written) == {"k": data}


@pytest.mark.parametrize(
    "data",
    [{"$add": 1}, {"$append": [[1], None]}, {"$data": 5}, {"in": {"$add": 1}}, {"$": 1, "a": 2}],
)
def test_data_that_looks_like_a_leaf_replaces_as_data_does(data: dict[str, Any]) -> None:
    assert patched({"k": 5}, recorded({"k": data})) == {"k": data}


def test_leaves_are_recorded_as_leaves_also_inside() -> None:
    patch = {"n": add(1), "in": {"list": append(2, keep=1)}, "gone": None}

    assert recorded(patch) == {
        "n": {"$add": 1},
        "in": {"list": {"$append": [[2], 1]}},
        "gone": None,
    }
    assert patched({"n": 1, "in": {"list": [1]}, "gone": 1}, recorded(patch)) == {
        "n": 2,
        "in": {"list": [2]},
    }


def test_a_truth_is_no_number() -> None:
    assert patched({"n": True}, {"n": add(2)}) == {"n": 2}


@pytest.mark.parametrize("amount", ["1", None, True, [1]])
def test_only_a_number_can_be_added(amount: Any) -> None:  # noqa: ANN401 - that is the point
    with pytest.raises(InvalidInput, match=r"add: found .*, wanted a number"):
        add(amount)


@pytest.mark.parametrize("keep", [-1, 1.5, True, "2"])
def test_only_a_count_can_be_kept(keep: Any) -> None:  # noqa: ANN401 - that is the point
    with pytest.raises(InvalidInput, match="keep: wanted a whole number of 0 or more"):
        append(1, keep=keep)
