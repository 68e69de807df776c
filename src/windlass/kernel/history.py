"""What makes a list of messages a history: unique ids, and every call answered once, in order.

Providers refuse a request whose calls and results do not pair, so a history that breaks the rule
would wedge its session for good. It is refused at the door, by place, and never repaired silently.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

from windlass.errors import InvalidInput
from windlass.guards.ids import is_id
from windlass.kernel.chain import Chain
from windlass.kernel.messages import Message, Part, Role, Text, ToolCall, ToolResult

_ROLES = frozenset(get_args(Role))
_PARTS = frozenset(get_args(Part))
_WORDS = frozenset({Text})


class _Problem(NamedTuple):
    at: int
    where: str
    found: str


class _CallIndex:
    """Where the calls of a history stand, by id, as far as it was read.

    It belongs to the storage of a chain (`Chain.memo`) and reads each message once. It keeps places, not
    bare ids: a shorter chain over the same storage must not see what came later, or a replay would
    differ from the first run.
    """

    __slots__ = ("places", "read")

    def __init__(self) -> None:
        self.read = 0
        self.places: dict[str, int] = {}


def has_call(call_id: str, history: Chain[Message]) -> bool:
    """Whether a call in `history` has this id."""
    index = history.memo(_CallIndex, _CallIndex)
    length, read, places = history.length, index.read, index.places
    if read < length:
        for message in history.since(read):
            if message.role == "assistant":
                for part in message.parts:
                    if type(part) is ToolCall:
                        places.setdefault(part.call_id, read)
            read += 1
        index.read = length
    return places.get(call_id, length) < length


class _Checked:
    """How far a history was checked, what that found, and which calls wait for their results."""

    __slots__ = ("_calls", "_ids", "_open", "_problem", "_read")

    def __init__(self) -> None:
        self._read = 0
        self._ids: set[str] = set()
        self._calls: set[str] = set()
        self._open: tuple[str, ...] = ()
        self._problem: _Problem | None = None

    def problem_in(self, history: Chain[Message]) -> _Problem | None:
        """Return the first thing wrong with `history`."""
        if self._problem is None:
            for at, message in enumerate(history.since(self._read), self._read):
                self._read_message(at, message)
                if self._problem is not None:
                    break
        if self._problem is not None and self._problem.at < history.length:
            return self._problem
        last = history.length - 1
        if last >= 0 and history.last().role == "assistant":
            unanswered = _calls_of(history.last())
        else:
            unanswered = ()
        if unanswered:
            return _Problem(last, f"messages[{last}]", f"the call {unanswered[0]!r} without result")
        return None

    def trust(self, history: Chain[Message]) -> None:
        """Take all of it as checked."""
        self._read = len(history)
        self._ids = {message.id for message in history}
        self._calls = {
            part.call_id
            for message in history
            if message.role == "assistant"
            for part in message.parts
            if type(part) is ToolCall
        }

    def _read_message(self, at: int, message: Message) -> None:
        found = self._trouble(message)
        if found is not None:
            self._problem = _Problem(at, f"messages[{at}]{found[0]}", found[1])
            return
        self._read = at + 1
        self._ids.add(message.id)
        self._open = _calls_of(message) if message.role == "assistant" else ()
        self._calls.update(self._open)

    def _trouble(self, message: Message) -> tuple[str, str] | None:
        """Return the place in the message and what is wrong there."""
        if type(message) is not Message:
            return "", f"{type(message).__name__}, not a Message"
        if not is_id(message.id):
            return ".id", "text that is not an id"
        if message.id in self._ids:
            return ".id", f"the id {message.id!r} a second time"
        if not isinstance(message.role, str) or message.role not in _ROLES:
            return ".role", f"the unknown role {str(message.role)[:20]!r}"
        if not message.parts:
            return ".parts", "no parts"
        is_plain = not self._open and _WORDS.issuperset(map(type, message.parts))
        return None if is_plain else _trouble_in_parts(message) or self._trouble_in_pairs(message)

    def _trouble_in_pairs(self, message: Message) -> tuple[str, str] | None:
        results = tuple([part.call_id for part in message.parts if type(part) is ToolResult])
        if results != self._open:
            if not self._open:
                return ".parts[0]", f"a result for {results[0]!r} without its call"
            return "", f"not the results of {', '.join(self._open)} that must stand here, in order"
        calls = _calls_of(message)
        doubled = [call for call in calls if call in self._calls or calls.count(call) > 1]
        return (".parts", f"the call id {doubled[0]!r} a second time") if doubled else None


def _trouble_in_parts(message: Message) -> tuple[str, str] | None:
    n_results = 0
    for at, part in enumerate(message.parts):
        kind = type(part)
        if kind not in _PARTS:
            return f".parts[{at}]", f"{kind.__name__}, not a part"
        if kind is ToolCall:
            if message.role != "assistant":
                return f".parts[{at}]", f"a call in a message of role {message.role}"
            if not is_id(part.call_id):  # type: ignore[union-attr]
                return f".parts[{at}].call_id", "text that is not an id"
        if kind is ToolResult:
            if message.role != "user" or at != n_results:
                return f".parts[{at}]", "a result that is not first in a user message"
            n_results += 1
    return None


def check_history(history: Chain[Message]) -> None:
    """Refuse messages that are not a history.

    Raises:
        InvalidInput: naming the place, such as `messages[3].parts[0]`.
    """
    problem = history.memo(_Checked, _Checked).problem_in(history)
    if problem is not None:
        raise InvalidInput(
            f"{problem.where}: found {problem.found}",
            field=problem.where,
            found=problem.found,
            wanted="a history in which every call has exactly one result, in order",
        )


def trust_history(history: Chain[Message]) -> None:
    """Take messages for a history: they were one when they were stored, and are as they were stored."""
    history.memo(_Checked, _Checked).trust(history)


def _calls_of(message: Message) -> tuple[str, ...]:
    return tuple([part.call_id for part in message.parts if type(part) is ToolCall])
