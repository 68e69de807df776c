"""States and memories of plugins: changed by patches alone, the same whenever they are laid over each other."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.errors import CallerError, InvalidInput, LimitExceeded
from windlass.journal import PluginRemembered
from windlass.journal.patch import add, append
from windlass.kernel import canonical
from windlass.kernel.value import Json
from windlass.runtime.hooked_turn import PluginStates, checked, folded

LIMIT = 64 * 1024


def kept(**change: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a patch as it comes back from a journal."""
    (patch,) = checked({"state": [change]}, plugin="p")["state"]
    return canonical.decode(canonical.encode(patch), dict[str, Any])


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": "text"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({}, {"n": add(2)}, {"n": 2}),
        ({"n": 3}, {"n": add(-1)}, {"n": 2}),
        ({"n": "text"}, {"n": add(2)}, {"n": 2}),
        ({"a": {"n": 1}}, {"a": {"n": add(1)}}, {"a": {"n": 2}}),
        ({}, {"l": append(1, 2)}, {"l": [1, 2]}),
        ({"l": [1]}, {"l": append(2, keep=2)}, {"l": [1, 2]}),
        ({"l": [1, 2]}, {"l": append(3, keep=2)}, {"l": [2, 3]}),
        ({"l": [1, 2]}, {"l": append(3, keep=0)}, {"l": []}),
        ({"l": 5}, {"l": append(1)}, {"l": [1]}),
    ],
)
def test_a_patch_is_laid_over_what_is_there(before: Json, change: Any, after: Json) -> None:  # noqa: ANN401 - JSON
    assert folded(before, [kept(**change)]) == after


@pytest.mark.parametrize(
    "data",
    [{"$add": "q"}, {"$append": 1}, {"$append": [1, 2]}, {"$data": 1}, {"$add": 1}, {"a": {"$add": 1}}],
)  # fmt: skip
def test_data_that_looks_like_a_leaf_is_data(data: Json) -> None:
    """A plugin may keep what a model wrote, and a model may write anything."""
    assert folded({}, [kept(seen=data)]) == {"seen": data}
    assert folded({"seen": 3}, [kept(seen=data)]) == {"seen": data}


@pytest.mark.parametrize("wrong", ["1", None, [1], True])
def test_only_numbers_can_be_added(wrong: Any) -> None:  # noqa: ANN401 - whatever somebody gives
    with pytest.raises(InvalidInput, match="add"):
        add(wrong)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"a": object()}, InvalidInput),
        ({"a": float("nan")}, CallerError),
        ({"a": {1: 2}}, InvalidInput),
        ({"a": "\ud800"}, InvalidInput),
        ({"a": "x" * LIMIT}, LimitExceeded),
    ],
    ids=["object", "nan", "key", "surrogate", "large"],
)
def test_what_could_not_be_kept_is_refused_and_the_plugin_is_named(
    change: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"p\.patch"):
        checked({"state": [change]}, plugin="p")


def test_what_is_just_small_enough_is_kept() -> None:
    change = {"state": [{"a": ""}]}
    room = LIMIT - len(canonical.encode(change))

    assert checked({"state": [{"a": "x" * room}]}, plugin="p")
    with pytest.raises(LimitExceeded):
        checked({"state": [{"a": "x" * (room + 1)}]}, plugin="p")


def test_each_plugin_has_its_own_and_the_turn_leaves_only_what_changed() -> None:
    states = PluginStates({"old": {"n": 1}, "same": {"n": 1}})
    states.apply({"old": {"memory": [{"n": add(1)}]}, "new": {"state": [{"n": 1}]}})
    states.apply({"same": {"memory": [{"n": add(1)}, {"n": add(-1)}]}})
    states.apply({"new": {"memory": [{"list": append("a")}]}})

    assert states.state("new") == {"n": 1}
    assert states.state("old") == {}
    assert (states.memory("old"), states.memory("nobody")) == ({"n": 2}, {})
    assert [*states.nodes()] == [
        PluginRemembered(plugin="new", memory={"list": ["a"]}),
        PluginRemembered(plugin="old", memory={"n": 2}),
    ]


def test_what_the_session_had_is_not_changed_by_a_turn_that_is_not_committed() -> None:
    memories = {"p": {"list": [1], "deep": {"n": 1}}}
    states = PluginStates(memories)
    states.apply({"p": {"memory": [{"list": append(2), "deep": {"n": add(1)}}]}})

    assert states.memory("p") == {"list": [1, 2], "deep": {"n": 2}}
    assert memories == {"p": {"list": [1], "deep": {"n": 1}}}
