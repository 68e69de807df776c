"""The suite itself: what it lists, and that it tells a store that breaks a law."""

from __future__ import annotations

import msgspec
import pytest

from tests.conformance.harnesses import MemoryHarness
from windlass.ports import Ticket, Unit, UnitReceipt, WaitAnswer, WaitReceipt
from windlass.stores.memory import MemoryStore
from windlass.testing import conformance


def test_every_claim_is_listed_once() -> None:
    names = [conformance.name_of(check) for check in conformance.CHECKS]

    assert len(names) == len(set(names))
    assert len(names) > 150


async def test_all_claims_can_be_put_at_once() -> None:
    held = await conformance.run(MemoryHarness())

    assert len(held) == sum(not check.crashes for check in conformance.CHECKS)


class Unfenced(MemoryStore):
    """Lets a worker write whose lease was lost."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        session = self._tables.sessions.get(unit.session_id)
        if session is not None and session.owner is not None:
            session.generation = unit.generation or session.generation
        return super().submit(unit, after=after)


class Forgetful(MemoryStore):
    """Lets a later answer stand for an earlier one."""

    async def resolve_wait(self, key: str, answer: WaitAnswer) -> WaitReceipt:
        turn = self._tables.waits.get(key)
        if turn is not None:
            turn.waits[key] = msgspec.structs.replace(turn.waits[key], state="open")
        return await super().resolve_wait(key, answer)


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        (Unfenced, "taking over: a_takeover_fences_the_worker_before_out"),
        (Forgetful, "waiting: the_first_answer_stands_for_ever"),
    ],
)
async def test_a_store_that_breaks_a_law_is_told_which(
    broken: type[MemoryStore], claim: str
) -> None:
    class Harness(MemoryHarness):
        async def make(self) -> MemoryStore:
            return broken()

    with pytest.raises(ExceptionGroup) as failed:
        await conformance.run(Harness())

    notes = {note for error in failed.value.exceptions for note in error.__notes__}
    assert claim in notes
