"""Faults to plant into a worker of the queue: each breaks one promise, and the audit has to say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.durability.soak.mutants import _plant
from windlass.engines.admission import Admission
from windlass.engines.worker import Worker
from windlass.stores import rules
from windlass.stores.sqlite import due, inbox, leases
from windlass.stores.sqlite.rows import Rows, SessionRow


def apply(name: str) -> None:
    """Plant a fault into this process."""
    MUTANTS[name]()


def turns_before_items() -> None:
    """A queued turn begins although an earlier item waits, and a turn that begins with an item comes last."""
    before = " AND NOT EXISTS (SELECT 1 FROM inbox WHERE"
    assert before in due._TURNS
    _plant(due, "_TURNS", due._TURNS[: due._TURNS.index(before)])
    place = leases._WAITING
    alone = place[: place.index("  UNION ALL")] + ")"
    _plant(leases, "_WAITING", f"{alone} WHERE ? = ? OR 1")

    def last_place(rows: Rows, session: SessionRow, _takes: tuple[str, ...]) -> int:
        return rows.next_arrival(session)

    _plant(inbox, "first_place", last_place)


def no_line() -> None:
    """Callers do not wait for a turn that is about to begin: they accept theirs, and it has to give way."""

    async def at_once(self: Worker, _session_id: str) -> None:
        await self.join()

    _plant(Worker, "settled", at_once)

    def never(*_: object) -> bool:
        return False

    _plant(rules, "may_go_first", never)


def begin_after_leaving() -> None:
    """A claim that is under way when the runtime begins to close starts its turns all the same.

    It takes about as long as the tool that a life waits for when it leaves.
    """
    from tests.durability.queue.worker import SlowClaims  # noqa: PLC0415 - it imports this module

    SlowClaims.takes_s = 0.025
    drive_known = Worker._drive_known

    async def eager(self: Worker, *known: Any, **how: Any) -> None:
        was, self._is_closing = self._is_closing, False
        try:
            await drive_known(self, *known, **how)
        finally:
            self._is_closing = was

    _plant(Worker, "_drive_known", eager)


def no_places() -> None:
    """Callers take no place in line: who has less to ask first comes first."""

    class Anywhere:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None: ...

    _plant(Admission, "in_line", lambda *_: Anywhere())


MUTANTS: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (turns_before_items, no_line, begin_after_leaving, no_places)
}
