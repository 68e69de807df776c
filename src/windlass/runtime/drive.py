"""A drive: one worker takes a turn as far as it goes, and lets go of it.

How a turn is driven. The kernel's machine knows what a turn is; it never waits. The `Performer` asks it what comes next
(`advance`), does that, and tells the machine what came of it (`respond`), until nothing is left. There are four things to
wait for, and one await for each: the model, the disk, the bodies of tools, and the rest (the inbox, a
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
contract (`journal.claim`). What only wants to know how far a journal leads replays it (`replaying`): the same loop, which
stops where it would go live.

How it ends. `Ending` asks plugins for follow-ups, and commits history, outcome, usage and inbox in one unit. From then on
the store decides whether a cancel or this end came first. A cancelled turn keeps what is recorded and begins nothing new.
`StopTurn` gives the turn up because the worker stops: another drive continues it. A refused unit means that another
worker has the turn: this drive stops where it is and writes nothing more.

    fresh       no worker has begun it: its start record is written with its first unit
    resumed     the journal answers until it has no more to say
    cancelled   what is recorded stays, nothing new begins

Law 1. A turn ends in one of three ways: committed, parked, or given up without a word more written.
Law 2. Cancelling is a race with the turn's own end, and the store is the judge.

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
from windlass.journal import TurnStarted
from windlass.kernel import Finished, Stopped, TurnEnded, events
from windlass.ports import Phase, TurnInfo
from windlass.runtime.around_model import ModelHooks
from windlass.runtime.around_turn import announce_commit, announce_session
from windlass.runtime.children import cancels_below, end_errands
from windlass.runtime.ending import Ending
from windlass.runtime.hooks import Hooks
from windlass.runtime.lane import Lane
from windlass.runtime.large_values import off_loop
from windlass.runtime.model_call import ModelCalls
from windlass.runtime.performer import Performer
from windlass.runtime.program import Program
from windlass.runtime.recovery import Recovery
from windlass.runtime.services import UNSEEN, Relaying, Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.starting import (
    Job,
    ask_for_code,
    deps_by,
    is_blocked,
    missing_code,
    started_anew,
)
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_signals import ParkTurn, StopTurn
from windlass.runtime.turn_start import plugin_names

_log = logging.getLogger("windlass")


class Parked(NamedTuple):
    """The turn is parked; its waits are in the store."""


class Drive:
    """Drives one turn, once."""

    # Whether something arrived for the turn, maybe before it could take anything.
    _is_woken = False

    def __init__(
        self, services: Services, program: Program, memory: SessionMemory, job: Job
    ) -> None:
        self._services = services
        self._program = program
        self._memory = memory
        self._job = job
        self._turn: Turn | None = None
        self._lane: Lane | None = None
        self._performer: Performer | None = None
        # The task to cancel: while the turn starts, and while its effects are performed.
        self._starting: asyncio.Task[object] | None = None
        self._performing: asyncio.Task[object] | None = None
        self._ending: Ending | None = None
        self._has_begun: asyncio.Event | None = None
        self._cancel_reason: str | None = None
        self._is_stopping = False
        self._is_begun = False
        self._was_accepted = job.accept is None

    @property
    def is_accepted(self) -> bool:
        """Whether the turn is in the store: from then on it ends, whatever happens here."""
        return self._was_accepted or (self._lane is not None and self._lane.n_durable > 0)

    @property
    def is_process(self) -> bool:
        """Whether the turn is one of a process."""
        return self._program.code is not None

    # ------------------------------------------------------------------ from outside

    def cancel(self, reason: str) -> None:
        """End the turn as cancelled, as soon as it can."""
        if self._cancel_reason is not None:
            return
        self._cancel_reason = reason
        if self._starting is not None:
            self._starting.cancel()
        elif self._turn is not None:
            self._turn.cancel(reason)
            if self._performing is not None:
                self._performing.cancel()
            elif self._ending is not None:
                self._ending.hurry()

    def stop(self) -> None:
        """Give the turn up at the next effect: a body that runs may end, a model call is dropped."""
        self._is_stopping = True
        if self._turn is not None:
            self._turn.is_stopping = True
        performer = self._performer
        if self._performing is not None and performer is not None and performer.models.is_waiting:
            self._performing.cancel()
        # A call that waits for the function that approves need not wait any longer.
        self.look()

    def wake(self) -> None:
        """Make the turn look for answers and into its inbox."""
        self._is_woken = True
        if self._performer is not None:
            self._performer.checkpoints.has_items = True
        self.look()

    def look(self) -> None:
        """Make calls that wait look for answers: they may have come from another process."""
        if self._performer is not None:
            self._performer.wake()

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
            self._turn = self._lane = self._performer = self._ending = None

    def _phase(self, phase: Phase) -> AbstractContextManager[None]:
        services = self._services
        if services.probe is None:
            return UNSEEN
        return services.phase(phase, self._memory.session_id, self._job.turn_id)

    def _begun(self) -> None:
        self._is_begun = True
        if self._has_begun is not None:
            self._has_begun.set()

    async def _drive(self, job: Job) -> TurnRecord | Parked:
        if self._is_stopping:
            raise StopTurn  # before its first step
        with self._phase("context"):
            turn = self._new_turn(job)
        try:
            if is_blocked(turn, job):
                return await self._park(turn)
            # A turn that only has to end needs nothing to work with.
            factory = None if turn.is_cancelled else turn.program.deps
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
                turn.program.check_deps(deps, field="Runtime.deps")
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
            recovered=job.is_recovered,
        )

    async def _run(self, turn: Turn, job: Job) -> TurnRecord | Parked:
        """Start the turn, perform its effects, and end or park it."""
        announce_session(self._services, self._program, self._memory)
        plugins = self._program.plugins
        hooks = Hooks(turn, plugins) if plugins or turn.recovery is not None else None
        try:
            started = await self._started(turn, hooks, job)
            missing = missing_code(turn, started)
            if missing is not None:
                ask_for_code(turn, missing)
        except ParkTurn:
            return await self._park(turn)
        if hooks is not None:
            hooks.use(plugin_names(started))
            turn.allots = hooks.allotted
        performer = self._take_up(turn, started, hooks, job)
        self._performing = task = asyncio.current_task()
        try:
            has_ended = await performer.run()
        except asyncio.CancelledError as cancelled:
            has_ended = self._interrupted(turn, performer, task, cancelled)
        finally:
            # From here on the store decides which came first, a cancel or this end.
            self._performing = None
        if not has_ended:
            await performer.checkpoints.hold_items()
            return await self._park(turn)
        record = await self._end(turn, started, hooks, performer)
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

    def _take_up(
        self, turn: Turn, started: TurnStarted, hooks: Hooks | None, job: Job
    ) -> Performer:
        """Make all that performs the turn's effects; from here on others reach the turn."""
        performer = self._performer = Performer(turn, started, hooks)
        if job.view is not None:
            performer.checkpoints.has_items = self._is_woken or not job.is_quiet
        self._turn, self._starting = turn, None
        turn.is_stopping = self._is_stopping
        if self._cancel_reason is not None:
            turn.cancel(self._cancel_reason)
        return performer

    def _interrupted(
        self,
        turn: Turn,
        performer: Performer,
        task: asyncio.Task[object] | None,
        cancelled: asyncio.CancelledError,
    ) -> bool:
        """End a turn as cancelled whose task was cancelled for that.

        Raises:
            StoreError: its lane was refused; another worker may have it.
            StopTurn: its worker stops.
            CancelledError: nobody has cancelled the turn.
        """
        if turn.lane.refusal is not None:
            raise turn.lane.refusal from None
        if turn.is_stopping:
            raise StopTurn from None
        if self._cancel_reason is None or task is None:
            raise cancelled
        task.uncancel()
        performer.finish_cancelled()
        return True

    # ------------------------------------------------------------------ ending

    async def _end(
        self, turn: Turn, started: TurnStarted, hooks: Hooks | None, performer: Performer
    ) -> TurnRecord:
        machine, outcome = performer.machine, performer.outcome
        ending = self._ending = Ending(turn, started, hooks)
        if type(outcome) is Stopped:
            performer.note_failure(outcome)
        with self._phase("finalize"):
            commit = await ending.commit(outcome, tuple(performer.checkpoints.taken))
        if turn.waits or turn.request.overrides or type(outcome) is not Finished:
            # Only such a turn can have others below it, above it or behind it.
            cancels = await cancels_below(turn, commit)
            for errand in (*cancels, *end_errands(turn, commit, self._job.by)):
                turn.lane.run_errand(errand)
        if turn.is_large:
            commit = msgspec.structs.replace(commit, known_digest=await off_loop(commit.digest))
        with self._phase("commit"):
            await turn.lane.commit(commit, blobs=commit.blobs or ())
        is_plain = len(commit.nodes) == machine.records.length and not turn.unknown_calls
        turn.memory.committed(machine.messages, commit, is_plain=is_plain)
        # Delivery comes after the commit and cannot undo it.
        if performer.last_words:
            turn.feed.tell(performer.last_words, until=turn.lane.mark())
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
        feed.head = memory.head
        self._turn = self._performer = None
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
            on_errands=services.on_errands,
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
            if view.cancel is not None:
                if self._cancel_reason is None:
                    self._cancel_reason = view.cancel
                turn.cancel(self._cancel_reason)
            turn.waits = {one.wait.key: one for one in view.waits}
            turn.recovery = Recovery.of(turn, view)
            turn.is_live = turn.recovery is None
            feed.base = (len(view.pages), len(view.waits))
            if "tree" in job.request.overrides:
                Relaying.begin(services.feeds, (memory.session_id, job.turn_id), job.request)
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
