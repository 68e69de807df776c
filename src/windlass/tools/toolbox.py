"""The tools that are offered together, by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final

from windlass.errors import ConfigError
from windlass.guards.limits import INPUT_LIMITS
from windlass.journal import ToolContract
from windlass.kernel import Message, Text, ToolResult, ToolSpec, canonical
from windlass.ports.tool import Tool, ToolContext
from windlass.tools.declaration import is_background
from windlass.tools.dynamic_tool import DynamicTool

_METHODS: Final = ("check", "run", "reconcile", "needs_approval")
FINDER = "find_tools"
_MAX_FOUND = 10
_WORD = re.compile(r"[^\W_]+")
_SPEC = ToolSpec(
    name=FINDER,
    description="Find more tools by what they do. Those that are found can be called from then on.",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "A few words about what is to be done."}
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)


class Toolbox:
    """An immutable set of tools. Two tools of one name, and a value that is not a tool, are refused when it is made."""

    __slots__ = ("_by_name", "agents", "background", "deferred", "has_kinds", "specs")

    specs: tuple[ToolSpec, ...]
    """What the model is offered: the tools that are always exposed, in their order."""
    agents: frozenset[str]
    """The names of those that are agents: a call of one is a turn of that agent."""
    background: frozenset[str]
    """The names of those whose body runs in the background: a call of one starts a process."""
    has_kinds: bool
    """Whether some are of those."""
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
                first = f"{places[name]} ({self._by_name[name]!r})"
                found = f"a second tool named {name} ({tool!r}), the first is {first}"
                raise ConfigError.at(place, found, "each name once")
            self._by_name[name] = tool
            places[name] = place
        limit = INPUT_LIMITS.tools
        if len(places) > limit:
            raise ConfigError.at(field, f"{len(places):,} tools", f"at most {limit:,}")
        self.deferred = tuple(tool for tool in self if tool.expose == "deferred")
        if self.deferred and FINDER not in self._by_name:
            self._by_name[FINDER] = finder_of(self.deferred)
        self.specs = tuple(tool.spec for tool in self if tool.expose == "always")
        self.agents = frozenset(tool.spec.name for tool in self if getattr(tool, "is_agent", False))
        self.background = frozenset(tool.spec.name for tool in self if is_background(tool))
        self.has_kinds = bool(self.agents or self.background)

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, whether it is offered or not."""
        return self._by_name.get(name)

    def callable_by_model(self, name: str) -> Tool | None:
        """Return the tool of that name if a model may call it, which it may not if the tool is hidden."""
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
                tool=each.spec.name, effect=each.effect, version=getattr(each, "version", "")
            )
            for each in self
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
        raise ConfigError.at(field, type(tools).__name__, "a list of tools")
    return list(tools)


def _check_tool(tool: object, place: str) -> None:
    can_run = all(callable(getattr(tool, name, None)) for name in _METHODS)
    has_spec = isinstance(getattr(tool, "spec", None), ToolSpec)
    if not can_run or not has_spec or isinstance(tool, type):
        found = getattr(tool, "__qualname__", None) or type(tool).__name__
        wanted = "a tool, such as @tool makes of a function"
        if inspect.isroutine(tool):
            # Not made here: a tool's author says what a crash may do to it, and type checkers see its deps.
            wanted = f"a tool: decorate it with @tool, or write tools=[tool({tool.__name__})]"
        raise ConfigError.at(place, found, wanted)


# ----------------------------------------------------------------------- finding deferred tools


def finder_of(deferred: Iterable[Tool]) -> Tool:
    """Return the tool with which a model finds these."""
    texts = {tool.spec.name: tool.spec.description for tool in deferred}
    words = {name: _words(f"{name} {text}") for name, text in texts.items()}

    async def find(_ctx: ToolContext[Any], args: Mapping[str, Any]) -> list[dict[str, str]]:
        wanted = _words(args["query"])
        ranked = sorted(words, key=lambda name: (-len(wanted & words[name]), name))
        found = [name for name in ranked if wanted & words[name] or not wanted]
        return [{"name": name, "description": texts[name]} for name in found[:_MAX_FOUND]]

    return DynamicTool(_SPEC, find, effect="pure")


def found_in(messages: Iterable[Message]) -> frozenset[str]:
    """Return the names that the finder gave in these messages."""
    names: set[str] = set()
    for message in messages:
        for part in message.parts:
            if type(part) is ToolResult and part.name == FINDER and part.status == "ok":
                names |= _names("".join(one.text for one in part.content if type(one) is Text))
    return frozenset(names)


def _names(text: str) -> set[str]:
    try:
        listed = canonical.parse(text)
    except ValueError:
        return set()  # cut short by a limit: the model may ask again, for less
    entries = listed if isinstance(listed, list) else []
    return {str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry}


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))
