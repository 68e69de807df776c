"""What the body of a test's tool does to other sessions: the one place that reaches behind a tool's context.

A tool of a user has no such door. What acts on other sessions (subagents, wakes) is the runtime's own, and goes the same
way: through the lane of the turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windlass import ToolContext
from windlass.journal import derived_session_id
from windlass.kernel import CompletedToolCall, Json, ToolOutcome
from windlass.plugins import PluginTurn
from windlass.ports import AcceptTurn, Errand, NewTurn, Store, TurnRequest, WaitKind, WaitView
from windlass.ports.tool import Pending
from windlass.ports.unit import CommitReceipt, TurnCommit
from windlass.runtime.hooked_turn import HookedTurn
from windlass.runtime.tool_call import ToolCallRun
from windlass.runtime.turn import Turn

CHILD_TURN = "t"


def child_of(store: Store, session_id: str, turn_id: str, name: str) -> str:
    """Return the id of the session of a child that a turn starts under a name."""
    return derived_session_id(store.secret, "child", session_id, turn_id, name)


def tree_of(store: Store, session_id: str, turn_id: str, *names: str) -> list[tuple[str, str]]:
    """Return a turn and those below it, each started by the one before under the next name."""
    found = [(session_id, turn_id)]
    for name in names:
        found.append((child_of(store, *found[-1], name), CHILD_TURN))
    return found


def send_with_end(turn: PluginTurn, *errands: Errand) -> None:
    """Run errands with the commit of a turn, in one unit; for the hook that is asked last."""
    assert isinstance(turn, HookedTurn)
    lane = turn._turn.lane
    commit = lane.commit

    async def send_and_commit(end: TurnCommit, *, blobs: Iterable[str] = ()) -> CommitReceipt:
        for errand in errands:
            lane.run_errand(errand)
        return await commit(end, blobs=blobs)

    setattr(lane, "commit", send_and_commit)  # noqa: B010 - of this drive alone


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
        """Run errands with the call's result: they are added right behind it, so one unit has both."""
        host, record = self._host, self._host._record

        def record_and_send(outcome: ToolOutcome) -> CompletedToolCall:
            completed = record(outcome)
            for errand in errands:
                self._turn.lane.run_errand(errand)
            return completed

        host._record = record_and_send  # type: ignore[method-assign]  # of this call alone

    def child(self, name: str) -> str:
        """Return the id of a child's session: the same for each run of the body."""
        return child_of(self.store, self._turn.session_id, self._turn.turn_id, name)

    async def wait_for_time(self, for_ms: int) -> Pending:
        """Open a wait for a time; the call's result is that it came."""
        view = self._open_wait("timer", None, self.now_ms + for_ms)
        await self._turn.lane.durable()
        return self._pending(view.wait.key)

    async def wait_for_signal(self, name: str) -> Pending:
        """Open a wait for a signal; the call's result is what the signal brings."""
        view = self._open_wait("signal", {"signal": name})
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
