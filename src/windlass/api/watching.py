"""Watching a session: what was said in it, what its turn in flight has said so far, and then its events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from windlass.api.nodes import messages_of
from windlass.api.watcher import Watcher
from windlass.errors import ConfigError, UnknownSession
from windlass.folds import read_cursor
from windlass.kernel import Event, Message
from windlass.ports import TurnView

if TYPE_CHECKING:
    from windlass.engines.admission import Admission


async def turn_view(admission: Admission, session_id: str, turn_id: str) -> TurnView:
    """Return a turn as it stands.

    Raises:
        UnknownSession: there is no such turn.
    """
    worker = admission.worker
    await worker.flush(session_id)
    view = await worker.services.store.load_turn(session_id, turn_id)
    if view is None:
        raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
    return view


async def messages_so_far(
    admission: Admission, session_id: str, turn_id: str
) -> tuple[Message, ...]:
    """Return a turn's messages: committed ones, or those that its journal tells of."""
    await admission.worker.flush(session_id)
    folded = await admission.worker.folded.of(session_id, turn_id)
    if folded is None:
        raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
    return folded.fold.messages


class Observation:
    """A session as it goes on: `async with session.observe(cursor) as seen: async for event in seen`.

    Of a turn that runs in another process you see the facts; previews are shown by the process that drives the turn.

    committed: the messages of ended turns.
    provisional: the messages of the turn in flight so far.
    has_gap: what follows the cursor is not kept any more: start from `committed` and `provisional`.
    """

    def __init__(self, admission: Admission, session_id: str, cursor: str | None) -> None:
        self._admission = admission
        self._session_id = session_id
        self._cursor = None if cursor is None else read_cursor(cursor, session_id)
        self._watcher: Watcher | None = None
        self.committed: tuple[Message, ...] = ()
        self.provisional: tuple[Message, ...] = ()

    async def __aenter__(self) -> Self:
        watcher = Watcher(self._admission, self._session_id)
        try:
            await watcher.begin(self._cursor)
            await self._read()
        except BaseException:
            watcher.close()
            raise
        self._watcher = watcher
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.close()

    @property
    def cursor(self) -> str:
        """Where this observation stands: pass it to `session.observe` to go on from here."""
        return "" if self._watcher is None else self._watcher.cursor

    @property
    def has_gap(self) -> bool:
        """Whether what follows the cursor is not kept any more."""
        return self._watcher is not None and self._watcher.has_gap

    async def __aiter__(self) -> AsyncIterator[Event]:
        watcher = self._watcher
        if watcher is None:
            raise ConfigError(
                "Observation: enter it first, `async with session.observe() as seen`",
                field="observe",
            )
        while (event := await watcher.next()) is not None:
            yield event

    async def _read(self) -> None:
        """Read what was said in the session up to now."""
        services = self._admission.services
        try:
            session = await services.store.load_session(self._session_id)
        except UnknownSession:
            return
        self.committed = messages_of(session.pages)
        if session.active is not None:
            folded = await self._admission.worker.folded.of(self._session_id, session.active)
            if folded is not None and folded.view.state != "done":
                self.provisional = folded.fold.messages
