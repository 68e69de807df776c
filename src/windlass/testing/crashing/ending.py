"""How a scenario ended, as far as its store can tell: what two runs are compared by.

Not the ids that somebody drew by chance, not usage and not times: a crash may cost a call and it takes time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from windlass.journal import HistoryPage
from windlass.kernel import canonical
from windlass.kernel.messages import ConversationRecord, Part, Text, ToolCall, ToolResult
from windlass.ports import Store

_PAGE = 100
_NOTHING = "(nothing)"


class Ending(NamedTuple):
    """The sessions of a store, line by line; `has_unknown`: nobody knows whether some tool acted."""

    lines: tuple[str, ...]
    has_unknown: bool = False

    def difference(self, found: Ending) -> str:
        """Return the first line in which another run ended otherwise; nothing if there is none."""
        for mine, other in zip_longest(self.lines, found.lines, fillvalue=_NOTHING):
            if mine != other:
                return f"without a crash: {mine.strip()}\nwith it:         {other.strip()}"
        return ""


async def read_ending(store: Store) -> Ending:
    """Read how all sessions of a store stand."""
    lines: list[str] = []
    after = ""
    while page := await store.list_sessions(after=after, limit=_PAGE):
        for one in page:
            lines += await _session(store, one.session_id)
        after = page[-1].session_id
    waits = await store.list_waits()
    lines += sorted(f"a wait ({view.wait.kind}): {view.wait.title}" for view in waits)
    is_asked = any(view.wait.kind == "unknown_outcome" for view in waits)
    return Ending(tuple(lines), is_asked or any(line.startswith(_UNKNOWN) for line in lines))


async def _session(store: Store, session_id: str) -> list[str]:
    view = await store.load_session(session_id)
    lines = [f"session {session_id}"]
    for number, page in enumerate(view.pages, start=1):
        lines += _turn(number, page)
    unfinished = (*((view.active,) if view.active is not None else ()), *view.queued)
    return [*lines, *("  a turn that has not ended" for _ in unfinished)]


def _turn(number: int, page: HistoryPage) -> Iterator[str]:
    yield f"  turn {number} of the session: {_plain(page.outcome)}"
    for node in page.nodes:
        if isinstance(node, ConversationRecord):
            for part in node.message.parts:
                yield _part(node.message.role, part)


_RESULT = "    result of "
_UNKNOWN = f"{_RESULT}unknown "


def _part(role: str, part: Part) -> str:
    if isinstance(part, Text):
        return f"    {role}: {part.text}"
    if isinstance(part, ToolCall):
        return f"    {role} calls {part.name} with {_plain(part.args)}"
    if isinstance(part, ToolResult):
        said = ", ".join(p.text if isinstance(p, Text) else p.ref for p in part.content)
        return f"{_RESULT}{part.status} {part.name}: {said}"
    return f"    {role}: {_plain(part)}"


def _plain(value: object) -> str:
    return canonical.encode(value).decode()
