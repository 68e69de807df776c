"""One tool call, from the model's wish to its result, across crashes.

    decide      plugins, policy, and a person if need be; written down with the intent
    intent      about to start; durable before the body of any tool that is not pure
    result      raw, as soon as the body returns
    presented   what plugins make of it, if they make something of it

Law 1. A call with a result is answered from the journal.
Law 2. A call without an intent simply runs.
Law 3. A call with an intent and no result goes by its contract as it stood then: run again, run again with the same key,
    ask the tool's reconciler, or never again. A timeout or a lost thread is no better than a crash.

Length: the laws are about all the moments of a call; in two files they could not be checked by reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.errors import ArgsInvalid, ToolDenied
from windlass.journal import (
    AwaitEventCommand,
    CallDecided,
    CallReturned,
    Claimed,
    Contract,
    Envelope,
    EventAwaited,
    Recorded,
    ToolCallCommand,
    idempotency_key,
)
from windlass.kernel import canonical, events
from windlass.kernel.messages import Text, ToolStatus
from windlass.kernel.tool_call import CompletedToolCall, PendingToolCall, ToolOutcome
from windlass.ports import WaitView
from windlass.ports.policy import Allow, Ask, Deny, Ruling
from windlass.ports.tool import Done, NotDone, Pending, Tool, ToolContext
from windlass.runtime import approvals
from windlass.runtime.approvals import Approvals, Leave
from windlass.runtime.around_tool import CallHooks
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.call_host import CallHost, deferred_claim
from windlass.runtime.model_calls import ModelCalls
from windlass.runtime.session_memory import call_digest
from windlass.runtime.tool_bodies import Ended, run_body, value_outcome, with_part
from windlass.runtime.turn import Turn
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

    def __init__(  # noqa: PLR0913 - each is a part of what it is
        self,
        hand: Turn,
        models: ModelCalls,
        batch: CallBatch,
        call: PendingToolCall,
        *,
        effect_id: int,
        ordinal: int,
        hooks: CallHooks | None = None,
    ) -> None:
        self.hooks = hooks
        self._hand = hand
        self._models = models
        self._batch = batch
        self._approvals = Approvals(hand)
        # As the model asked for it, and with the arguments that plugins put in their place.
        self._given = call
        self.call = call
        self._effect_id = str(effect_id)
        self._ordinal = ordinal
        self._place = f"{effect_id}.{ordinal}"
        # For whoever has to end the turn while this runs.
        self.has_begun = False
        # An intent and its result have one row, and one digest: that of the whole call.
        self._args = call.args
        self._asked = self._envelope(call.args)
        self._digest = canonical.digest(self._asked)
        self._note = ""
        self._checked: Mapping[str, Any] | None = None
        self._deferred_key: str | None = None
        self.completed: CompletedToolCall | None = None

    async def run(self) -> CompletedToolCall:
        """Return the call's one result."""
        self.completed = await self._run()
        if self.hooks is not None:
            self.completed = await self.hooks.present(self.completed)
        self._batch.ended()
        return self.completed

    async def _run(self) -> CompletedToolCall:
        decided = None
        if self._hand.journal is not None:
            decided = self._take_up_hooks()
            known = await self._from_journal()
            if known is not None:
                return known
        hand = self._hand
        hand.go_live()
        tool = hand.toolbox.callable_by_model(self.call.name)
        if tool is None:
            return self._refuse("error", GONE.format(name=self.call.name))
        try:
            self._checked = tool.check(self._args)
            if self.hooks is not None:
                decided = decided or await self.hooks.decide(tool)
            if decided is not None and decided.verdict == "short_circuit":
                return self._short_circuit(decided)
            leave = await self._leave(tool, self._ruled(decided))
        except ArgsInvalid as error:
            return self._refuse("error", f"{error}. The tool did not run.")
        except ToolDenied as error:
            return self._refuse("denied", str(error))
        self._use(leave.args)
        self._note = _edit_note(leave)
        return await self._work(tool, leave)

    # ------------------------------------------------------------------ what plugins decided

    def _take_up_hooks(self) -> CallDecided | None:
        """Take up what plugins decided before a crash: they are not asked again."""
        decided = None if self.hooks is None else self.hooks.decided_before()
        if decided is not None:
            self._replace_args(decided)
        return decided

    def _ruled(self, decided: CallDecided | None) -> Ask | None:
        """Return the question that plugins want put to a person, if it is one.

        Raises:
            ToolDenied: they do not let it run.
        """
        if decided is None:
            return None
        if decided.verdict == "deny":
            raise ToolDenied(decided.reason)
        self._replace_args(decided)
        if decided.verdict != "ask":
            return None
        return Ask(title=decided.reason, risk=decided.risk, action_key=decided.action_key)  # type: ignore[arg-type]  # a risk

    def _replace_args(self, decided: CallDecided) -> None:
        if decided.args != self.call.args:
            self.call = msgspec.structs.replace(self.call, args=decided.args)
            self._use(self.call.args)

    def _short_circuit(self, decided: CallDecided) -> CompletedToolCall:
        self._replace_args(decided)
        assert decided.outcome is not None  # noqa: S101 - by its verdict
        return self._record(decided.outcome, 0)

    async def _from_journal(self) -> CompletedToolCall | None:
        """Answer from the journal, or go on with what another worker began; None: it is new."""
        hand = self._hand
        said = hand.row(f"{self._asked.key}/decide")
        if said is not None:
            if said.digest != canonical.digest(self._asked):
                hand.check_accepted(said, self._asked)
            self._take_up_decision(said.outcome)
        row = hand.row(self._asked.key)
        if row is None:
            return None
        if row.digest != self._digest:
            hand.check_accepted(row, self._asked)
        if isinstance(row.outcome, CallReturned):
            return self._ended_as(row.outcome)
        self.has_begun = True
        hand.go_live()
        return await self._go_on(row.contract or "once")

    def _take_up_decision(self, decided: object) -> None:
        """Take the arguments that were allowed, and what was to be remembered of it."""
        if not isinstance(decided, CallDecided) or decided.verdict != "allow":
            return
        self._use(decided.args)
        hand = self._hand
        key = hand.envelope(AwaitEventCommand(wait_key="?"), f"{self._place}.approval").key
        row = hand.row(key)
        if row is None or not isinstance(row.command, AwaitEventCommand):
            return
        view = hand.waits.get(row.command.wait_key)
        if view is not None and isinstance(row.outcome, EventAwaited):
            self._approvals.remember(row.outcome, view)
            self._note = _edit_note(Leave(decided.args, view, row.outcome))

    # ------------------------------------------------------------------ leave

    async def _leave(self, tool: Tool, wanted: Ask | None) -> Leave:
        """Return leave to run; `wanted` is the question that plugins ask, whatever policy and tool say.

        Raises:
            ToolDenied: it may not.
        """
        call = self.call
        if wanted is None and self._approvals.has_no_say(tool):
            return Leave(call.args)
        ruling = await self._approvals.rule(tool, call, call.args, wanted)
        if isinstance(ruling, Allow):
            await self._approvals.void_others(call.call_id, "")
            return Leave(call.args)
        try:
            _check_not_denied(ruling)
            about = f"{self._asked.key}/decide"
            assert isinstance(ruling, Ask)  # noqa: S101 - neither leave nor a denial
            view = self._approvals.question(ruling, tool, call, about)
            await self._approvals.void_others(call.call_id, view.wait.key)
            view = await self._person(view)
            answer = self._hand.wait_over(view, f"{self._place}.approval")
            return await self._approvals.leave(answer, tool, call, view)
        except ToolDenied as error:
            version = policy_version(self._hand.program)
            self._record_decision(approvals.denied(str(error), version))
            raise

    async def _person(self, view: WaitView) -> WaitView:
        """Wait for a person, or for whoever answers for them in this process."""
        hand = self._hand
        if view.state == "open" and hand.services.approve is not None:
            await hand.lane.durable()
            await hand.ask_approver(view.wait)
        return await self._batch.answered(view.wait.key)

    # ------------------------------------------------------------------ running

    async def _work(
        self, tool: Tool, leave: Leave | None, contract: Contract | None = None
    ) -> CompletedToolCall:
        """Run the body, as often as its contract and its retries allow.

        Without `leave` the intent is another worker's: it is taken over, and what it consumed stays consumed.
        """
        hand, governs = self._hand, contract or tool.effect
        # A call that waits for its place has not begun: its intent comes when it has the place.
        async with self._batch.body(alone=tool.sequential):
            await self._claim(leave, governs)
            began_ms = hand.services.clock.now_ms()
            hand.tell(
                events.ToolStarted(call_id=self.call.call_id, name=self.call.name, args=self._args),
                self._place,
            )
            ended = await self._attempts(tool, governs)
        if isinstance(ended.value, Pending):
            if ended.value.key == self._deferred_key:
                return await self._deferred(ended.value.key)
            ended = Ended(status="error", reason="It returned a Pending that is not its own.")
        duration_ms = max(0, hand.services.clock.now_ms() - began_ms)
        if ended.is_uncertain and governs not in _RUNS_AGAIN:
            return await self._uncertain(tool, governs, ended.reason)
        outcome = await value_outcome(ended, tool, hand)
        return self._record(outcome, duration_ms)

    async def _claim(self, leave: Leave | None, contract: Contract) -> None:
        """Write the intent; nothing that is not pure starts before it is durable."""
        consumes = None
        if leave is not None and leave.wait is not None:
            consumes = leave.wait.wait.key
            self._record_decision(approvals.decided(leave, policy_version(self._hand.program)))
        if contract == "pure" and consumes is None and leave is not None:
            # A body may be what ends the process: what was paid for before the last reply is kept first.
            await self._hand.lane.may_call_model()
            return
        self._hand.add(
            Claimed(
                key=f"{self._asked.key}/intent",
                digest=self._digest,
                command=self._asked.command,
                contract=contract,
                consumes=consumes,
            )
        )
        self.has_begun = True
        if contract != "pure":
            await self._batch.barrier()

    async def _attempts(self, tool: Tool, contract: Contract) -> Ended:
        hand, host = self._hand, self._host()
        attempt = hand.claim_count(self._asked.key) + 1
        tries = tool.retries
        while True:
            ctx = self._context(attempt, host)
            if self._checked is None:
                self._checked = tool.check(self._args)
            ended = await run_body(tool, ctx, self._checked, hand.limits.tool_timeout)
            may_repeat = contract in _RUNS_AGAIN or ended.not_started
            if not ended.is_failure or tries == 0 or not may_repeat or hand.is_leaving:
                self._deferred_key = host.deferred
                return ended
            tries -= 1
            attempt += 1

    def _context(self, attempt: int, host: CallHost) -> ToolContext[Any]:
        hand = self._hand
        return ToolContext(
            deps=hand.deps,
            session_id=hand.session_id,
            turn_id=hand.turn_id,
            call_id=self.call.call_id,
            attempt=attempt,
            idempotency_key=idempotency_key(
                hand.services.store.store_id,
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

    async def _go_on(self, contract: Contract) -> CompletedToolCall:
        """Go on with a call that another worker began."""
        pending = self._pending_wait(contract)
        if pending is not None:
            return await self._deferred(pending, is_claimed=True)
        if contract == "once":
            return self._unknown(CRASHED)
        tool = self._hand.toolbox.get(self.call.name)
        if tool is None:
            return self._unknown(f"{CRASHED}, and the tool is gone")
        if contract == "reconcile":
            return await self._uncertain(tool, contract, CRASHED)
        return await self._work(tool, None, contract)

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

    async def _uncertain(self, tool: Tool, contract: Contract, why: str) -> CompletedToolCall:
        """Find out whether the body acted, if the tool can tell."""
        if contract != "reconcile":
            return self._unknown(why)
        if self._hand.wait_key(self._asked.key, self._digest) in self._hand.waits:
            # A person was asked already; their word is not put to the reconciler again.
            return await self._ask_what_happened()
        ctx = self._context(1, self._host())
        try:
            found = await tool.reconcile(ctx, tool.check(self._args))
        except Exception as error:  # noqa: BLE001 - a reconciler that fails has found out nothing
            found = None
            self._hand.note_issue(
                f"the reconciler of {self.call.name} raised {type(error).__name__}",
                "reconcile_failed",
            )
        if isinstance(found, NotDone):
            return await self._not_done(tool, contract)
        if isinstance(found, Done):
            outcome = await value_outcome(Ended(value=found.value), tool, self._hand)
            return self._record(outcome, 0)
        return await self._ask_what_happened()

    async def _not_done(self, tool: Tool, contract: Contract) -> CompletedToolCall:
        row = self._hand.row(self._asked.key)
        if row is not None and row.generation < self._hand.generation:
            return await self._work(tool, None, contract)
        # It is our own intent, of a body that did not return in time: it stands.
        async with self._batch.body(alone=tool.sequential):
            ended = await self._attempts(tool, contract)
        if ended.is_uncertain:
            return self._unknown(ended.reason)
        return self._record(await value_outcome(ended, tool, self._hand), 0)

    async def _ask_what_happened(self) -> CompletedToolCall:
        """Let a person say what became of the call."""
        hand, name = self._hand, self.call.name
        view = hand.open_wait(
            "unknown_outcome",
            about=self._asked.key,
            digest=self._digest,
            title=f"Did {name} act? Give its result, or say that it failed.",
            detail={"tool": name, "args": self._args},
            call_id=self.call.call_id,
        )
        view = await self._batch.answered(view.wait.key)
        answer = hand.wait_over(view, f"{self._place}.unknown")
        if answer.status == "answered":
            return self._record(ToolOutcome(value=answer.value), 0)
        if answer.status == "rejected":
            text = answer.value if isinstance(answer.value, str) else "It did not act."
            return self._record(ToolOutcome(status="error", value=text), 0)
        return self._unknown(CRASHED)

    # ------------------------------------------------------------------ results

    async def _deferred(self, key: str, *, is_claimed: bool = False) -> CompletedToolCall:
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
        return self._record(outcome, 0)

    def _unknown(self, why: str) -> CompletedToolCall:
        text = UNKNOWN.format(name=self.call.name, why=why.rstrip("."))
        return self._record(ToolOutcome(status="unknown", value=text), 0)

    def _refuse(self, status: ToolStatus, text: str) -> CompletedToolCall:
        return self._record(ToolOutcome(status=status, value=text), 0)

    def _record_decision(self, decided: CallDecided) -> None:
        """Record what was decided on the call as the model asked for it."""
        asked = self._envelope(self.call.args)
        self._hand.add(
            Recorded(
                key=f"{asked.key}/decide",
                digest=canonical.digest(asked),
                outcome=decided,
                command=asked.command,
            )
        )

    def _record(self, outcome: ToolOutcome, duration_ms: int) -> CompletedToolCall:
        if self._note:
            # However it ended: the model believes that its own arguments ran.
            outcome = with_part(outcome, Text(text=self._note))
        returned = CallReturned(outcome=outcome, duration_ms=duration_ms)
        entry = Recorded(
            key=f"{self._asked.key}/result",
            digest=self._digest,
            outcome=returned,
            command=None if self.has_begun else self._asked.command,
        )
        self._hand.lane.add(entry, blobs=self._hand.take_blobs(outcome))
        return self._ended_as(returned)

    def _ended_as(self, returned: CallReturned) -> CompletedToolCall:
        hand, call = self._hand, self.call
        if returned.outcome.status == "unknown":
            hand.note_issue(
                f"nobody knows whether {call.name} ({call.call_id}) acted", "unknown_outcome"
            )
            asked, ran = (
                call_digest(call.name, self._given.args),
                call_digest(call.name, self._args),
            )
            hand.unknown_calls |= {asked, ran, call_digest(call.name, call.args)}
            if ran != asked:
                hand.unknown_edits.add(ran)
        return CompletedToolCall(
            call_id=call.call_id,
            name=call.name,
            args=self._args,
            outcome=returned.outcome,
            duration_ms=returned.duration_ms,
            replay=call.replay,
        )

    def interrupted(self) -> CompletedToolCall | None:
        """Return what is to be said of this call when the turn ends before it has a result."""
        if self.completed is not None and self.hooks is not None and not self.hooks.is_presented:
            # Somebody was to look at it first, perhaps to take secrets out of it.
            return self.hooks.hidden(self.completed)
        if self.completed is not None or not self.has_begun:
            return self.completed
        return self._unknown("the turn was cancelled while it ran")

    def _use(self, args: dict[str, Any]) -> None:
        """Let these be the arguments of the call: what is claimed and recorded names them."""
        if args is self._args:
            return
        self._args, self._checked = args, None
        self._asked = self._envelope(args)
        self._digest = canonical.digest(self._asked)

    def _envelope(self, args: dict[str, Any]) -> Envelope:
        command = ToolCallCommand(call_id=self.call.call_id, name=self.call.name, args=args)
        return self._hand.envelope(command, self._effect_id, call_ordinal=self._ordinal)


def _check_not_denied(ruling: Ruling) -> None:
    if isinstance(ruling, Deny):
        raise ToolDenied(ruling.reason or "It is not allowed.")


def _edit_note(leave: Leave) -> str:
    if not leave.is_edited:
        return ""
    by = f" ({leave.answer.by})" if leave.answer is not None and leave.answer.by else ""
    return f"(The approver{by} changed the arguments before it ran; it ran with the changed ones.)"
