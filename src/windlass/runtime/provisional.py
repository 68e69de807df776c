"""The provisional view of a turn: its messages so far, as the journal has them."""

from __future__ import annotations

from windlass.journal import (
    CallPresented,
    CallReturned,
    CheckpointGiven,
    EnvironmentBuilt,
    ModelAnswered,
    ReplyHooked,
    Scope,
    ToolCallCommand,
    TurnJournal,
    replay_key,
)
from windlass.kernel import TurnMachine, effects
from windlass.kernel.effects import Effect
from windlass.kernel.ids import TurnIds
from windlass.kernel.messages import ConversationRecord, InputOrigin, Message
from windlass.kernel.model_call import ModelReply
from windlass.kernel.responses import (
    CheckpointPassed,
    EnvironmentSynced,
    ModelReplied,
    Response,
    ToolsReturned,
)
from windlass.kernel.tool_call import CompletedToolCall
from windlass.ports import Store, TurnView
from windlass.runtime.compaction_driver import options_of
from windlass.runtime.outputs import output_of
from windlass.runtime.program import Program
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.turn_start import config_of, limits_of, opening_messages


async def provisional_messages(
    store: Store, view: TurnView, program: Program | None
) -> tuple[Message, ...]:
    """Return what a turn has said so far; committed messages once it is done."""
    if view.page is not None:
        nodes = view.page.nodes
        return tuple(node.message for node in nodes if isinstance(node, ConversationRecord))
    journal = view.journal()
    if journal.started is None or program is None:
        asked = input_message(view)
        return () if asked is None else (asked,)
    session = await store.load_session(view.session_id, frame=True)
    return _Replay(view, journal, SessionMemory.of(session), program).messages()


def input_message(view: TurnView) -> Message | None:
    """Return the message that was accepted as the turn's input."""
    if view.request is None or not view.request.input:
        return None
    ids = TurnIds(view.session_id, view.turn_id)
    return Message(
        id=ids.message("in", "input"),
        role="user",
        parts=view.request.input,
        origin=InputOrigin(turn_id=view.turn_id),
    )


class _Replay:
    """Answers a machine from a journal, as far as that goes."""

    def __init__(
        self, view: TurnView, journal: TurnJournal, memory: SessionMemory, program: Program
    ) -> None:
        self._view = view
        self._journal = journal
        self._before = len(memory.messages)
        started, request = journal.started, view.request
        assert started is not None  # noqa: S101 - the caller looked
        assert request is not None  # noqa: S101 - it is kept while the turn is unfinished
        self._looks = started.looks
        place = (view.session_id, view.turn_id)
        history = memory.messages
        for message in opening_messages(place, started, request):
            history = history.append(message)
        config = config_of(
            program,
            started,
            place,
            limits=limits_of(program, started),
            output=output_of(program, request, started),
            compact=options_of(request),
        )
        self._machine = TurnMachine(config, history)

    def messages(self) -> tuple[Message, ...]:
        machine = self._machine
        while (effect := machine.poll()) is not None:
            if hasattr(effect, "id"):
                response = self._answer(effect)
                if response is None:
                    break
                machine.respond(response)
        return tuple(machine.messages[self._before :])

    def _answer(self, effect: Effect) -> Response | None:
        """Return the response that the journal holds; None where it ends."""
        match effect:
            case effects.CallModel():
                return self._reply(effect)
            case effects.CallTools():
                return self._results(effect)
            case effects.RunCheckpoint():
                given = self._moment("checkpoint", effect.id)
                if isinstance(given, CheckpointGiven):
                    return CheckpointPassed(id=effect.id, delivery=given.delivery)
                return CheckpointPassed(id=effect.id)
            case effects.SyncEnvironment():
                built = self._moment("sync_environment", effect.id)
                result = built.result if isinstance(built, EnvironmentBuilt) else None
                return EnvironmentSynced(id=effect.id, result=result)
            case _:
                return None

    def _reply(self, effect: effects.CallModel) -> ModelReplied | None:
        moment = self._moment("model_call", effect.id)
        if not isinstance(moment, ModelAnswered):
            return None
        result, hooked = moment.result, self._moment("model_hooks", effect.id)
        if isinstance(hooked, ReplyHooked):
            result = hooked.reply or result
        elif "model" in self._looks and isinstance(result, ModelReply):
            return None  # plugins are still looking at it
        return ModelReplied(id=effect.id, result=result, text_streamed=True)

    def _results(self, effect: effects.CallTools) -> ToolsReturned | None:
        results = [self._result(effect, at) for at in range(len(effect.calls))]
        found = tuple(one for one in results if one is not None)
        return ToolsReturned(id=effect.id, results=found) if len(found) == len(results) else None

    def _result(self, effect: effects.CallTools, at: int) -> CompletedToolCall | None:
        call = effect.calls[at]
        row = self._journal.row(self._key("tool_call", effect.id, at))
        if row is None or not isinstance(row.outcome, CallReturned):
            return None
        args = row.command.args if isinstance(row.command, ToolCallCommand) else call.args
        seen = self._journal.row(f"{self._key('tool_hooks', effect.id, at)}/presented")
        outcome = row.outcome.outcome
        if seen is not None and isinstance(seen.outcome, CallPresented):
            outcome = seen.outcome.outcome or outcome
        elif "tools" in self._looks:
            return None  # plugins are still looking at it
        return CompletedToolCall(
            call_id=call.call_id,
            name=call.name,
            args=args,
            outcome=outcome,
            duration_ms=row.outcome.duration_ms,
            replay=call.replay,
        )

    def _moment(self, kind: str, effect_id: int) -> object:
        row = self._journal.row(self._key(kind, effect_id))
        return None if row is None else row.outcome

    def _key(self, kind: str, effect_id: int, at: int | None = None) -> str:
        scope = Scope(
            session_id=self._view.session_id,
            turn_id=self._view.turn_id,
            turn_index=self._view.turn_index,
            iteration=self._machine.iteration,
        )
        return replay_key(scope, kind, str(effect_id), call_ordinal=at)  # type: ignore[arg-type]  # a kind
