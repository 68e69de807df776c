"""What a worker does beside driving turns: it is a member of the store's workers, and tidies up.

The lease is renewed from a thread of its own: an event loop that is busy does not lose its sessions.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial

from windlass.errors import IdempotencyConflict, LeaseLost, StoreError, WindlassError
from windlass.ports import DueInbox, InboxItem, NewTurn, TurnRequest
from windlass.ports.inbox import item_parts, turn_of_item, wake_in
from windlass.runtime.retention import Retention
from windlass.runtime.services import Services

_log = logging.getLogger("windlass")
# How long a thread that was told to end may take: far longer than it does.
_KEEPER_S = 1.0


class Membership:
    """Joins the store's workers once, renews the lease while `is_busy`, and gives it up at the end."""

    def __init__(self, services: Services, *, is_busy: Callable[[], bool]) -> None:
        self._services = services
        self._is_busy = is_busy
        self._joining = asyncio.Lock()
        self._is_over = threading.Event()
        self._keeper: threading.Thread | None = None

    async def join(self) -> str:
        """Become a worker of the store; return its id."""
        if self._services.worker_id:
            return self._services.worker_id
        async with self._joining:
            return self._services.worker_id or await self._join()

    async def _join(self) -> str:
        services = self._services
        worker_id = await services.store.join(
            until_ms=services.until_ms(), now_ms=services.clock.now_ms()
        )
        self._keeper = threading.Thread(
            target=self._keep_lease,
            args=(worker_id, asyncio.get_running_loop()),
            name=f"windlass-lease-{worker_id}",
            daemon=True,
        )
        self._keeper.start()
        services.worker_id = worker_id
        return worker_id

    def _keep_lease(self, worker_id: str, loop: asyncio.AbstractEventLoop) -> None:
        services = self._services
        # Three attempts fit into one lease.
        while not self._is_over.wait(services.lease_ms / 3000):
            # An idle worker writes nothing: its next turn brings its lease along. A loop that was closed under its
            # turns does not drive them any more, so other workers may.
            if not self._is_busy() or loop.is_closed():
                continue
            try:
                services.store.renew(worker_id, until_ms=services.until_ms())
            except WindlassError as error:
                _log.warning("lease: %s", error.code)
                if isinstance(error, LeaseLost):
                    return  # other workers have the sessions; every write of ours is refused

    async def stop(self) -> None:
        """Give the sessions up, so that other workers need not wait for the lease to end."""
        self._is_over.set()
        try:
            if self._services.worker_id:
                await self._services.store.leave(self._services.worker_id)
        finally:
            if self._keeper is not None:
                # It was told before, and hands a renewal in without waiting for it: it ends at once.
                self._keeper.join(_KEEPER_S)


_COMPACT = "compact"
# A script that runs for less than a minute does not pay for housekeeping.
_FIRST_MS = 60_000
_EVERY_MS = 6 * 3_600_000
_TIDY_S = 0.25


async def begin_with_item(services: Services, inbox: DueInbox) -> None:
    """Accept the turn that the first item of an idle session begins."""
    item = inbox.first
    turn = turn_for(inbox, submitter=services.worker_id, now_ms=services.clock.now_ms())
    accept = partial(services.store.accept, inbox.session_id)
    try:
        is_over = (await accept(turn_of_item(item.item_id), turn)).state == "done"
    except IdempotencyConflict:
        is_over = True
    if is_over:
        # It came before, and was reclaimed since: the turn that it began then takes nothing more.
        await accept(turn_of_item(f"{item.item_id}.{item.arrived}"), turn)


def turn_for(inbox: DueInbox, *, submitter: str, now_ms: int) -> NewTurn:
    """Return the turn that the first item of an idle session's inbox begins: its input, its command, or what it tells."""
    item = inbox.first
    return NewTurn(
        agent=inbox.agent,
        request=_request_of(item),
        submitter=submitter,
        takes=(item.item_id,),
        now_ms=now_ms,
    )


def _request_of(item: InboxItem) -> TurnRequest:
    content = item.content if isinstance(item.content, dict) else {}
    # What an errand says beside it: where the turn stands in its tree, and who is told of its end.
    carries = dict(content.get("carries") or {})
    if item.kind == "command" and content.get("command") == _COMPACT:
        wanted = content.get("options") or {}
        return TurnRequest(overrides={"item": item.item_id, _COMPACT: wanted})
    if item.kind == "wake":
        said = wake_in(content).as_content()
        return TurnRequest(overrides={**carries, "item": item.item_id, "wake": said})
    return TurnRequest(input=item_parts(content), overrides={**carries, "item": item.item_id})


class Housekeeping:
    """Says when to tidy up, and tells the store every few hours to reclaim what the retention no longer covers."""

    def __init__(self, services: Services, *, retention: Retention) -> None:
        self._services = services
        self._retention = retention
        self._due_ms = services.clock.now_ms() + _FIRST_MS
        self._next_s = self._next_ms = 0.0

    def is_time(self) -> bool:
        """Whether to tidy up in this look: a busy worker looks thousands of times a minute."""
        now_s, now_ms = asyncio.get_running_loop().time(), self._services.clock.now_ms()
        if now_s < self._next_s and now_ms < self._next_ms:
            return False
        self._next_s, self._next_ms = now_s + _TIDY_S, now_ms + _TIDY_S * 1000
        return True

    async def reclaim(self) -> None:
        """Reclaim what the retention no longer covers, every few hours. A store that cannot do it now is asked again next time."""
        now_ms = self._services.clock.now_ms()
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + _EVERY_MS
        try:
            await self._services.store.vacuum(
                now_ms=now_ms,
                retention_ms=self._retention.journals_ms,
                keep_ms=self._retention.keep_ms(),
            )
        except StoreError as error:
            _log.warning("housekeeping: %s", error.code)
