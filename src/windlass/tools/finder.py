"""Finding deferred tools: what is not offered from the start, the model can look for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from windlass.kernel import canonical
from windlass.kernel.messages import Message, Text, ToolResult
from windlass.kernel.tool_call import ToolSpec
from windlass.ports.tool import Tool, ToolContext
from windlass.tools.dynamic_tool import DynamicTool

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


def finder_of(deferred: Iterable[Tool]) -> Tool:
    """Return the tool with which a model finds these."""
    words = {
        tool.spec.name: _words(f"{tool.spec.name} {tool.spec.description}") for tool in deferred
    }
    texts = {tool.spec.name: tool.spec.description for tool in deferred}

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
