"""Notices: what happens in all sessions of a store, one line each: turns begin, park and end, waits open and are answered.

A notice says where to look; `session.observe` and `rt.turn` show what is there. Notices come from the store, so they are the
same in every process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from windlass.errors import ConfigError, InvalidInput
from windlass.guards import check_id
from windlass.kernel import Value
from windlass.kernel.value import set_field
from windlass.ports import Change, Wait

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

NoticeKind: TypeAlias = Literal[
    "turn_began", "turn_rested", "turn_ended", "wait_opened", "wait_answered", "worker_came", "worker_went",
]  # fmt: skip
KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)
_KIND_OF: dict[str, NoticeKind] = {
    "page": "turn_began",
    "parked": "turn_rested",
    "ended": "turn_ended",
    "opened": "wait_opened",
    "answered": "wait_answered",
    "joined": "worker_came",
    "left": "worker_went",
}
# A worker that is killed says nothing: this often somebody has to look whether all are there.
_ROLL_CALL_S = 2.0
_MAX_CURSOR = 128


class Notice(Value, kw_only=True):
    """Something that happened in a store.

    `turn_rested`: the turn is parked and waits. `worker_went`: a worker left, or its process is gone.

    Attributes:
        kind: What happened: `turn_began`, `turn_rested`, `turn_ended`, `wait_opened`, `wait_answered`,
            `worker_came` or `worker_went`.
        session_id: In which session it happened; empty for workers.
        turn_id: To which turn it happened; empty for workers.
        wait: The wait that was opened or answered; None for other kinds.
        worker_id: Which worker came or went; empty for other kinds.
        cursor: Goes on behind this notice, in any process: `rt.observe(cursor=...)`.
    """

    kind: NoticeKind
    session_id: str = ""
    turn_id: str = ""
    wait: Wait | None = None
    worker_id: str = ""
    cursor: str = ""


class Notices:
    """All sessions as they go on: `async with rt.observe() as seen: async for notice in seen`.

    cursor: behind the last notice that was handed out: pass it to `rt.observe` to go on from there, in any process.
    """

    def __init__(
        self,
        admission: Admission,
        *,
        sessions: Collection[str] | None = None,
        kinds: Collection[NoticeKind] | None = None,
        cursor: str | None = None,
    ) -> None:
        self._admission = admission
        self._sessions = None if sessions is None else _checked_sessions(sessions)
        self._kinds = frozenset(KINDS) if kinds is None else _checked_kinds(kinds)
        self._begin = None if cursor is None else _read_cursor(cursor)
        self._waiting: deque[Notice] = deque()
        self._news = asyncio.Event()
        # The mark of the store behind which nothing was read yet; and how many changes behind the first were seen.
        self._mark: str | None = None
        self._skip = 0
        if cursor is not None:
            self._mark, self._skip = _read_cursor(cursor)
        self._leave: Callable[[], None] | None = None
        self._is_over = False
        self._present: frozenset[str] = frozenset()
        self._gone: set[str] = set()
        self.cursor = "" if cursor is None else cursor

    async def __aenter__(self) -> Self:
        worker = self._admission.worker
        self._leave = await worker.watch.follow_all(self._news.set)
        try:
            if self._mark is None:
                self._mark = (await worker.services.store.changes(None)).mark
                self.cursor = _write_cursor(self._mark, 0)
            self._present = await self._roll()
            await self._read()
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        self._news.set()
        if self._leave is not None:
            self._leave()

    async def __aiter__(self) -> AsyncIterator[Notice]:
        if self._leave is None:
            raise ConfigError(
                "Notices: enter it first, `async with rt.observe() as seen`", field="observe"
            )
        while not self._is_over:
            while self._waiting:
                notice = self._waiting.popleft()
                self.cursor = notice.cursor
                yield notice
            await self._wait()
            await self._read()

    async def _wait(self) -> None:
        patience_s = _ROLL_CALL_S if "worker_went" in self._kinds else None
        try:
            async with asyncio.timeout(patience_s):
                await self._news.wait()
        except TimeoutError:
            await self._call_the_roll()
        self._news.clear()

    # ------------------------------------------------------------------ from changes

    async def _read(self) -> None:
        """Read what was written since. The cursor of a notice is the mark before that, and its number behind it."""
        store, has_more = self._admission.services.store, not self._is_over
        while has_more:
            assert self._mark is not None  # noqa: S101 - it was asked for on entry
            found = await store.changes(self._mark)
            for number, change in enumerate(found.changes, 1):
                notice = self._notice(change) if number > self._skip else None
                if notice is not None:
                    set_field(notice, "cursor", _write_cursor(self._mark, number))
                    self._waiting.append(notice)
            self._mark, self._skip = found.mark, 0
            has_more = found.has_more

    def _notice(self, change: Change) -> Notice | None:
        kind = _KIND_OF.get(change.kind)
        if kind is None or (kind == "turn_began" and change.position):
            return None
        if kind == "worker_went" and change.worker_id in self._gone:
            return None  # its process was seen to be gone before
        if self._sessions is not None and change.session_id not in self._sessions | {""}:
            return None
        if kind == "worker_went":
            self._gone.add(change.worker_id)
        elif kind == "worker_came":
            self._present |= {change.worker_id}
        if kind not in self._kinds:
            return None
        return Notice(
            kind=kind,
            session_id=change.session_id,
            turn_id=change.turn_id,
            wait=change.wait,
            worker_id=change.worker_id,
        )

    # ------------------------------------------------------------------ workers that were killed

    async def _roll(self) -> frozenset[str]:
        services = self._admission.services
        workers = await services.store.list_workers(now_ms=services.clock.now_ms())
        return frozenset(one.worker_id for one in workers if one.is_present)

    async def _call_the_roll(self) -> None:
        here = await self._roll()
        assert self._mark is not None  # noqa: S101 - it was asked for on entry
        cursor = _write_cursor(self._mark, 0)
        for worker_id in sorted(self._present - here - self._gone):
            self._gone.add(worker_id)
            self._waiting.append(Notice(kind="worker_went", worker_id=worker_id, cursor=cursor))
        self._present = here


def _write_cursor(mark: str, number: int) -> str:
    return f"{mark}/{number}"


def _read_cursor(text: object) -> tuple[str, int]:
    """Return a mark of the store, and how many changes behind it were seen.

    Raises:
        InvalidInput: it is not a cursor of a notice.
    """
    if isinstance(text, str) and len(text) <= _MAX_CURSOR:
        mark, _, number = text.rpartition("/")
        if mark and number.isascii() and number.isdigit():
            return mark, int(number)
    raise InvalidInput.at("cursor", type(text).__name__, "the cursor of a notice")


def _checked_sessions(sessions: Collection[str]) -> frozenset[str]:
    if isinstance(sessions, str):
        raise InvalidInput.at("sessions", "str", "a list of session ids")
    return frozenset(check_id(one, field="sessions") for one in sessions)


def _checked_kinds(kinds: Collection[NoticeKind]) -> frozenset[NoticeKind]:
    unknown = [one for one in kinds if one not in KINDS]
    if isinstance(kinds, str) or unknown:
        raise InvalidInput.at("kinds", repr(kinds)[:80], f"some of {', '.join(KINDS)}")
    return frozenset(kinds)
