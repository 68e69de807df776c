"""The turn machine: every state change of a turn happens in this file.

Law 1. Nothing here waits, reads a clock or draws a number. What the machine wants done leaves as an
    effect; what it is told arrives as a response.
Law 2. The machine cannot tell a first run from a replay, nor itself from its restored copy: the effect
    that waits for an answer always follows from the state and is never queued.
Law 3. A response that does not answer the outstanding effect changes nothing.
Law 4. Nothing walks the history: what an iteration costs does not depend on what came before it.

Length: it is the one place where states change; in two files the laws could not be checked by reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from windlass.kernel import actions, effects, events, responses, states
from windlass.kernel.chain import Chain, as_chain
from windlass.kernel.driver import DriverView, TurnConfig
from windlass.kernel.ids import TurnIds
from windlass.kernel.limits import LimitState, with_overflow_told
from windlass.kernel.messages import Message, Record, Text, TurnCause, is_blank
from windlass.kernel.model_call import ModelFailure, ModelReply, Usage
from windlass.kernel.outbox import Outbox
from windlass.kernel.outcomes import Outcome, Stopped, StopReason
from windlass.kernel.snapshot import TurnSnapshot
from windlass.kernel.tool_call import CompletedToolCall
from windlass.kernel.transcript import Transcript
from windlass.kernel.value import check_instance

# Terminal reasons that end a turn unless its driver takes them, and how. The rest go to the driver.
_TERMINAL: dict[str, tuple[StopReason, str]] = {
    "output_limit": ("incomplete", "The reply was cut off at its output limit."),
    "context_overflow": (
        "provider_error",
        "The request no longer fits the model's context window.",
    ),
    "content_filter": ("provider_error", "The provider's content filter stopped the reply."),
    "provider_error": ("provider_error", "The provider ended the reply with an error."),
    "cancelled": ("cancelled", "The model call was cancelled."),
}

_PREPARE_ITERATION = states.PrepareIteration()
_TO_END = frozenset({states.Ended})
_NOWHERE: frozenset[type] = frozenset()
_NOTHING_OUT: tuple[None, frozenset[type], Any] = (None, _NOWHERE, None)


class TurnMachine:
    """One turn, from its input to its one outcome."""

    def __init__(
        self,
        config: TurnConfig,
        messages: Iterable[Message],
        *,
        records: Iterable[Record] = (),
        causes: Iterable[TurnCause] = (),
        iteration_offset: int = 0,
    ) -> None:
        session_id, turn_id = config.session_id, config.turn_id
        self._load(
            config,
            TurnSnapshot.of_new_turn(session_id, turn_id, messages, records, iteration_offset),
        )
        active: Chain[TurnCause] = as_chain(causes, field="causes")
        for at, cause in enumerate(active):
            check_instance(cause, TurnCause, field=f"causes[{at}]")
        self._transcript.add_causes(active)

    @classmethod
    def restore(cls, config: TurnConfig, snapshot: TurnSnapshot) -> TurnMachine:
        """Return the machine that `snapshot` was taken of.

        It asks its outstanding effect again, once, with the same id and an equal payload.

        Raises:
            InvalidInput: the snapshot is of another turn, or was changed by hand.
            FormatUnsupported: it was written by a release with another format.
        """
        check_instance(snapshot, TurnSnapshot, field="snapshot")
        machine = cls.__new__(cls)
        machine._load(config, snapshot)
        return machine

    def _load(self, config: TurnConfig, snapshot: TurnSnapshot) -> None:
        snapshot.check(config.session_id, config.turn_id)
        ids = TurnIds(config.session_id, config.turn_id)
        self._config = config
        self._ids = ids
        self._state: states.State = snapshot.state
        # Whether the state has something to do or to ask that it has not asked yet.
        self._due = type(snapshot.state) is not states.Ended
        # Where the input that is being handled may lead; each leads to one state.
        self._next = _NOWHERE
        # Whether the batch being applied did something that a Progress has to carry.
        self._has_news = False
        self._outbox = Outbox(ids, snapshot.queue, snapshot.next_event)
        self._queue = self._outbox.queue
        self._transcript = Transcript(
            ids, snapshot.messages, snapshot.records, snapshot.told_records
        )
        self._transcript.causes = snapshot.causes
        self._transcript.next_message = snapshot.next_message
        self._iteration = snapshot.iteration
        self._offset = snapshot.iteration_offset
        self._synced = snapshot.synced_iteration
        self._last_effect = snapshot.next_effect - 1
        self._usage = snapshot.usage
        self._limit = snapshot.limit
        self._use_environment(snapshot.environment)

    def snapshot(self) -> TurnSnapshot:
        """Return the machine as a value, in constant time."""
        transcript = self._transcript
        return TurnSnapshot(
            format=TurnSnapshot.FORMAT,
            session_id=self._config.session_id,
            turn_id=self._config.turn_id,
            state=self._state,
            messages=transcript.messages,
            records=transcript.records,
            queue=tuple(self._queue),
            causes=transcript.causes,
            iteration=self._iteration,
            iteration_offset=self._offset,
            synced_iteration=self._synced,
            next_effect=self._last_effect + 1,
            next_message=transcript.next_message,
            next_event=self._outbox.last_event + 1,
            told_records=transcript.told,
            usage=self._usage,
            limit=self._limit,
            environment=self._environment,
        )

    @property
    def is_done(self) -> bool:
        """Whether the turn has its outcome."""
        return type(self._state) is states.Ended

    @property
    def outcome(self) -> Outcome | None:
        """How the turn ended, once it has."""
        return self._state.outcome if isinstance(self._state, states.Ended) else None

    @property
    def ending(self) -> Outcome | None:
        """How the turn ends at the checkpoint it is at, unless something comes in there."""
        state = self._state
        return state.then if isinstance(state, states.WaitingCheckpoint) else None

    @property
    def state(self) -> str:
        """The state's name in TRANSITIONS."""
        return self._state.name

    @property
    def messages(self) -> Chain[Message]:
        """The history with this turn's messages, transient ones included."""
        return self._transcript.messages

    @property
    def records(self) -> Chain[Record]:
        """Earlier records, then what the turn stores: new messages and driver records, in order."""
        return self._transcript.records

    @property
    def iteration(self) -> int:
        """The iteration the turn is in, counted from the offset."""
        return self._iteration

    @property
    def usage(self) -> Usage:
        """What the turn's model calls used so far."""
        return self._usage

    # --- asking and being told -----------------------------------------------------------------

    def poll(self) -> effects.Effect | None:
        """Return the next effect. None: answer the outstanding one, or the turn is over."""
        while not self._queue:
            if not self._due:
                return None
            state: Any = self._state
            if type(state) not in _PREPARING:
                self._due = False
                return state.effect()  # type: ignore[no-any-return]
            self._next, prepare = _PREPARING[type(state)]
            self._outbox.effect_id = 0
            prepare(self)
        return self._queue.popleft()

    def advance(self, said: list[events.Event]) -> effects.Asked | None:
        """Return the next effect that asks for something; what is said before it goes to `said`."""
        while (effect := self.poll()) is not None:
            if type(effect) is effects.Emit:
                said.append(effect.event)
            elif isinstance(effect, effects.Asked):
                return effect
        return None

    def respond(self, response: responses.Response) -> None:
        """Take the answer to the outstanding effect; any other answer changes nothing.

        Raises:
            InvalidInput: an answer that holds something else, or tool results that are not one for
                each call. Nothing changed.
        """
        state: Any = self._state
        wanted, following, handle = _EXPECTED.get(type(state), _NOTHING_OUT)
        if type(response) is not wanted or response.id != state.effect_id:
            return
        self._next = following
        self._outbox.effect_id = response.id
        handle(self, state, response)

    def finish(self, outcome: Outcome, completed: Sequence[CompletedToolCall] = ()) -> None:
        """End the turn from outside. `completed` are results recorded so far: none is lost."""
        self._stop(outcome, completed, None)

    def fail(self, error_event: events.Error, completed: Sequence[CompletedToolCall] = ()) -> None:
        """End the turn from outside with an error. `completed` as in `finish`."""
        outcome = Stopped(reason="runtime_error", detail=error_event.message)
        self._stop(outcome, completed, error_event)

    def _stop(
        self,
        outcome: Outcome,
        completed: Sequence[CompletedToolCall],
        error: events.Error | None,
    ) -> None:
        state = self._state
        if isinstance(state, states.Ended):
            return
        kept: dict[int, CompletedToolCall] = {}
        closing: Sequence[actions.Action] = ()
        if isinstance(state, states.WaitingTools):
            # Asked before anything changes: a driver that raises leaves the machine as it was.
            kept = state.places_of(completed)
            closing = self._config.driver.close(self._view(), state.calls, tuple(kept.values()))
        if error is not None:
            self._outbox.effect_id = 0
            self._outbox.emit(error)
        if isinstance(state, states.WaitingModel):
            self._queue.append(effects.CancelModel(id=state.effect_id))
        self._outbox.effect_id = getattr(state, "effect_id", 0)
        for place, result in kept.items():
            self._outbox.tool_finished(result, place)
        self._close(closing)
        self._end(outcome)

    # --- preparing -------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._config.max_iterations == 0:
            self._end(Stopped(reason="max_iterations", detail="The turn may take no iteration."))
        elif self._config.sync_environment:
            self._sync_environment(update_config=False)
        else:
            self._enter(_PREPARE_ITERATION)

    def _prepare_iteration(self) -> None:
        if self._config.sync_environment and self._synced != self._iteration:
            self._sync_environment(update_config=True)
        else:
            self._follow(self._config.driver.prepare(self._view()))

    def _sync_environment(self, *, update_config: bool) -> None:
        self._last_effect = effect_id = self._last_effect + 1
        self._enter(states.WaitingEnvironment(effect_id=effect_id, update_config=update_config))

    def _use_environment(self, environment: responses.Environment | None) -> None:
        """Put prompt, tools and view in force. The config itself stays what it was."""
        self._settings = self._config
        if environment is not None:
            self._settings = msgspec.structs.replace(
                self._config,
                system_prompt=environment.system_prompt,
                tools=environment.tools,
                view=environment.view,
            )
        self._environment = environment
        self._tool_names = tuple([tool.name for tool in self._settings.tools])

    # --- answers -----------------------------------------------------------------------------------

    def _on_environment(
        self, _state: states.WaitingEnvironment, response: responses.EnvironmentSynced
    ) -> None:
        result = response.result
        if isinstance(result, responses.Failure):
            self._end_in_failure(result, "environment_failed")
            return
        if result is not None:
            check_instance(result, responses.Environment, field="result")
            self._use_environment(result)
        self._synced = self._iteration
        self._enter(_PREPARE_ITERATION)

    def _on_model(self, state: states.WaitingModel, response: responses.ModelReplied) -> None:
        reply = response.result
        if type(reply) is not ModelReply:
            check_instance(reply, ModelFailure, field="result")
            self._end_in_model_failure(reply)  # type: ignore[arg-type] # checked
            return
        driver = self._config.driver
        if reply.terminal in _TERMINAL:
            reply = with_overflow_told(reply, self._config.max_context_tokens)
            if reply.terminal not in driver.handles:
                self._count_usage(reply)
                self._end_in_terminal(reply, text_streamed=response.text_streamed)
                return
        # Asked before anything changes: a driver that raises leaves the machine as it was.
        wanted = driver.on_model(self._view(), state, reply, response.text_streamed)
        self._count_usage(reply)
        self._follow(wanted)

    def _count_usage(self, reply: ModelReply) -> None:
        self._usage = self._usage + reply.usage
        self._outbox.usage_reported(self._iteration, reply.usage, self._usage)
        if self._config.emit_trace:
            self._log(effects.ReplyLogged(iteration=self._iteration, reply=reply))

    def _on_tools(self, state: states.WaitingTools, response: responses.ToolsReturned) -> None:
        results = state.in_call_order(response.results)
        wanted = self._config.driver.on_tools(self._view(), results)
        for place, result in enumerate(results):
            self._outbox.tool_finished(result, place)
        self._follow(wanted, results)

    def _on_code(self, state: states.WaitingCode, response: responses.CodeReturned) -> None:
        result = response.result
        if not isinstance(result, responses.Failure):
            check_instance(result, responses.CodeResult, field="result")
        wanted = self._config.driver.on_code(self._view(), state.driver_state, result)
        if isinstance(result, responses.Failure):
            self._outbox.emit(events.CodeFinished(language=state.language, error=result.message))
        else:
            self._outbox.emit(
                events.CodeFinished(
                    language=state.language,
                    output=result.output,
                    error=result.error,
                    duration_ms=result.duration_ms,
                )
            )
        self._follow(wanted)

    def _on_checkpoint(
        self, state: states.WaitingCheckpoint, response: responses.CheckpointPassed
    ) -> None:
        delivery = response.delivery
        if type(delivery) is not responses.CheckpointDelivery:
            check_instance(delivery, responses.Failure, field="delivery")
            self._end_in_failure(delivery, "checkpoint_failed")  # type: ignore[arg-type] # checked
        elif delivery is not responses.NOTHING_CAME and self._transcript.take(delivery):
            self._go_on_with_delivery(state)
        elif state.then is None:
            self._enter(_PREPARE_ITERATION)
        else:
            self._end(state.then)

    def _go_on_with_delivery(self, state: states.WaitingCheckpoint) -> None:
        if state.kind == "before_completion":
            self._iteration += 1
            if self._limit.grace_given:
                self._tell_progress()
                detail = "Work came in after the last iteration."
                self._end(Stopped(reason="max_iterations", detail=detail))
                return
            if self._view().limit_due:
                parts = (Text(text=self._config.limit_text),)
                message_id = self._transcript.new_message_id("limit")
                self._give_grace(Message(id=message_id, role="system", parts=parts))
        self._tell_progress()
        self._enter(_PREPARE_ITERATION)

    def _give_grace(self, message: Message) -> None:
        self._limit = LimitState(grace_given=True)
        self._transcript.keep(message)

    # --- what a driver wants ---------------------------------------------------------------------

    def _view(self) -> DriverView:
        transcript = self._transcript
        return DriverView(
            config=self._settings,
            messages=transcript.messages,
            records=transcript.records,
            causes=transcript.causes,
            iteration=self._iteration,
            iteration_offset=self._offset,
            limit=self._limit,
            ids=self._ids,
        )

    def _follow(
        self, wanted: Sequence[actions.Action], completed: Sequence[CompletedToolCall] = ()
    ) -> None:
        """Do what the driver wants; a driver that leads nowhere ends the turn, not the session."""
        before = self._state
        try:
            if type(wanted) is not list and type(wanted) is not tuple:
                _refuse(self, wanted)
            for action in wanted:
                if _APPLY.get(type(action), _refuse)(self, action):
                    return  # it ended the turn
            if self._state is before:
                self._enter(_PREPARE_ITERATION)
        except actions.DriverFault as fault:
            self._end_in_driver_fault(str(fault), completed)
        if self._has_news:
            self._tell_progress()

    def _apply_finish(self, action: actions.Finish) -> bool:
        if self._has_news:
            self._tell_progress()
        self._end(action.outcome)
        return True

    def _apply_emit(self, action: actions.EmitEvent) -> None:
        self._outbox.emit(action.event)

    def _apply_append(self, action: actions.Append) -> None:
        if action.records:
            self._transcript.extend(action.records)
            self._has_news = True

    def _apply_model(self, action: actions.StartModel) -> None:
        self._last_effect = effect_id = self._last_effect + 1
        request = action.request
        self._enter(
            states.WaitingModel(
                effect_id=effect_id, request=request, driver_state=action.driver_state
            )
        )
        names = self._tool_names
        if request.tools is not self._settings.tools:
            names = tuple([tool.name for tool in request.tools])
        self._outbox.effect_id = effect_id
        self._outbox.model_started(self._iteration, self._transcript.messages.length, names)
        if self._config.emit_trace:
            self._log(effects.RequestLogged(iteration=self._iteration, request=request))

    def _apply_tools(self, action: actions.StartTools) -> None:
        calls = tuple(action.calls)
        if len(calls) != 1 and len({call.call_id for call in calls}) < max(len(calls), 1):
            raise actions.DriverFault("The driver started no calls, or two calls of one id.")
        self._last_effect = effect_id = self._last_effect + 1
        self._enter(states.WaitingTools(effect_id=effect_id, calls=calls))

    def _apply_code(self, action: actions.StartCode) -> None:
        self._last_effect = effect_id = self._last_effect + 1
        self._enter(
            states.WaitingCode(
                effect_id=effect_id,
                language=action.language,
                code=action.code,
                driver_state=action.driver_state,
            )
        )

    def _apply_checkpoint(self, action: actions.StartCheckpoint) -> None:
        self._last_effect = effect_id = self._last_effect + 1
        self._enter(
            states.WaitingCheckpoint(effect_id=effect_id, kind=action.kind, then=action.then)
        )

    def _apply_next(self, _action: actions.NextIteration) -> None:
        self._iteration += 1
        self._has_news = True

    def _apply_final(self, action: actions.ScheduleFinal) -> None:
        if self._view().limit_due:
            self._give_grace(action.message)
            self._has_news = True

    # --- ending ------------------------------------------------------------------------------------

    def _end_in_model_failure(self, failure: ModelFailure) -> None:
        if self._config.emit_trace:
            self._log(effects.FailureLogged(iteration=self._iteration, failure=failure))
        self._outbox.emit(
            events.Error(message=failure.message, code=failure.code, terminal=failure.terminal)
        )
        self._end(Stopped(reason="provider_error", detail=failure.message))

    def _end_in_terminal(self, reply: ModelReply, *, text_streamed: bool) -> None:
        reason, detail = _TERMINAL[reply.terminal]
        detail = reply.diagnostic or detail
        if reply.text and not text_streamed:
            self._outbox.emit(events.TextDelta(text=reply.text))
        self._outbox.emit(events.ModelFinished(iteration=self._iteration, text=reply.text))
        self._outbox.emit(
            events.Error(message=detail, code=reply.terminal, terminal=reply.terminal)
        )
        said = tuple([part for part in reply.parts if type(part) is Text and not is_blank(part)])
        if said:
            message_id = self._ids.message(self._iteration, "reply")
            self._transcript.keep(
                Message(id=message_id, role="assistant", parts=said, incomplete=True)
            )
            self._tell_progress()
        self._end(Stopped(reason=reason, detail=detail))

    def _end_in_failure(self, failure: responses.Failure, code: str) -> None:
        self._outbox.emit(events.Error(message=failure.message, code=failure.code or code))
        self._end(Stopped(reason="runtime_error", detail=failure.message))

    def _end_in_driver_fault(self, detail: str, completed: Sequence[CompletedToolCall]) -> None:
        state = self._state
        self._outbox.emit(events.Error(message=detail, code="driver_fault"))
        if self._transcript.has_open_calls():
            calls = state.calls if isinstance(state, states.WaitingTools) else ()
            self._close(self._config.driver.close(self._view(), calls, completed))
        self._next = _TO_END
        self._end(Stopped(reason="runtime_error", detail=detail))

    def _close(self, closing: Sequence[actions.Action]) -> None:
        """Keep what gives every call its one result; nothing may be started any more."""
        self._next = _TO_END
        for action in closing:
            if isinstance(action, actions.Append):
                self._apply_append(action)
            elif isinstance(action, actions.EmitEvent):
                self._apply_emit(action)
        if self._has_news:
            self._tell_progress()

    def _end(self, outcome: Outcome) -> None:
        self._enter(states.Ended(outcome=outcome))
        self._due = self._has_news = False
        self._outbox.effect_id = 0
        self._outbox.emit(events.TurnEnded(outcome=outcome))
        self._queue.append(
            effects.Done(
                messages=self._transcript.messages,
                new_records=self._transcript.untold,
                iteration=self._iteration,
                outcome=outcome,
            )
        )
        self._transcript.untold = ()

    # --- small steps -------------------------------------------------------------------------------

    def _enter(self, state: states.State) -> None:
        if type(state) not in self._next:
            raise actions.DriverFault(
                f"The driver led from {self._state.name} to {state.name}, which is no step."
            )
        self._next = _NOWHERE
        self._state = state
        self._due = True

    def _tell_progress(self) -> None:
        self._has_news = False
        transcript = self._transcript
        self._queue.append(
            effects.Progress(
                messages=transcript.messages,
                new_records=transcript.untold,
                iteration=self._iteration,
            )
        )
        transcript.untold = ()

    def _log(self, entry: effects.LogEntry) -> None:
        self._queue.append(effects.Log(entry=entry))


def _refuse(_machine: TurnMachine, action: object) -> None:
    raise actions.DriverFault(f"The driver returned {type(action).__name__}, which is no action.")


_HANDLERS: dict[type, Any] = {
    states.Preparing: TurnMachine._begin,
    states.PrepareIteration: TurnMachine._prepare_iteration,
    states.WaitingEnvironment: TurnMachine._on_environment,
    states.WaitingModel: TurnMachine._on_model,
    states.WaitingTools: TurnMachine._on_tools,
    states.WaitingCode: TurnMachine._on_code,
    states.WaitingCheckpoint: TurnMachine._on_checkpoint,
}
# preparing state → where that may lead, who does it
_PREPARING = {
    state: (states.NEXT[state, "poll"], _HANDLERS[state])
    for state in (states.Preparing, states.PrepareIteration)
}
# waiting state → the response it waits for, where that may lead, who handles it
_EXPECTED = {
    state: (response, states.NEXT[state, name], _HANDLERS[state])
    for state, (response, name) in states.ANSWERS.items()
}
_APPLY: dict[type, Any] = {
    actions.EmitEvent: TurnMachine._apply_emit,
    actions.Append: TurnMachine._apply_append,
    actions.StartModel: TurnMachine._apply_model,
    actions.StartTools: TurnMachine._apply_tools,
    actions.StartCode: TurnMachine._apply_code,
    actions.StartCheckpoint: TurnMachine._apply_checkpoint,
    actions.NextIteration: TurnMachine._apply_next,
    actions.ScheduleFinal: TurnMachine._apply_final,
    actions.Finish: TurnMachine._apply_finish,
}
