"""One tool call, from the model's request to its result, across crashes.

    decide      plugins, policy, and a person if need be; written down with the intent
    intent      about to start; durable before the body of any tool that is not pure
    result      raw, as soon as the body returns
    presented   what plugins make of it, if any of them looks at results

Law 1. A call with a result is answered from the journal.
Law 2. A call without an intent simply runs.
Law 3. A call with an intent and no result goes by its contract as it stood then, as `journal.claim` says: run again, run
    again with the same key, ask the tool's reconciler, or never again. A timeout or a lost thread is no better than a
    crash.

Length: the laws are about everything that may happen to a call; what is written of it is in `call_record`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from windlass.errors import ArgsInvalid, ToolDenied
from windlass.journal import HOW_BY_CONTRACT, RUNS_AGAIN
from windlass.journal.commands import AwaitEventCommand, Contract
from windlass.journal.moments import CallDecided, CallReturned
from windlass.kernel import CompletedToolCall, ToolOutcome, canonical, events
from windlass.ports import Allow, Ask, WaitView
from windlass.ports.tool import Again, Done, NotDone, Pending, Tool, ToolContext
from windlass.runtime import approvals
from windlass.runtime.approvals import Approvals, Permit
from windlass.runtime.approving import ask_function
from windlass.runtime.body import Ended, run_body, value_outcome
from windlass.runtime.call_record import CallRecord
from windlass.runtime.coming_back import ComingBack
from windlass.runtime.turn_start import policy_version
from windlass.tools.arguments import check_args_size

CRASHED = "the process ended while it ran"
CUT_OFF = "the turn was interrupted before its result was recorded"
GONE = "There is no tool called {name}."
# What a body gives in place of a result that comes later.
_LATER = (Again, Pending)
# The kinds of waits that a body opens, and whose answer is the result of its call.
_OPENED_BY_BODY = ("deferred", "question")


class ToolCallRun(CallRecord):
    """Runs one call of an effect, or finds out what became of it."""

    # Whether a timer keeps the body from running again, and how often it has run.
    _is_away, _attempt = False, 0

    async def run(self) -> CompletedToolCall:
        """Return the call's one result."""
        completed = None
        if self.turn.recovery is not None:
            completed = await self._recovered()
        if completed is None:
            completed = await self._run(None)
        self.completed = completed
        if self.hooks is not None:
            completed = self.completed = await self.hooks.present(completed)
        self._batch.ended()
        return completed

    async def _run(self, decided: CallDecided | None) -> CompletedToolCall:
        turn = self.turn
        turn.go_live()
        tool = self.tool or turn.toolbox.callable_by_model(self.call.name)
        if tool is None:
            return self._refuse("error", GONE.format(name=self.call.name))
        try:
            if len(self._asked.body) > turn.limits.max_args_bytes:
                # The bytes of the whole command: those of the arguments may be few enough.
                size = len(canonical.encode(self._args))
                check_args_size(size, limit=turn.limits.max_args_bytes)
            self._checked = tool.check(self._args)
            if self.hooks is not None:
                decided = decided or await self.hooks.decide(tool)
            if decided is not None and decided.verdict == "short_circuit":
                return self._short_circuit(decided)
            wanted = None
            if decided is not None:
                wanted = approvals.asked_by_plugins(decided)
                self._replace_args(decided)
            if wanted is None and approvals.need_no_ruling(turn, tool):
                permit = None
            else:
                permit = await self._permit(tool, wanted)
        except ArgsInvalid as error:
            return self._refuse("error", f"{error}. The tool did not run.")
        except ToolDenied as error:
            return self._refuse("denied", str(error))
        if permit is not None:
            self._use(permit.args)
            self._note = permit.note
        return await self._work(tool, permit)

    # ------------------------------------------------------------------ what plugins decided

    def _replace_args(self, decided: CallDecided) -> None:
        if decided.args != self.call.args:
            self.call = msgspec.structs.replace(self.call, args=decided.args)
            self._use(self.call.args)

    def _short_circuit(self, decided: CallDecided) -> CompletedToolCall:
        self._replace_args(decided)
        assert decided.outcome is not None  # noqa: S101 - by its verdict
        return self._record(decided.outcome)

    # ------------------------------------------------------------------ permission

    async def _permit(self, tool: Tool, wanted: Ask | None) -> Permit | None:
        """Return permission to run; `wanted` is the question that plugins ask, whatever policy and tool say.

        Raises:
            ToolDenied: it may not run.
        """
        turn, call, asking = self.turn, self.call, Approvals(self.turn)
        ruling = await asking.rule(tool, call, call.args, wanted)
        if isinstance(ruling, Allow):
            await asking.void_others(call.call_id, "")
            return None
        try:
            asked = approvals.asked_of(ruling)
            view = await asking.question(asked, tool, call, f"{self._asked.key}/decide")
            await asking.void_others(call.call_id, view.wait.key)
            view = await self._person(view, tool)
            answer = turn.wait_over(view, f"{self.place}.approval")
            return await asking.permit(answer, tool, call, view)
        except ToolDenied as error:
            self._record_decision(approvals.denied(str(error), policy_version(turn.program)))
            raise

    async def _person(self, view: WaitView, tool: Tool) -> WaitView:
        """Wait for an answer; where a function answers approvals in this process, it is asked first."""
        turn, approve = self.turn, self.turn.services.approve
        if view.state == "open" and approve is not None:
            await turn.lane.durable()
            await ask_function(approve, turn, view.wait, tool, self._batch)
        return await self._batch.answered(view.wait.key)

    # ------------------------------------------------------------------ running

    async def _work(
        self,
        tool: Tool,
        permit: Permit | None,
        contract: Contract | None = None,
        *,
        is_taken_over: bool = False,
    ) -> CompletedToolCall:
        """Run the body, as often as its contract and its retries allow.

        A claim that is taken over is another worker's: what it consumed stays consumed.
        """
        governs = contract or tool.effect
        if self._batch.is_alone:
            ended = await self._body(tool, permit, governs, is_taken_over=is_taken_over)
        else:
            # A call that waits for its slot has not begun: its intent comes when it has the slot.
            body = partial(self._body, tool, permit, governs, is_taken_over=is_taken_over)
            ended = await self._in_slot(tool, body)
        if ended.is_uncertain or isinstance(ended.value, _LATER):
            return await self._result(tool, governs, ended)
        return self._record(await value_outcome(ended, tool, self.turn))

    async def _in_slot(self, tool: Tool, body: Callable[[], Awaitable[Ended]]) -> Ended:
        """Run a body when its siblings leave room for it."""
        slot = self._batch.body(alone=tool.sequential)
        if slot is None:
            return await body()
        async with slot:
            return await body()

    async def _result(self, tool: Tool, governs: Contract, ended: Ended) -> CompletedToolCall:
        """Make the call's result of how its body ended."""
        if isinstance(ended.value, Again):
            refused = self._coming_back.refusal(governs)
            if not refused:
                return await self._come_back(ended.value, governs)
            ended = Ended(status="error", reason=refused)
        if isinstance(ended.value, Pending):
            if ended.value.key == self.deferred_key:
                return await self._deferred(ended.value.key)
            ended = Ended(status="error", reason="It returned a Pending that is not its own.")
        if ended.is_uncertain and governs not in RUNS_AGAIN:
            return await self._uncertain(tool, governs, ended.reason)
        return self._record(await value_outcome(ended, tool, self.turn))

    # ------------------------------------------------------------------ coming back

    async def _come_back(self, again: Again, contract: Contract) -> CompletedToolCall:
        """Wait as long as the body asked for, then run it again."""
        if not self.has_begun:
            self._claim(contract, None)  # with the timer: what was decided is not asked again
        self._coming_back.open(again)
        return await self._run_again(contract)

    async def _run_again(self, contract: Contract) -> CompletedToolCall:
        """Run the body again when its timer is over."""
        turn, coming = self.turn, self._coming_back
        self._is_away = True
        view = await self._batch.answered(coming.view().wait.key)
        turn.go_live()  # a cancel may have come meanwhile
        coming.record_over(view)
        self._is_away = False
        tool = self.known_tool()
        if tool is None:
            return self._refuse("error", GONE.format(name=self.call.name))
        try:
            self._checked = tool.check(self._args)
        except ArgsInvalid as error:
            return self._refuse("error", f"{error}. The tool did not run again.")
        body = partial(self._body, tool, None, contract, is_claimed=True)
        return await self._result(tool, contract, await self._in_slot(tool, body))

    @property
    def _coming_back(self) -> ComingBack:
        return ComingBack(self.turn, self.call, self.place)

    async def _body(
        self,
        tool: Tool,
        permit: Permit | None,
        contract: Contract,
        *,
        is_taken_over: bool = False,
        is_claimed: bool = False,
    ) -> Ended:
        """Write the intent, then run the body; nothing that is not pure starts before its intent is durable."""
        turn, call = self.turn, self.call
        consumes = None if permit is None else self._use_up(permit)
        self._began_ms = turn.services.clock.now_ms()
        if contract == "pure" and consumes is None and not is_taken_over:
            # A body may end the process: what was paid for before the last reply is kept first.
            if turn.lane.owes_reply:
                await turn.lane.may_call_model()
        elif not is_claimed:
            self._claim(contract, consumes)
        if contract != "pure":
            await self._batch.barrier()
            self._began_ms = turn.services.clock.now_ms()
        if turn.is_live:
            turn.tell(
                events.ToolStarted(call_id=call.call_id, name=call.name, args=self._args),
                self.place,
            )
        return await self._attempts(tool, contract)

    def _use_up(self, permit: Permit) -> str:
        """Record a person's permission; return the approval that the claim uses up."""
        self._record_decision(approvals.decided(permit, policy_version(self.turn.program)))
        return permit.wait.wait.key

    async def _attempts(self, tool: Tool, contract: Contract) -> Ended:
        turn, tries, attempt = self.turn, tool.retries, self._attempt
        if turn.recovery is not None and not attempt:
            attempt = turn.recovery.claims[self._asked.key] + self._coming_back.times_over
        while True:
            self._attempt = attempt = attempt + 1
            if self._checked is None:
                self._checked = tool.check(self._args)
            ended = await run_body(tool, self._context(attempt), self._checked, turn)
            if tries == 0 or not ended.is_failure or turn.is_stopping:
                return ended
            if contract not in RUNS_AGAIN and not ended.not_started:
                return ended
            tries -= 1

    def _context(self, attempt: int) -> ToolContext[Any]:
        turn = self.turn
        return ToolContext(
            deps=turn.deps,
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            call_id=self.call.call_id,
            attempt=attempt,
            host=self,
        )

    # ------------------------------------------------------------------ after a crash

    async def _recovered(self) -> CompletedToolCall | None:
        """Answer from the journal, or resume what an earlier drive began; None: the call is new."""
        turn, recovery = self.turn, self.turn.recovery
        assert recovery is not None  # noqa: S101 - the caller looked
        decided = None if self.hooks is None else self.hooks.decided_before()
        if decided is not None and decided.verdict != "deny":
            self._replace_args(decided)
        said = turn.row(f"{self._asked.key}/decide")
        if said is not None:
            recovery.check_same(said, self._asked)
            self._take_up_decision(said.outcome)
        row = turn.row(self._asked.key)
        if row is None:
            await self._go_live()
            return await self._run(decided) if decided is not None else None
        recovery.check_same(row, self._asked)
        if isinstance(row.outcome, CallReturned):
            return self._ended_as(row.outcome)
        self.has_begun, self._is_away = True, self._coming_back.is_away
        await self._go_live()
        return await self._resume(row.contract or "once")

    async def _go_live(self) -> None:
        """Leave replay; the tools that providers bring have to be there again."""
        turn = self.turn
        turn.go_live()
        if turn.provided is not None:
            await turn.provided.find(turn)

    def _take_up_decision(self, decided: object) -> None:
        """Take up what a person or the policy decided before the crash: they are not asked again."""
        if not isinstance(decided, CallDecided):
            return
        if decided.verdict == "allow":
            self._use(decided.args)
        permit = Approvals(self.turn).given_before(decided, self.place)
        if permit is not None:
            self._note = permit.note

    async def _resume(self, contract: Contract) -> CompletedToolCall:
        """Resume a call that has an intent and no result, as its contract says."""
        if self._is_away:
            return await self._run_again(contract)
        pending = self._pending_wait(contract)
        if pending is not None:
            return await self._deferred(pending, is_claimed=True)
        how, why = HOW_BY_CONTRACT[contract], self._interruption
        if how == "unknown":
            return self._unknown(why)
        tool = self.known_tool()
        if tool is None:
            return self._unknown(f"{why}, and the tool is gone")
        if how == "reconcile":
            return await self._uncertain(tool, contract, why)
        return self._misfit(tool, contract) or await self._work(
            tool, None, contract, is_taken_over=True
        )

    def _misfit(self, tool: Tool, contract: Contract) -> CompletedToolCall | None:
        """Return the result of a call whose arguments do not fit the tool any more: it has another schema now."""
        try:
            self._checked = tool.check(self._args)
        except ArgsInvalid as error:
            if contract == "pure":
                return self._refuse("error", f"{error}. The tool did not run again.")
            why = f"{self._interruption}, and its arguments do not fit the tool any more"
            return self._unknown(f"{why}: {error}")
        return None

    @property
    def _interruption(self) -> str:
        """Why a call that began has no result: its worker was lost, or its drive ended and the process did not."""
        return CRASHED if self.turn.is_recovered else CUT_OFF

    def _pending_wait(self, contract: Contract) -> str | None:
        """Return the wait that stands for the body's result, if the body said so before the crash."""
        turn = self.turn
        said = turn.row(turn.key("await_event", f"{self.place}.deferred"))
        if said is None and contract in RUNS_AGAIN:
            return None
        waits = (view.wait for view in turn.waits.values() if view.wait.kind in _OPENED_BY_BODY)
        return next((wait.key for wait in waits if wait.call_id == self.call.call_id), None)

    async def _uncertain(self, tool: Tool, contract: Contract, why: str) -> CompletedToolCall:
        """Find out whether the body acted, if the tool can tell."""
        turn = self.turn
        if contract != "reconcile":
            return self._unknown(why)
        if turn.wait_key(self._asked.key, self._asked.digest) in turn.waits:
            # A person was asked already; their answer is not put to the reconciler again.
            return await self._ask_what_happened(why)
        try:
            found = await tool.reconcile(self._context(1), tool.check(self._args))
        except Exception as error:  # noqa: BLE001 - a reconciler that fails has found out nothing
            found = None
            turn.note_issue(
                f"the reconciler of {self.call.name} raised {type(error).__name__}",
                "reconcile_failed",
                self.place,
            )
        if isinstance(found, NotDone):
            return await self._not_done(tool, contract)
        if isinstance(found, Done):
            return self._record(await value_outcome(Ended(value=found.value), tool, turn))
        return await self._ask_what_happened(why)

    async def _not_done(self, tool: Tool, contract: Contract) -> CompletedToolCall:
        turn = self.turn
        row = turn.row(self._asked.key)
        if row is not None and row.generation < turn.generation:
            return await self._work(tool, None, contract, is_taken_over=True)
        # The intent is our own, of a body that did not return in time: it stands.
        ended = await self._in_slot(tool, partial(self._attempts, tool, contract))
        if ended.is_uncertain:
            return self._unknown(ended.reason)
        return self._record(await value_outcome(ended, tool, turn))

    async def _ask_what_happened(self, why: str) -> CompletedToolCall:
        """Ask a person what became of the call; `why` is what is known of it."""
        turn, name = self.turn, self.call.name
        view = turn.open_wait(
            "unknown_outcome",
            about=self._asked.key,
            digest=self._asked.digest,
            title=f"Did {name} act? Give its result, or say that it failed.",
            detail={"tool": name, "args": self._args},
            call_id=self.call.call_id,
        )
        view = await self._batch.answered(view.wait.key)
        answer = turn.wait_over(view, f"{self.place}.unknown")
        if answer.status == "answered":
            return self._record(ToolOutcome(value=answer.value))
        if answer.status == "rejected":
            text = answer.value if isinstance(answer.value, str) else "It did not act."
            return self._record(ToolOutcome(status="error", value=text))
        return self._unknown(why)

    # ------------------------------------------------------------------ ends that come from elsewhere

    async def _deferred(self, key: str, *, is_claimed: bool = False) -> CompletedToolCall:
        """Wait for the result that comes from outside."""
        turn, effect_id = self.turn, f"{self.place}.deferred"
        if not is_claimed:
            # The body has ended, and its result comes from outside.
            turn.claim(turn.keyed(AwaitEventCommand(wait_key=key), effect_id))
        view = await self._batch.answered(key)
        answer = turn.wait_over(view, effect_id)
        self._began_ms = 0
        outcome = ToolOutcome(value=answer.value)
        if answer.status == "rejected":
            outcome = ToolOutcome(status="error", value=answer.value or "It failed.")
        elif answer.status != "answered":
            is_question = view.wait.kind == "question"
            late = "Nobody answered in time." if is_question else "Its result did not come in time."
            outcome = ToolOutcome(status="timeout", value=late)
        return self._record(outcome)

    def interrupted(self) -> CompletedToolCall | None:
        """Return what is to be said of this call when the turn ends before it has a result."""
        ended, hooks = self.completed, self.hooks
        is_by_tool = ended is not None
        if ended is None and self.has_begun and not self._is_away:
            ended = self._cut_off()
        if ended is None or hooks is None or hooks.is_presented:
            return ended
        return hooks.unseen(ended, is_by_tool=is_by_tool)

    def _cut_off(self) -> CompletedToolCall:
        """Return the result of a call that had begun when the turn was cancelled."""
        return self._unknown("the turn was cancelled while it ran")
