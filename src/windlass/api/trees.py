"""A session with all that is below it: what they used together, and their end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from windlass.api.usage_report import usage_of_session
from windlass.errors import HeadMoved, SessionDeleted, WindlassBug
from windlass.journal import UsageLine
from windlass.ports import DeleteReport, SessionView, Store
from windlass.runtime.child_host import begun_below

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

# How often a deletion begins anew: the end of a child may begin a turn above that hears of it.
_TRIES = 4
# How long it waits for the turns below to end.
_PATIENCE_S = 30.0


async def usage_of_tree(store: Store, session_id: str) -> tuple[UsageLine, ...]:
    """Return what a session and all that it began have used; a chat that it began counts for itself."""
    lines = list(await usage_of_session(store, session_id))
    for one in await begun_below(store, session_id):
        with suppress(SessionDeleted):  # between the two reads
            lines += await usage_of_session(store, one)
    return tuple(lines)


async def usage_of_store(store: Store) -> list[UsageLine]:
    """Return what all sessions of a store have used."""
    lines: list[UsageLine] = []
    after = ""
    while page := await store.list_sessions(after=after, kind=None):
        for one in page:
            with suppress(SessionDeleted):  # between the two reads
                lines += await usage_of_session(store, one.session_id)
        after = page[-1].session_id
    return lines


async def delete_tree(admission: Admission, session_id: str, reason: str) -> DeleteReport:
    """Cancel what is unfinished in a session and in those below it, then remove what is stored of them.

    Raises:
        HeadMoved: a turn below it does not end. Nothing was removed.
    """
    services = admission.services
    await services.store.load_session(session_id, history=False)  # raises if there is none
    for tries_left in reversed(range(_TRIES)):
        await _end(admission, session_id, reason)
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                for one in await begun_below(services.store, session_id):
                    with suppress(SessionDeleted):  # by another caller
                        await _end(admission, one, reason)
        with suppress(*((HeadMoved,) if tries_left else ())):
            return await services.store.delete_session(session_id, now_ms=services.clock.now_ms())
    raise WindlassBug("delete: was not tried")


async def _end(admission: Admission, session_id: str, reason: str) -> None:
    """Wait until nothing is unfinished in a session."""
    store, worker = admission.services.store, admission.worker
    for item in (await store.inbox(session_id)).items:
        await store.withdraw(session_id, item.item_id)  # else it would begin a turn meanwhile
    # A turn that ends may be followed by another, as which a process continues.
    while turns := _unfinished(await store.load_session(session_id, history=False)):
        for turn_id in turns:
            await admission.cancel(session_id, turn_id, reason)
            await worker.resting.outcome(session_id, turn_id)
    worker.forget(session_id)


def _unfinished(view: SessionView) -> tuple[str, ...]:
    return view.queued if view.active is None else (view.active, *view.queued)
