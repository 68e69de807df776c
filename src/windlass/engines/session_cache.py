"""The sessions that a worker keeps in memory because it owns them."""

from __future__ import annotations

from collections.abc import Container

from windlass.errors import HeadMoved, UnknownSession
from windlass.ports import SessionView
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory

_MAX_SESSIONS = 1_024
# An idle session with more messages than this is read again when it is needed.
_MAX_IDLE_MESSAGES = 32


class SessionCache:
    """What this worker knows of each session. A full cache drops the session that was used longest ago."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sessions: dict[str, SessionMemory] = {}

    def get(self, session_id: str) -> SessionMemory | None:
        """Return what is cached of a session."""
        return self._sessions.get(session_id)

    def forget(self, session_id: str) -> None:
        """Drop a session."""
        self._sessions.pop(session_id, None)

    def keep(self, memory: SessionMemory) -> SessionMemory:
        """Cache a session, as the one used last."""
        sessions = self._sessions
        if sessions.pop(memory.session_id, None) is None and len(sessions) >= _MAX_SESSIONS:
            del sessions[next(iter(sessions))]
        sessions[memory.session_id] = memory
        return memory

    def heads(self) -> dict[str, int]:
        """Return how many turns had ended in each session that is cached."""
        return {session_id: memory.head for session_id, memory in self._sessions.items()}

    def taken(self, view: SessionView) -> SessionMemory:
        """Return a session as the store has just shown it, with its last frame."""
        known = self._sessions.get(view.session_id)
        return self._take(
            view, known if known and known.head == view.head else SessionMemory.of(view)
        )

    async def current(self, session_id: str) -> SessionMemory:
        """Return a session as the store has it now."""
        view, memory = await self._look(session_id)
        return self._take(view, memory)

    async def idle(self, session_id: str, agent: str, turn_id: str) -> SessionMemory:
        """Return a session that nothing waits to enter, for a turn that is new to it.

        The store is asked each time: another process may have put something in.

        Raises:
            HeadMoved: it has an unfinished turn, or an item that comes first, or another worker; or this turn has ended
                already; or only errands begin turns in it. The store is to say so before anything is spent on this one.
        """
        try:
            view, memory = await self._look(session_id)
        except UnknownSession:
            return self.keep(SessionMemory(session_id, agent=agent))
        if view.active is not None or view.queued or view.waiting:
            raise HeadMoved(f"session {session_id}: something else comes first")
        if await self._is_of_another(view):
            raise HeadMoved(f"session {session_id}: another worker has it")
        if any(page.turn_id == turn_id for page in view.pages):
            raise HeadMoved(f"session {session_id}: turn {turn_id} has ended")
        return self._take(view, _open(memory))

    async def _is_of_another(self, view: SessionView) -> bool:
        """Whether a worker that lives has the session: it is left to that one."""
        services, owner = self._services, view.owner
        if owner is None or owner == services.worker_id:
            return False
        return await services.store.is_present(owner, now_ms=services.clock.now_ms())

    def is_held(self, memory: SessionMemory) -> bool:
        """Whether no other worker can begin a turn in a session now: it is this worker's, or nobody knows of it yet."""
        if memory.is_owned:
            return self._services.clock.now_ms() < self._services.held_until_ms
        return not memory.generation and not memory.head

    async def _look(self, session_id: str) -> tuple[SessionView, SessionMemory]:
        """Ask the store for a session. A cached history is read again only if the head has moved."""
        store, known = self._services.store, self._sessions.get(session_id)
        if known is not None:
            view = await store.load_session(session_id, history=False)
            if view.head == known.head:
                return view, known
        view = await store.load_session(session_id, frame=True)
        return view, SessionMemory.of(view)

    def _take(self, view: SessionView, memory: SessionMemory) -> SessionMemory:
        memory.generation, memory.agent = view.generation, view.agent
        memory.is_owned = view.owner == self._services.worker_id
        return self.keep(memory)

    def evict(self, busy: Container[str]) -> None:
        """Drop long histories that no turn has used since the last call."""
        for session_id, memory in tuple(self._sessions.items()):
            if memory.messages.n_held <= _MAX_IDLE_MESSAGES or session_id in busy:
                continue
            if memory.is_idle:
                del self._sessions[session_id]
            memory.is_idle = True


def _open(memory: SessionMemory) -> SessionMemory:
    """Return a session in which callers begin turns."""
    if not memory.is_open:
        raise HeadMoved(f"session {memory.session_id}: only errands begin turns in it")
    return memory
