"""The tool calls of one reply, put together from the pieces in which they come."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from windlass.kernel import Json, ToolCall, canonical
from windlass.models.message_parts import Written, text_at, tool_call
from windlass.models.provider_errors import malformed, wrong_kind
from windlass.ports.model import EmitModelEvent


class _Draft(msgspec.Struct):
    """A call as far as it is there."""

    number: int
    written: Written
    call_id: str = ""
    name: str = ""

    @property
    def is_whole(self) -> bool:
        try:
            return isinstance(canonical.parse(self.written.text), dict)
        except ValueError:
            return False


class CallPieces:
    """Puts the tool calls of one reply together. `numbered`: the server numbers them without a gap.

    OpenAI sends pieces of each call under its number. Others send calls whole, give no numbers or the same one to
    all, leave ids out, or write the arguments as an object.
    """

    def __init__(self, provider: str, emit: EmitModelEvent, *, numbered: bool) -> None:
        self._provider = provider
        self._emit = emit
        self._numbered = numbered
        self._drafts: list[_Draft] = []
        self._at: dict[int, _Draft] = {}

    def take(self, delta: dict[str, Any]) -> None:
        """Take one of the `tool_calls` of a chunk, and show what it adds to the arguments.

        Raises:
            Malformed: it is not in the protocol.
        """
        function = delta.get("function")
        if function is None:
            function = {}
        if not isinstance(function, dict):
            raise wrong_kind(self._provider, "function", function, "an object")
        call_id = self._text(delta, "id")
        name = self._text(function, "name")
        draft = self._draft_for(delta.get("index"), call_id, name)
        draft.call_id = draft.call_id or call_id
        if name != draft.name:
            draft.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            draft.written = Written(self._emit)
            arguments = canonical.encode(arguments).decode()
        if isinstance(arguments, str):
            draft.written.add(arguments, call_id=draft.call_id, name=draft.name)
        elif arguments is not None:
            raise wrong_kind(self._provider, "arguments", arguments, "text")

    def _draft_for(self, index: object, call_id: str, name: str) -> _Draft:
        """Return the call that a piece belongs to, or a new one."""
        known: _Draft | None = None
        if type(index) is int:
            known = self._at.get(index)
        elif call_id:
            known = next((each for each in self._drafts if each.call_id == call_id), None)
        elif not name and self._drafts:
            known = self._drafts[-1]
        if known is not None and not _is_another(known, call_id, name):
            return known
        last = max((each.number for each in self._drafts), default=-1)
        is_free = type(index) is int and known is None
        number: int = index if is_free else last + 1  # type: ignore[assignment] # an int if free
        draft = _Draft(number, Written(self._emit))
        self._drafts.append(draft)
        if type(index) is int:
            self._at[index] = draft
        return draft

    def calls(self, replays: dict[str, Json]) -> list[ToolCall]:
        """Return the calls in their order; `replays` are the blobs of some, by the id that the server gave them.

        Raises:
            Malformed: one has no name, or one is missing.
        """
        drafts = sorted(self._drafts, key=lambda each: each.number)
        if self._numbered and [each.number for each in drafts] != list(range(len(drafts))):
            raise malformed(self._provider, "tool_calls: found a gap in their numbers")
        if any(not each.name for each in drafts):
            raise malformed(self._provider, "tool_calls: found a call without a name")
        found = [tool_call(each.call_id, each.name, each.written.text) for each in drafts]
        return [
            replace(call, replay=replays[each.call_id]) if each.call_id in replays else call
            for each, call in zip(drafts, found, strict=True)
        ]

    def __bool__(self) -> bool:
        return bool(self._drafts)

    def _text(self, owner: dict[str, Any], field: str) -> str:
        found = owner.get(field)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise wrong_kind(self._provider, field, found, "text")
        return found


def _is_another(known: _Draft, call_id: str, name: str) -> bool:
    """Whether a piece under a known number begins another call, as servers send that number all alike."""
    if call_id and known.call_id and call_id != known.call_id:
        return True
    return bool(name) and not call_id and known.is_whole


# -------------------------------------------------------------------- calls that a server refused


# `<function=name{…`, `<function=name>{…`, `name{…`: how models write a call that is none.
_ALMOST_A_CALL = re.compile(r"\s*(?:<function=)?([A-Za-z0-9_.-]{1,64})[>(]?\s*\{")


def failed_calls(written: str) -> list[tuple[str, str]]:
    """Return the names and arguments of the calls that a model wrote, and its server refused; none if it wrote words.

    Arguments that are not in the protocol stay as they were written, so that the call cannot run and the model is told.
    """
    try:
        found = canonical.parse(written)
    except ValueError:
        almost = _ALMOST_A_CALL.match(written)
        return [(almost[1], written)] if almost else []
    calls = [
        (text_at(each, "name"), each) for each in (found if isinstance(found, list) else [found])
    ]
    if not all(name for name, _ in calls):
        return []
    return [(name, _arguments_in(each)) for name, each in calls]


def _arguments_in(call: dict[str, Any]) -> str:
    arguments = call.get("arguments", call.get("parameters"))
    return arguments if isinstance(arguments, str) else canonical.encode(arguments).decode()
