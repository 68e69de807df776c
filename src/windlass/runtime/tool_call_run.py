"""One tool call, from the model's wish to its result, across crashes.

    decide      policy, and a person if need be; written down with the intent
    intent      about to start; durable before the body of any tool that is not pure
    result      raw, as soon as the body returns

Law 1. A call with a result is answered from the journal.
Law 2. A call without an intent simply runs.
Law 3. A call with an intent and no result goes by its contract as it stood then: run again, run again with the same key,
    ask the tool's reconciler, or never again. A timeout or a lost thread is no better than a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.errors import ArgsInvalid, ToolDenied
from windlass.journal import (
    AwaitEventCommand,
    CallDecided,
    CallReturned,
    Claimed,
    Contract,
    Envelope,
    Moment,
    Recorded,
    ToolCallCommand,
    idempotency_key,
)
from windlass.kernel import events
from windlass.kernel.messages import ToolStatus
from windlass.kernel.tool_call import CompletedToolCall, PendingToolCall, ToolOutcome
from windlass.ports import WaitView
from windlass.ports.policy import Allow, Ask, Deny, Ruling
from windlass.ports.tool import Done, NotDone, Pending, Tool, ToolContext
from windlass.runtime import approvals
from windlass.runtime.approvals import Approvals, Leave
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.call_host import CallHost, deferred_claim
from windlass.runtime.model_calls import ModelCalls
from windlass.runtime.session_memory import call_digest
from windlass.runtime.tool_bodies import Ended, run_body, value_outcome
from windlass.runtime.turn_in_hand import TurnInHand
from windlass.runtime.turn_start import policy_version

_RUNS_AGAIN: frozenset[Contract] = frozenset({"pure", "idempotent", "keyed"})
UNKNOWN = (
    "It is not known whether {name} acted: {why}. It was not run again. "
    "Do not assume that it did or did not; check first if you can."
)
CRASHED = "the process ended while it ran"
GONE = "There is no tool called {name}."


class ToolCallRun:
    """Runs one call of an effect, or finds out what became of it."""

    def __init__(
        self,
        hand: TurnInHand,
        models: ModelCalls,
        batch: CallBatch,
        call: PendingToolCall,
        *,
        effect_id: int,
        ordinal: int,
    ) -> None:
        self._hand = hand
        self._models = models
        self._batch = batch
        self._approvals = Approvals(hand)
        self.call = call
        self._effect_id = str(effect_id)
        self._ordinal = ordinal
        self._place = f"{effect_id}.{ordinal}"
        # For whoever has to end the turn while this runs.
        self.has_begun = False
        self._args: Mapping[str, Any] = call.args
        self.completed: CompletedToolCall | None = None

    async def run(self) -> CompletedToolCall:
        """Return the call's one result."""
        self.completed = await self._run()
        self._batch.ended()
        return self.completed

    async def _run(self) -> CompletedToolCall:
        hand, call = self._hand, self.call
        args: Mapping[str, Any] = call.args
        if hand.journal is not None:
            decided = hand.answer_to(self._envelope(args, "decide"), CallDecided)
            if decided is not None and decided.verdict == "allow":
                args = decided.args
            asked = self._envelope(args, "result")
            known = hand.answer_to(asked, CallReturned)
            if known is not None:
                return self._ended_as(args, known)
            row = hand.row(asked.key)
            if row is not None:
                self.has_begun, self._args = True, args
                hand.go_live()
                return await self._go_on(args, row.contract or "once")
        hand.go_live()
        tool = hand.toolbox.get(call.name)
        if tool is None:
            return self._refuse("error", GONE.format(name=call.name))
        try:
            tool.check(args)
            leave = await self._leave(tool)
        except ArgsInvalid as error:
            return self._refuse("error", f"{error} The tool did not run.")
        except ToolDenied as error:
            return self._refuse("denied", str(error))
        await self._claim(leave, tool.effect)
        return await self._work(tool, leave.args, note=_edit_note(leave))

    # ------------------------------------------------------------------ leave

    async def _leave(self, tool: Tool) -> Leave:
        """Return leave to run.

        Raises:
            ToolDenied: it may not.
        """
        call, version = self.call, policy_version(self._hand.program)
        ruling = await self._approvals.rule(tool, call, call.args)
        if isinstance(ruling, Allow):
            await self._approvals.void_others(call.call_id, "")
            return Leave(call.args)
        try:
            _check_not_denied(ruling)
            about = self._envelope(call.args, "decide").key
            assert isinstance(ruling, Ask)  # noqa: S101 - neither leave nor a denial
            view = self._approvals.question(ruling, tool, call, about)
            await self._approvals.void_others(call.call_id, view.wait.key)
            view = await self._person(view)
            answer = self._hand.wait_over(view, f"{self._place}.approval")
            return await self._approvals.leave(answer, tool, call, view)
        except ToolDenied as error:
            said = approvals.denied(str(error), version)
            self._hand.record(self._envelope(call.args, "decide"), said)
            raise

    async def _person(self, view: WaitView) -> WaitView:
        """Wait for a person, or for whoever answers for them in this process."""
        hand = self._hand
        if view.state == "open" and hand.world.approve is not None:
            await hand.lane.durable()
            await hand.ask_approver(view.wait)
        return await self._batch.answered(view.wait.key)

    # ------------------------------------------------------------------ running

    async def _claim(self, leave: Leave, contract: Contract) -> None:
        """Write the intent; nothing that is not pure starts before it is durable."""
        hand = self._hand
        consumes = None if leave.wait is None else leave.wait.wait.key
        if leave.wait is not None:
            said = approvals.decided(leave, policy_version(hand.program))
            hand.record(self._envelope(self.call.args, "decide"), said)
        if contract == "pure" and consumes is None:
            return
        hand.add(
            Claimed.of(self._envelope(leave.args, "intent"), contract=contract, consumes=consumes)
        )
        self.has_begun, self._args = True, leave.args
        if contract != "pure":
            await self._batch.barrier()

    async def _claim_again(self, args: Mapping[str, Any], contract: Contract) -> None:
        """Take over the intent of a worker that is gone; what it consumed stays consumed."""
        self._hand.add(Claimed.of(self._envelope(args, "intent"), contract=contract))
        await self._batch.barrier()

    async def _work(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        *,
        note: str = "",
        contract: Contract | None = None,
    ) -> CompletedToolCall:
        """Run the body, as often as its contract and its retries allow."""
        hand = self._hand
        contract = contract or tool.effect
        began_ms = hand.world.clock.now_ms()
        hand.tell(
            events.ToolStarted(call_id=self.call.call_id, name=self.call.name, args=dict(args)),
            self._place,
        )
        attempt = hand.claim_count(self._envelope(args, "result").key) + 1
        tries = tool.retries
        host = self._host()
        while True:
            ctx = self._context(attempt, host)
            async with self._batch.body(alone=tool.sequential):
                ended = await run_body(tool, ctx, args, hand.limits.tool_timeout)
            if isinstance(ended.value, Pending):
                return await self._deferred(args, ended.value.key)
            may_repeat = contract in _RUNS_AGAIN or ended.not_started
            if not ended.is_failure or tries == 0 or not may_repeat or hand.is_leaving:
                break
            tries -= 1
            attempt += 1
        duration_ms = max(0, hand.world.clock.now_ms() - began_ms)
        if ended.is_uncertain and contract not in _RUNS_AGAIN:
            return await self._uncertain(tool, args, contract, ended.reason)
        outcome = await self._outcome(ended, tool, note)
        return self._record(args, outcome, duration_ms, claimed=self.has_begun)

    async def _outcome(self, ended: Ended, tool: Tool, note: str) -> ToolOutcome:
        return await value_outcome(ended, tool, self._hand, note)

    def _context(self, attempt: int, host: CallHost) -> ToolContext[Any]:
        hand = self._hand
        return ToolContext(
            deps=hand.deps,
            session_id=hand.session_id,
            turn_id=hand.turn_id,
            call_id=self.call.call_id,
            attempt=attempt,
            idempotency_key=idempotency_key(
                hand.world.store.store_id,
                hand.session_id,
                hand.turn_id,
                self._effect_id,
                self._ordinal,
            ),
            host=host,
        )

    def _host(self) -> CallHost:
        return CallHost(
            self._hand,
            self._models,
            place=self._place,
            call_id=self.call.call_id,
            name=self.call.name,
        )

    # ------------------------------------------------------------------ after a crash

    async def _go_on(self, args: Mapping[str, Any], contract: Contract) -> CompletedToolCall:
        """Go on with a call that another worker began."""
        hand = self._hand
        pending = self._pending_wait(contract)
        if pending is not None:
            return await self._deferred(args, pending, is_claimed=True)
        if contract == "once":
            return self._unknown(args, CRASHED)
        tool = hand.toolbox.get(self.call.name)
        if tool is None:
            return self._unknown(args, f"{CRASHED}, and the tool is gone")
        if contract == "reconcile":
            return await self._uncertain(tool, args, contract, CRASHED)
        await self._claim_again(args, contract)
        return await self._work(tool, args, contract=contract)

    def _pending_wait(self, contract: Contract) -> str | None:
        """Return the wait that stands for the body's result, if the body said so before the crash."""
        hand = self._hand
        for key, view in hand.waits.items():
            if view.wait.kind == "deferred" and view.wait.call_id == self.call.call_id:
                command = AwaitEventCommand(wait_key=key)
                said = hand.row(hand.envelope(command, f"{self._place}.deferred").key)
                if said is not None or contract not in _RUNS_AGAIN:
                    return key
        return None

    async def _uncertain(
        self, tool: Tool, args: Mapping[str, Any], contract: Contract, why: str
    ) -> CompletedToolCall:
        """Find out whether the body acted, if the tool can tell."""
        if contract != "reconcile":
            return self._unknown(args, why)
        ctx = self._context(1, self._host())
        try:
            found = await tool.reconcile(ctx, tool.check(args))
        except Exception as error:  # noqa: BLE001 - a reconciler that fails has found out nothing
            found = None
            self._hand.note_issue(
                f"the reconciler of {self.call.name} raised {type(error).__name__}",
                "reconcile_failed",
            )
        if isinstance(found, NotDone):
            await self._claim_again_if_gone(args, contract)
            return await self._work(tool, args, contract=contract)
        if isinstance(found, Done):
            outcome = await value_outcome(Ended(value=found.value), tool, self._hand, "")
            return self._record(args, outcome, 0, claimed=True)
        return await self._ask_what_happened(args)

    async def _claim_again_if_gone(self, args: Mapping[str, Any], contract: Contract) -> None:
        row = self._hand.row(self._envelope(args, "intent").key)
        if row is not None and row.generation < self._hand.generation:
            await self._claim_again(args, contract)

    async def _ask_what_happened(self, args: Mapping[str, Any]) -> CompletedToolCall:
        """Let a person say what became of the call."""
        hand, name = self._hand, self.call.name
        asked = self._envelope(args, "result")
        view = hand.open_wait(
            "unknown_outcome",
            about=asked.key,
            digest=asked.digest(),
            title=f"Did {name} act? Give its result, or say that it failed.",
            detail={"tool": name, "args": dict(args)},
            call_id=self.call.call_id,
        )
        view = await self._batch.answered(view.wait.key)
        answer = hand.wait_over(view, f"{self._place}.unknown")
        if answer.status == "answered":
            return self._record(args, ToolOutcome(value=answer.value), 0, claimed=True)
        if answer.status == "rejected":
            text = answer.value if isinstance(answer.value, str) else "It did not act."
            return self._record(args, ToolOutcome(status="error", value=text), 0, claimed=True)
        return self._unknown(args, CRASHED)

    # ------------------------------------------------------------------ results

    async def _deferred(
        self, args: Mapping[str, Any], key: str, *, is_claimed: bool = False
    ) -> CompletedToolCall:
        """Wait for the result that somebody delivers."""
        hand, effect_id = self._hand, f"{self._place}.deferred"
        if not is_claimed:
            hand.add(deferred_claim(hand, self._place, key))
        view = await self._batch.answered(key)
        answer = hand.wait_over(view, effect_id)
        outcome = ToolOutcome(value=answer.value)
        if answer.status == "rejected":
            outcome = ToolOutcome(status="error", value=answer.value or "It failed.")
        elif answer.status != "answered":
            outcome = ToolOutcome(status="timeout", value="Its result did not come in time.")
        return self._record(args, outcome, 0, claimed=self.has_begun)

    def _unknown(self, args: Mapping[str, Any], why: str) -> CompletedToolCall:
        text = UNKNOWN.format(name=self.call.name, why=why)
        return self._record(args, ToolOutcome(status="unknown", value=text), 0, claimed=True)

    def _refuse(self, status: ToolStatus, text: str) -> CompletedToolCall:
        outcome = ToolOutcome(status=status, value=text)
        return self._record(self.call.args, outcome, 0, claimed=False)

    def _record(
        self, args: Mapping[str, Any], outcome: ToolOutcome, duration_ms: int, *, claimed: bool
    ) -> CompletedToolCall:
        returned = CallReturned(outcome=outcome, duration_ms=duration_ms)
        envelope = self._envelope(args, "result")
        self._hand.lane.add(
            Recorded.of(envelope, returned, claimed=claimed), blobs=self._hand.take_blobs(outcome)
        )
        return self._ended_as(args, returned)

    def _ended_as(self, args: Mapping[str, Any], returned: CallReturned) -> CompletedToolCall:
        hand, call = self._hand, self.call
        if returned.outcome.status == "unknown":
            hand.note_issue(
                f"nobody knows whether {call.name} ({call.call_id}) acted", "unknown_outcome"
            )
            hand.unknown_calls.add(call_digest(call.name, call.args))
        return CompletedToolCall(
            call_id=call.call_id,
            name=call.name,
            args=dict(args),
            outcome=returned.outcome,
            duration_ms=returned.duration_ms,
            replay=call.replay,
        )

    def interrupted(self) -> CompletedToolCall | None:
        """Return what is to be said of this call when the turn ends before it has a result."""
        if self.completed is not None or not self.has_begun:
            return self.completed
        return self._unknown(self._args, "the turn was cancelled while it ran")

    def _envelope(self, args: Mapping[str, Any], moment: Moment) -> Envelope:
        command = ToolCallCommand(call_id=self.call.call_id, name=self.call.name, args=dict(args))
        return self._hand.envelope(
            command, self._effect_id, call_ordinal=self._ordinal, moment=moment
        )


def _check_not_denied(ruling: Ruling) -> None:
    if isinstance(ruling, Deny):
        raise ToolDenied(ruling.reason or "It is not allowed.")


def _edit_note(leave: Leave) -> str:
    if not leave.is_edited:
        return ""
    by = f" ({leave.answer.by})" if leave.answer is not None and leave.answer.by else ""
    return f"(The approver{by} changed the arguments before it ran; it ran with the changed ones.)"
