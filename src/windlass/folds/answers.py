"""What a journal answers to the effects of a turn's machine: recorded rows, as responses.

Law 1. Rows are found by their place, the kind and number of an effect; what was asked there is not compared. What
    stands in the journal was accepted by the worker that wrote it.
Law 2. What plugins were to look at counts once it is recorded as looked at, and then as they left it.
Law 3. What an effect before the last recorded one left unrecorded was nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from windlass.journal.commands import AwaitEventCommand, ToolCallCommand
from windlass.journal.entries import Claimed, Recorded, TurnStarted
from windlass.journal.moments import (
    CallPresented,
    CallReturned,
    CheckpointGiven,
    CodeRan,
    EnvironmentBuilt,
    ModelAnswered,
    RecordedMoment,
    ReplyHooked,
)
from windlass.journal.pages import JournalPage
from windlass.kernel.effects import (
    Asked,
    CallModel,
    CallTools,
    RunCheckpoint,
    RunCode,
    SyncEnvironment,
)
from windlass.kernel.model_call import ModelReply
from windlass.kernel.responses import (
    CheckpointPassed,
    CodeReturned,
    EnvironmentSynced,
    Failure,
    ModelReplied,
    Response,
    ToolsReturned,
)
from windlass.kernel.tool_call import CompletedToolCall

Place: TypeAlias = tuple[str, ...]
"""Where a row stands in its turn: the kind of its effect, the effect's id, and for a call its number and moment."""

_FIRST_FORMAT = 1
_OF_THE_CALL = ("intent", "result")
_LOOKS = (ReplyHooked, CallPresented)


def place_in(key: str) -> Place:
    """Return the place that a replay key names."""
    return tuple(key.split("/")[4:])


def syncs_first(place: Place) -> bool | None:
    """Return whether the machine of a turn with a row at this place asks for an environment first.

    Then its first model call is its second effect. None: the row does not tell. It is told nowhere else, and stays as it
    was when the turn began: other numbers would be other keys.
    """
    if place[0] == "sync_environment":
        return True
    return place[1] != "1" if place[0] == "model_call" else None


class Answers:
    """What is recorded of a turn so far."""

    def __init__(self) -> None:
        self.started: TurnStarted | None = None
        # Whether the machine asks for an environment first, once that is known.
        self.syncs: bool | None = None
        self._last_effect = 0
        self._moments: dict[Place, RecordedMoment] = {}
        # What ran, and what was waited for, by the place of the call or the wait.
        self._ran: dict[Place, ToolCallCommand] = {}
        self._awaited: dict[Place, str] = {}
        # Whether the journal is of the first format, and what of it is recorded as looked at further on.
        self._is_old = False
        self._looked_at_later: set[Place] = set()

    def look_ahead(self, pages: Iterable[JournalPage]) -> None:
        """Note what is recorded as looked at in a journal of the first format.

        Its start record does not say what plugins look at, and only what they changed is recorded. Of turns of that
        format only those that have ended are read, so all of it is there.
        """
        for page in pages:
            if page.format != _FIRST_FORMAT:
                continue
            self._is_old = True
            for entry in page.entries:
                if type(entry) is Recorded and type(entry.outcome) in _LOOKS:
                    self._looked_at_later.add(place_in(entry.key))

    def note(self, entry: Claimed | Recorded) -> Place | None:
        """Take in what was claimed or recorded; return the place of an outcome that is new."""
        place = place_in(entry.key)
        number = place[1].partition(".")[0]
        if number.isdigit():
            self._last_effect = max(self._last_effect, int(number))
        if self.syncs is None:
            self.syncs = syncs_first(place)
        command = entry.command
        if isinstance(command, ToolCallCommand) and place[-1] in _OF_THE_CALL:
            self._ran.setdefault(place[:-1], command)
        elif isinstance(command, AwaitEventCommand):
            self._awaited.setdefault(place, command.wait_key)
        if type(entry) is not Recorded or place in self._moments:
            return None
        self._moments[place] = entry.outcome
        return place

    def ran(self, place: Place) -> ToolCallCommand | None:
        """Return what ran as the call at a place."""
        return self._ran.get(place)

    def waited_for(self, place: Place) -> str | None:
        """Return the key of the wait that was awaited at a place."""
        return self._awaited.get(place)

    # ------------------------------------------------------------------ answering

    def to(self, effect: Asked) -> Response | None:
        """Return the response that is recorded for an effect; None: nothing is known of it yet."""
        match effect:
            case CallModel():
                return self._reply(effect)
            case CallTools():
                # The last first: mostly it is the one that is missing.
                numbers = reversed(range(len(effect.calls)))
                is_whole = all(self._returned(effect.id, number) for number in numbers)
                return (
                    ToolsReturned(id=effect.id, results=self.results(effect)) if is_whole else None
                )
            case RunCheckpoint():
                return self._delivery(effect)
            case SyncEnvironment():
                return self._environment(effect)
            case RunCode():
                ran = self._moments.get(("run_code", str(effect.id)))
                return (
                    CodeReturned(id=effect.id, result=ran.result)
                    if isinstance(ran, CodeRan)
                    else None
                )

    def results(self, effect: CallTools) -> tuple[CompletedToolCall, ...]:
        """Return the calls of an effect that have their result, in call order."""
        found: list[CompletedToolCall] = []
        for number, call in enumerate(effect.calls):
            returned = self._returned(effect.id, number)
            if returned is not None:
                ran = self._ran.get(("tool_call", str(effect.id), str(number)))
                found.append(
                    CompletedToolCall(
                        call_id=call.call_id,
                        name=call.name,
                        args=call.args if ran is None else ran.args,
                        outcome=returned.outcome,
                        duration_ms=returned.duration_ms,
                        replay=call.replay,
                    )
                )
        return tuple(found)

    @property
    def has_unseen_results(self) -> bool:
        """Whether a batch that the turn's end cut off may hold results that plugins were to look at, and did not.

        A journal of the first format does not tell.
        """
        return self._is_old and self.started is not None and bool(self.started.plugins)

    def _reply(self, effect: CallModel) -> ModelReplied | None:
        effect_id = str(effect.id)
        answered = self._moments.get(("model_call", effect_id))
        if not isinstance(answered, ModelAnswered):
            return None
        result, is_shown = answered.result, answered.text_streamed
        if isinstance(result, ModelReply):
            looked_at = ("model_hooks", effect_id)
            hooked = self._moments.get(looked_at)
            if isinstance(hooked, ReplyHooked):
                raw, result = result, hooked.reply or result
                is_shown = is_shown and result.text == raw.text
            elif self._is_to_be_looked_at("model", looked_at):
                return None
        return ModelReplied(id=effect.id, result=result, text_streamed=is_shown)

    def _returned(self, effect_id: int, number: int) -> CallReturned | None:
        """Return what a call gave, as the turn goes on with it."""
        place = (str(effect_id), str(number))
        returned = self._moments.get(("tool_call", *place, "result"))
        if not isinstance(returned, CallReturned):
            return None
        looked_at = ("tool_hooks", *place, "presented")
        presented = self._moments.get(looked_at)
        if isinstance(presented, CallPresented):
            if presented.outcome is None:
                return returned
            return CallReturned(outcome=presented.outcome, duration_ms=returned.duration_ms)
        return None if self._is_to_be_looked_at("tools", looked_at) else returned

    def _delivery(self, effect: RunCheckpoint) -> CheckpointPassed | None:
        given = self._moments.get(("checkpoint", str(effect.id)))
        if isinstance(given, CheckpointGiven):
            return CheckpointPassed(id=effect.id, delivery=given.delivery)
        return CheckpointPassed(id=effect.id) if self._was_passed(effect) else None

    def _environment(self, effect: SyncEnvironment) -> EnvironmentSynced | None:
        built = self._moments.get(("sync_environment", str(effect.id)))
        if isinstance(built, EnvironmentBuilt):
            # What holds from here on shapes requests, of which no fact tells.
            failure = built.result if isinstance(built.result, Failure) else None
            return EnvironmentSynced(id=effect.id, result=failure)
        return EnvironmentSynced(id=effect.id) if self._was_passed(effect) else None

    def _is_to_be_looked_at(self, what: str, place: Place) -> bool:
        looks = () if self.started is None else self.started.looks
        return what in looks or place in self._looked_at_later

    def _was_passed(self, effect: Asked) -> bool:
        return effect.id < self._last_effect
