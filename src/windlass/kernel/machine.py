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
from typing import Any, get_args

from msgspec.structs import replace

from windlass.kernel import actions, effects, events, responses, states
from windlass.kernel.actions import (
    Append,
    DriverFault,
    EmitEvent,
    Finish,
    NextIteration,
    ScheduleFinal,
)
from windlass.kernel.chain import Chain, as_chain
from windlass.kernel.driver import TurnConfig
from windlass.kernel.effects import Emit
from windlass.kernel.events import ModelStarted, UsageReported
from windlass.kernel.held_turn import TOLD, HeldTurn
from windlass.kernel.iteration_limit import LimitState, with_overflow_told
from windlass.kernel.messages import Message, Record, Text, TurnCause, is_blank
from windlass.kernel.model_call import LIMIT, ModelFailure, ModelReply
from windlass.kernel.outcomes import Outcome, Stopped, StopReason
from windlass.kernel.responses import NOTHING_CAME
from windlass.kernel.snapshot import TurnSnapshot
from windlass.kernel.states import PrepareIteration, WaitingCheckpoint, WaitingModel, WaitingTools
from windlass.kernel.tool_call import CompletedToolCall
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
    "limit": ("limit", "The reply was beyond a limit of the turn."),
}

_PREPARE_ITERATION = PrepareIteration()
_NO_STARTS: dict[type, Any] = {}
_BATCHES = frozenset({list, tuple})


class TurnMachine(HeldTurn):
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
        if causes == ():
            return
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
        snapshot.check(config.session_id, config.turn_id)
        machine = cls.__new__(cls)
        machine._load(config, snapshot)
        return machine

    # --- asking and being told -----------------------------------------------------------------

    def poll(self) -> effects.Effect | None:
        """Return the next effect. None: answer the outstanding one, or the turn is over."""
        queue = self._queue
        while not queue:
            state: Any = self._state
            if state is self._asked:
                return None
            if state.answer is not None:
                self._asked = state
                return state.effect()  # type: ignore[no-any-return]
            self._prepare(state)
        told = queue.popleft()
        return told if type(told) in TOLD else Emit(event=told)

    def advance(self, events: list[events.Event]) -> effects.Asked | None:
        """Return the next effect that asks for something, and add the events before it to `events`.

        This is `poll` for a caller who wants nothing else: of what `poll` would return up to there,
        events come without their `Emit`, and `CancelModel`, `Log`, `Progress` and `Done` are dropped.
        None: answer the outstanding effect, or the turn is over.
        """
        queue = self._queue
        while True:
            if queue:
                if self._has_only_events:
                    events += queue
                else:
                    events += [told for told in queue if type(told) not in TOLD]
                    self._has_only_events = True
                queue.clear()
            state: Any = self._state
            if state is self._asked:
                return None
            if state.answer is not None:
                self._asked = state
                return state.effect()  # type: ignore[no-any-return]
            self._prepare(state)

    def respond(self, response: responses.Response) -> None:
        """Take the answer to the outstanding effect; any other answer changes nothing.

        Raises:
            InvalidInput: an answer that holds something else, or tool results that are not one for
                each call. Nothing changed.
        """
        state: Any = self._state
        kind = type(response)
        if kind is not state.answer or response.id != state.effect_id:
            return
        self._about = response.id
        _ON[kind](self, state, response)

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
            self._about = 0
            self._emit(error)
        if isinstance(state, states.WaitingModel):
            self._tell(effects.CancelModel(id=state.effect_id))
        self._about = getattr(state, "effect_id", 0)
        self._emit_finished(kept.items())
        self._close(closing)
        self._end(outcome)

    # --- preparing -------------------------------------------------------------------------------

    def _prepare(self, state: states.Preparing | states.PrepareIteration) -> None:
        self._about = 0
        config = self._config
        if type(state) is PrepareIteration:
            if config.sync_environment and self._synced != self._iteration:
                self._sync_environment(update_config=True)
            else:
                self._follow(config.driver.prepare(self._view()))
        elif config.max_iterations == 0:
            self._end(Stopped(reason="max_iterations", detail="The turn may take no iteration."))
        elif config.sync_environment:
            self._sync_environment(update_config=False)
        else:
            self._state = _PREPARE_ITERATION

    def _sync_environment(self, *, update_config: bool) -> None:
        self._last_effect = effect_id = self._last_effect + 1
        self._state = states.WaitingEnvironment(effect_id=effect_id, update_config=update_config)

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
        self._state = _PREPARE_ITERATION

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
        usage = reply.usage
        self._usage = cumulative = self._usage + usage
        self._last_event = position = self._last_event + 1
        self._queue.append(
            UsageReported(
                id=f"{self._event_ids}{position}",
                correlation_id=f"{self._correlation_ids}{self._about}",
                iteration=self._iteration,
                usage=usage,
                cumulative=cumulative,
            )
        )
        if self._config.emit_trace:
            self._log(effects.ReplyLogged(iteration=self._iteration, reply=reply))

    def _on_tools(self, state: states.WaitingTools, response: responses.ToolsReturned) -> None:
        results = state.in_call_order(response.results)
        wanted = self._config.driver.on_tools(self._view(), results)
        self._emit_finished(enumerate(results))
        self._follow(wanted, results)

    def _on_code(self, state: states.WaitingCode, response: responses.CodeReturned) -> None:
        result = response.result
        if not isinstance(result, responses.Failure):
            check_instance(result, responses.CodeResult, field="result")
        wanted = self._config.driver.on_code(self._view(), state.driver_state, result)
        if isinstance(result, responses.Failure):
            self._emit(events.CodeFinished(language=state.language, error=result.message))
        else:
            self._emit(
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
        if delivery is not NOTHING_CAME:
            if type(delivery) is not responses.CheckpointDelivery:
                check_instance(delivery, responses.Failure, field="delivery")
                self._end_in_failure(delivery, "checkpoint_failed")  # type: ignore[arg-type] # checked
                return
            if self._transcript.take(delivery):
                self._go_on_with_delivery(state)
                return
        if state.then is None:
            self._state = _PREPARE_ITERATION
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
        self._state = _PREPARE_ITERATION

    def _give_grace(self, message: Message) -> None:
        self._limit = LimitState(grace_given=True)
        self._transcript.keep(message)

    # --- what a driver wants ---------------------------------------------------------------------

    def _follow(  # noqa: C901 - one branch for each action that every iteration has
        self, wanted: Sequence[actions.Action], completed: Sequence[CompletedToolCall] = ()
    ) -> None:
        """Do what the driver wants; a driver that leads nowhere ends the turn, not the session."""
        starts = _STARTS[type(self._state)]
        try:
            if type(wanted) not in _BATCHES:
                raise _no_action(wanted)
            action: Any
            for action in wanted:
                kind = type(action)
                if kind in starts:
                    self._state = starts[kind](self, action)
                    starts = _NO_STARTS
                elif kind is Append:
                    if action.records:
                        self._transcript.extend(action.records)
                        self._has_news = self._news
                elif kind is EmitEvent:
                    self._emit(action.event)
                elif kind is NextIteration:
                    self._iteration += 1
                    self._has_news = self._news
                elif self._finishes(action, may_end=bool(starts)):
                    return
            if starts:
                if type(self._state) is PrepareIteration:
                    raise self._no_step_to(PrepareIteration)
                self._state = _PREPARE_ITERATION
        except DriverFault as fault:
            self._end_in_driver_fault(str(fault), completed)
        if self._has_news:
            self._tell_progress()

    def _finishes(self, action: actions.Action, *, may_end: bool) -> bool:
        """Do one of the rarer actions; say whether it ended the turn."""
        kind = type(action)
        if kind is Finish:
            if self._has_news:
                self._tell_progress()
            if not may_end:
                raise self._no_step_to(states.Ended)
            self._end(action.outcome)  # type: ignore[union-attr] # by its kind
            return True
        if kind in _STARTED:
            raise self._no_step_to(_STARTED[kind])
        if kind is not ScheduleFinal:
            raise _no_action(action)
        if self._view().limit_due:
            self._give_grace(action.message)  # type: ignore[union-attr] # by its kind
            self._has_news = self._news
        return False

    def _start_model(self, action: actions.StartModel) -> WaitingModel:
        self._last_effect = self._about = effect_id = self._last_effect + 1
        request = action.request
        state = WaitingModel(effect_id=effect_id, request=request, driver_state=action.driver_state)
        names = self._tool_names
        if request.tools is not self._settings.tools:
            names = tuple([tool.name for tool in request.tools])
        self._last_event = position = self._last_event + 1
        self._queue.append(
            ModelStarted(
                id=f"{self._event_ids}{position}",
                correlation_id=f"{self._correlation_ids}{effect_id}",
                iteration=self._iteration,
                message_count=self._transcript.messages.length,
                tools=names,
            )
        )
        if self._config.emit_trace:
            self._log(effects.RequestLogged(iteration=self._iteration, request=request))
        return state

    def _start_tools(self, action: actions.StartTools) -> WaitingTools:
        calls = tuple(action.calls)
        if len(calls) != 1 and len({call.call_id for call in calls}) < max(len(calls), 1):
            raise DriverFault("The driver started no calls, or two calls of one id.")
        self._last_effect = effect_id = self._last_effect + 1
        return WaitingTools(effect_id=effect_id, calls=calls)

    def _start_code(self, action: actions.StartCode) -> states.WaitingCode:
        self._last_effect = effect_id = self._last_effect + 1
        return states.WaitingCode(
            effect_id=effect_id,
            language=action.language,
            code=action.code,
            driver_state=action.driver_state,
        )

    def _start_checkpoint(self, action: actions.StartCheckpoint) -> WaitingCheckpoint:
        self._last_effect = effect_id = self._last_effect + 1
        return WaitingCheckpoint(effect_id=effect_id, kind=action.kind, then=action.then)

    # --- ending ------------------------------------------------------------------------------------

    def _end_in_model_failure(self, failure: ModelFailure) -> None:
        if self._config.emit_trace:
            self._log(effects.FailureLogged(iteration=self._iteration, failure=failure))
        self._emit(
            events.Error(message=failure.message, code=failure.code, terminal=failure.terminal)
        )
        reason: StopReason = "limit" if failure.terminal == LIMIT else "provider_error"
        self._end(Stopped(reason=reason, detail=failure.message))

    def _end_in_terminal(self, reply: ModelReply, *, text_streamed: bool) -> None:
        reason, detail = _TERMINAL[reply.terminal]
        detail = reply.diagnostic or detail
        if reply.text and not text_streamed:
            self._emit(events.TextDelta(text=reply.text))
        self._emit(events.ModelFinished.of(reply, iteration=self._iteration))
        self._emit(events.Error(message=detail, code=reply.terminal, terminal=reply.terminal))
        # Without the calls that it belongs to, no provider takes a blob back.
        said = tuple(
            [
                replace(part, replay=None)
                for part in reply.parts
                if type(part) is Text and not is_blank(part)
            ]
        )
        if said:
            message_id = self._ids.message(self._iteration, "reply")
            self._transcript.keep(
                Message(id=message_id, role="assistant", parts=said, incomplete=True)
            )
            self._tell_progress()
        self._end(Stopped(reason=reason, detail=detail))

    def _end_in_failure(self, failure: responses.Failure, code: str) -> None:
        self._emit(events.Error(message=failure.message, code=failure.code or code))
        self._end(Stopped(reason="runtime_error", detail=failure.message))

    def _end_in_driver_fault(self, detail: str, completed: Sequence[CompletedToolCall]) -> None:
        state = self._state
        self._emit(events.Error(message=detail, code="driver_fault"))
        if self._transcript.has_open_calls():
            calls = state.calls if isinstance(state, states.WaitingTools) else ()
            self._close(self._config.driver.close(self._view(), calls, completed))
        self._end(Stopped(reason="runtime_error", detail=detail))

    def _close(self, closing: Sequence[actions.Action]) -> None:
        """Keep what gives every call its one result; nothing may be started any more."""
        for action in closing:
            if isinstance(action, Append) and action.records:
                self._transcript.extend(action.records)
                self._has_news = self._news
            elif isinstance(action, EmitEvent):
                self._emit(action.event)
        if self._has_news:
            self._tell_progress()

    def _end(self, outcome: Outcome) -> None:
        self._state = self._asked = states.Ended(outcome=outcome)
        self._has_news = False
        self._about = 0
        self._emit(events.TurnEnded(outcome=outcome))
        transcript = self._transcript
        self._tell(
            effects.Done(
                messages=transcript.messages,
                new_records=transcript.tell(),
                iteration=self._iteration,
                outcome=outcome,
            )
        )

    # --- small steps -------------------------------------------------------------------------------

    def _no_step_to(self, state: type[states.State]) -> DriverFault:
        return DriverFault(
            f"The driver led from {self._state.name} to {state.name}, which is not a step."
        )


def _no_action(found: object) -> DriverFault:
    return DriverFault(f"The driver returned {type(found).__name__}, which is not an action.")


# state → where any input of it may lead
_LEADS_TO: dict[type, frozenset[type]] = {
    state: frozenset().union(
        *[after for (before, _), after in states.NEXT.items() if before is state]
    )
    for state in get_args(states.State)
}
# response → what it does to the turn
_ON: dict[type, Any] = {
    responses.EnvironmentSynced: TurnMachine._on_environment,
    responses.ModelReplied: TurnMachine._on_model,
    responses.ToolsReturned: TurnMachine._on_tools,
    responses.CodeReturned: TurnMachine._on_code,
    responses.CheckpointPassed: TurnMachine._on_checkpoint,
}
# action that starts something → the state that it leads to
_STARTED: dict[type, type[states.State]] = {
    actions.StartModel: states.WaitingModel,
    actions.StartTools: states.WaitingTools,
    actions.StartCode: states.WaitingCode,
    actions.StartCheckpoint: states.WaitingCheckpoint,
}
_MAKES: dict[type, Any] = {
    actions.StartModel: TurnMachine._start_model,
    actions.StartTools: TurnMachine._start_tools,
    actions.StartCode: TurnMachine._start_code,
    actions.StartCheckpoint: TurnMachine._start_checkpoint,
}
# state → what a driver may start there, and what makes the state that follows
_STARTS: dict[type, dict[type, Any]] = {
    state: {kind: _MAKES[kind] for kind, started in _STARTED.items() if started in following}
    for state, following in _LEADS_TO.items()
}
