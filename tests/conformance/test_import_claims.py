"""The claims about imports tell a store that breaks one: each with the fault that it was written against."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from tests.conformance.harnesses import MemoryHarness
from windlass.errors import IdempotencyConflict, InvalidInput
from windlass.ports import ImportedSession, SessionView
from windlass.stores.memory import MemoryStore, news
from windlass.stores.memory.rows import Changes
from windlass.testing import conformance

CHECKS = {check.name: check for check in conformance.CHECKS if check.subject == "importing"}


class Harness(MemoryHarness):
    def __init__(self, make: Callable[[], MemoryStore]) -> None:
        self._make = make

    async def make(self) -> MemoryStore:
        return self._make()


class Overwrites(MemoryStore):
    """Imports over a session that is there."""

    async def import_session(self, session: ImportedSession, *, now_ms: int) -> SessionView:
        known = self._tables.sessions.get(session.session_id)
        if known is not None and known.deleted_ms is None:
            del self._tables.sessions[session.session_id]
        return await super().import_session(session, now_ms=now_ms)


class TakesHalf(MemoryStore):
    """Imports what it can of a session whose bytes are not all there."""

    async def import_session(self, session: ImportedSession, *, now_ms: int) -> SessionView:
        try:
            return await super().import_session(session, now_ms=now_ms)
        except InvalidInput:
            await super().import_session(msgspec.structs.replace(session, turns=()), now_ms=now_ms)
            raise


class ForgetsTurns(MemoryStore):
    """Takes over pages only: a turn that is sent again would run again."""

    async def import_session(self, session: ImportedSession, *, now_ms: int) -> SessionView:
        made = await super().import_session(session, now_ms=now_ms)
        self._tables.sessions[session.session_id].turns.clear()
        return made


class CountsUsage(MemoryStore):
    """Counts what was used elsewhere."""

    async def import_session(self, session: ImportedSession, *, now_ms: int) -> SessionView:
        made = await super().import_session(session, now_ms=now_ms)
        for turn in session.turns:
            self._tables.sessions[session.session_id].usage = turn.page.usage
        return made


class Tells(MemoryStore):
    """Tells those who watch of turns that ended elsewhere."""

    async def import_session(self, session: ImportedSession, *, now_ms: int) -> SessionView:
        made = await super().import_session(session, now_ms=now_ms)
        for turn in self._tables.sessions[session.session_id].turns.values():
            news.tell(self._tables, "ended", Changes(), turn=turn)
        return made


class Ignores(MemoryStore):
    """Answers an import of a session that is there as if it had been the first."""

    async def import_session(self, session: ImportedSession, *, now_ms: int) -> SessionView:
        with suppress(IdempotencyConflict):
            return await super().import_session(session, now_ms=now_ms)
        return await self.load_session(session.session_id)


FAULTS: list[tuple[type[MemoryStore], str]] = [
    (Overwrites, "an_id_that_is_taken_is_not_imported_over"),
    (Ignores, "an_id_that_is_taken_is_not_imported_over"),
    (TakesHalf, "an_import_refers_only_to_bytes_that_are_there"),
    (ForgetsTurns, "a_turn_that_was_imported_is_known"),
    (CountsUsage, "what_was_used_elsewhere_does_not_count"),
    (Tells, "an_import_is_told_to_none_who_watch"),
]


@pytest.mark.parametrize(("store", "claim"), FAULTS, ids=lambda one: getattr(one, "__name__", one))
async def test_a_store_that_breaks_a_claim_is_told(store: type[MemoryStore], claim: str) -> None:
    assert await CHECKS[claim].run(Harness(MemoryStore))
    with pytest.raises(AssertionError):
        await CHECKS[claim].run(Harness(store))
