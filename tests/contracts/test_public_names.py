"""Public is what `__all__` lists: sorted, without repeats, and really there."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import get_args

import pytest

from windlass import journal, kernel, ports
from windlass.ports.directives import Stop
from windlass.ports.model import CallChunk, ReasoningChunk, TextChunk
from windlass.ports.plugin import HOOKS

PUBLIC = ("windlass", "windlass.journal", "windlass.kernel", "windlass.ports", "windlass.testing")
# The rest of the list lands with its packages.
ALWAYS = ("windlass", "windlass.kernel")


def is_there(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


def names_in(module: str) -> list[str]:
    return list(importlib.import_module(module).__all__)


def reading_order(name: str) -> tuple[int, str]:
    """Constants, then types, then the rest: the order ruff's RUF022 writes."""
    if name.isupper() and len(name) > 1:
        return (0, name)
    return (1, name) if name[0].isupper() else (2, name)


EXISTING = [module for module in PUBLIC if is_there(module)]


@pytest.mark.parametrize("module", ALWAYS)
def test_the_public_modules_are_there(module: str) -> None:
    assert is_there(module)


@pytest.mark.parametrize("module", EXISTING)
def test_a_public_module_lists_its_names_in_reading_order(module: str) -> None:
    names = names_in(module)

    assert names == sorted(names, key=reading_order)


@pytest.mark.parametrize("module", EXISTING)
def test_a_public_name_is_listed_once(module: str) -> None:
    names = names_in(module)

    assert len(names) == len(set(names))


@pytest.mark.parametrize("module", EXISTING)
def test_every_listed_name_resolves(module: str) -> None:
    found = importlib.import_module(module)

    assert [name for name in found.__all__ if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", EXISTING)
def test_no_listed_name_is_private(module: str) -> None:
    private = [
        name for name in names_in(module) if name.startswith("_") and not name.endswith("__")
    ]

    assert private == []


def test_what_a_plugin_is_made_of_is_a_port_like_any_other() -> None:
    plugins = importlib.import_module("windlass.plugins")
    made_of = [
        name
        for name in plugins.__all__
        if getattr(plugins, name).__module__.startswith("windlass.ports.")
    ]

    assert "Plugin" in made_of
    assert [name for name in made_of if name not in {*ports.__all__, "Price"}] == []
    assert all(
        getattr(ports, name) is getattr(plugins, name) for name in made_of if name != "Price"
    )


# Values that users meet, so a member that is not public could be seen but not named.
UNIONS: dict[str, tuple[object, tuple[str, ...]]] = {
    "Action": (kernel.Action, ("windlass.kernel",)),
    "Effect": (kernel.Effect, ("windlass.kernel",)),
    "Event": (kernel.Event, ("windlass.kernel",)),
    "Outcome": (kernel.Outcome, ("windlass.kernel",)),
    "Part": (kernel.Part, ("windlass.kernel",)),
    "Response": (kernel.Response, ("windlass.kernel",)),
    "Command": (journal.Command, ("windlass.journal",)),
    "RecordedMoment": (journal.RecordedMoment, ("windlass.journal",)),
    "Entry": (journal.Entry, ("windlass.journal",)),
    "Errand": (ports.Errand, ("windlass.ports",)),
    "NodeBody": (journal.NodeBody, ("windlass.journal", "windlass.kernel")),
}


def unlisted(members: Iterable[type], names: Iterable[str]) -> list[str]:
    """Return which types are none of the public names."""
    return sorted({kind.__name__ for kind in members} - set(names))


@pytest.mark.parametrize("name", UNIONS)
def test_every_member_of_a_closed_union_is_public(name: str) -> None:
    union, modules = UNIONS[name]
    public = [listed for module in modules for listed in names_in(module)]

    assert unlisted(get_args(union), public) == []


def test_every_answer_of_a_hook_is_public_where_plugins_are_made() -> None:
    answers = {kind for hook in HOOKS.values() for kind in hook.answers}
    of_plugins = {kind for kind in answers if kind.__module__.startswith("windlass.ports.")}

    assert Stop in of_plugins
    assert (
        unlisted(of_plugins - {TextChunk, ReasoningChunk, CallChunk}, names_in("windlass.plugins"))
        == []
    )


def test_an_event_that_is_not_listed_is_seen() -> None:
    names = {*names_in("windlass.kernel")} - {"TurnEnded"}

    assert unlisted(get_args(kernel.Event), names) == ["TurnEnded"]
