"""What is written of one tool call: its intent, what was decided about it, its result.

An intent and its result have one row of the journal, and one digest: that of the whole call with the arguments that
really run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.guards.secret import REGISTERED
from windlass.journal import Claimed, Recorded
from windlass.journal.commands import Contract, ToolCallCommand
from windlass.journal.moments import CallDecided, CallReturned
from windlass.journal.redaction import cleaned
from windlass.kernel import CompletedToolCall, PendingToolCall, ToolOutcome, canonical
from windlass.kernel.messages import Text, ToolStatus
from windlass.ports.tool import Tool
from windlass.runtime.body import CallHost, with_part
from windlass.runtime.session_memory import call_digest, effective_digest
from windlass.runtime.turn import Keyed, Turn

if TYPE_CHECKING:
    from windlass.runtime.around_tool import CallHooks
    from windlass.runtime.call_batch import CallBatch
    from windlass.runtime.model_call import ModelCalls

UNKNOWN = (
    "It is not known whether {name} acted: {why}. It was not run again. "
    "Do not assume that it did or did not; check first if you can."
)


class CallRecord(CallHost):
    """One call of an effect, as the journal knows it. `tool` is what a process calls: it comes with the call."""

    tool: Tool | None = None

    def __init__(
        self,
        turn: Turn,
        models: ModelCalls,
        batch: CallBatch,
        call: PendingToolCall,
        effect_id: int | str,
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
        self._args = call.args
        self._asked = self._keyed(call.args)
        self._note = ""
        self._checked: Mapping[str, Any] | None = None
        self._began_ms = 0
        self.completed: CompletedToolCall | None = None

    def known_tool(self) -> Tool | None:
        """Return the tool, if there is one of this name."""
        return self.tool or self.turn.toolbox.get(self.call.name)

    # ------------------------------------------------------------------ the command

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

    # ------------------------------------------------------------------ writing

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
        ran_as = ""
        if outcome.status == "unknown":
            tool = None if turn.is_replay else self.known_tool()  # a replay asks nothing of tools
            ran_as = effective_digest(tool, self.call.name, self._args)
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
        self.remember_unknown(ran_as)

    def remember_unknown(self, ran_as: str) -> None:
        """Have a person asked before the model makes the same call again."""
        turn, call = self.turn, self.call
        asked = call_digest(call.name, self._given.args)
        ran = {call_digest(call.name, self._args)} | ({ran_as} if ran_as else set())
        turn.unknown_calls |= {asked, *ran, call_digest(call.name, call.args)}
        # The history has the arguments as the model gave them.
        turn.unknown_edits |= ran - {asked}
