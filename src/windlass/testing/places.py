"""Places in a request: its parts in the shapes providers see, and where each kind of mistake stands.

`provider_rules` says which mistakes matter to whom; nothing here knows a provider. Each function that
is named after a mistake returns the places where it was made, such as `messages[2].parts[0]`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise, takewhile
from typing import NamedTuple, TypeVar

from windlass.kernel import (
    ModelMessage,
    ModelRequest,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
)
from windlass.kernel.model_call import RequestPart

P = TypeVar("P", bound=RequestPart)


# --- shapes --------------------------------------------------------------------------------------


class Turn(NamedTuple):
    """What one role says until another speaks: parts with their places."""

    where: str
    role: str
    parts: list[tuple[str, RequestPart]]

    def of(self, kind: type[P]) -> list[tuple[str, P]]:
        return [(where, part) for where, part in self.parts if isinstance(part, kind)]

    def leading_results(self) -> list[str]:
        """The call ids of the results before anything else."""
        results = takewhile(lambda placed: isinstance(placed[1], ToolResult), self.parts)
        return [part.call_id for _, part in results if isinstance(part, ToolResult)]


_NOTHING = Turn("messages", "", [])


def turns(request: ModelRequest, *, merged: tuple[str, ...] = ()) -> list[Turn]:
    """Return the messages but the system's, with neighbors of one of the `merged` roles as one."""
    found: list[Turn] = []
    for at, message in enumerate(request.messages):
        where = f"messages[{at}]"
        if message.role == "system":
            continue
        parts = [(f"{where}.parts[{n}]", part) for n, part in enumerate(message.parts)]
        if found and message.role in merged and found[-1].role == message.role:
            found[-1].parts.extend(parts)
        else:
            found.append(Turn(where, message.role, parts))
    return found


def _neighbors(turns: list[Turn]) -> Iterator[tuple[Turn, Turn]]:
    """Each turn with the one after it."""
    return pairwise([*turns, _NOTHING])


def parts(request: ModelRequest) -> Iterator[tuple[str, ModelMessage, RequestPart]]:
    """Return every part, with its place and its message."""
    for at, message in enumerate(request.messages):
        for n, part in enumerate(message.parts):
            yield f"messages[{at}].parts[{n}]", message, part


def of(request: ModelRequest, kind: type[P]) -> list[tuple[str, P]]:
    """Return every part of one kind, with its place."""
    return [(where, part) for where, _, part in parts(request) if isinstance(part, kind)]


def messages(request: ModelRequest, is_wrong: Callable[[int, ModelMessage], bool]) -> list[str]:
    """Return the places of messages that are wrong, by position and content."""
    found = enumerate(request.messages)
    return [f"messages[{at}]" for at, message in found if is_wrong(at, message)]


# --- who speaks, and what is said ----------------------------------------------------------------


def not_of_user(turns: list[Turn]) -> list[str]:
    """Return turns that are not the user's; if there are none, that is wrong as well."""
    return [turn.where for turn in turns or [_NOTHING] if turn.role != "user"]


def texts(request: ModelRequest, is_wrong: Callable[[str], bool]) -> list[str]:
    """Return where text is wrong; text inside a result has the place of the result."""
    found = []
    for where, _, part in parts(request):
        inside = part.content if isinstance(part, ToolResult) else (part,)
        if any(isinstance(each, Text) and is_wrong(each.text) for each in inside):
            found.append(where)
    return found


def text_after_calls(turns: list[Turn]) -> list[str]:
    """Return text that stands behind a call of the same turn."""
    found = []
    for turn in turns:
        called = False
        for where, part in turn.parts:
            called = called or isinstance(part, ToolCall)
            if called and isinstance(part, Text):
                found.append(where)
    return found


def only_thoughts(request: ModelRequest) -> list[str]:
    """Return messages that hold nothing but thoughts, and tools that the provider ran itself."""

    def is_thought(_: int, message: ModelMessage) -> bool:
        kinds = {type(part) for part in message.parts}
        return bool(kinds) and kinds <= {Reasoning, ServerToolCall}

    return messages(request, is_thought)


def unsigned_thoughts(request: ModelRequest) -> list[str]:
    """Return thoughts, and tools that a provider ran itself, without the blob of their provider."""
    thoughts = [where for where, part in of(request, Reasoning) if part.replay is None]
    return thoughts + [where for where, part in of(request, ServerToolCall) if part.replay is None]


def last_thoughts(turns: list[Turn]) -> list[str]:
    """Return thoughts after which the turn says nothing more."""
    last = [turn.parts[-1] for turn in turns if turn.parts]
    return [where for where, part in last if isinstance(part, Reasoning)]


# --- calls and their results ---------------------------------------------------------------------


def out_of_order(request: ModelRequest) -> list[str]:
    """Return messages whose calls are not the results of the next one, and results without calls."""
    calls: list[str] = []
    found = []
    for at, message in enumerate((*request.messages, ModelMessage(role="user", parts=()))):
        results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if results != calls:
            found.append(f"messages[{at - 1 if calls else at}]")
        calls = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return found


def unanswered(turns: list[Turn]) -> list[str]:
    """Return calls without exactly one result in the next turn."""
    found = []
    for turn, after in _neighbors(turns):
        results = Counter(part.call_id for _, part in after.of(ToolResult))
        found += [where for where, part in turn.of(ToolCall) if results[part.call_id] != 1]
    return found


def cut_off(turns: list[Turn]) -> list[str]:
    """Return calls without exactly one result before anything else is said."""
    found = []
    for turn, after in _neighbors(turns):
        results = Counter(after.leading_results())
        found += [where for where, part in turn.of(ToolCall) if results[part.call_id] != 1]
    return found


def orphans(turns: list[Turn]) -> list[str]:
    """Return results of which the turn before has no call."""
    found = []
    for before, turn in _neighbors([_NOTHING, *turns]):
        calls = {part.call_id for _, part in before.of(ToolCall)}
        found += [where for where, part in turn.of(ToolResult) if part.call_id not in calls]
    return found


def late_results(turns: list[Turn]) -> list[str]:
    """Return results behind something else in their turn."""
    return [
        where for turn in turns for where, _ in turn.of(ToolResult)[len(turn.leading_results()) :]
    ]


def uncalled(turns: list[Turn]) -> list[str]:
    """Return results behind a turn without any call."""
    return [
        where
        for before, turn in _neighbors([_NOTHING, *turns])
        for where, _ in turn.of(ToolResult)
        if not before.of(ToolCall)
    ]


def miscounted(turns: list[Turn]) -> list[str]:
    """Return turns with calls that the next turn answers with another number of results."""
    return [
        turn.where
        for turn, after in _neighbors(turns)
        if turn.of(ToolCall) and len(turn.of(ToolCall)) != len(after.of(ToolResult))
    ]


def renamed(request: ModelRequest) -> list[str]:
    """Return results that carry another name than their call."""
    names = {part.call_id: part.name for _, part in of(request, ToolCall)}
    return [
        where
        for where, part in of(request, ToolResult)
        if names.get(part.call_id, part.name) != part.name
    ]


# --- ids, names, tools ---------------------------------------------------------------------------


def repeated_ids(request: ModelRequest) -> list[str]:
    """Return calls whose id an earlier call has."""
    calls = of(request, ToolCall)
    first = {part.call_id: where for where, part in reversed(calls)}
    return [where for where, part in calls if first[part.call_id] != where]


def bad_ids(request: ModelRequest, pattern: re.Pattern[str]) -> list[str]:
    """Return calls whose id does not match."""
    return [where for where, part in of(request, ToolCall) if not pattern.match(part.call_id)]


def bad_call_names(request: ModelRequest, pattern: re.Pattern[str]) -> list[str]:
    """Return calls whose name does not match."""
    return [where for where, part in of(request, ToolCall) if not pattern.match(part.name)]


def bad_tool_names(request: ModelRequest, pattern: re.Pattern[str]) -> list[str]:
    """Return tools whose name does not match."""
    found = enumerate(request.tools)
    return [f"tools[{at}]" for at, tool in found if not pattern.match(tool.name)]


def repeated_tools(request: ModelRequest) -> list[str]:
    """Return tools whose name an earlier tool has."""
    names = [tool.name for tool in request.tools]
    return [f"tools[{at}]" for at, name in enumerate(names) if names.index(name) != at]


def no_choice(request: ModelRequest) -> list[str]:
    """Say so if a call is required and there is nothing to call."""
    return ["tool_choice"] if request.tool_choice == "required" and not request.tools else []
