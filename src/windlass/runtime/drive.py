"""A drive: one worker takes a turn as far as it goes, and lets go of it.

fresh       nobody has begun it: its start record is written with its first unit
resumed     somebody has: the journal answers until it has no more to say
cancelled   somebody wants it to end: what is recorded stays, nothing new begins
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import msgspec

from windlass.errors import HeadMoved, LeaseLost, TurnCancelled
from windlass.guards.limits import check_limit
from windlass.guards.text import check_text
from windlass.journal import TurnStarted
from windlass.kernel import events
from windlass.kernel.messages import Attachment
from windlass.ports import Start
from windlass.ports.probe import Phase
from windlass.ports.turn_info import TurnInfo
from windlass.runtime.around_model import ModelHooks
from windlass.runtime.around_turn import (
    NOTHING_SAID,
    Opening,
    announce_commit,
    announce_session,
    open_turn,
    with_prompt,
)
from windlass.runtime.compaction_driver import is_compaction
from windlass.runtime.deps_scope import deps_for
from windlass.runtime.feed import TurnFeed
from windlass.runtime.hooks import Hooks
from windlass.runtime.job import Job
from windlass.runtime.lane import Lane
from windlass.runtime.model_calls import ModelCalls
from windlass.runtime.obstacles import check_drivable, obstacle_of
from windlass.runtime.phases import phase_of
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_runner import Parked, TurnRunner
from windlass.runtime.turn_signals import ParkTurn, StopTurn
from windlass.runtime.turn_start import plugin_names, start_record

_log = logging.getLogger("windlass")


class Drive:
    """Drives one turn, once."""

    def __init__(
        self, services: Services, program: Program, memory: SessionMemory, job: Job
    ) -> None:
        self._services = services
        self._program = program
        self._memory = memory
        self._job = job
        self._runner: TurnRunner | None = None
        self._lane: Lane | None = None
        self._has_begun = asyncio.Event()
        self._cancel_reason: str | None = None
        # The task in which deps, instructions and plugins are asked how the turn begins: foreign code, which may hang.
        self._starting: asyncio.Task[object] | None = None
        self._is_leaving = False
        # Whether the turn is in the store: from then on it ends, whatever happens here.
        self.is_accepted = job.accept is None

    # ------------------------------------------------------------------ from outside

    def cancel(self, reason: str) -> None:
        """Let the turn end as cancelled."""
        is_first = self._cancel_reason is None
        self._cancel_reason = reason
        if self._runner is not None:
            self._runner.cancel(reason)
        elif self._starting is not None and is_first:
            self._starting.cancel()

    def leave(self) -> None:
        """Let go of the turn at the next occasion."""
        self._is_leaving = True
        if self._runner is not None:
            self._runner.leave()

    async def flush(self) -> None:
        """Wait until what was done so far, the acceptance first of all, is in the store."""
        await self._has_begun.wait()
        if self._lane is not None:
            await self._lane.durable()

    def wake(self) -> None:
        """Let the turn look for answers and mail."""
        if self._runner is not None:
            self._runner.wake()

    def look(self) -> None:
        """Let calls that wait look for answers."""
        if self._runner is not None:
            self._runner.look()

    # ------------------------------------------------------------------ driving

    async def run(self) -> TurnRecord | Parked:
        """Drive the turn.

        Raises:
            StopTurn: the worker leaves.
            StoreError: the store refused; the turn may be somebody else's now.
        """
        try:
            return await self._drive(self._job)
        except TurnCancelled:
            return await self._drive(await self._as_cancelled())
        except asyncio.CancelledError:
            if self._starting is None or self._cancel_reason is None or self._is_leaving:
                raise
            self._starting.uncancel()
            self._starting = None
            if self._lane is not None:
                with suppress(TurnCancelled):
                    await self._lane.durable()  # what plugins bought before is kept
            return await self._drive(await self._as_cancelled())
        finally:
            self._has_begun.set()
            # Both hold on to this drive: without them all three go at once, and the collector is spared.
            self._runner = self._lane = None

    async def _drive(self, job: Job) -> TurnRecord | Parked:
        info = TurnInfo(
            agent=self._program.name,
            session_id=self._memory.session_id,
            turn_id=job.turn_id,
            context=job.request.context,
            recovered=job.view is not None and job.view.state != "queued",
        )
        with self._phase("context", job):
            hand = self._hand(job)
        try:
            if (obstacle := obstacle_of(hand, job)) is not None:
                self._start_if_new(hand, job)
                obstacle.open(hand)
                return await self._park(hand)
            return await self._with_deps(hand, job, info)
        except StopTurn:
            await hand.lane.durable()
            hand.feed.end()
            raise
        except BaseException:
            # Whatever was held back never became a fact, and the next drive counts its units anew.
            hand.feed.drop_held()
            raise

    def _phase(self, phase: Phase, job: Job) -> AbstractContextManager[None]:
        return phase_of(self._services.probe, phase, (self._memory.session_id, job.turn_id))

    async def _with_deps(self, hand: Turn, job: Job, info: TurnInfo) -> TurnRecord | Parked:
        ended: TurnRecord | Parked | None = None
        try:
            # A turn that only has to end needs nothing to work with.
            factory = None if hand.is_cancelled else self._services.deps
            self._starting = None if hand.is_cancelled else asyncio.current_task()
            async with deps_for(factory, job.deps, info) as deps:
                hand.deps = deps
                ended = await self._in_hand(hand, job, info)
        except Exception as error:
            # What fails after the end cannot undo it.
            if ended is None:
                raise
            _log.exception("letting go of deps failed")
            if isinstance(ended, TurnRecord):
                name = type(error).__name__
                issue = events.Error(message=f"closing deps raised {name}", code="deps_failed")
                ended = msgspec.structs.replace(ended, issues=(*ended.issues, issue))
        assert ended is not None  # noqa: S101 - or it was raised
        return ended

    async def _in_hand(self, hand: Turn, job: Job, info: TurnInfo) -> TurnRecord | Parked:
        announce_session(self._services, self._program, self._memory)
        hooks = Hooks(hand, self._program.plugins)
        started = await self._started(hand, hooks, job, info)
        try:
            check_drivable(hand, started)
            hooks.use(plugin_names(started))
            runner = self._runner = TurnRunner(hand, started, hooks)
            self._starting = None
        except ParkTurn:
            return await self._park(hand)
        runner.checkpoints.has_mail = job.view is not None
        if self._is_leaving:
            runner.leave()
        if self._cancel_reason is not None:
            runner.cancel(self._cancel_reason)
        ended = await runner.run()
        self._memory.is_owned = True
        self._memory.generation = hand.generation
        if isinstance(ended, Parked):
            await self._release(hand)
        else:
            announce_commit(self._services, self._program, ended)
        return ended

    async def _started(self, hand: Turn, hooks: Hooks, job: Job, info: TurnInfo) -> TurnStarted:
        if hand.journal is not None and hand.journal.started is not None:
            hooks.states.apply(hand.journal.started.patches)
            return hand.journal.started
        now_ms = self._services.clock.now_ms()
        with self._phase("hooks", job):
            instructions = job.request.overrides.get("prompt", self._program.instructions)
            if not isinstance(instructions, str):
                instructions = await self._written_by(instructions, hand, job, info)
            # Accepted and begun before any plugin is asked: what one buys is written down like all the rest.
            if job.accept is not None:
                hand.lane.accept(job.accept)
            self._start_if_new(hand, job)
            self._has_begun.set()
            opening = await self._opening(hand, hooks, job)
        with self._phase("prompt", job):
            if opening is not NOTHING_SAID:
                is_override = "prompt" in job.request.overrides
                opening = await with_prompt(hooks, opening, instructions, is_override=is_override)
        started = start_record(
            self._program,
            job.request,
            opening,
            instructions=instructions,
            head=self._memory.head,
            now_ms=now_ms,
        )
        parts = job.request.input if opening.input is None else opening.input
        refs = [part.ref for part in parts if isinstance(part, Attachment)]
        hand.lane.add(started, blobs=refs)
        return started

    async def _written_by(
        self, make: Callable[..., Any], hand: Turn, job: Job, info: TurnInfo
    ) -> str:
        """Return the instructions that a function writes."""
        lacks_deps = hand.deps is None and self._program.needs_deps
        if hand.is_cancelled or (is_compaction(job.request) and lacks_deps):
            return ""
        made = make(info, hand.deps)
        instructions: str = await made if inspect.isawaitable(made) else made
        check_text(instructions, field="instructions")
        check_limit("input_text_bytes", len(instructions.encode()), field="instructions")
        return instructions

    async def _opening(self, hand: Turn, hooks: Hooks, job: Job) -> Opening:
        """Return what plugins make of the turn's beginning; a turn that only ends or sums up needs none."""
        if hand.is_cancelled or not hooks.plugins or is_compaction(job.request):
            return NOTHING_SAID
        hooks.models = ModelCalls(hand, ModelHooks(hooks))
        return await open_turn(hooks, job.request.input)

    def _start_if_new(self, hand: Turn, job: Job) -> None:
        """Let a turn that nobody has begun be this worker's, with the unit that is open."""
        if job.view is None or job.view.state == "queued":
            services = self._services
            now_ms, until_ms = services.clock.now_ms(), services.until_ms()
            hand.lane.start(Start(worker_id=services.worker_id, until_ms=until_ms, now_ms=now_ms))

    # ------------------------------------------------------------------ inside

    def _hand(self, job: Job) -> Turn:
        memory, view = self._memory, job.view
        generation = job.generation if job.generation is not None else memory.next_generation()
        feed = self._services.feeds.of(memory.session_id).turn(job.turn_id)
        self._runner = None
        lane = self._lane = Lane(
            self._services.store,
            memory.session_id,
            job.turn_id,
            generation=generation,
            position=0 if view is None else len(view.pages),
            on_refused=self._refused,
            on_durable=partial(self._durable, feed),
        )
        hand = Turn(
            self._services,
            self._program,
            memory,
            job.turn_id,
            request=job.request,
            lane=lane,
            feed=feed,
            generation=generation,
        )
        if view is not None:
            hand.is_recovered = job.takeovers > 0
            hand.is_cancelled = view.cancel is not None
            if view.cancel is not None and self._cancel_reason is None:
                self._cancel_reason = view.cancel
            hand.recover(view.journal(), view.waits)
            for page in view.pages:
                hand.count_claims(page.entries)
        return hand

    def _refused(self, refusal: BaseException) -> None:
        # Before there is a runner, the next barrier says it.
        if self._runner is not None:
            self._runner.refused(refusal)

    def _durable(self, feed: TurnFeed, number: int) -> None:
        self.is_accepted = True
        feed.durable(number)

    async def _park(self, hand: Turn) -> Parked:
        await hand.lane.park()
        hand.feed.end()
        await self._release(hand)
        return Parked()

    async def _release(self, hand: Turn) -> None:
        """Let any worker go on with a parked turn."""
        self._memory.is_owned = False
        with suppress(LeaseLost, HeadMoved):  # somebody was faster
            await self._services.store.release(hand.session_id, generation=hand.generation)

    async def _as_cancelled(self) -> Job:
        """Return the turn as it stands, to be ended."""
        memory, job = self._memory, self._job
        store = self._services.store
        view = await store.load_turn(memory.session_id, job.turn_id)
        if view is None or view.state == "done":
            raise HeadMoved(f"turn {job.turn_id}: has ended")
        session = await store.load_session(memory.session_id, history=False)
        if session.owner != self._services.worker_id:
            raise LeaseLost(f"session {memory.session_id}: another worker has it")
        if view.state == "queued":
            return Job(turn_id=job.turn_id, request=job.request, view=view, deps=job.deps)
        return Job(
            turn_id=job.turn_id,
            request=job.request,
            view=view,
            generation=session.generation,
            deps=job.deps,
        )
