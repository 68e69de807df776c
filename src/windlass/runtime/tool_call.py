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

Length: the laws are about all the moments of a call; in two files they could not be checked by reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.errors import ArgsInvalid, ToolDenied
from windlass.guards.secret import REGISTERED
from windlass.journal import HOW_BY_CONTRACT, Claimed, Recorded
from windlass.journal.commands import AwaitEventCommand, Contract, ToolCallCommand
from windlass.journal.moments import CallDecided, CallReturned, EventAwaited
from windlass.journal.redaction import cleaned
from windlass.kernel import CompletedToolCall, PendingToolCall, ToolOutcome, canonical, events
from windlass.kernel.messages import Text, ToolStatus
from windlass.ports import Allow, Ask, Deny, Ruling, WaitView
from windlass.ports.tool import Done, NotDone, Pending, Tool, ToolContext
from windlass.runtime import approvals
from windlass.runtime.approvals import Approvals, Permit
from windlass.runtime.approving import ask_function
from windlass.runtime.body import CallHost, Ended, run_body, value_outcome, with_part
from windlass.runtime.session_memory import call_digest
from windlass.runtime.turn import Keyed, Turn
from windlass.runtime.turn_start import policy_version
from windlass.tools.arguments import check_args_size, effective_args

if TYPE_CHECKING:
    from windlass.runtime.around_tool import CallHooks
    from windlass.runtime.call_batch import CallBatch
    from windlass.runtime.model_call import ModelCalls

_RUNS_AGAIN = frozenset(
    contract for contract, how in HOW_BY_CONTRACT.items() if how in ("again", "same_key")
)
UNKNOWN = (
    "It is not known whether {name} acted: {why}. It was not run again. "
    "Do not assume that it did or did not; check first if you can."
)
CRASHED = "the process ended while it ran"
CUT_OFF = "the turn was interrupted before its result was recorded"
GONE = "There is no tool called {name}."


class ToolCallRun(CallHost):
    """Runs one call of an effect, or finds out what became of it."""

    def __init__(
        self,
        turn: Turn,
        models: ModelCalls,
        batch: CallBatch,
        call: PendingToolCall,
        effect_id: int,
        ordinal: int,
    ) -> None:
        self.turn = turn
        self.models = models
        self.hooks: CallHooks | None = None
        self._batch = batch
        # As the model asked for it, and with the arguments that plugins put in their place.
        self._given = call
        self.call = call
        self.effect_id = str(effect_id)
        self.ordinal = ordinal
        self.place = f"{effect_id}.{ordinal}"
        # For the end of a turn that comes while this runs.
        self.has_begun = False
        # An intent and its result have one row, and one digest: that of the whole call.
        self._args = call.args
        self._asked = self._keyed(call.args)
        self._note = ""
        self._checked: Mapping[str, Any] | None = None
        self._began_ms = 0
        self.completed: CompletedToolCall | None = None

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
        tool = turn.toolbox.callable_by_model(self.call.name)
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
            wanted = None if decided is None else self._ruled(decided)
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
            self._note = _edit_note(permit)
        return await self._work(tool, permit)

    # ------------------------------------------------------------------ what plugins decided

    def _ruled(self, decided: CallDecided) -> Ask | None:
        """Return the question that plugins want put to a person, if there is one.

        Raises:
            ToolDenied: they deny the call.
        """
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
            asked = _asked_of(ruling)
            view = asking.question(asked, tool, call, f"{self._asked.key}/decide")
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
        turn, governs = self.turn, contract or tool.effect
        # A call that waits for its slot has not begun: its intent comes when it has the slot.
        slot = None if self._batch.is_alone else self._batch.body(alone=tool.sequential)
        if slot is None:
            ended = await self._body(tool, permit, governs, is_taken_over=is_taken_over)
        else:
            async with slot:
                ended = await self._body(tool, permit, governs, is_taken_over=is_taken_over)
        if isinstance(ended.value, Pending):
            if ended.value.key == self.deferred_key:
                return await self._deferred(ended.value.key)
            ended = Ended(status="error", reason="It returned a Pending that is not its own.")
        if ended.is_uncertain and governs not in _RUNS_AGAIN:
            return await self._uncertain(tool, governs, ended.reason)
        return self._record(await value_outcome(ended, tool, turn))

    async def _body(
        self, tool: Tool, permit: Permit | None, contract: Contract, *, is_taken_over: bool
    ) -> Ended:
        """Write the intent, then run the body; nothing that is not pure starts before its intent is durable."""
        turn, consumes = self.turn, None
        if permit is not None:
            consumes = permit.wait.wait.key
            self._record_decision(approvals.decided(permit, policy_version(turn.program)))
        self._began_ms = turn.services.clock.now_ms()
        if contract == "pure" and consumes is None and not is_taken_over:
            # A body may end the process: what was paid for before the last reply is kept first.
            if turn.lane.owes_reply:
                await turn.lane.may_call_model()
        else:
            self._claim(contract, consumes)
            if contract != "pure":
                await self._batch.barrier()
                self._began_ms = turn.services.clock.now_ms()
        call = self.call
        if turn.is_live:
            turn.tell(
                events.ToolStarted(call_id=call.call_id, name=call.name, args=self._args),
                self.place,
            )
        return await self._attempts(tool, contract)

    def _claim(self, contract: Contract, consumes: str | None) -> None:
        asked = self._asked
        self.turn.lane.add(
            Claimed(
                key=f"{asked.key}/intent",
                command=asked.written,
                contract=contract,
                consumes=consumes,
                at_ms=self._began_ms,
            )
        )
        self.has_begun = True

    async def _attempts(self, tool: Tool, contract: Contract) -> Ended:
        turn, tries, attempt = self.turn, tool.retries, 1
        if turn.recovery is not None:
            attempt += turn.recovery.claims[self._asked.key]
        while True:
            if self._checked is None:
                self._checked = tool.check(self._args)
            ended = await run_body(tool, self._context(attempt), self._checked, turn)
            if tries == 0 or not ended.is_failure or turn.is_stopping:
                return ended
            if contract not in _RUNS_AGAIN and not ended.not_started:
                return ended
            tries -= 1
            attempt += 1

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
        self.has_begun = True
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
        turn = self.turn
        row = turn.row(turn.key("await_event", f"{self.place}.approval"))
        if row is None or not isinstance(row.command, AwaitEventCommand):
            return
        view = turn.waits.get(row.command.wait_key)
        if view is not None and isinstance(row.outcome, EventAwaited):
            Approvals(turn).remember(row.outcome, view)
            self._note = _edit_note(Permit(decided.args, view, row.outcome))

    async def _resume(self, contract: Contract) -> CompletedToolCall:
        """Resume a call that has an intent and no result, as its contract says."""
        pending = self._pending_wait(contract)
        if pending is not None:
            return await self._deferred(pending, is_claimed=True)
        how, why = HOW_BY_CONTRACT[contract], self._interruption
        if how == "unknown":
            return self._unknown(why)
        tool = self.turn.toolbox.get(self.call.name)
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
        if said is None and contract in _RUNS_AGAIN:
            return None
        waits = (view.wait for view in turn.waits.values() if view.wait.kind == "deferred")
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
        slot = self._batch.body(alone=tool.sequential)
        if slot is None:
            ended = await self._attempts(tool, contract)
        else:
            async with slot:
                ended = await self._attempts(tool, contract)
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

    # ------------------------------------------------------------------ results

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
            outcome = ToolOutcome(status="timeout", value="Its result did not come in time.")
        return self._record(outcome)

    def _unknown(self, why: str) -> CompletedToolCall:
        self._began_ms = 0
        text = UNKNOWN.format(name=self.call.name, why=why.rstrip("."))
        return self._record(ToolOutcome(status="unknown", value=text))

    def _refuse(self, status: ToolStatus, text: str) -> CompletedToolCall:
        return self._record(ToolOutcome(status=status, value=text))

    def _record_decision(self, decided: CallDecided) -> None:
        """Record what was decided on the call as the model asked for it."""
        asked = self._keyed(self.call.args)
        self.turn.lane.add(
            Recorded(key=f"{asked.key}/decide", outcome=decided, command=asked.written)
        )

    def _record(self, outcome: ToolOutcome) -> CompletedToolCall:
        """Record the call's result; its times are those of the body, if it ran."""
        if self._note:
            # However it ended: the model believes that its own arguments ran.
            outcome = with_part(outcome, Text(text=self._note))
        if REGISTERED.secrets:
            outcome = cleaned(outcome)
        turn, asked, began_ms = self.turn, self._asked, self._began_ms
        took_ms = max(0, turn.services.clock.now_ms() - began_ms) if began_ms else 0
        ran_as = self._effective_digest() if outcome.status == "unknown" else ""
        returned = CallReturned(outcome=outcome, duration_ms=took_ms, ran_as=ran_as)
        turn.lane.add(
            Recorded(
                key=f"{asked.key}/result",
                outcome=returned,
                command=None if self.has_begun else asked.written,
                began_ms=began_ms,
            ),
            blobs=turn.take_blobs(outcome) if outcome.content or outcome.shown else (),
        )
        return self._ended_as(returned)

    def _ended_as(self, returned: CallReturned) -> CompletedToolCall:
        call = self.call
        if returned.outcome.status == "unknown":
            self._note_unknown(returned.ran_as)
        if returned.outcome.content or returned.outcome.shown:
            self.turn.has_files = True
        return CompletedToolCall(
            call_id=call.call_id,
            name=call.name,
            args=self._args,
            outcome=returned.outcome,
            duration_ms=returned.duration_ms,
            replay=call.replay,
        )

    def _note_unknown(self, ran_as: str) -> None:
        turn, call = self.turn, self.call
        turn.note_issue(
            f"it is not known whether {call.name} ({call.call_id}) acted",
            "unknown_outcome",
            self.place,
        )
        asked = call_digest(call.name, self._given.args)
        ran = {call_digest(call.name, self._args)} | ({ran_as} if ran_as else set())
        turn.unknown_calls |= {asked, *ran, call_digest(call.name, call.args)}
        # The history has the arguments as the model gave them.
        turn.unknown_edits |= ran - {asked}

    def _effective_digest(self) -> str:
        """Return the digest of the call with its effective arguments, if those are not the ones that were given."""
        turn, name, args = self.turn, self.call.name, self._args
        # A replay asks nothing of tools.
        tool = None if turn.is_replay else turn.toolbox.get(name)
        if tool is not None:
            with suppress(ArgsInvalid):  # it is another tool by now
                args = effective_args(tool, args)
        found = call_digest(name, args)
        return "" if found == call_digest(name, self._args) else found

    def interrupted(self) -> CompletedToolCall | None:
        """Return what is to be said of this call when the turn ends before it has a result."""
        ended, hooks = self.completed, self.hooks
        is_by_tool = ended is not None
        if ended is None and self.has_begun:
            ended = self._unknown("the turn was cancelled while it ran")
        if ended is None or hooks is None or hooks.is_presented:
            return ended
        return hooks.unseen(ended, is_by_tool=is_by_tool)

    def _use(self, args: dict[str, Any]) -> None:
        """Make these the arguments of the call: what is claimed and recorded names them."""
        if args is self._args:
            return
        self._args, self._checked = args, None
        self._asked = self._keyed(args)

    def _keyed(self, args: dict[str, Any]) -> Keyed:
        call, turn = self.call, self.turn
        command = ToolCallCommand(call_id=call.call_id, name=call.name, args=args)
        key = turn.key("tool_call", self.effect_id, self.ordinal)
        return Keyed(key, canonical.encode(command))


def _asked_of(ruling: Ruling) -> Ask:
    if isinstance(ruling, Deny):
        raise ToolDenied(ruling.reason or "It is not allowed.")
    assert isinstance(ruling, Ask)  # noqa: S101 - the caller has seen that it is not allowed
    return ruling


def _edit_note(permit: Permit) -> str:
    if not permit.is_edited:
        return ""
    by = f" ({permit.answer.by})" if permit.answer.by else ""
    return f"(The approver{by} changed the arguments before it ran; it ran with the changed ones.)"
