"""A write that was handed in, from the wish to its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import apsw

from windlass.errors import StoreUnavailable, WindlassBug, WindlassError
from windlass.stores.sqlite.rows import Rows

A = TypeVar("A")


class Decides(Protocol):
    """Whoever decides when a write goes to disk."""

    @property
    def is_alone(self) -> bool: ...

    def commit_now(self) -> None: ...


class Operation(Generic[A]):
    """A write that was handed in: the ticket that its caller holds."""

    __slots__ = (
        "_answer", "_apply", "_event", "_listeners", "_waiters", "_writer", "after", "attempts", "is_settled",
        "refusal", "session_id",
    )  # fmt: skip

    def __init__(
        self,
        writer: Decides,
        apply: Callable[[Rows, A | None], A],
        session_id: str | None,
        after: Operation[Any] | None,
    ) -> None:
        self._writer = writer
        self._apply = apply
        self.session_id = session_id
        self.after = after
        self.attempts = 0
        self.is_settled = False
        self.refusal: WindlassError | None = None
        self._answer: A | None = None
        self._listeners: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._event: threading.Event | None = None

    async def durable(self) -> A:
        """Wait until it is on disk and return its answer."""
        if not self.is_settled and self._writer.is_alone:
            # The writer decides in this pass of the loop, before this task has its next turn.
            await asyncio.sleep(0)
        if not self.is_settled:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return self._outcome()

    def settle_now(self) -> bool:
        """Commit in this call if the writer can."""
        if not self.is_settled:
            self._writer.commit_now()
        return self.is_settled

    def when_settled(self, tell: Callable[[], None]) -> None:
        """Call `tell` on the loop once it is known how it ended; soon, if it is already."""
        if self.is_settled:
            asyncio.get_running_loop().call_soon(tell)
        else:
            self._listeners.append(tell)

    def wait(self, timeout: float | None = None) -> A:
        """Wait on a thread of its own, without a loop."""
        self._event = self._event or threading.Event()
        if not self.is_settled and not self._event.wait(timeout):
            raise StoreUnavailable("the write did not become durable in time; it may yet")
        return self._outcome()

    def apply(self, rows: Rows) -> None:
        """Take effect inside the transaction; a refusal is kept as its end.

        The answer of an attempt whose COMMIT failed is handed in again: if that attempt landed after all, it is
        the answer.
        """
        self.refusal = None if self.after is None else self.after.refusal
        if self.refusal is not None:
            return
        try:
            self._answer = self._apply(rows, self._answer)
        except WindlassError as refusal:
            self.refusal = refusal
        except (apsw.Error, OSError):
            raise
        except Exception as fault:  # noqa: BLE001 - whatever it is, its neighbours and the writer go on
            self.refusal = WindlassBug(f"a write failed with {type(fault).__name__}")
            self.refusal.__cause__ = fault

    def mark_settled(self) -> None:
        """Let it be known how it ended; may be called from the writer's thread."""
        self.is_settled = True
        self.after = None
        if self._event is not None:
            self._event.set()

    def wake_tasks(self) -> None:
        """Tell those who want to know, then wake the tasks that wait; called on the loop."""
        for tell in self._listeners:
            try:
                tell()
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are told
                report = {"message": "a listener of a write failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(report)
        self._listeners.clear()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def _outcome(self) -> A:
        if self.refusal is not None:
            raise self.refusal
        return self._answer  # type: ignore[return-value]  # settled without refusal: it is there
