"""Long JSON as shorter JSON: within its room, leaf by leaf, and the missing counted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kernel.value import Json
from windlass.plugins.output_budget import shortened
from windlass.plugins.windowing import Window

LONG = "x" * 1_000


@pytest.mark.parametrize(
    ("value", "room", "kind", "wanted"),
    [
        ({"a": 1, "b": [True, None, 1.5]}, 100, "head", {"a": 1, "b": [True, None, 1.5]}),
        # Of 60 bytes the quotes take 2 and the note 25 at most, which leaves 33 of the text.
        (LONG, 60, "head", "x" * 33 + "… [967 bytes cut]"),
        (LONG, 60, "tail", "… [967 bytes cut] …" + "x" * 33),
        (LONG, 60, "both", "x" * 16 + "… [967 bytes cut] …" + "x" * 17),
        ({"k": LONG, "n": 7}, 100, "head", {"k": "x" * 40 + "… [960 bytes cut]", "n": 7}),
        # Each of these is written as two characters, or as six.
        ("\n" * 1_000, 60, "head", "\n" * 16 + "… [984 bytes cut]"),
        ("\x01" * 1_000, 60, "tail", "… [995 bytes cut] …" + "\x01" * 5),
        (list(range(1_000)), 60, "head", [*range(15), "… 985 more items"]),
        (list(range(1_000)), 60, "tail", ["… 992 more items", *range(992, 1_000)]),
        (list(range(1_000)), 60, "both", [*range(6), "… 989 more items", *range(995, 1_000)]),
        ({f"k{n}": n for n in range(9)} | {"…": 0}, 60, "head", None),
        ({LONG: 1, "b": 2}, 60, "head", {"b": 2, "…": "1 more keys"}),
        ([{LONG: 1}], 40, "head", "… 1 items"),
        ({LONG: 1}, 40, "head", "… 1 keys"),
        (10**4_000, 40, "head", "… 4,001 digits"),
    ],
    ids=lambda one: str(one)[:24],
)
def test_a_value_is_shortened_like_this(value: Json, room: int, kind: Window, wanted: Json) -> None:
    made = shortened(value, room, kind)

    assert len(made.encode()) <= room
    if wanted is not None:
        assert json.loads(made) == wanted


def test_a_sign_that_is_a_key_already_is_not_used_for_what_is_missing() -> None:
    made = json.loads(shortened({f"k{n}": "v" * 40 for n in range(9)} | {"…": "mine"}, 200))

    assert made["…"] == "mine"
    assert "more keys" in made["……"]


def test_a_list_of_records_keeps_the_first_ones_whole() -> None:
    records = [{"id": n, "text": "word " * 50} for n in range(100)]

    made = json.loads(shortened(records, 4_000))

    assert made[:13] == records[:13]
    assert made[-1] == "… 86 more items"


def test_a_dict_rather_keeps_all_names_with_a_little_of_each() -> None:
    made = json.loads(shortened({f"name{n}": "word " * 200 for n in range(20)}, 4_000))

    assert sorted(made) == sorted(f"name{n}" for n in range(20))
    assert all(text.startswith("word word word") for text in made.values())


JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=9), inner, max_size=8)
    ),
    max_leaves=40,
)


def holds(small: Json, large: Json) -> bool:
    """Whether a shortened value says nothing that the value does not say."""
    if small == large or (isinstance(small, str) and "…" in small):
        return True
    if isinstance(small, dict) and isinstance(large, dict):
        kept = {key for key in small if key.strip("…")}
        return kept <= large.keys() and all(holds(small[key], large[key]) for key in kept)
    if isinstance(small, list) and isinstance(large, list):
        return all(
            isinstance(item, str) or any(holds(item, one) for one in large) for item in small
        )
    return False


@given(JSON, st.integers(32, 300), st.sampled_from(["head", "tail", "both"]))
def test_json_stays_json_within_its_room(value: Json, room: int, kind: Window) -> None:
    if "\0" in json.dumps(value) or "\\u0000" in json.dumps(value):
        return
    made = shortened(value, room, kind)

    assert len(made.encode()) <= room
    assert holds(json.loads(made), value)
