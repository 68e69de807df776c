"""A turn that was accepted: wait for it, watch it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from windlass.api.machinery import Machinery
from windlass.api.turn_events import watch_turn
from windlass.api.turn_result import TurnResult
from windlass.guards.limits import check_seconds
from windlass.kernel.events import Event
from windlass.kernel.messages import Message
from windlass.ports import CancelReceipt, NewTurn, TurnState, TurnView
from windlass.runtime.program import Output
from windlass.runtime.turn_record import TurnRecord

O = TypeVar("O")  # noqa: E741 - the output's type


class TurnHandle(Generic[O]):
    """One turn, by its session and id."""

    def __init__(
        self,
        machinery: Machinery,
        session_id: str,
        turn_id: str,
        *,
        output: Output | None = None,
        turn: NewTurn | None = None,
    ) -> None:
        self._machinery = machinery
        self._output = output
        self._turn = turn
        self.session_id = session_id
        self.id = turn_id

    async def result(self, timeout: float | None = None) -> TurnResult[O]:  # noqa: ASYNC109 - the public name
        """Wait until the turn is done, or rests with an unanswered wait.

        Raises:
            TimeoutError: it took longer. The turn goes on.
        """
        check_seconds(timeout, field="timeout")
        self._machinery.check_open()
        async with asyncio.timeout(timeout):
            found = await self._machinery.admission.outcome(self.session_id, self.id, self._turn)
        so_far = () if isinstance(found, TurnRecord) else await self._messages(found)
        output = self._output or await self._agents_output()
        return TurnResult(found, output=output, so_far=so_far, prices=self._machinery.prices)

    async def _agents_output(self) -> Output | None:
        """Return the shape of the turn's answer, for whoever holds its ids and not its agent."""
        programs = self._machinery.programs
        if self._turn is not None or not any(program.output for program in programs.values()):
            return None
        view = await self._view()
        asked = {} if view.request is None else view.request.overrides
        if "output" in asked or "compact" in asked or view.agent not in programs:
            return None
        return programs[view.agent].output

    async def cancel(self, reason: str = "") -> CancelReceipt:
        """Ask for the turn to end. First come, first served: it may end by itself before."""
        return await self._machinery.cancel(self.session_id, self.id, reason)

    def events(self, cursor: str | None = None) -> AsyncIterator[Event]:
        """Watch the turn until it ends or rests. Leaving changes nothing."""
        return watch_turn(self._machinery, self.session_id, self.id, cursor)

    async def messages(self) -> tuple[Message, ...]:
        """Return the turn's messages so far: committed ones, or a view of what the journal holds."""
        return await self._messages(await self._view())

    async def status(self) -> TurnState:
        """Return where the turn is: queued, running, parked, ready or done."""
        return (await self._view()).state

    async def _messages(self, view: TurnView) -> tuple[Message, ...]:
        return await self._machinery.messages_so_far(view)

    async def _view(self) -> TurnView:
        return await self._machinery.view(self.session_id, self.id)
