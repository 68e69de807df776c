"""The turn runner: between the machine, the journal and the services.

Law 1. The machine is polled until it has nothing more to say before anything is done for it.
Law 2. What the journal holds is the answer; nothing of it is run or shown again.
Law 3. A turn ends in one of three ways: committed, parked, or given up without a word more written.
Law 4. Cancelling is a race with the turn's own end, and the store is the judge.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import NamedTuple

import msgspec

from windlass.guards.text import clean_text
from windlass.journal import (
    DecisionRemembered,
    FinalizeCommand,
    NodeBody,
    OutcomeUnknown,
    TurnFinalized,
    TurnStarted,
)
from windlass.kernel import TurnMachine
from windlass.kernel.effects import (
    Asked,
    CallModel,
    CallTools,
    Emit,
    RunCheckpoint,
    SyncEnvironment,
)
from windlass.kernel.events import TurnEnded
from windlass.kernel.history_view import WHOLE
from windlass.kernel.messages import Attachment, ConversationRecord
from windlass.kernel.outcomes import Outcome, Stopped
from windlass.kernel.projector import SentPrefix, sent_prefix
from windlass.kernel.responses import Response
from windlass.kernel.tool_call import CompletedToolCall
from windlass.ports import TurnCommit
from windlass.ports.directives import Finale
from windlass.ports.probe import Phase
from windlass.runtime.around_model import ModelHooks
from windlass.runtime.around_turn import finalized, follow_ups, hooked_end
from windlass.runtime.checkpoints import Checkpoints
from windlass.runtime.compaction_driver import COMPACTION, frame_nodes, options_of
from windlass.runtime.environments import Environments
from windlass.runtime.hooks import Hooks
from windlass.runtime.model_calls import ModelCalls
from windlass.runtime.outputs import output_of
from windlass.runtime.phases import phase_of
from windlass.runtime.spending import over_limit
from windlass.runtime.tool_calls import ToolCalls
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_signals import CancelTurn, ParkTurn, PluginFault, StopTurn, TurnOver
from windlass.runtime.turn_start import config_of, limits_of, opening_messages

_NOTHING_LEFT = TurnFinalized()
# How long the plugins of a cancelled turn have for what they leave behind.
_LAST_WORDS_S = 2.0
_LIMITED = (CallModel, CallTools)


class Parked(NamedTuple):
    """The turn rests; its waits are in the store."""


class TurnRunner:
    """Drives one turn to its end, or to where it has to wait."""

    def __init__(self, hand: Turn, started: TurnStarted, hooks: Hooks) -> None:
        self._hand = hand
        self._started = started
        self._hooks = hooks
        hand.started = started
        hand.limits = limits_of(hand.program, started)
        output = output_of(hand.program, hand.request, started)
        place = (hand.session_id, hand.turn_id)
        config = config_of(
            hand.program,
            started,
            place,
            limits=hand.limits,
            output=output,
            compact=options_of(hand.request),
        )
        self._prompt = config.system_prompt
        hand.memory.use_prefix(config.system_prompt)
        history = hand.memory.messages
        opening = opening_messages(place, started, hand.request)
        for message in opening:
            history = history.append(message)
        records = tuple([ConversationRecord(message=message) for message in opening])
        self.machine = TurnMachine(config, history, records=records)
        before = len(hand.memory.messages)
        hand.messages_so_far = lambda: tuple(self.machine.messages[before:])
        hand.history_now = lambda: self.machine.messages
        hand.offered, hand.system_prompt = config.tools, config.system_prompt
        self._models = ModelCalls(hand, ModelHooks(hooks))
        hooks.models = self._models
        self._tools = ToolCalls(hand, self._models, hooks)
        self._environments = Environments(hand, hooks)
        self.checkpoints = Checkpoints(hand, output, hooks)
        item = hand.request.overrides.get("item")
        if item is not None:
            self.checkpoints.taken.append(item)
        self._task: asyncio.Task[object] | None = None
        self._last_words: asyncio.Timeout | None = None
        self._cancel_reason: str | None = None
        self._is_waiting_for_model = False

    # ------------------------------------------------------------------ from outside

    def cancel(self, reason: str) -> None:
        """Let the turn end as cancelled, as soon as it can."""
        if self._cancel_reason is not None:
            return
        self._cancel_reason = reason
        self._hand.is_cancelled = True
        if self._task is not None:
            self._task.cancel()
        elif self._last_words is not None:
            self._last_words.reschedule(asyncio.get_running_loop().time() + _LAST_WORDS_S)

    def leave(self) -> None:
        """Let the turn be given up at the next effect: a body that runs may end, a model call is dropped."""
        self._hand.is_leaving = True
        if self._task is not None and self._is_waiting_for_model:
            self._task.cancel()

    def wake(self) -> None:
        """Let the turn look for answers and for mail."""
        self.checkpoints.has_mail = True
        self.look()

    def look(self) -> None:
        """Let calls that wait look for answers: they may have come from another process."""
        self._tools.wake()

    # ------------------------------------------------------------------ driving

    async def run(self) -> TurnRecord | Parked:
        """Drive the turn.

        Raises:
            StoreError: its lane was refused; another worker may have it.
            StopTurn: its worker leaves.
        """
        self._task = task = asyncio.current_task()
        try:
            with self._phase("effects"):
                await self._run_effects()
        except ParkTurn:
            self._task = None
            await self._hand.lane.park()
            self._hand.feed.end()
            return Parked()
        except CancelTurn:
            self._finish_cancelled()
        except TurnOver as over:
            self._finish(over.outcome)
        except PluginFault as fault:
            self._hand.note_issue(str(fault), "plugin_failed")
            self._finish(fault.outcome)
        except asyncio.CancelledError:
            self._raise_refusal()
            if self._hand.is_leaving:
                raise StopTurn from None
            if self._cancel_reason is None or task is None:
                raise
            task.uncancel()
            self._finish_cancelled()
        # From here on the store says who was first, a cancel or this end.
        self._task = None
        return await self._end()

    def refused(self, _refusal: BaseException) -> None:
        """Stop at once: nothing that this turn does could be written down any more."""
        if self._task is not None:
            self._task.cancel()

    def _raise_refusal(self) -> None:
        refusal = self._hand.lane.refusal
        if refusal is not None:
            raise refusal

    async def _run_effects(self) -> None:
        machine = self.machine
        if self._hand.is_cancelled and self._hand.journal is None:
            self._finish_cancelled()
            return
        if self._started.ends is not None:
            self._finish(self._started.ends)
            return
        self._hooks.settle(0)
        while True:
            effect = self._next_effect()
            if effect is None:
                return
            self._hand.iteration = machine.iteration
            limit = self._limit_before(effect)
            if limit is not None:
                machine.finish(limit)
                continue
            machine.respond(await self._perform(effect))
            self._hooks.settle(effect.id)
            if self._tools.ends is not None:
                self._finish(self._tools.ends)
                return

    def _next_effect(self) -> Asked | None:
        """Poll until nothing more is said; return what is to be answered."""
        poll = self.machine.poll
        while (effect := poll()) is not None:
            if type(effect) is Emit:
                # How the turn ended is shown when the commit is durable.
                if type(effect.event) is not TurnEnded:
                    self._hand.show(effect.event)
            elif isinstance(effect, Asked):
                return effect  # what is asked comes last
        return None

    async def _perform(self, effect: Asked) -> Response:
        if type(effect) is CallModel:
            self._is_waiting_for_model = True
            try:
                return await self._models.call(effect)
            finally:
                self._is_waiting_for_model = False
        if type(effect) is CallTools:
            return await self._tools.run(effect)
        if type(effect) is RunCheckpoint:
            machine = self.machine
            return await self.checkpoints.run(effect, machine.messages, machine.ending)
        assert isinstance(effect, SyncEnvironment)  # noqa: S101 - the standard loop runs no code
        return await self._environments.sync(effect)

    def _limit_before(self, effect: Asked) -> Outcome | None:
        hand = self._hand
        if not hand.is_live or type(effect) not in _LIMITED:
            return None
        if hand.is_cancelled:
            return Stopped(reason="cancelled", detail=self._cancel_reason or "")
        return over_limit(hand, effect)

    def _finish_cancelled(self) -> None:
        completed = self._tools.interrupted()
        self._hand.completed += completed
        reason = clean_text(self._cancel_reason or "")
        self._finish(Stopped(reason="cancelled", detail=reason), completed)

    def _finish(self, outcome: Outcome, completed: tuple[CompletedToolCall, ...] = ()) -> None:
        """End the turn from here: results that are there are kept."""
        self.machine.finish(outcome, completed)
        while self._next_effect() is not None:
            pass  # nothing more is asked by a turn that has ended; what it says is shown

    # ------------------------------------------------------------------ ending

    async def _end(self) -> TurnRecord:
        hand, machine = self._hand, self.machine
        outcome = machine.outcome
        assert outcome is not None  # noqa: S101 - nothing is left to do
        if hand.is_cancelled and not _is_cancelled(outcome):
            # The mark was first, so it ends as cancelled; what was said and done stays.
            outcome = Stopped(reason="cancelled", detail=clean_text(self._cancel_reason or ""))
        with self._phase("finalize"):
            left = await self._finalized(outcome)
            nodes = self._nodes(outcome)
            now_ms = hand.services.clock.now_ms()
            commit = TurnCommit(
                expected_head=hand.memory.head,
                nodes=nodes,
                outcome=outcome,
                settle=tuple(self.checkpoints.taken),
                follow_ups=follow_ups(hand.ids, left),
                events=tuple(hand.issues),
                now_ms=now_ms,
                blobs=_blobs(nodes),
                prefix=self._prefix(nodes),
            )
        with self._phase("commit"):
            await hand.lane.commit(commit, blobs=commit.blobs or ())
        usage = hand.spent.lines()
        hand.memory.committed(machine.messages, commit, usage)
        # Delivery comes after the commit and cannot undo it.
        hand.tell_fact(TurnEnded(outcome=outcome), "0")
        hand.feed.end()
        # Both hold on to this runner.
        hand.messages_so_far, hand.history_now = tuple, tuple
        self._hooks.close()
        record = TurnRecord.of_hand(hand, outcome, nodes, usage, now_ms)
        return msgspec.structs.replace(record, left_something=True) if commit.follow_ups else record

    async def _finalized(self, outcome: Outcome) -> TurnFinalized:
        """Return what plugins leave behind, recorded with the turn's end."""
        hand, hooks = self._hand, self._hooks
        # A compaction leaves nothing behind but its frame; a wish for the next one would never end.
        if not hooks.having("after_turn") or self._started.driver == COMPACTION:
            return _NOTHING_LEFT
        envelope = hand.envelope(FinalizeCommand(outcome=outcome), "end")
        known = hand.answer_to(envelope, TurnFinalized)
        if known is None:
            known = finalized(hand.ids, await self._left(outcome), hooks.take())
            if known != _NOTHING_LEFT:
                hand.record(envelope, known)
        else:
            hooks.states.apply(known.patches)
        for issue in known.issues:
            hand.note_issue(issue, "plugin")
        return known

    async def _left(self, outcome: Outcome) -> tuple[tuple[str, Finale], ...]:
        """Ask the plugins what they leave behind; those of a cancelled turn cannot hold it up."""
        patience_s = _LAST_WORDS_S if self._hand.is_cancelled else None
        try:
            async with asyncio.timeout(patience_s) as self._last_words:
                return await hooked_end(self._hooks, outcome)
        except TimeoutError:
            self._hand.note_issue(
                f"after_turn: the turn was cancelled, and {_LAST_WORDS_S:g} s later plugins had not ended",
                "plugin_failed",
            )
            return ()
        finally:
            self._last_words = None

    def _nodes(self, outcome: Outcome) -> tuple[NodeBody, ...]:
        hand = self._hand
        if self._started.driver == COMPACTION:
            place = (hand.session_id, hand.turn_id)
            memory = hand.memory
            frame = frame_nodes(
                place, memory.messages, memory.nodes(), self.machine.records, outcome
            )
            return (*frame, *self._hooks.states.nodes())
        remembered = (
            DecisionRemembered(session_id=hand.session_id, action_key=action, by=by)
            for action, by in hand.remembered.items()
        )
        # History has the arguments that the model gave; those that ran instead are kept beside it.
        unknown = (OutcomeUnknown(call=digest) for digest in sorted(hand.unknown_edits))
        return (*self.machine.records, *remembered, *unknown, *self._hooks.states.nodes())

    def _prefix(self, nodes: tuple[NodeBody, ...]) -> SentPrefix | None:
        """Return the digest of what the next request begins with, every so often, if all is shown."""
        messages = self.machine.messages
        opens_frame = self._started.driver == COMPACTION
        if opens_frame or not self._hand.memory.is_prefix_due(messages, nodes):
            return None
        now = self.machine.snapshot().environment
        if now is not None and now.view is not WHOLE:
            return None
        return sent_prefix(messages, self._prompt if now is None else now.system_prompt)

    def _phase(self, phase: Phase) -> AbstractContextManager[None]:
        hand = self._hand
        return phase_of(hand.services.probe, phase, (hand.session_id, hand.turn_id))


def _is_cancelled(outcome: Outcome) -> bool:
    return isinstance(outcome, Stopped) and outcome.reason == "cancelled"


def _blobs(nodes: tuple[NodeBody, ...]) -> tuple[str, ...]:
    """Return the digests of the bytes that the turn's messages refer to."""
    found: dict[str, None] = {}
    for node in nodes:
        if type(node) is ConversationRecord:
            for part in node.message.parts:
                for one in getattr(part, "content", (part,)):
                    if type(one) is Attachment:
                        found[one.ref] = None
    return tuple(found)
