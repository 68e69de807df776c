"""A write that was handed in, from the wish to its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import apsw

from windlass.errors import StoreUnavailable, WindlassBug, WindlassError
from windlass.stores.sqlite.rows import Rows

if TYPE_CHECKING:
    from windlass.stores.sqlite.writer import Writer

A = TypeVar("A")


class Operation(Generic[A]):
    """A function of the rows that waits for its transaction: the ticket that its caller holds."""

    attempts = 0
    is_settled = False
    refusal: WindlassError | None = None
    _answer: A | None = None
    _listeners: tuple[Callable[[], None], ...] = ()
    _waiters: tuple[asyncio.Future[None], ...] = ()
    _event: threading.Event | None = None

    def __init__(
        self,
        writer: Writer,
        apply: Callable[..., A],
        args: tuple[Any, ...],
        session_id: str | None,
        after: Operation[Any] | None,
    ) -> None:
        self._writer = writer
        self._apply = apply
        self._args = args
        self.session_id = session_id
        self.after = after

    def settle_now(self) -> bool:
        """Commit in this call if nothing has to be waited for; else soon, as without it."""
        return self._writer.settle_now(self)

    async def durable(self) -> A:
        """Wait until it is on disk and return its answer."""
        if not self.is_settled:
            self._writer.schedule()
            if self._writer.is_alone:
                # The writer decides in this pass of the loop, before this task has its next turn.
                await asyncio.sleep(0)
        if not self.is_settled:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters += (waiter,)
            await waiter
        return self._outcome()

    def when_settled(self, tell: Callable[[], None]) -> None:
        """Call `tell` on the loop once it is known how it ended; soon, if it is already."""
        if self.is_settled:
            asyncio.get_running_loop().call_soon(tell)
        else:
            self._writer.schedule()
            self._listeners += (tell,)

    def wait(self, timeout: float | None = None) -> A:
        """Wait on a thread of its own, without a loop."""
        self._event = self._event or threading.Event()
        if not self.is_settled and not self._event.wait(timeout):
            raise StoreUnavailable("the write did not become durable in time; it may yet")
        return self._outcome()

    def apply(self, rows: Rows) -> None:
        """Take effect inside the transaction; a refusal is kept as its end."""
        after = self.after
        self.refusal = None if after is None else after.refusal
        if self.refusal is not None:
            return
        rows.earlier = self._answer
        try:
            self._answer = self._apply(rows, *self._args)
        except WindlassError as refusal:
            self.refusal = refusal
        except (apsw.Error, OSError):
            raise
        except Exception as fault:  # noqa: BLE001 - the other operations and the writer go on
            self.refusal = WindlassBug(f"a write failed with {type(fault).__name__}")
            self.refusal.__cause__ = fault

    def mark_settled(self) -> None:
        """Let it be known how it ended; may be called from the writer's thread."""
        self.is_settled = True
        self.after = None
        if self._event is not None:
            self._event.set()

    def wake_tasks(self) -> None:
        """Tell the listeners, then wake the tasks that wait; called on the loop."""
        if not self._listeners and not self._waiters:
            return
        listeners, self._listeners = self._listeners, ()
        for tell in listeners:
            try:
                tell()
            except Exception as error:  # noqa: BLE001 - the other listeners are told
                report = {"message": "a listener of a write failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(report)
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _outcome(self) -> A:
        if self.refusal is not None:
            raise self.refusal
        return self._answer  # type: ignore[return-value]  # settled without refusal: it is there
