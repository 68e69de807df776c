"""What survives a crash: the data of a scenario, handed from one life to the next, and how the scenario ended.

Two runs are compared by what their stores hold at the end, without random ids, usage and times: a crash may
cost a call, and it takes time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, Protocol

from windlass.journal import CallReturned, HistoryPage, ToolCallCommand
from windlass.kernel import ConversationRecord, Part, Text, ToolCall, ToolResult, canonical
from windlass.ports import Store
from windlass.stores.memory import MemoryStore


class Disk(Protocol):
    """The data of one world."""

    async def open(self) -> Store:
        """Return a store on the data, for one life."""
        ...

    async def close(self, store: Store) -> None:
        """Close a store."""
        ...

    def lose(self, workers: Sequence[str]) -> None:
        """Lose the process of these workers, and keep the data as they are at this moment."""
        ...


class MemoryDisk:
    """Rows in this process. The same store id in every world, so that the same call has the same key."""

    def __init__(self) -> None:
        self._store = MemoryStore(store_id="scenario", secret=bytes(32))

    async def open(self) -> Store:
        return self._store

    async def close(self, store: Store) -> None: ...

    def lose(self, workers: Sequence[str]) -> None:
        for worker in workers:
            self._store.kill_worker(worker)


class SqliteDisk:
    """A file. A crash copies it as it is at that moment: the dead process keeps the old one, and its locks.

    `blank` is a file without sessions that all worlds begin with, for the sake of its store id.
    """

    def __init__(self, folder: Path, blank: Path) -> None:
        self._folder = folder
        self._lives = 0
        self._copy(blank)

    @property
    def _path(self) -> Path:
        return self._folder / f"life-{self._lives}.db"

    async def open(self) -> Store:
        from windlass.stores.sqlite import SqliteStore  # noqa: PLC0415 - brings SQLite along

        store = SqliteStore(self._path, durability="process")
        await store.open()
        return store

    async def close(self, store: Store) -> None:
        await store.close()

    def lose(self, workers: Sequence[str]) -> None:  # noqa: ARG002 - their locks are beside the old file
        self._copy(self._path)

    def _copy(self, path: Path) -> None:
        self._lives += 1
        # Files of bytes come last: a row may name one only when it is there.
        for suffix in ("", "-wal"):
            old = path.with_name(path.name + suffix)
            if old.exists():
                shutil.copyfile(old, self._path.with_name(self._path.name + suffix))
        blobs = path.with_name(f"{path.name}-blobs")
        if blobs.exists():
            shutil.copytree(blobs, self._path.with_name(f"{self._path.name}-blobs"))


async def make_blank(path: Path) -> None:
    """Make a file without sessions."""
    from windlass.stores.sqlite import SqliteStore  # noqa: PLC0415 - brings SQLite along

    store = SqliteStore(path, durability="process")
    await store.open()
    await store.close()


_PAGE = 100
_NOTHING = "(nothing)"


class Ending(NamedTuple):
    """The sessions of a store, line by line; `has_unknown`: a tool may or may not have acted."""

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
    while page := await store.list_sessions(after=after, limit=_PAGE, kind=None):
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
        if view.kind == "process":
            lines += await _steps(store, session_id, page.turn_id)
    unfinished = (*((view.active,) if view.active is not None else ()), *view.queued)
    return [*lines, *("  a turn that has not ended" for _ in unfinished)]


def _turn(number: int, page: HistoryPage) -> Iterator[str]:
    yield f"  turn {number} of the session: {_plain(page.outcome)}"
    for node in page.nodes:
        if isinstance(node, ConversationRecord):
            for part in node.message.parts:
                yield _part(node.message.role, part)


async def _steps(store: Store, session_id: str, turn_id: str) -> list[str]:
    """Return the steps of a process, which leave no message; those that run together end in any order."""
    view = await store.load_turn(session_id, turn_id)
    rows = () if view is None or view.is_reclaimed else view.journal().rows()
    return sorted(
        f"{_RESULT}{row.outcome.outcome.status} {row.command.name}: {_plain(row.outcome.outcome.value)}"
        for row in rows
        if isinstance(row.outcome, CallReturned) and isinstance(row.command, ToolCallCommand)
    )


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
