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
from windlass.kernel.chain import Chain
from windlass.kernel.driver import DriverView, TurnConfig
from windlass.kernel.history import check_history
from windlass.kernel.ids import TurnIds
from windlass.kernel.limits import LimitState, is_context_overflow
from windlass.kernel.messages import Message, Record, Text, TurnCause, is_blank
from windlass.kernel.model_call import ModelFailure, ModelReply, Usage
from windlass.kernel.outbox import Outbox
from windlass.kernel.outcomes import Outcome, Stopped, StopReason
from windlass.kernel.snapshot import TurnSnapshot
from windlass.kernel.tool_call import CompletedToolCall
from windlass.kernel.transcript import Transcript

# Terminal reasons that end a turn unless its driver takes them, and how. The rest go to the driver.
_TERMINAL: dict[str, tuple[StopReason, str]] = {
    "output_limit": ("incomplete", "The reply was cut off at its output limit."),
    "context_overflow": ("provider_error", "The request no longer fits the model's context window."),
    "content_filter": ("provider_error", "The provider's content filter stopped the reply."),
    "provider_error": ("provider_error", "The provider ended the reply with an error."),
    "cancelled": ("cancelled", "The model call was cancelled."),
}

_PREPARE_ITERATION = states.PrepareIteration()


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
        history = Chain.of(messages)
        check_history(history)
        earlier = Chain.of(records)
        start = TurnSnapshot(
            format=TurnSnapshot.FORMAT,
            session_id=config.session_id,
            turn_id=config.turn_id,
            state=states.Preparing(),
            messages=history,
            records=earlier,
            told_records=len(earlier),
            iteration=iteration_offset,
            iteration_offset=iteration_offset,
        )
        self._load(config, start)
        self._transcript.add_causes(causes)

    @classmethod
    def restore(cls, config: TurnConfig, snapshot: TurnSnapshot) -> TurnMachine:
        """Return the machine that `snapshot` was taken of.

        It asks its outstanding effect again, once, with the same id and an equal payload.

        Raises:
            InvalidInput: the snapshot is of another turn, or was changed by hand.
        """
        machine = cls.__new__(cls)
        machine._load(config, snapshot)
        return machine

    def _load(self, config: TurnConfig, snapshot: TurnSnapshot) -> None:
        snapshot.check(config.session_id, config.turn_id)
        ids = TurnIds(config.session_id, config.turn_id)
        self._config = config
        self._ids = ids
        self._state: states.State = snapshot.state
        self._due = snapshot.state.is_waiting
        self._input = "poll"
        self._outbox = Outbox(ids, snapshot.queue, snapshot.next_event)
        self._transcript = Transcript(ids, snapshot.messages, snapshot.records, snapshot.causes)
        self._transcript.told = snapshot.told_records
        self._transcript.next_message = snapshot.next_message
        self._iteration = snapshot.iteration
        self._offset = snapshot.iteration_offset
        self._synced = snapshot.synced_iteration
        self._next_effect = snapshot.next_effect
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
            queue=tuple(self._outbox.queue),
            causes=transcript.causes,
            iteration=self._iteration,
            iteration_offset=self._offset,
            synced_iteration=self._synced,
            next_effect=self._next_effect,
            next_message=transcript.next_message,
            next_event=self._outbox.next_event,
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
        while True:
            queue = self._outbox.queue
            if queue:
                return queue.popleft()
            state = self._state
            if self._due:
                self._due = False
                return state.effect()  # type: ignore[union-attr] # due only while waiting
            if type(state) is states.PrepareIteration:
                self._prepare_iteration()
            elif type(state) is states.Preparing:
                self._prepare_turn()
            else:
                return None

    def respond(self, response: responses.Response) -> None:
        """Take the answer to the outstanding effect; any other answer changes nothing.

        Raises:
            InvalidInput: tool results that are not one for each call. Nothing changed.
        """
        state: Any = self._state
        wanted, answered, handle = _ANSWERS.get(type(state), _NO_ANSWER)
        if type(response) is not wanted or response.id != state.effect_id:
            return
        if wanted is responses.ToolsReturned:
            response = state.in_call_order(response)
        self._due = False
        self._input = answered
        self._outbox.effect_id = response.id
        handle(self, state, response)

    def finish(self, outcome: Outcome, completed: Sequence[CompletedToolCall] = ()) -> None:
        """End the turn from outside. `completed` are results recorded so far: none is lost."""
        state = self._state
        if isinstance(state, states.Ended):
            return
        self._input = "stop"
        if isinstance(state, states.WaitingModel):
            self._outbox.push(effects.CancelModel(id=state.effect_id))
        elif isinstance(state, states.WaitingTools):
            self._outbox.effect_id = state.effect_id
            by_id = {call.call_id: call for call in completed}
            kept = [by_id[call.call_id] for call in state.calls if call.call_id in by_id]
            self._tell_tools(state, kept)
            self._close_tools(state, kept)
        self._end(outcome)

    def fail(self, error_event: events.Error, completed: Sequence[CompletedToolCall] = ()) -> None:
        """End the turn from outside with an error. `completed` as in `finish`."""
        if not self.is_done:
            self._outbox.effect_id = 0
            self._outbox.forward(error_event)
            self.finish(Stopped(reason="runtime_error", detail=error_event.message), completed)

    # --- preparing -------------------------------------------------------------------------------

    def _prepare_turn(self) -> None:
        self._input = "poll"
        if self._config.max_iterations == 0:
            self._end(Stopped(reason="max_iterations", detail="The turn may take no iteration."))
        elif self._config.sync_environment:
            self._sync_environment(update_config=False)
        else:
            self._enter(_PREPARE_ITERATION)

    def _prepare_iteration(self) -> None:
        self._input = "poll"
        self._outbox.effect_id = 0
        if self._config.sync_environment and self._synced != self._iteration:
            self._sync_environment(update_config=True)
        else:
            self._follow(self._config.driver.prepare(self._view()))

    def _sync_environment(self, *, update_config: bool) -> None:
        self._enter(
            states.WaitingEnvironment(effect_id=self._new_effect(), update_config=update_config)
        )

    def _use_environment(self, environment: responses.Environment | None) -> None:
        """Put prompt and tools in force. The config itself stays what it was."""
        self._environment = environment
        self._settings = self._config
        if environment is not None:
            self._settings = msgspec.structs.replace(
                self._config, system_prompt=environment.system_prompt, tools=environment.tools
            )
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
            self._use_environment(result)
        self._synced = self._iteration
        self._enter(_PREPARE_ITERATION)

    def _on_model(self, state: states.WaitingModel, response: responses.ModelReplied) -> None:
        reply = response.result
        if isinstance(reply, ModelFailure):
            self._end_in_model_failure(reply)
            return
        if is_context_overflow(reply, self._config.max_context_tokens):
            reply = msgspec.structs.replace(
                reply,
                terminal="context_overflow",
                diagnostic="The prompt filled the context window; no token was left for a reply.",
            )
        self._count_usage(reply)
        driver = self._config.driver
        if reply.terminal in _TERMINAL and reply.terminal not in driver.handles:
            self._end_in_terminal(reply, text_streamed=response.text_streamed)
        else:
            self._follow(driver.on_model(self._view(), state, reply, response.text_streamed))

    def _count_usage(self, reply: ModelReply) -> None:
        self._usage = self._usage + reply.usage
        self._outbox.emit(
            events.UsageReported,
            iteration=self._iteration,
            usage=reply.usage,
            cumulative=self._usage,
        )
        if self._config.emit_trace:
            self._log(effects.ReplyLogged(iteration=self._iteration, reply=reply))

    def _on_tools(self, state: states.WaitingTools, response: responses.ToolsReturned) -> None:
        self._tell_tools(state, response.results)
        wanted = self._config.driver.on_tools(self._view(), response.results)
        self._follow(wanted, response.results)

    def _on_code(self, state: states.WaitingCode, response: responses.CodeReturned) -> None:
        result = response.result
        if isinstance(result, responses.Failure):
            self._outbox.emit(events.CodeFinished, language=state.language, error=result.message)
        else:
            self._outbox.emit(
                events.CodeFinished,
                language=state.language,
                output=result.output,
                error=result.error,
                duration_ms=result.duration_ms,
            )
        self._follow(self._config.driver.on_code(self._view(), state.driver_state, result))

    def _on_checkpoint(
        self, state: states.WaitingCheckpoint, response: responses.CheckpointPassed
    ) -> None:
        delivery = response.delivery
        if isinstance(delivery, responses.Failure):
            self._end_in_failure(delivery, "checkpoint_failed")
        elif self._transcript.take(delivery):
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
                self._give_grace(self._limit_message())
        self._tell_progress()
        self._enter(_PREPARE_ITERATION)

    def _limit_message(self) -> Message:
        text = self._config.turn_limit_message.replace(
            "{max_iterations}", str(self._config.max_iterations)
        )
        message_id = self._transcript.new_message_id("limit")
        return Message(id=message_id, role="system", parts=(Text(text=text),))

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
        state = self._state
        try:
            actions.check_batch(wanted)
            self._apply(wanted)
            if self._state is state:
                self._enter(_PREPARE_ITERATION)
        except actions.DriverFault as fault:
            self._outbox.emit(events.Error, message=str(fault), code="driver_fault")
            if isinstance(state, states.WaitingTools):
                self._close_tools(state, completed)
            self._end(Stopped(reason="runtime_error", detail=str(fault)))

    def _apply(self, wanted: Sequence[actions.Action]) -> None:
        news = False
        for action in wanted:
            if type(action) is actions.Finish:
                if news:
                    self._tell_progress()
                self._end(action.outcome)
                return
            news = _APPLY[type(action)](self, action) or news
        if news:
            self._tell_progress()

    # Each returns whether it is news that a Progress has to carry.

    def _apply_emit(self, action: actions.EmitEvent) -> bool:
        self._outbox.forward(action.event)
        return False

    def _apply_append(self, action: actions.Append) -> bool:
        for record in action.records:
            self._transcript.append(record)
        return bool(action.records)

    def _apply_model(self, action: actions.StartModel) -> bool:
        effect_id = self._new_effect()
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
        self._outbox.emit(
            events.ModelStarted,
            iteration=self._iteration,
            message_count=len(self._transcript.messages),
            tools=names,
        )
        if self._config.emit_trace:
            self._log(effects.RequestLogged(iteration=self._iteration, request=request))
        return False

    def _apply_tools(self, action: actions.StartTools) -> bool:
        self._enter(states.WaitingTools(effect_id=self._new_effect(), calls=tuple(action.calls)))
        return False

    def _apply_code(self, action: actions.StartCode) -> bool:
        self._enter(
            states.WaitingCode(
                effect_id=self._new_effect(),
                language=action.language,
                code=action.code,
                driver_state=action.driver_state,
            )
        )
        return False

    def _apply_checkpoint(self, action: actions.StartCheckpoint) -> bool:
        self._enter(
            states.WaitingCheckpoint(
                effect_id=self._new_effect(), kind=action.kind, then=action.then
            )
        )
        return False

    def _apply_next(self, _action: actions.NextIteration) -> bool:
        self._iteration += 1
        return True

    def _apply_final(self, action: actions.ScheduleFinal) -> bool:
        if not self._view().limit_due:
            return False
        self._give_grace(action.message)
        return True

    # --- ending ------------------------------------------------------------------------------------

    def _end_in_model_failure(self, failure: ModelFailure) -> None:
        if self._config.emit_trace:
            self._log(effects.FailureLogged(iteration=self._iteration, failure=failure))
        self._outbox.emit(
            events.Error, message=failure.message, code=failure.code, terminal=failure.terminal
        )
        self._end(Stopped(reason="provider_error", detail=failure.message))

    def _end_in_terminal(self, reply: ModelReply, *, text_streamed: bool) -> None:
        reason, detail = _TERMINAL[reply.terminal]
        detail = reply.diagnostic or detail
        if reply.text and not text_streamed:
            self._outbox.emit(events.TextDelta, text=reply.text)
        self._outbox.emit(events.ModelFinished, iteration=self._iteration, text=reply.text)
        self._outbox.emit(
            events.Error, message=detail, code=reply.terminal, terminal=reply.terminal
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
        self._outbox.emit(events.Error, message=failure.message, code=failure.code or code)
        self._end(Stopped(reason="runtime_error", detail=failure.message))

    def _close_tools(
        self, state: states.WaitingTools, completed: Sequence[CompletedToolCall]
    ) -> None:
        """Let the driver give every call its one result; nothing may be started any more."""
        wanted = self._config.driver.close(self._view(), state.calls, completed)
        self._apply([each for each in wanted if type(each) in (actions.Append, actions.EmitEvent)])

    def _end(self, outcome: Outcome) -> None:
        self._enter(states.Ended(outcome=outcome))
        self._outbox.effect_id = 0
        self._outbox.emit(events.TurnEnded, outcome=outcome)
        self._outbox.push(
            effects.Done(
                messages=self._transcript.messages,
                new_records=self._transcript.untold(),
                iteration=self._iteration,
                outcome=outcome,
            )
        )

    # --- small steps -------------------------------------------------------------------------------

    def _enter(self, state: states.State) -> None:
        if state.name not in states.TRANSITIONS[self._state.name].get(self._input, ()):
            raise actions.DriverFault(
                f"The driver led from {self._state.name} to {state.name} on {self._input}."
            )
        self._state = state
        self._due = state.is_waiting

    def _tell_progress(self) -> None:
        self._outbox.push(
            effects.Progress(
                messages=self._transcript.messages,
                new_records=self._transcript.untold(),
                iteration=self._iteration,
            )
        )

    def _tell_tools(
        self, state: states.WaitingTools, results: Sequence[CompletedToolCall]
    ) -> None:
        places = {call.call_id: at for at, call in enumerate(state.calls)}
        for result in results:
            self._outbox.emit(
                events.ToolFinished,
                call=places[result.call_id],
                call_id=result.call_id,
                name=result.name,
                args=result.args,
                outcome=result.outcome,
                duration_ms=result.duration_ms,
            )

    def _log(self, entry: effects.LogEntry) -> None:
        self._outbox.push(effects.Log(entry=entry))

    def _new_effect(self) -> int:
        effect_id = self._next_effect
        self._next_effect = effect_id + 1
        return effect_id


_NO_ANSWER: tuple[None, str, Any] = (None, "", None)
_ANSWERS: dict[type, tuple[type | None, str, Any]] = {
    states.WaitingEnvironment: (
        responses.EnvironmentSynced,
        "environment_synced",
        TurnMachine._on_environment,
    ),
    states.WaitingModel: (responses.ModelReplied, "model_replied", TurnMachine._on_model),
    states.WaitingTools: (responses.ToolsReturned, "tools_returned", TurnMachine._on_tools),
    states.WaitingCode: (responses.CodeReturned, "code_returned", TurnMachine._on_code),
    states.WaitingCheckpoint: (
        responses.CheckpointPassed,
        "checkpoint_passed",
        TurnMachine._on_checkpoint,
    ),
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
}
