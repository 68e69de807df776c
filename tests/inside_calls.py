"""What the body of a test's tool does to other sessions: the one place that reaches behind a tool's context.

A tool of a user has no such door. What acts on other sessions (subagents, wakes) is the runtime's own, and goes the same
way: through the lane of the turn.
"""

from __future__ import annotations

from typing import Any

from windlass import ToolContext
from windlass.journal import derived_session_id
from windlass.kernel import Json
from windlass.ports import AcceptTurn, Errand, NewTurn, Store, TurnRequest, WaitKind, WaitView
from windlass.ports.tool import Pending
from windlass.runtime.tool_call import ToolCallRun
from windlass.runtime.turn import Turn

CHILD_TURN = "t"


class InsideCall:
    """The call that a body runs in, and what it may do there."""

    def __init__(self, ctx: ToolContext[Any]) -> None:
        host = ctx._host
        assert isinstance(host, ToolCallRun)
        self._host = host
        self._turn: Turn = host.turn

    @property
    def store(self) -> Store:
        """The store of its turn."""
        return self._turn.services.store

    @property
    def request(self) -> TurnRequest:
        """What its turn was asked for."""
        return self._turn.request

    @property
    def now_ms(self) -> int:
        """What time it is there."""
        return self._turn.services.clock.now_ms()

    def send(self, *errands: Errand) -> None:
        """Run errands with the call's result, in one unit: nothing may be awaited between this and the body's end."""
        for errand in errands:
            self._turn.lane.run_errand(errand)

    def child(self, name: str) -> str:
        """Return the id of a child's session: the same for each run of the body."""
        turn = self._turn
        return derived_session_id(self.store.secret, "child", turn.session_id, turn.turn_id, name)

    async def wait_for_time(self, for_ms: int) -> Pending:
        """Open a wait for a time; the call's result is that it came."""
        view = self._open_wait("timer", None, self.now_ms + for_ms)
        await self._turn.lane.durable()
        return self._pending(view.wait.key)

    async def wait_for_child(self, session_id: str, agent: str, request: TurnRequest) -> Pending:
        """Start a child and open the wait for it, in one unit; the call's result is the answer to the wait.

        The child finds the key of the wait in its context, under `answers`.
        """
        key = self._open_wait("child", {"session": session_id, "turn": CHILD_TURN}).wait.key
        asked = TurnRequest(input=request.input, context={**request.context, "answers": key})
        new = NewTurn(agent=agent, request=asked, now_ms=self.now_ms)
        errand = AcceptTurn(
            session_id=session_id, turn_id=CHILD_TURN, turn=new, kind="child", rejects=key
        )
        self._turn.lane.run_errand(errand)
        await self._turn.lane.durable()
        return self._pending(key)

    def _open_wait(self, kind: WaitKind, detail: Json, expires_ms: int | None = None) -> WaitView:
        turn, host = self._turn, self._host
        return turn.open_wait(
            kind,
            about=f"{turn.session_id}/{turn.turn_id}/{host.place}",
            digest=kind,
            title=f"{host.call.name} waits",
            detail=detail,
            call_id=host.call.call_id,
            expires_ms=expires_ms,
        )

    def _pending(self, key: str) -> Pending:
        self._host.deferred_key = key
        return Pending(key)
