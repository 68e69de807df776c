"""The provisional view of a turn: its messages so far, as the journal has them."""

from __future__ import annotations

import msgspec

from windlass.journal import TurnJournal, TurnStarted
from windlass.journal.moments import CheckpointGiven, EnvironmentBuilt, ModelAnswered, ReplyHooked
from windlass.kernel import Message, ModelReply, TurnMachine, effects, responses
from windlass.ports import Store, TurnView
from windlass.runtime.program import Program
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.turn_record import calls_so_far, messages_in
from windlass.runtime.turn_start import config_of, input_message, with_opening


async def provisional_messages(
    store: Store, view: TurnView, program: Program | None
) -> tuple[Message, ...]:
    """Return what a turn has said so far; committed messages once it is done."""
    if view.page is not None:
        return messages_in(view.page.nodes)
    journal = view.journal()
    if journal.started is None or program is None:
        has_input = view.request is not None and view.request.input
        place = (view.session_id, view.turn_id)
        return (input_message(place, view.request.input),) if has_input else ()  # type: ignore[union-attr]  # it has
    session = await store.load_session(view.session_id, frame=True)
    return _Replay(view, journal, journal.started, SessionMemory.of(session), program).messages()


class _Replay:
    """Answers a machine from a journal, as far as that goes."""

    def __init__(
        self,
        view: TurnView,
        journal: TurnJournal,
        started: TurnStarted,
        memory: SessionMemory,
        program: Program,
    ) -> None:
        place, request = (view.session_id, view.turn_id), view.request
        assert request is not None  # noqa: S101 - it is kept while the turn is unfinished
        self._n_before = memory.messages.length
        history, _ = with_opening(memory.messages, place, started, request)
        self._machine = TurnMachine(config_of(program, started, place, request), history)
        self._looks = started.looks
        # What was recorded, by the kind of the effect and its id; and of tools, by call.
        self._moments = {tuple(row.key.split("/")[4:6]): row.outcome for row in journal.rows()}
        self._calls = {call.call_id: call for call in calls_so_far(journal)}

    def messages(self) -> tuple[Message, ...]:
        machine = self._machine
        while (effect := machine.advance([])) is not None:
            response = self._answer(effect)
            if response is None:
                break
            machine.respond(response)
        return tuple(machine.messages[self._n_before :])

    def _answer(self, effect: effects.Asked) -> responses.Response | None:
        """Return the response that the journal holds; None where it ends."""
        match effect:
            case effects.CallModel():
                return self._reply(effect)
            case effects.CallTools():
                return self._results(effect)
            case effects.RunCheckpoint():
                given = self._moment("checkpoint", effect.id)
                if isinstance(given, CheckpointGiven):
                    return responses.CheckpointPassed(id=effect.id, delivery=given.delivery)
                return responses.CheckpointPassed(id=effect.id)
            case effects.SyncEnvironment():
                built = self._moment("sync_environment", effect.id)
                result = built.result if isinstance(built, EnvironmentBuilt) else None
                return responses.EnvironmentSynced(id=effect.id, result=result)
            case _:
                return None

    def _reply(self, effect: effects.CallModel) -> responses.ModelReplied | None:
        moment = self._moment("model_call", effect.id)
        if not isinstance(moment, ModelAnswered):
            return None
        result, hooked = moment.result, self._moment("model_hooks", effect.id)
        if isinstance(hooked, ReplyHooked):
            result = hooked.reply or result
        elif "model" in self._looks and isinstance(result, ModelReply):
            return None  # plugins are still looking at it
        return responses.ModelReplied(id=effect.id, result=result, text_streamed=True)

    def _results(self, effect: effects.CallTools) -> responses.ToolsReturned | None:
        if any(call.call_id not in self._calls for call in effect.calls):
            return None
        results = [
            msgspec.structs.replace(self._calls[call.call_id], replay=call.replay)
            for call in effect.calls
        ]
        return responses.ToolsReturned(id=effect.id, results=tuple(results))

    def _moment(self, kind: str, effect_id: int) -> object:
        return self._moments.get((kind, str(effect_id)))
