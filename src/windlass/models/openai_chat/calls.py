"""Tool calls of a Chat Completions stream, put together from however a server sends them.

OpenAI sends pieces of each call under its number. Others send calls whole, give no numbers or the same
one to all, leave ids out, or write the arguments as an object.
"""

from __future__ import annotations

from typing import Any

from windlass.kernel import canonical
from windlass.kernel.messages import ToolCall
from windlass.models.provider_errors import malformed
from windlass.models.words import tool_call


class _Draft:
    """A call as far as it is there."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.call_id = ""
        self.name = ""
        self.written: list[str] = []

    @property
    def is_whole(self) -> bool:
        try:
            return isinstance(canonical.parse("".join(self.written)), dict)
        except ValueError:
            return False


class CallPieces:
    """Collects the calls of one reply. `numbered`: the server numbers them without a gap."""

    def __init__(self, provider: str, *, numbered: bool) -> None:
        self._provider = provider
        self._numbered = numbered
        self._drafts: list[_Draft] = []
        self._at: dict[int, _Draft] = {}

    def take(self, deltas: object) -> None:
        """Take the `tool_calls` of one chunk.

        Raises:
            Malformed: they are not in the protocol.
        """
        if deltas is None:
            return
        if not isinstance(deltas, list):
            raise self._wrong("tool_calls", deltas, "a list")
        for delta in deltas:
            if not isinstance(delta, dict):
                raise self._wrong("tool_calls[]", delta, "an object")
            self._take_one(delta)

    def _take_one(self, delta: dict[str, Any]) -> None:
        function = delta.get("function")
        if function is None:
            function = {}
        if not isinstance(function, dict):
            raise self._wrong("function", function, "an object")
        call_id = self._text(delta, "id")
        name = self._text(function, "name")
        draft = self._draft_for(delta.get("index"), call_id, name)
        draft.call_id = draft.call_id or call_id
        if name != draft.name:
            draft.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            draft.written = [canonical.encode(arguments).decode()]
        elif isinstance(arguments, str):
            draft.written.append(arguments)
        elif arguments is not None:
            raise self._wrong("arguments", arguments, "text")

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
        draft = _Draft(index if is_free else last + 1)  # type: ignore[arg-type] # an int if free
        self._drafts.append(draft)
        if type(index) is int:
            self._at[index] = draft
        return draft

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls in their order.

        Raises:
            Malformed: one has no name, or one is missing.
        """
        drafts = sorted(self._drafts, key=lambda each: each.number)
        if self._numbered and [each.number for each in drafts] != list(range(len(drafts))):
            raise malformed(self._provider, "tool_calls: found a gap in their numbers")
        if any(not each.name for each in drafts):
            raise malformed(self._provider, "tool_calls: found a call without a name")
        return tuple(tool_call(each.call_id, each.name, "".join(each.written)) for each in drafts)

    def _text(self, owner: dict[str, Any], field: str) -> str:
        found = owner.get(field)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise self._wrong(field, found, "text")
        return found

    def _wrong(self, field: str, found: object, wanted: str) -> Exception:
        return malformed(self._provider, f"{field}: found {type(found).__name__}, wanted {wanted}")


def _is_another(known: _Draft, call_id: str, name: str) -> bool:
    """Whether a piece under a known number begins another call, as servers send that number all alike."""
    if call_id and known.call_id and call_id != known.call_id:
        return True
    return bool(name) and not call_id and known.is_whole
