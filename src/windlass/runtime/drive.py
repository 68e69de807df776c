"""A drive: one worker takes a turn as far as it goes, and lets go of it.

How a turn is driven. The kernel's machine knows what a turn is; it never waits. `_perform_effects` asks it what comes
next (`advance`), does that, and tells the machine what came of it (`respond`), until nothing is left. There are four
things to wait for, and one await for each: the model, the disk, the bodies of tools, and the rest (the inbox, a
person, plugins, providers). Whatever can be answered without waiting is: a checkpoint at which nothing can come in, an
effect that the journal knows, a commit that a turn driven alone makes in the call.

How it is recorded. Every effect has a key, its place in the turn. What is asked is encoded once; those bytes are hashed
and stored. What comes back is recorded under the key, raw, before anything looks at it. Entries collect in the lane's
open unit. The store gets it at the next barrier: before the body of a tool that is not pure, before the reply after next
is asked for, before the turn parks or ends. Facts are shown when the unit that they stand in is durable, previews at
once; the feed keeps their order.

How it is parked. When all that is left to do is to wait (for a person, a result from outside, a provider that is down),
`ParkTurn` unwinds the loop. The waits are in the store, the drive ends, and nothing of the turn stays in memory. An
answer makes it due again, in any process.

How it is recovered. A drive of a turn that has a journal begins like every other: from the start record, with a new
machine. `Turn.recovery` answers each effect from the journal, without running or showing anything, until it has no answer;
there the turn goes live. If code and journal disagree, a person is asked. A call with an intent and no result goes by its
contract (`journal.claim`).

How it ends. `Ending` asks plugins for follow-ups, and commits history, outcome, usage and inbox in one unit. From then on
the store decides whether a cancel or this end came first. A cancelled turn keeps what is recorded and begins nothing new.
`StopTurn` gives the turn up because the worker stops: another drive continues it. A refused unit means that another
worker has the turn: this drive stops where it is and writes nothing more.

    fresh       no worker has begun it: its start record is written with its first unit
    resumed     the journal answers until it has no more to say
    cancelled   what is recorded stays, nothing new begins

Law 1. The machine says all that it has to say before anything is done for it.
Law 2. What the journal holds is the answer; nothing of it is run or shown again.
Law 3. A turn ends in one of three ways: committed, parked, or given up without a word more written.
Law 4. Cancelling is a race with the turn's own end, and the store is the judge.

Length: the life of a drive; in two files its laws could not be checked by reading.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

import msgspec

from windlass.errors import HeadMoved, LeaseLost, TurnCancelled
from windlass.folds.history import with_opening
from windlass.guards.text import clean_text
from windlass.journal import TurnStarted
from windlass.journal.redaction import cleaned
from windlass.kernel import CheckpointPassed, Event, TurnEnded, TurnMachine, events
from windlass.kernel.effects import Asked, CallModel, CallTools, RunCheckpoint, SyncEnvironment
from windlass.kernel.messages import Attachment, ConversationRecord
from windlass.kernel.outcomes import Outcome, Stopped
from windlass.kernel.tool_call import CompletedToolCall
from windlass.ports import Phase, TurnInfo
from windlass.runtime.around_model import ModelHooks
from windlass.runtime.around_turn import announce_commit, announce_session
from windlass.runtime.checkpoints import Checkpoints
from windlass.runtime.ending import Ending, over_limit
from windlass.runtime.environments import Environments
from windlass.runtime.hooks import Hooks
from windlass.runtime.lane import Lane
from windlass.runtime.model_call import ModelCalls
from windlass.runtime.outputs import output_of
from windlass.runtime.program import Program
from windlass.runtime.recovery import Recovery
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.starting import Job, check_code, deps_by, is_blocked, started_anew
from windlass.runtime.tool_calls import ToolCalls
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_signals import CancelTurn, ParkTurn, PluginFault, StopTurn, TurnOver
from windlass.runtime.turn_start import config_of, limits_of, plugin_names

_log = logging.getLogger("windlass")
# A turn that never has to wait yields to the loop's other tasks every so many model calls.
_YIELD_EVERY = 4


class Parked(NamedTuple):
    """The turn is parked; its waits are in the store."""


class Drive:
    """Drives one turn, once."""

    def __init__(
        self, services: Services, program: Program, memory: SessionMemory, job: Job
    ) -> None:
        self._services = services
        self._program = program
        self._memory = memory
        self._job = job
        self._turn: Turn | None = None
        self._lane: Lane | None = None
        self._models: ModelCalls | None = None
        self._tools: ToolCalls | None = None
        self._checkpoints: Checkpoints | None = None
        # The task to cancel: while the turn starts, and while its effects are performed.
        self._starting: asyncio.Task[object] | None = None
        self._performing: asyncio.Task[object] | None = None
        self._ending: Ending | None = None
        self._has_begun: asyncio.Event | None = None
        self._cancel_reason: str | None = None
        self._is_stopping = False
        self._is_begun = False
        self._was_accepted = job.accept is None
        # What the machine said and was not shown yet; and what it said as it was ended from here.
        self._said: list[Event]
        self._last_words: list[Event]

    @property
    def is_accepted(self) -> bool:
        """Whether the turn is in the store: from then on it ends, whatever happens here."""
        return self._was_accepted or (self._lane is not None and self._lane.n_durable > 0)

    # ------------------------------------------------------------------ from outside

    def cancel(self, reason: str) -> None:
        """End the turn as cancelled, as soon as it can."""
        if self._cancel_reason is not None:
            return
        self._cancel_reason = reason
        if self._starting is not None:
            self._starting.cancel()
        elif self._turn is not None:
            self._turn.is_cancelled = True
            if self._performing is not None:
                self._performing.cancel()
            elif self._ending is not None:
                self._ending.hurry()

    def stop(self) -> None:
        """Give the turn up at the next effect: a body that runs may end, a model call is dropped."""
        self._is_stopping = True
        if self._turn is not None:
            self._turn.is_stopping = True
            if self._performing is not None and self._models and self._models.is_waiting:
                self._performing.cancel()

    def wake(self) -> None:
        """Make the turn look for answers and into its inbox."""
        if self._checkpoints is not None:
            self._checkpoints.has_items = True
        self.look()

    def look(self) -> None:
        """Make calls that wait look for answers: they may have come from another process."""
        if self._tools is not None:
            self._tools.wake()

    async def flush(self) -> None:
        """Wait until what was done so far, the acceptance first of all, is in the store."""
        if not self._is_begun:
            self._has_begun = self._has_begun or asyncio.Event()
            await self._has_begun.wait()
        if self._lane is not None:
            await self._lane.durable()

    # ------------------------------------------------------------------ one drive

    async def run(self) -> TurnRecord | Parked:
        """Drive the turn.

        Raises:
            StopTurn: the worker stops.
            StoreError: the store refused; the turn may belong to another worker now.
        """
        try:
            return await self._drive(self._job)
        except TurnCancelled:
            return await self._drive(await self._as_cancelled())
        except asyncio.CancelledError:
            if self._starting is None or self._cancel_reason is None or self._is_stopping:
                raise
            self._starting.uncancel()
            self._starting = None
            if self._lane is not None:
                with suppress(TurnCancelled):
                    await self._lane.durable()  # the calls that plugins made before are kept
            return await self._drive(await self._as_cancelled())
        finally:
            self._begun()
            self._was_accepted = self.is_accepted
            # They hold on to this drive: without them all go at once, and the collector is spared.
            self._turn = self._lane = self._models = self._tools = None
            self._checkpoints = self._ending = None

    def _phase(self, phase: Phase) -> AbstractContextManager[None]:
        return self._services.phase(phase, self._memory.session_id, self._job.turn_id)

    def _begun(self) -> None:
        self._is_begun = True
        if self._has_begun is not None:
            self._has_begun.set()

    async def _drive(self, job: Job) -> TurnRecord | Parked:
        with self._phase("context"):
            turn = self._new_turn(job)
        try:
            if is_blocked(turn, job):
                return await self._park(turn)
            # A turn that only has to end needs nothing to work with.
            factory = None if turn.is_cancelled else self._services.deps
            if not turn.is_cancelled:
                self._starting = asyncio.current_task()
            if factory is not None and not job.has_deps:
                return await self._with_deps(turn, job, factory)
            turn.deps = job.deps if job.has_deps else None
            return await self._run(turn, job)
        except StopTurn:
            await turn.give_up()
            raise
        except BaseException:
            # What was held back never became a fact, and the next drive counts its units anew.
            turn.feed.drop_held()
            raise

    async def _with_deps(
        self, turn: Turn, job: Job, factory: Callable[..., Any]
    ) -> TurnRecord | Parked:
        ended: TurnRecord | Parked | None = None
        try:
            async with deps_by(factory, self._info(turn, job)) as deps:
                turn.deps = deps
                ended = await self._run(turn, job)
        except Exception as error:
            # A failure after the end cannot undo it.
            if ended is None:
                raise
            _log.exception("closing deps failed")
            if isinstance(ended, TurnRecord):
                name = type(error).__name__
                issue = events.Error(message=f"closing deps raised {name}", code="deps_failed")
                ended = msgspec.structs.replace(ended, issues=(*ended.issues, issue))
        assert ended is not None  # noqa: S101 - or it was raised
        return ended

    def _info(self, turn: Turn, job: Job) -> TurnInfo:
        return TurnInfo(
            agent=self._program.name,
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            context=job.request.context,
            recovered=not job.is_new,
        )

    async def _run(self, turn: Turn, job: Job) -> TurnRecord | Parked:
        """Start the turn, perform its effects, and end or park it."""
        announce_session(self._services, self._program, self._memory)
        plugins = self._program.plugins
        hooks = Hooks(turn, plugins) if plugins or turn.recovery is not None else None
        try:
            started = await self._started(turn, hooks, job)
            check_code(turn, started)
        except ParkTurn:
            return await self._park(turn)
        if hooks is not None:
            hooks.use(plugin_names(started))
        self._take_up(turn, started, hooks, job)
        if not await self._performed(turn, started, hooks):
            return await self._park(turn)
        record = await self._end(turn, started, hooks)
        self._memory.is_owned = True
        self._memory.generation = turn.generation
        announce_commit(self._services, self._program, record)
        return record

    async def _started(self, turn: Turn, hooks: Hooks | None, job: Job) -> TurnStarted:
        journal = turn.journal
        if journal is not None and journal.started is not None:
            if hooks is not None:
                hooks.states.apply(journal.started.patches)
            return journal.started
        if hooks is not None:
            hooks.models = ModelCalls(turn, ModelHooks(hooks))
        return await started_anew(turn, hooks, job, self._info(turn, job), self._begun)

    def _take_up(self, turn: Turn, started: TurnStarted, hooks: Hooks | None, job: Job) -> None:
        """Make the machine and all that performs its effects."""
        turn.started = started
        turn.limits = limits_of(turn.program, started)
        output = output_of(turn.program, turn.request, started)
        place = (turn.session_id, turn.turn_id)
        syncs = None if turn.recovery is None else turn.recovery.syncs
        config = config_of(turn.program, started, place, turn.request, syncs=syncs)
        turn.memory.use_prefix(config.system_prompt)
        history, opening = with_opening(turn.memory.messages, place, started, turn.request)
        records = tuple([ConversationRecord(message=message) for message in opening])
        turn.has_files = any(type(part) is Attachment for one in opening for part in one.parts)
        turn.machine = TurnMachine(config, history, records=records)
        turn.offered, turn.system_prompt = config.tools, config.system_prompt
        self._models = ModelCalls(turn, None if hooks is None else ModelHooks(hooks))
        if hooks is not None:
            hooks.models = self._models
        self._tools = ToolCalls(turn, self._models, hooks)
        self._checkpoints = Checkpoints(turn, output, hooks)
        self._checkpoints.has_items = job.view is not None
        item = turn.request.overrides.get("item")
        if item is not None:
            self._checkpoints.taken.append(item)
        self._turn, self._starting = turn, None
        turn.is_stopping = self._is_stopping
        if self._cancel_reason is not None:
            turn.is_cancelled = True

    # ------------------------------------------------------------------ performing effects

    async def _performed(  # noqa: C901 - the ways in which performing effects may end, side by side
        self, turn: Turn, started: TurnStarted, hooks: Hooks | None
    ) -> bool:
        """Perform the turn's effects until it has its outcome; False: it has to wait.

        Raises:
            StoreError: its lane was refused; another worker may have it.
            StopTurn: its worker stops.
        """
        self._performing = task = asyncio.current_task()
        try:
            if turn.is_cancelled and turn.recovery is None:
                self._finish_cancelled(turn)
            elif started.ends is not None:
                self._finish(turn, started.ends)
            else:
                with self._phase("effects"):
                    await self._perform_effects(turn, hooks)
        except ParkTurn:
            return False
        except CancelTurn:
            self._finish_cancelled(turn)
        except TurnOver as over:
            self._finish(turn, over.outcome)
        except PluginFault as fault:
            turn.note_issue(str(fault), "plugin_failed")
            self._finish(turn, fault.outcome)
        except asyncio.CancelledError:
            if turn.lane.refusal is not None:
                raise turn.lane.refusal from None
            if turn.is_stopping:
                raise StopTurn from None
            if self._cancel_reason is None or task is None:
                raise
            task.uncancel()
            self._finish_cancelled(turn)
        finally:
            # From here on the store decides which came first, a cancel or this end.
            self._performing = None
        return True

    async def _perform_effects(self, turn: Turn, hooks: Hooks | None) -> None:  # noqa: C901 - the loop
        """Ask the machine what comes next, do it, and tell the machine what came of it."""
        machine, models, tools, checkpoints = (
            turn.machine, self._models, self._tools, self._checkpoints,
        )  # fmt: skip
        assert machine is not None and models is not None  # noqa: S101, PT018 - just made
        assert tools is not None and checkpoints is not None  # noqa: S101, PT018 - just made
        environments: Environments | None = None
        has_limits, n_calls = turn.limits.can_end_turn, 0
        if hooks is not None:
            hooks.settle(0)
        while (effect := self._advance(turn)) is not None:
            if turn.is_live and (turn.is_cancelled or has_limits):
                ends = self._stops_before(turn, effect)
                if ends is not None:
                    self._finish(turn, ends)
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
            else:
                assert isinstance(effect, SyncEnvironment)  # noqa: S101 - the standard loop runs no code
                environments = environments or Environments(turn, hooks)
                machine.respond(await environments.sync(effect))
            if hooks is not None:
                hooks.settle(effect.id)
            if tools.ends is not None:
                self._tell_results(turn)
                self._finish(turn, tools.ends)
                return

    def _stops_before(self, turn: Turn, effect: Asked) -> Outcome | None:
        """Return how the turn ends before this effect, if it may not be performed any more."""
        if not isinstance(effect, (CallModel, CallTools)):
            return None
        return self._cancelled() if turn.is_cancelled else over_limit(turn, effect)

    def _advance(self, turn: Turn) -> Asked | None:
        """Show what the machine has to say; return what it asks for next that is not answered at once."""
        said, machine, checkpoints = self._said, turn.machine, self._checkpoints
        assert machine is not None and checkpoints is not None  # noqa: S101, PT018 - made together
        effect = machine.advance(said)
        while type(effect) is RunCheckpoint and checkpoints.passes_at_once(effect):
            machine.respond(CheckpointPassed(id=effect.id))
            effect = machine.advance(said)
        if said:
            self._said = []
            if effect is None and type(said[-1]) is TurnEnded:
                said.pop()  # how the turn ended is shown when its commit is durable
            if said and turn.is_live:
                turn.feed.tell(said, until=turn.lane.mark())
        return effect

    def _tell_results(self, turn: Turn) -> None:
        """Show what the machine says to results, and go no further."""
        assert turn.machine is not None  # noqa: S101 - effects are being performed
        said: list[Event] = []
        turn.machine.advance(said)
        if type(said[-1]) is TurnEnded:
            said.pop()
        if turn.is_live:
            turn.feed.tell(said, until=turn.lane.mark())

    def _cancelled(self) -> Stopped:
        return Stopped(reason="cancelled", detail=clean_text(self._cancel_reason or ""))

    def _finish_cancelled(self, turn: Turn) -> None:
        completed = () if self._tools is None else self._tools.interrupted()
        turn.completed += completed
        self._finish(turn, self._cancelled(), completed)

    def _finish(
        self, turn: Turn, outcome: Outcome, completed: tuple[CompletedToolCall, ...] = ()
    ) -> None:
        """End the turn from here: results that are there are kept.

        What the machine says to that is in no entry, so it is shown when the commit is durable.
        """
        machine = turn.machine
        assert machine is not None  # noqa: S101 - effects are being performed
        machine.finish(cleaned(outcome), completed)
        last: list[Event] = []
        machine.advance(last)
        self._last_words = [event for event in last if type(event) is not TurnEnded]

    # ------------------------------------------------------------------ ending

    async def _end(self, turn: Turn, started: TurnStarted, hooks: Hooks | None) -> TurnRecord:
        machine, checkpoints = turn.machine, self._checkpoints
        assert machine is not None and checkpoints is not None  # noqa: S101, PT018 - made together
        outcome = machine.outcome
        assert outcome is not None  # noqa: S101 - nothing is left to do
        if turn.is_cancelled and not _is_cancelled(outcome):
            # The mark was first, so it ends as cancelled; what was said and done stays.
            outcome = self._cancelled()
        ending = self._ending = Ending(turn, started, hooks)
        with self._phase("finalize"):
            commit = await ending.commit(outcome, tuple(checkpoints.taken))
        with self._phase("commit"):
            await turn.lane.commit(commit, blobs=commit.blobs or ())
        is_plain = len(commit.nodes) == machine.records.length and not turn.unknown_calls
        turn.memory.committed(machine.messages, commit, is_plain=is_plain)
        # Delivery comes after the commit and cannot undo it.
        if self._last_words:
            turn.feed.tell(self._last_words, until=turn.lane.mark())
        turn.tell_fact(TurnEnded(outcome=outcome), "end", "0")
        turn.feed.end()
        if hooks is not None:
            hooks.close()
        return TurnRecord.of_turn(turn, commit)

    # ------------------------------------------------------------------ taking up and letting go

    def _new_turn(self, job: Job) -> Turn:
        memory, view, services = self._memory, job.view, self._services
        generation = job.generation if job.generation is not None else memory.next_generation()
        feed = services.feeds.of(memory.session_id).turn(job.turn_id)
        self._turn = self._models = self._tools = self._checkpoints = None
        self._said, self._last_words = [], []
        self._was_accepted = self.is_accepted
        lane = self._lane = Lane(
            services.store,
            memory.session_id,
            job.turn_id,
            generation=generation,
            position=0 if view is None else len(view.pages),
            on_refused=self._refused,
            on_durable=feed.durable,
            is_alone=services.is_alone,
        )
        turn = Turn(
            services,
            self._program,
            memory,
            job.turn_id,
            request=job.request,
            lane=lane,
            feed=feed,
            generation=generation,
        )
        if view is not None:
            turn.is_recovered = job.takeovers > 0
            turn.is_cancelled = view.cancel is not None
            if view.cancel is not None and self._cancel_reason is None:
                self._cancel_reason = view.cancel
            turn.waits = {one.wait.key: one for one in view.waits}
            turn.recovery = Recovery.of(turn, view)
            turn.is_live = turn.recovery is None
        return turn

    def _refused(self, _refusal: BaseException) -> None:
        """Stop at once: nothing that this turn does could be written down any more."""
        # Before effects are performed, the next barrier raises it.
        if self._performing is not None:
            self._performing.cancel()

    async def _park(self, turn: Turn) -> Parked:
        """Park the turn; any worker may continue it."""
        await turn.park()
        self._memory.is_owned = False
        with suppress(LeaseLost, HeadMoved):  # another worker was faster
            await self._services.store.release(turn.session_id, generation=turn.generation)
        self._memory.generation = turn.generation
        return Parked()

    async def _as_cancelled(self) -> Job:
        """Return the turn as the store has it, to be ended."""
        memory, job = self._memory, self._job
        store = self._services.store
        view = await store.load_turn(memory.session_id, job.turn_id)
        if view is None or view.state == "done":
            raise HeadMoved(f"turn {job.turn_id}: has ended")
        session = await store.load_session(memory.session_id, history=False)
        if session.owner != self._services.worker_id:
            raise LeaseLost(f"session {memory.session_id}: another worker has it")
        return Job(
            turn_id=job.turn_id,
            request=job.request,
            view=view,
            generation=None if view.state == "queued" else session.generation,
            deps=job.deps,
        )


def _is_cancelled(outcome: Outcome) -> bool:
    return isinstance(outcome, Stopped) and outcome.reason == "cancelled"
