"""Performing a turn's effects: the loop, shared by what drives a turn and what only replays it.

The performer makes the turn's machine from the start record, asks it what comes next (`advance`), has that done, and
tells the machine what came of it (`respond`), until nothing is left or all that is left is to wait.

Law 1. The machine says all that it has to say before anything is done for it.
Law 2. What the journal holds is the answer; nothing of it is run or shown again.
Law 3. It cannot tell a drive from a replay. What performs an effect asks the journal first and goes live (`Turn.go_live`)
    before it asks anything else; a replay ends there.
"""

from __future__ import annotations

import asyncio

import msgspec

from windlass.folds.history import with_opening
from windlass.guards.text import clean_text
from windlass.journal import TurnStarted
from windlass.journal.redaction import cleaned
from windlass.kernel import CheckpointPassed, Error, Event, TurnEnded, TurnMachine
from windlass.kernel.effects import (
    Asked,
    CallModel,
    CallTools,
    RunCheckpoint,
    RunCode,
    SyncEnvironment,
)
from windlass.kernel.messages import Attachment, ConversationRecord
from windlass.kernel.outcomes import HandedOff, Outcome, Stopped
from windlass.runtime.around_model import ModelHooks
from windlass.runtime.checkpoints import Checkpoints
from windlass.runtime.ending import over_limit
from windlass.runtime.environments import Environments, ProvidedTools
from windlass.runtime.hand_off import decided_hand_off
from windlass.runtime.hooks import Hooks
from windlass.runtime.model_call import ModelCalls
from windlass.runtime.outputs import output_of
from windlass.runtime.process_host import ProcessHost
from windlass.runtime.tool_calls import ToolCalls
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import CancelTurn, ParkTurn, PluginFault, TurnOver
from windlass.runtime.turn_start import causes_of, config_of, limits_of

# A turn that never has to wait yields to the loop's other tasks every so many model calls.
_YIELD_EVERY = 4


class Performer:
    """The machine of one turn, and all that performs its effects."""

    # Runs the function of a process, from where that is asked for.
    process: ProcessHost | None = None

    def __init__(self, turn: Turn, started: TurnStarted, hooks: Hooks | None) -> None:
        program, request, place = turn.program, turn.request, (turn.session_id, turn.turn_id)
        turn.started = started
        turn.limits = limits_of(program, started)
        syncs = None if turn.recovery is None else turn.recovery.syncs
        config = config_of(program, started, place, request, syncs=syncs)
        turn.memory.use_prefix(config.system_prompt)
        history, opening = with_opening(turn.memory.messages, place, started, request)
        records = tuple([ConversationRecord(message=message) for message in opening])
        for message in opening:
            for part in message.parts:
                if type(part) is Attachment:
                    turn.has_files = True
        causes = causes_of(started, request)
        turn.machine = self.machine = TurnMachine(config, history, records=records, causes=causes)
        turn.offered, turn.system_prompt = config.tools, config.system_prompt
        if program.providers:
            turn.provided = ProvidedTools()
        self._turn = turn
        self._ends_at_once = started.ends
        self._hooks = hooks
        self.models = ModelCalls(turn, None if hooks is None else ModelHooks(hooks))
        if hooks is not None:
            hooks.models = self.models
        self.tools = ToolCalls(turn, self.models, hooks)
        self.checkpoints = Checkpoints(turn, output_of(program, request, started), hooks)
        if request.overrides and "item" in request.overrides:
            self.checkpoints.taken.append(request.overrides["item"])
        # What the machine said and was not shown yet; and what it said as it was ended from here.
        self._said: list[Event] = []
        self.last_words: list[Event] = []
        # What the machine said before it ended by itself.
        self._before_end: list[Event] = []

    async def run(self) -> bool:
        """Perform the turn's effects until it has its outcome; False: it has to wait.

        Raises:
            StopTurn: its worker stops.
        """
        turn = self._turn
        try:
            if turn.is_cancelled and turn.recovery is None:
                self.finish_cancelled()
            elif self._ends_at_once is not None:
                self.finish(self._ends_at_once)
            else:
                with turn.services.phase("effects", turn.session_id, turn.turn_id):
                    await self._perform_effects()
        except ParkTurn:
            return False
        except CancelTurn:
            self.finish_cancelled()
        except TurnOver as over:
            self.finish(over.outcome)
        except PluginFault as fault:
            assert self._hooks is not None  # noqa: S101 - a plugin was asked
            turn.note_issue(str(fault), "plugin_failed", self._hooks.place.about)
            self.finish(fault.outcome)
        return True

    async def _perform_effects(self) -> None:  # noqa: C901, PLR0912 - the loop
        """Ask the machine what comes next, do it, and tell the machine what came of it."""
        turn, machine, hooks = self._turn, self.machine, self._hooks
        models, tools, checkpoints = self.models, self.tools, self.checkpoints
        environments: Environments | None = None
        has_limits, n_calls = turn.limits.can_end_turn, 0
        if hooks is not None:
            hooks.settle(0)
        while (effect := self._advance()) is not None:
            if not turn.is_live and turn.recovery is not None:
                turn.recovery.check_place(effect)
            if has_limits or turn.is_cancelled:
                ends = self._stops_before(effect)
                if ends is not None:
                    self.finish(ends)
                    return
            if type(effect) is CallModel:
                n_calls += 1
                if n_calls % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                machine.respond(await models.call(effect))
            elif type(effect) is CallTools:
                machine.respond(await tools.run(effect))
            elif type(effect) is RunCheckpoint:
                machine.respond(await checkpoints.run(effect, machine.messages, machine.ending))
            elif type(effect) is SyncEnvironment:
                environments = environments or Environments(turn, hooks)
                machine.respond(await environments.sync(effect))
            else:
                assert isinstance(effect, RunCode)  # noqa: S101 - all others were asked for above
                self.process = ProcessHost(turn, models)
                machine.respond(await self.process.run(effect))
            if hooks is not None:
                hooks.settle(effect.id)
            if tools.ends is not None:
                self._tell_results()
                self.finish(tools.ends)
                return

    def _stops_before(self, effect: Asked) -> Outcome | None:
        """Return how the turn ends before this effect, if it may not be performed any more."""
        turn = self._turn
        if not isinstance(effect, (CallModel, CallTools)) or not turn.is_new(effect.id):
            return None
        return self._cancelled() if turn.is_cancelled else over_limit(turn, effect)

    def _advance(self) -> Asked | None:
        """Show what the machine has to say; return what it asks for next that is not answered at once."""
        said, machine, turn = self._said, self.machine, self._turn
        effect = machine.advance(said)
        while type(effect) is RunCheckpoint and self.checkpoints.passes_at_once(effect):
            machine.respond(CheckpointPassed(id=effect.id))
            effect = machine.advance(said)
        if said:
            self._said = []
            if effect is None and type(said[-1]) is TurnEnded:
                said.pop()  # how the turn ended is shown when its commit is durable
                self._before_end = said
            if said and turn.is_live:
                turn.feed.tell(said, until=turn.lane.mark())
        return effect

    def _tell_results(self) -> None:
        """Show what the machine says to results, and go no further."""
        turn, said = self._turn, list[Event]()
        self.machine.advance(said)
        if type(said[-1]) is TurnEnded:
            said.pop()
        if turn.is_live:
            turn.feed.tell(said, until=turn.lane.mark())

    def wake(self) -> None:
        """Make what waits look for its answer."""
        self.tools.wake()
        if self.process is not None:
            self.process.wake()

    # ------------------------------------------------------------------ ending

    @property
    def outcome(self) -> Outcome:
        """How the turn ends, now that nothing is left to do."""
        outcome = self.machine.outcome
        assert outcome is not None  # noqa: S101 - nothing is left to do
        if self._turn.is_cancelled and not _is_cancelled(outcome):
            # The mark was first, so it ends as cancelled; what was said and done stays.
            return self._cancelled()
        if type(outcome) is HandedOff and self.process is None:
            return decided_hand_off(self._turn, outcome)
        return outcome

    def note_failure(self, outcome: Stopped) -> None:
        """Note why the turn ends without an answer, unless an issue says so. A turn that was cancelled has not failed."""
        turn = self._turn
        if _is_cancelled(outcome):
            return
        error = next((one for one in self._before_end if type(one) is Error), None)
        if error is not None:
            turn.note(msgspec.structs.replace(error, cursor=""))
        elif all(issue.message != outcome.detail for issue in turn.issues):
            about = str(self.machine.snapshot().next_effect - 1)
            turn.note_issue(outcome.detail or outcome.reason, outcome.reason, about)

    def _cancelled(self) -> Stopped:
        return Stopped(reason="cancelled", detail=clean_text(self._turn.cancel_reason))

    def finish_cancelled(self) -> None:
        """End the turn as cancelled: results that are there are kept."""
        self.finish(self._cancelled())

    def finish(self, outcome: Outcome) -> None:
        """End the turn from here: results that are there are kept.

        What the machine says to that is in no entry, so it is shown when the commit is durable.
        """
        if self.process is not None:
            self.process.interrupted()
        completed = self.tools.interrupted()
        self._turn.completed += completed
        self.machine.finish(cleaned(outcome), completed)
        last: list[Event] = []
        self.machine.advance(last)
        self.last_words = [event for event in last if type(event) is not TurnEnded]


def _is_cancelled(outcome: Outcome) -> bool:
    return isinstance(outcome, Stopped) and outcome.reason == "cancelled"
