"""Facts of the turn `s/t`, in short: by the number of the event and the effect that it is about."""

from __future__ import annotations

from typing import Any

from tests.folds.rows import PREFIX
from windlass.kernel import (
    Finished,
    Json,
    ModelFinished,
    Outcome,
    PendingToolCall,
    ToolFinished,
    ToolOutcome,
    TurnEnded,
    Usage,
    UsageReported,
)
from windlass.kernel.events import Event

WORK = PendingToolCall(call_id="c0", name="work", args={"n": 0})
ALSO = PendingToolCall(call_id="c1", name="also", args={"n": 1})
DONE = Finished(text="Done.")


def fact(kind: type[Any], about: object, correlation: object = "", /, **fields: Any) -> Event:
    """Return a fact with its ids."""
    of = f"c_{PREFIX}.{correlation}" if correlation != "" else ""
    made: Event = kind(id=f"e_{PREFIX}.{about}", correlation_id=of, **fields)
    return made


def used(about: int, effect: int, *, iteration: int = 0) -> Event:
    """Return the report that a call used nothing."""
    nothing = Usage()
    return fact(
        UsageReported, about, effect, iteration=iteration, usage=nothing, cumulative=nothing
    )


def replied(
    about: int, effect: int, text: str = "Done.", *calls: PendingToolCall, iteration: int = 0
) -> Event:
    return fact(ModelFinished, about, effect, iteration=iteration, text=text, calls=calls)


def returned(about: int, at: str, value: Json = "ok", **more: Any) -> Event:
    """Return the end of the call `work`, unless told otherwise."""
    outcome = ToolOutcome(value=value)
    told = {"call_id": "c0", "name": "work", "args": {"n": 0}, "outcome": outcome}
    return fact(ToolFinished, about, at, **(told | more))


def also(about: int, at: str, value: Json = "ok", **more: Any) -> Event:
    """Return the end of the call `also`."""
    return returned(
        about, at, value, **({"call_id": "c1", "name": "also", "args": {"n": 1}} | more)
    )


def end(outcome: Outcome = DONE) -> Event:
    return fact(TurnEnded, "end", 0, outcome=outcome)
