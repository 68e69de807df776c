"""Public names say what they are: each class and function, and what each argument and attribute of them means.

An editor shows these texts. "Says what it means" is: three words at least that are not the name itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec
import pytest

import windlass
import windlass.plugins
import windlass.testing
from windlass.ports.plugin import HOOKS, Plugin

# `name: what it is` or `name, other: what they are`, under Args or Attributes.
ENTRY = re.compile(r"^ {4}(?P<names>\*{0,2}\w+(?:, \w+)*): (?P<text>.*)$")
SECTION = re.compile(r"^(?:Args|Attributes):$")
DELEGATES = re.compile(r"akes\s+what\s+`")  # "It takes what `run` takes."
# Nobody but windlass makes these: what they are made of is not what they have.
GIVEN = {
    "Process", "ProcessContext", "ProcessHandle", "Schedule", "Session", "Tick", "TurnHandle", "TurnResult",
}  # fmt: skip
OF_PLUGINS = [
    name
    for name in windlass.plugins.__all__
    if name in ("Budget", "ToolRecovery")
    or (
        inspect.isclass(getattr(windlass.plugins, name))
        and issubclass(getattr(windlass.plugins, name), Plugin)
    )
]
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module, names in (
        (windlass, windlass.__all__),
        (windlass.testing, windlass.testing.__all__),
        (windlass.plugins, OF_PLUGINS),
    )
    for name in names
    if callable(getattr(module, name))
}


def described(doc: str | None) -> dict[str, str]:
    """Return what a docstring says about each argument and attribute."""
    found: dict[str, str] = {}
    is_inside, names = False, list[str]()
    for line in inspect.cleandoc(doc or "").splitlines():
        if line and not line.startswith(" "):
            is_inside, names = SECTION.match(line) is not None, []
        elif is_inside and (entry := ENTRY.match(line)) is not None:
            names = [name.strip("* ") for name in entry["names"].split(",")]
            found.update(dict.fromkeys(names, entry["text"]))
        else:
            for name in names:
                found[name] += f" {line.strip()}"
    return found


def says_enough(name: str, text: str) -> bool:
    own = set(name.lower().split("_"))
    return sum(word not in own for word in re.findall(r"[\w`.]+", text.lower())) >= 3


def arguments(function: Callable[..., object]) -> list[str]:
    names = inspect.signature(function).parameters
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def of_windlass(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__.startswith("windlass")]


def attributes(name: str, kind: type) -> list[str]:
    """Return the fields of a value, or what its constructor takes."""
    if issubclass(kind, msgspec.Struct):
        return [one.name for one in msgspec.structs.fields(kind)]
    if "_fields" in vars(kind):
        return list(kind._fields)  # type: ignore[attr-defined]  # a NamedTuple
    is_made = any("__init__" in vars(base) for base in of_windlass(kind))
    if name in GIVEN or not is_made or Protocol in kind.__bases__:
        return []
    return arguments(kind.__init__)


def methods(kind: type) -> dict[str, Callable[..., object]]:
    """Return the public methods of a class, without the hooks of a plugin that is included."""
    found: dict[str, Callable[..., object]] = {}
    for base in reversed(of_windlass(kind)):
        for name, value in vars(base).items():
            plain = getattr(value, "__func__", value)
            is_hook = base is not Plugin and issubclass(base, Plugin) and name in HOOKS
            if inspect.isfunction(plain) and not name.startswith("_") and not is_hook:
                found[name] = plain
    if kind is not Plugin and issubclass(kind, Plugin):
        found = {name: one for name, one in found.items() if name not in HOOKS}
    return found


def missing(name: str, public: Any) -> list[str]:  # noqa: ANN401 - any public name
    """Return what of a public name is not described."""
    short = name.rpartition(".")[2]
    told, found = described(public.__doc__), [] if (public.__doc__ or "").strip() else [short]
    if not inspect.isclass(public):
        return found + undescribed(short, arguments(public), told)
    for base in of_windlass(public):
        told = {**described(base.__doc__), **told}
    found += undescribed(short, attributes(short, public), told)
    for method, function in methods(public).items():
        doc = function.__doc__ or ""
        if not doc.strip():
            found.append(f"{short}.{method}")
        if not DELEGATES.search(doc):
            here = {**told, **described(doc)}
            found += undescribed(f"{short}.{method}", arguments(function), here)
    return found


def undescribed(name: str, wanted: Iterable[str], told: dict[str, str]) -> list[str]:
    return [f"{name}({one})" for one in wanted if not says_enough(one, told.get(one, ""))]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_and_its_arguments_are(name: str) -> None:
    assert missing(name, PUBLIC[name]) == []


class Planted:
    """Something new.

    Args:
        size: The size.
        colour: What people see first, in words.
    """

    def __init__(self, size: int, colour: str, weight: int) -> None: ...

    def lift(self, high: int) -> None:
        """Lift it."""

    def drop(self) -> None: ...

    def throw(self, far: int) -> None:
        """Throw it. It takes what `lift` takes."""


def test_what_is_not_described_is_named() -> None:
    Planted.__module__ = "windlass.planted"

    assert missing("windlass.Planted", Planted) == [
        "Planted(size)", "Planted(weight)", "Planted.lift(high)", "Planted.drop",
    ]  # fmt: skip


def test_a_value_and_a_function_are_looked_at_too() -> None:
    class Size(msgspec.Struct):
        """How large it is."""

        metres: int

    def measure(what: str) -> Size:
        """Measure something.

        Args:
            what: The thing to measure, by its name.
        """
        return Size(len(what))

    assert missing("windlass.Size", Size) == ["Size(metres)"]
    assert missing("windlass.measure", measure) == []
