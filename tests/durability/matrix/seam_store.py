"""A store with a seam before and after every write, and a name for each.

Every write is settled before the next thing happens, so that a store on disk and one in memory give one trace. A unit
that commits is submitted in two, so that the moment before the commit is there to die in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec

from tests.durability.matrix.outside import Outside, forever
from tests.durability.matrix.seam_names import lines_of, unit_name
from windlass.ports import (
    CancelReceipt,
    ClaimedTurn,
    Due,
    InboxItem,
    InboxReceipt,
    Lease,
    NewItem,
    Store,
    Ticket,
    Unit,
    UnitReceipt,
    WaitAnswer,
    WaitReceipt,
)

R = TypeVar("R")
_READS = frozenset(
    {
        "changes", "get_blob", "inbox", "is_durable", "is_present", "list_sessions", "list_turns", "list_waits",
        "list_workers", "load_history", "load_session", "load_turn", "scan_s", "secret", "store_id", "watch",
    }
)  # fmt: skip


class Beneath(Protocol):
    """The store under the seams, and how to be sure that a write has landed."""

    @property
    def store(self) -> Store: ...

    def settle(self, ticket: Ticket[UnitReceipt]) -> None: ...

    def keep_copy(self) -> None:
        """Keep the state as it is now, the moment before a commit."""
        ...


class SeamStore:
    """A store that dies with its process; reads go straight through."""

    def __init__(self, beneath: Beneath, outside: Outside) -> None:
        self._beneath = beneath
        self._inner = beneath.store
        self._outside = outside
        self.worker_id = ""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        assert name in _READS, f"{name}: a write that has no seam yet"
        return getattr(self._inner, name)

    # ---------------------------------------------------------------- units

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        if unit.commit is None:
            return self._submit(unit, after)
        rest = msgspec.structs.replace(unit, commit=None, errands=())
        if rest.is_fenced:
            after = self._submit(rest, after)
            position = unit.position + bool(unit.entries)
            unit = Unit(
                session_id=unit.session_id,
                turn_id=unit.turn_id,
                generation=unit.generation,
                position=position,
                commit=unit.commit,
                blobs=unit.blobs,
                errands=unit.errands,
            )
        if not self._outside.is_dead:
            self._beneath.keep_copy()
        return self._submit(unit, after)

    def _submit(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        outside, name = self._outside, unit_name(unit)
        if not outside.at(f"before: {name}"):
            return NeverSettled()
        ticket = self._inner.submit(unit, after=after)
        self._beneath.settle(ticket)
        if ticket.refusal is None:
            for line in lines_of(unit):
                outside.ledger.append(line)
        return ticket if outside.at(f"after: {name}") else NeverSettled()

    # ---------------------------------------------------------------- other writes

    async def _write(self, name: str, write: Callable[[], Awaitable[R]]) -> R:
        await self._outside.passes(f"before: {name}")
        answer = await write()
        await self._outside.passes(f"after: {name}")
        return answer

    async def join(self, *, until_ms: int, now_ms: int) -> str:
        async def write() -> str:
            self.worker_id = await self._inner.join(until_ms=until_ms, now_ms=now_ms)
            return self.worker_id

        return await self._write("join", write)

    async def leave(self, worker_id: str) -> None:
        await self._write("leave", lambda: self._inner.leave(worker_id))

    async def release(self, session_id: str, *, generation: int) -> None:
        await self._write("release", lambda: self._inner.release(session_id, generation=generation))

    async def take_over(
        self, session_id: str, turn_id: str, *, worker_id: str, until_ms: int, now_ms: int
    ) -> Lease:
        return await self._write(
            "take over",
            lambda: self._inner.take_over(
                session_id, turn_id, worker_id=worker_id, until_ms=until_ms, now_ms=now_ms
            ),
        )

    async def enqueue(self, session_id: str, item: NewItem, *, now_ms: int = 0) -> InboxReceipt:
        return await self._write(
            "mail arrives", lambda: self._inner.enqueue(session_id, item, now_ms=now_ms)
        )

    async def take_inbox(
        self, session_id: str, turn_id: str, *, generation: int, limit: int = 64
    ) -> tuple[InboxItem, ...]:
        async def write() -> tuple[InboxItem, ...]:
            return await self._inner.take_inbox(
                session_id, turn_id, generation=generation, limit=limit
            )

        waiting = (await self._inner.inbox(session_id)).items
        if any(item.state == "pending" for item in waiting):
            return await self._write("mail is taken", write)
        if self._outside.is_dead:
            await forever()
        return await write()  # changes nothing

    async def resolve_wait(self, key: str, answer: WaitAnswer) -> WaitReceipt:
        kinds = [v.wait.kind for v in await self._inner.list_waits() if v.wait.key == key]
        return await self._write(
            f"{answer.status} {''.join(kinds)}", lambda: self._inner.resolve_wait(key, answer)
        )

    async def request_cancel(
        self, session_id: str, turn_id: str, *, reason: str = "", now_ms: int = 0
    ) -> CancelReceipt:
        return await self._write(
            "cancel",
            lambda: self._inner.request_cancel(session_id, turn_id, reason=reason, now_ms=now_ms),
        )

    def renew(self, worker_id: str, *, until_ms: int) -> Ticket[None]:
        if self._outside.is_dead:
            return NeverSettled()
        return self._inner.renew(worker_id, until_ms=until_ms)

    # ---------------------------------------------------------------- looking for work

    async def claim(self, worker_id: str, **wanted: Any) -> tuple[ClaimedTurn, ...]:
        return await self._write("claim", lambda: self._inner.claim(worker_id, **wanted))

    async def due(
        self,
        now_ms: int,
        *,
        agents: Sequence[str] | None = None,
        worker_id: str | None = None,
        limit: int = 100,
    ) -> Due:
        due = await self._inner.due(now_ms, agents=agents, worker_id=worker_id, limit=limit)
        if self._outside.is_dead:
            await forever()
        # Who enqueues wakes the turn. A second, later wake-up would cost one more look at the inbox, now or then.
        return msgspec.structs.replace(due, inboxes=())


class NeverSettled:
    """The ticket of a process that is dead."""

    is_settled = False
    refusal: BaseException | None = None
    receipt: None = None

    def settle_now(self) -> bool:
        """Settle nothing."""
        return False

    def when_settled(self, tell: Callable[[], None]) -> None:
        """Ignore it."""

    async def durable(self) -> NoReturn:
        """Wait for ever."""
        await forever()
