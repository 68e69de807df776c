"""How a turn ends: by its limits, with what plugins leave behind, and with all that its one commit brings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from windlass.journal import FinalizeCommand, TurnFinalized, TurnStarted
from windlass.journal.pages import DecisionRemembered, FrameOpened, NodeBody, OutcomeUnknown
from windlass.journal.redaction import cleaned
from windlass.kernel import WHOLE, CallTools, Effect, Json, TurnIds, TurnMachine, summary
from windlass.kernel.compaction import COMPACTION
from windlass.kernel.messages import ConversationRecord, Message, Record
from windlass.kernel.outcomes import Finished, HandedOff, Outcome, Stopped
from windlass.kernel.process import PROCESS
from windlass.kernel.projector import SentPrefix, sent_prefix
from windlass.kernel.repair import REPAIR, repaired_records
from windlass.ports import TurnCommit
from windlass.runtime.around_turn import follow_ups, hooked_end
from windlass.runtime.hooks import Hooks
from windlass.runtime.turn import Keyed, Turn
from windlass.runtime.turn_record import attached_to, messages_in

_NO_FOLLOW_UPS = TurnFinalized()
# After so many turns of code a session begins a frame.
_FRAME_EVERY = 64
# How long the plugins of a cancelled turn have for their follow-ups.
_FOLLOW_UP_S = 2.0


class Ending:
    """The end of one turn, from its outcome to its commit."""

    def __init__(self, turn: Turn, started: TurnStarted, hooks: Hooks | None) -> None:
        assert turn.machine is not None  # noqa: S101 - it has come to its end
        self._turn = turn
        self._machine: TurnMachine = turn.machine
        self._hooks = hooks
        self._is_compaction = started.driver == COMPACTION
        self._timeout: asyncio.Timeout | None = None

    def hurry(self) -> None:
        """Give the plugins only a moment more: the turn was cancelled."""
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time() + _FOLLOW_UP_S)

    async def commit(self, outcome: Outcome, settle: tuple[str, ...]) -> TurnCommit:
        """Return all that the turn's end brings into the store."""
        turn, left = self._turn, _NO_FOLLOW_UPS
        # A compaction leaves nothing behind but its frame; a request for the next one would never end.
        if self._hooks is not None and not self._is_compaction:
            left = await self._finalized(self._hooks, outcome)
        nodes = self.nodes(outcome)
        return TurnCommit(
            expected_head=turn.memory.head,
            nodes=nodes,
            outcome=outcome,
            settle=settle,
            follow_ups=() if left is _NO_FOLLOW_UPS else follow_ups(turn.ids, left),
            events=tuple(turn.issues),
            now_ms=turn.services.clock.now_ms(),
            blobs=_blobs(nodes) if turn.has_files or turn.recovery is not None else (),
            prefix=None if self._is_compaction else self._prefix(nodes),
            usage=turn.spent.lines(),
            agent=_new_agent(turn, outcome) if type(outcome) is HandedOff else None,
        )

    async def _finalized(self, hooks: Hooks, outcome: Outcome) -> TurnFinalized:
        """Return what plugins leave behind, recorded with the turn's end."""
        turn = self._turn
        if not hooks.plugins.having("after_turn"):
            return _NO_FOLLOW_UPS
        known = self.recorded(outcome)
        if known is None:
            known = cleaned(await self._follow_ups(hooks, outcome))
            if known != _NO_FOLLOW_UPS:
                turn.record(self._keyed(outcome), known)
        for issue in known.issues:
            turn.note_issue(issue, "plugin")
        return known

    def _keyed(self, outcome: Outcome) -> Keyed:
        return self._turn.keyed(FinalizeCommand(outcome=outcome), "end")

    def recorded(self, outcome: Outcome) -> TurnFinalized | None:
        """Return what plugins left behind, if an earlier drive recorded it, and apply what they changed."""
        known = self._turn.answer_to(self._keyed(outcome), TurnFinalized)
        if known is not None and self._hooks is not None:
            self._hooks.states.apply(known.patches)
        return known

    async def _follow_ups(self, hooks: Hooks, outcome: Outcome) -> TurnFinalized:
        """Ask the plugins for follow-ups; those of a cancelled turn cannot hold it up."""
        patience_s = _FOLLOW_UP_S if self._turn.is_cancelled else None
        try:
            async with asyncio.timeout(patience_s) as self._timeout:
                return await hooked_end(hooks, outcome)
        except TimeoutError:
            self._turn.note_issue(
                f"after_turn: the turn was cancelled, and {_FOLLOW_UP_S:g} s later plugins had not ended",
                "plugin_failed",
            )
            return TurnFinalized(patches=hooks.place.take())
        finally:
            self._timeout = None

    def nodes(self, outcome: Outcome) -> tuple[NodeBody, ...]:
        """Return what the turn adds to its session."""
        turn, records = self._turn, self._machine.records
        kept = () if self._hooks is None else tuple(self._hooks.states.nodes())
        if self._is_compaction:
            place, memory = (turn.session_id, turn.turn_id), turn.memory
            frame = frame_nodes(place, memory.messages, memory.nodes(), records, outcome)
            return (*frame, *kept)
        if turn.program.code is not None and turn.memory.head % _FRAME_EVERY == _FRAME_EVERY - 1:
            # A session may have a turn of code every minute: those who take it up read back to here, and no further.
            opened = FrameOpened(frame_id=f"f_{turn.ids.prefix}", reason=PROCESS, carries=True)
            return (opened, *turn.memory.nodes(), *records, *self._remembered(), *kept)
        if not (turn.remembered or turn.unknown_edits):
            return (*records, *kept)
        return (*records, *self._remembered(), *kept)

    def _remembered(self) -> tuple[NodeBody, ...]:
        turn = self._turn
        remembered = [
            DecisionRemembered(session_id=turn.session_id, action_key=action, by=by)
            for action, by in turn.remembered.items()
        ]
        # History has the arguments that the model gave; those that ran instead are kept beside it.
        unknown = [OutcomeUnknown(call=digest) for digest in sorted(turn.unknown_edits)]
        return (*remembered, *unknown)

    def _prefix(self, nodes: tuple[NodeBody, ...]) -> SentPrefix | None:
        """Return the digest of what the next request begins with, every so often, if all is shown."""
        turn, messages = self._turn, self._machine.messages
        if not turn.memory.is_prefix_due(messages, nodes):
            return None
        now = self._machine.snapshot().environment
        if now is None:
            is_whole = turn.started is None or turn.started.view is None
            return sent_prefix(messages, turn.system_prompt) if is_whole else None
        return None if now.view is not WHOLE else sent_prefix(messages, now.system_prompt)


def _new_agent(turn: Turn, outcome: HandedOff) -> str | None:
    """Return the agent that the session belongs to from now on. A process stays what it is."""
    return outcome.target if turn.program.code is None else None


def frame_nodes(
    place: tuple[str, str],
    history: Sequence[Message],
    remembered: Iterable[NodeBody],
    records: Iterable[Record],
    outcome: Outcome,
) -> tuple[NodeBody, ...]:
    """Return what the compaction turn at `place`, its session and id, adds, or nothing.

    A frame, its first message or all that a repair kept, and all that the session has `remembered`: a later turn needs
    nothing from before it.
    """
    frame_id = f"f_{TurnIds(*place).prefix}"
    records = tuple(records)
    repaired = repaired_records(records)
    if repaired is not None and isinstance(outcome, Finished):
        said, kept = repaired
        frame = FrameOpened(
            frame_id=frame_id, reason=REPAIR, detail=said.data[REPAIR], carries=True
        )
        return (frame, *kept, *remembered)
    seeds = [
        one for one in records if type(one) is ConversationRecord and summary.is_seed(one.message)
    ]
    if not isinstance(outcome, Finished) or not seeds:
        return ()
    detail: dict[str, Json] = {"turns": summary.inputs_of(history), "messages": len(history)}
    if summary.begins_with_summary(history):
        detail["updates"] = history[0].id
    frame = FrameOpened(frame_id=frame_id, reason=COMPACTION, detail=detail, carries=True)
    return (frame, *seeds, *remembered)


def _blobs(nodes: tuple[NodeBody, ...]) -> tuple[str, ...]:
    """Return the digests of the bytes that the turn's messages refer to."""
    return tuple(dict.fromkeys(attached_to(messages_in(nodes))))


def over_limit(turn: Turn, effect: Effect) -> Outcome | None:
    """Return how the turn ends if the effect that comes next is beyond its limits."""
    limits = turn.limits
    if isinstance(effect, CallTools):
        wanted = turn.tool_calls + len(effect.calls)
        if limits.max_tool_calls is not None and wanted > limits.max_tool_calls:
            return _stopped(f"{wanted} tool calls, the limit is {limits.max_tool_calls}")
        return None
    if limits.max_tokens is not None and (used := turn.spent.tokens()) >= limits.max_tokens:
        return _stopped(f"{used} tokens, the limit is {limits.max_tokens}")
    if limits.max_seconds is not None and turn.started is not None:
        passed_ms = turn.services.clock.now_ms() - turn.started.started_ms
        if passed_ms >= limits.max_seconds * 1000:
            return _stopped(f"{passed_ms / 1000:g} seconds, the limit is {limits.max_seconds:g}")
    return None


def _stopped(detail: str) -> Outcome:
    return Stopped(reason="limit", detail=f"The turn used {detail}.")
