"""A call of an agent: the call waits for a turn of that agent in a session of its own.

Law 1. Intent, wait and child are one unit. A call that has its intent has its child, and never begins again.
Law 2. The child's session id derives from the call, or from the tool if the child is kept: no crash makes a second child.
Law 3. A call of an agent in the background has its result once the child is accepted. A call with an intent and no result
    looks for the child before it begins one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.journal import derived_session_id
from windlass.journal.commands import Contract
from windlass.journal.moments import CallReturned
from windlass.kernel import CompletedToolCall, ToolOutcome, events
from windlass.kernel.messages import Text, ToolStatus
from windlass.kernel.outcomes import Stopped
from windlass.ports import TurnRequest, WaitView
from windlass.ports.children import ChildEnd
from windlass.ports.tool import Tool
from windlass.runtime import approvals
from windlass.runtime.approvals import Permit
from windlass.runtime.body import Ended, value_outcome
from windlass.runtime.children import (
    NewChild,
    below,
    is_too_deep,
    share_of,
    spawn_child,
    start_child,
)
from windlass.runtime.tool_call import ToolCallRun
from windlass.runtime.turn import Turn
from windlass.runtime.turn_start import policy_version
from windlass.tools.agent_tool import AgentTool

TOO_DEEP = "Agents may call each other {most} deep, and this one is there. Do the work yourself."
NO_ROOM = "{name} did not start: {most} children may work at a time in this tree. Wait until one has ended."
STARTED = "Started as {name}. Its result arrives as a message when it has ended."
CUT_OFF = "It was cancelled with the turn that waited for it."
_LABEL_HEX = 6


class AgentCallRun(ToolCallRun):
    """Runs one call of an agent, or finds out how it ended."""

    # Whether it is one of the calls of a reply that are about to begin children.
    _is_in_row = True

    def __init__(self, turn: Turn, *given: Any) -> None:
        super().__init__(turn, *given)
        turn.children_to_begin += self._is_in_row

    async def _work(
        self,
        tool: Tool,
        permit: Permit | None,
        contract: Contract | None = None,
        *,
        is_taken_over: bool = False,
    ) -> CompletedToolCall:
        if not isinstance(tool, AgentTool):  # another tool has this name by now
            return await super()._work(tool, permit, contract, is_taken_over=is_taken_over)
        place = below(self.turn, tool.name, self.call.call_id)
        if is_too_deep(place):
            return self._refuse("error", TOO_DEEP.format(most=place.max_depth))
        self._intend(permit)
        if not self._batch.is_alone:
            await asyncio.sleep(0)  # the intents of its siblings join the same unit
        child = self._new_child(tool)
        self._leave_row()
        if tool.background:
            return await self._spawned(child, place.max_children)
        return await self._child(self._start(child))

    async def _resume(self, contract: Contract) -> CompletedToolCall:
        view = self._child_wait()
        return await super()._resume(contract) if view is None else await self._child(view)

    def _ended_as(self, returned: CallReturned) -> CompletedToolCall:
        self._leave_row()
        waits = (view for view in self.turn.waits.values() if _is_for(view, self.place))
        view = next(waits, None)  # found without its key: a replay has no secret to make keys with
        end = None if view is None or view.answer is None else ChildEnd.of(view.answer.value)
        for issue in () if end is None else end.issues:
            self.turn.note_issue(issue.message, issue.code or "child", self.place)
        return super()._ended_as(returned)

    def _cut_off(self) -> CompletedToolCall:
        # The end of this turn cancels the child; what the child did is in its own session.
        return self._refuse("cancelled", CUT_OFF)

    @property
    def _about(self) -> str:
        return f"{self.turn.session_id}/{self.turn.turn_id}/{self.place}"

    def _child_wait(self) -> WaitView | None:
        """Return the wait for this call's child, if the call has begun one."""
        return self.turn.waits.get(self.turn.wait_key(self._about, "child"))

    def _leave_row(self) -> None:
        """Note that this call is no longer about to begin a child."""
        if self._is_in_row:
            self._is_in_row = False
            self.turn.children_to_begin -= 1

    def _intend(self, permit: Permit | None) -> None:
        """Record that the call is about to begin its child."""
        turn, call, consumes = self.turn, self.call, None
        if permit is not None:
            consumes = permit.wait.wait.key
            self._record_decision(approvals.decided(permit, policy_version(turn.program)))
        self._began_ms = turn.services.clock.now_ms()
        self._claim("keyed", consumes)
        started = events.ToolStarted(call_id=call.call_id, name=call.name, args=self._args)
        turn.tell(started, self.place)

    def _new_child(self, tool: AgentTool) -> NewChild:
        turn, secret = self.turn, self.turn.services.store.secret
        names = (turn.session_id, turn.turn_id, self.effect_id, self.ordinal)
        call = derived_session_id(secret, "child", *names)
        kept = derived_session_id(secret, "child", turn.session_id, tool.name)
        n = max(1, turn.children_to_begin)
        limits, tokens = share_of(turn, tool.agent.limits, tool.limits, n)
        words = (Text(text=tool.words(self._args)),)
        label = tool.name
        if tool.background and not tool.keep:
            label = f"{label}-{call[-_LABEL_HEX:]}"
        return NewChild(
            session_id=kept if tool.keep else call,
            turn_id=call if tool.keep else "t",
            agent=tool.agent.name,
            name=tool.name,
            request=TurnRequest(input=words, overrides={"limits": limits} if limits else {}),
            label=label,
            tokens=tokens,
            allotted={} if turn.allots is None else turn.allots(n),
        )

    # ------------------------------------------------------------------ with and without waiting

    def _start(self, child: NewChild) -> WaitView:
        call = self.call
        return start_child(
            self.turn,
            child,
            about=self._about,
            title=f"{call.name} works",
            at=self.place,
            call_id=call.call_id,
        )

    async def _spawned(self, child: NewChild, most: int | None) -> CompletedToolCall:
        """Begin the child and do not wait for it; its end wakes the session."""
        if await spawn_child(self.turn, child, self.call.call_id):
            return self._record(ToolOutcome(value=STARTED.format(name=child.label)))
        return self._refuse("error", NO_ROOM.format(name=self.call.name, most=most))

    async def _child(self, begun: WaitView) -> CompletedToolCall:
        """Wait for the child; its answer is the call's result."""
        turn = self.turn
        view = await self._batch.answered(begun.wait.key)
        answer = turn.wait_over(view, f"{self.place}.child")
        end, tool = ChildEnd.of(answer.value), self.known_tool()
        if end is None:  # it could not begin
            why = answer.value if isinstance(answer.value, str) else f"it was {answer.status}."
            return self._refuse("error", f"{self.call.name} did not run: {why}")
        if not end.is_finished:
            status: ToolStatus = "cancelled" if _is_cancelled(end) else "error"
            return self._refuse(status, end.failure)
        if tool is None:
            return self._record(ToolOutcome(value=end.value))
        return self._record(await value_outcome(Ended(value=end.value), tool, turn))


def _is_cancelled(end: ChildEnd) -> bool:
    return isinstance(end.outcome, Stopped) and end.outcome.reason == "cancelled"


def _is_for(view: WaitView, place: str) -> bool:
    """Whether a wait is for the child of the call at a place."""
    wait = view.wait
    return wait.kind == "child" and isinstance(wait.detail, dict) and wait.detail.get("at") == place
