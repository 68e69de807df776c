"""Level A: a life of a process as a task. It dies without a word, and the next one begins on what it left."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, TypedDict, Unpack, cast

from tests.durability.matrix.beneath import Kept
from tests.durability.matrix.client import want
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.outside import Outside
from tests.durability.matrix.scenario import make_agent
from tests.durability.matrix.seam_store import SeamStore
from tests.limits import HANGS_S
from windlass import Runtime, TurnResult
from windlass.ports import Store


class Life(NamedTuple):
    """What became of it: the seams it passed, and the result if it lived to see it."""

    trace: tuple[str, ...]
    result: TurnResult[Any] | None


class Manners(TypedDict, total=False):
    """How others behave: where the turn is cancelled; whether an approval is refused."""

    cancels_at: str
    says_no: bool


async def live(
    kept: Kept, ledger: Ledger, dies_at: int | str | None = None, **manners: Unpack[Manners]
) -> Life:
    """Live until the turn is over, or until that seam."""
    await kept.open()
    outside = Outside(ledger, dies_at=dies_at, **manners)
    return await live_in(outside, kept)


async def live_in(outside: Outside, kept: Kept) -> Life:
    """Live in a certain world."""
    others = asyncio.all_tasks()
    store = SeamStore(kept, outside)
    agent, adviser = make_agent(outside)
    runtime = Runtime(agent, store=cast("Store", store), models=[adviser], clock=outside.clock)
    outside.runtime = runtime
    result: TurnResult[Any] | None = None

    async def to_the_end() -> None:
        nonlocal result
        async with runtime:
            result = await want(runtime, outside)

    async with asyncio.timeout(HANGS_S), asyncio.TaskGroup() as group:
        living = group.create_task(to_the_end())
        dying = group.create_task(outside.died.wait())
        await asyncio.wait((living, dying), return_when=asyncio.FIRST_COMPLETED)
        if outside.is_dead:
            # Last the one that closes the runtime: its thread ends, and nothing is left to wait for.
            await _bury(asyncio.all_tasks() - others - {living})
            await _bury({living})
        dying.cancel()
    if outside.is_dead:
        await kept.die(store.worker_id)
        return Life(tuple(outside.trace), None)
    await kept.close()
    return Life(tuple(outside.trace), result)


async def _bury(tasks: set[asyncio.Task[Any]]) -> None:
    while tasks := {task for task in tasks if not task.done()}:
        # What one is cancelled out of may lead it to the next thing to wait for.
        for task in tasks:
            task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
