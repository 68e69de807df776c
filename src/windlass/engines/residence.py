"""The sessions that a worker keeps in memory because it owns them."""

from __future__ import annotations

from collections.abc import Container

from windlass.errors import HeadMoved, UnknownSession
from windlass.ports import SessionView
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory

_MAX_RESIDENT = 1_024
# An idle session with more messages than that is read again when it is needed.
_MAX_IDLE_MESSAGES = 32


class Residence:
    """Finds what is known of a session; the one that was not asked for longest goes first."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sessions: dict[str, SessionMemory] = {}

    def get(self, session_id: str) -> SessionMemory | None:
        """Return what is kept of a session."""
        return self._sessions.get(session_id)

    def forget(self, session_id: str) -> None:
        """Let go of a session."""
        self._sessions.pop(session_id, None)

    def keep(self, memory: SessionMemory) -> SessionMemory:
        """Keep a session."""
        self._sessions.pop(memory.session_id, None)
        if len(self._sessions) >= _MAX_RESIDENT:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[memory.session_id] = memory
        return memory

    async def current(self, session_id: str) -> SessionMemory:
        """Return a session as the store has it now."""
        view, memory = await self._look(session_id)
        return self._take(view, memory)

    async def idle(self, session_id: str, agent: str, turn_id: str) -> SessionMemory:
        """Return a session in which nothing is under way, for a turn that it has not had.

        Raises:
            HeadMoved: something is, or the turn has ended meanwhile.
        """
        known = self._sessions.get(session_id)
        if known is not None and known.is_owned:
            return self.keep(known)
        try:
            view, memory = await self._look(session_id)
        except UnknownSession:
            return self.keep(SessionMemory(session_id, agent=agent))
        if view.active is not None or view.queued:
            raise HeadMoved(f"session {session_id}: another turn is under way")
        if any(page.turn_id == turn_id for page in view.pages):
            raise HeadMoved(f"session {session_id}: turn {turn_id} has ended")
        return self._take(view, memory)

    async def _look(self, session_id: str) -> tuple[SessionView, SessionMemory]:
        """Ask the store for a session. What is known of it is read again only if the head has moved."""
        store, known = self._services.store, self._sessions.get(session_id)
        if known is not None:
            view = await store.load_session(session_id, history=False)
            if view.head == known.head:
                return view, known
        view = await store.load_session(session_id, frame=True)
        return view, SessionMemory.of(view)

    def _take(self, view: SessionView, memory: SessionMemory) -> SessionMemory:
        memory.generation = view.generation
        memory.is_owned = view.owner == self._services.worker_id
        return self.keep(memory)

    def evict(self, busy: Container[str]) -> None:
        """Let go of long histories in which nothing has happened since the last time."""
        for session_id, memory in tuple(self._sessions.items()):
            if memory.messages.n_held <= _MAX_IDLE_MESSAGES or session_id in busy:
                continue
            if memory.is_idle:
                del self._sessions[session_id]
            memory.is_idle = True
