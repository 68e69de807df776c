"""The tools that are offered together, by name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from windlass.errors import ConfigError
from windlass.guards.limits import DEFAULT_LIMITS
from windlass.journal import ToolContract
from windlass.kernel.tool_call import ToolSpec
from windlass.ports.tool import Tool
from windlass.tools.finder import FINDER, finder_of

_METHODS: Final = ("check", "run", "reconcile", "needs_approval")


class Toolbox:
    """An immutable set of tools. Two of one name, and what is no tool, are refused when it is made."""

    __slots__ = ("_by_name", "deferred", "specs")

    specs: tuple[ToolSpec, ...]
    """What the model is offered: the tools that are always exposed, in their order."""
    deferred: tuple[Tool, ...]
    """Tools that the model finds when it looks for them; `find_tools` is offered in their place."""

    def __init__(self, tools: Iterable[Tool] = (), *, field: str = "tools") -> None:
        self._by_name: dict[str, Tool] = {}
        places: dict[str, str] = {}
        for at, tool in enumerate(_listed(tools, field)):
            place = f"{field}[{at}]"
            _check_tool(tool, place)
            name = tool.spec.name
            if name in places:
                raise ConfigError(
                    f"{place} ({tool!r}): found a second tool named {name}, the first is "
                    f"{places[name]} ({self._by_name[name]!r}); wanted each name once",
                    field=place,
                    found=name,
                    wanted="each name once",
                )
            self._by_name[name] = tool
            places[name] = place
        limit = DEFAULT_LIMITS.tools
        if len(places) > limit:
            raise ConfigError(
                f"{field}: found {len(places):,} tools, the limit is {limit:,}",
                field=field,
                found=len(places),
                wanted=limit,
            )
        self.deferred = tuple(tool for tool in self if tool.expose == "deferred")
        if self.deferred and FINDER not in self._by_name:
            self._by_name[FINDER] = finder_of(self.deferred)
        self.specs = tuple(tool.spec for tool in self if tool.expose == "always")

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, whether it is offered or not."""
        return self._by_name.get(name)

    def callable_by_model(self, name: str) -> Tool | None:
        """Return the tool of that name if a model may call it: a hidden one is not there for it."""
        tool = self._by_name.get(name)
        return None if tool is None or tool.expose == "hidden" else tool

    def offered(self, found: Container[str]) -> tuple[ToolSpec, ...]:
        """Return what the model is offered once it has found these."""
        more = tuple(tool.spec for tool in self.deferred if tool.spec.name in found)
        return (*self.specs, *more) if more else self.specs

    def contracts(self) -> tuple[ToolContract, ...]:
        """Return what a turn that begins with these tools records of them."""
        return tuple(
            ToolContract(
                tool=tool.spec.name, effect=tool.effect, version=getattr(tool, "version", "")
            )
            for tool in self
        )

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self._by_name)})"


def _listed(tools: Iterable[Tool], field: str) -> list[Tool]:
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        found = type(tools).__name__
        raise ConfigError(
            f"{field}: found {found}, wanted a list of tools", field=field, found=found
        )
    return list(tools)


def _check_tool(tool: object, place: str) -> None:
    is_tool = isinstance(getattr(tool, "spec", None), ToolSpec) and all(
        callable(getattr(tool, name, None)) for name in _METHODS
    )
    if not is_tool or isinstance(tool, type):
        found = getattr(tool, "__qualname__", None) or type(tool).__name__
        raise ConfigError(
            f"{place}: found {found}, which is no tool; wanted one, as @tool makes it of a function",
            field=place,
            found=found,
            wanted="a tool",
        )
