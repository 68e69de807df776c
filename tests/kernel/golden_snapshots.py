"""A hand-built snapshot in every state, and the states themselves, for the golden files.

The laws of golden_values.py hold here too.
"""

from __future__ import annotations

from tests.kernel import golden_values as built
from tests.kernel.golden_views import VIEWS
from windlass.kernel import (
    CancelModel,
    Chain,
    Emit,
    Finished,
    LimitState,
    Message,
    Record,
    TextDelta,
    TurnSnapshot,
    Value,
    WaitingModel,
)
from windlass.kernel.states import (
    Ended,
    PrepareIteration,
    Preparing,
    State,
    WaitingCheckpoint,
    WaitingCode,
    WaitingEnvironment,
    WaitingTools,
)

STATES: dict[str, State] = {
    "Preparing": Preparing(),
    "WaitingEnvironment": WaitingEnvironment(effect_id=1, update_config=False),
    "PrepareIteration": PrepareIteration(),
    "WaitingModel": WaitingModel(effect_id=2, request=built.request, driver_state={"step": 1}),
    "WaitingTools": WaitingTools(effect_id=3, calls=(built.pending,)),
    "WaitingCode": WaitingCode(effect_id=4, language="python", code="1", driver_state=[1]),
    "WaitingCheckpoint": WaitingCheckpoint(
        effect_id=5, kind="before_completion", then=Finished(text="bye")
    ),
    "Ended": Ended(outcome=built.stopped),
}

_MESSAGES: tuple[Message, ...] = (built.asked,)
_RECORDS: tuple[Record, ...] = (built.record,)


def _in(state: State) -> TurnSnapshot:
    return TurnSnapshot(
        format=1,
        session_id="s-1",
        turn_id="t-1",
        state=state,
        messages=Chain(_MESSAGES),
        records=Chain(_RECORDS),
        queue=(Emit(event=TextDelta(text="he")), CancelModel(id=2)),
        causes=(built.cause,),
        iteration=3,
        iteration_offset=1,
        synced_iteration=2,
        next_effect=6,
        next_message=4,
        next_event=9,
        told_records=1,
        usage=built.usage,
        limit=LimitState(grace_given=True),
        environment=built.environment,
    )


SNAPSHOTS: dict[str, Value] = {
    "TurnSnapshot.least": TurnSnapshot(
        format=1,
        session_id="s-1",
        turn_id="t-1",
        state=Preparing(),
        messages=Chain(),
        records=Chain(),
    ),
    **{f"TurnSnapshot.{name}": _in(state) for name, state in STATES.items()},
}

# File name → what is in it.
GOLDEN: dict[str, dict[str, Value]] = {
    "parts": built.PARTS,
    "messages": built.MESSAGES,
    "model_calls": built.MODEL_CALLS,
    "tool_calls": built.TOOL_CALLS,
    "outcomes": built.OUTCOMES,
    "events": built.EVENTS,
    "effects": built.EFFECTS,
    "responses": built.RESPONSES,
    "actions": built.ACTIONS,
    "limits": built.LIMITS,
    "states": {**STATES},
    "snapshots": SNAPSHOTS,
    "views": VIEWS,
}

VALUES: dict[str, Value] = {
    name: value for group in GOLDEN.values() for name, value in group.items()
}
