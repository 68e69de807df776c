"""Replays of what a life left behind: nothing is executed, and what is told is how far the turn had come."""

from __future__ import annotations

from tests.durability.matrix.beneath import Kept
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.outside import Outside
from tests.durability.matrix.scenario import make_agent
from tests.durability.matrix.steps import SESSION, TURN
from tests.runtime import replays
from windlass import Runtime
from windlass.runtime.replaying import Replayed


async def replay_of(kept: Kept, ledger: Ledger) -> Replayed | None:
    """Replay the turn as it stands in a store that is not open; None: it was not accepted yet.

    Raises:
        AssertionError: something was asked, or a finished turn came to something else than what is committed.
    """
    await kept.open()
    try:
        if not await kept.store.list_sessions():
            return None
        view, session = await replays.read(kept.store, SESSION, TURN)
    finally:
        await kept.close()
    agent, adviser = make_agent(Outside(ledger))
    program = Runtime(agent, models=[adviser])._programs[agent.name]
    turn = replays.Kept(program, view, session)
    if view.state == "done":
        return await replays.check_same(turn)
    found = await replays.replayed(turn)
    assert found.state in ("goes_on", "ends"), f"{found.state} {found.at} {found.diff}"
    return found
