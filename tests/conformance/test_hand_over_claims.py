"""The claims about hand-overs tell a store that breaks one: each with the fault that it was written against."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.conformance.harnesses import MemoryHarness
from windlass.ports import AcceptTurn, Ticket, Unit, UnitReceipt
from windlass.stores.memory import MemoryStore
from windlass.testing import conformance

CHECKS = {conformance.name_of(check): check for check in conformance.CHECKS}


class Harness(MemoryHarness):
    def __init__(self, make: Callable[[], MemoryStore]) -> None:
        self._make = make

    async def make(self) -> MemoryStore:
        return self._make()


class Keeping(MemoryStore):
    """Leaves a session with the agent that it was made for."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        if unit.commit is not None:
            commit = msgspec.structs.replace(unit.commit, agent=None)
            unit = msgspec.structs.replace(unit, commit=commit)
        return super().submit(unit, after=after)


class Leaving(MemoryStore):
    """Gives a session away and leaves its queued turns where they were; or takes all of them along."""

    takes_all = False

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        session = self._tables.sessions.get(unit.session_id)
        waiting = {} if session is None else dict(session.unfinished)
        before = {turn_id: turn.agent for turn_id, turn in waiting.items()}
        ticket = super().submit(unit, after=after)
        if unit.commit is not None and unit.commit.agent is not None:
            for turn_id, agent in before.items():
                if turn_id != unit.turn_id:
                    waiting[turn_id].agent = unit.commit.agent if self.takes_all else agent
        return ticket


class Greedy(Leaving):
    """Takes along turns of agents that never had the session."""

    takes_all = True


class Behind(MemoryStore):
    """Puts a turn that follows another behind all that waits."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        follows = tuple(one for one in unit.errands if isinstance(one, AcceptTurn))
        ticket = super().submit(unit, after=after)
        session = self._tables.sessions[unit.session_id]
        for errand in follows:
            turn = session.unfinished.pop(errand.turn_id, None)
            if turn is not None:
                session.arrivals += 1
                turn.arrived = session.arrivals
                session.unfinished[turn.id] = turn
        return ticket


class Generous(MemoryStore):
    """Gives a session away before it looks at the end of the turn."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        if unit.commit is not None and unit.commit.agent is not None:
            self._tables.sessions[unit.session_id].agent = unit.commit.agent
        return super().submit(unit, after=after)


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        (Keeping, "the_end_of_a_turn_gives_its_session_to_another_agent"),
        (Keeping, "an_end_that_comes_again_is_compared_by_its_agent"),
        (Keeping, "items_that_wait_are_the_new_agents"),
        (Leaving, "turns_that_wait_for_the_old_agent_go_along"),
        (Greedy, "turns_that_wait_for_the_old_agent_go_along"),
        (Behind, "a_turn_that_the_end_of_another_accepts_has_its_place"),
        (Generous, "an_end_that_is_refused_gives_nothing_away"),
    ],
)
async def test_a_store_that_breaks_a_law_of_hand_overs_is_told(
    broken: type[MemoryStore], claim: str
) -> None:
    check = CHECKS[f"handing over: {claim}"]
    assert await check.run(Harness(MemoryStore))

    with pytest.raises(AssertionError):
        await check.run(Harness(broken))
