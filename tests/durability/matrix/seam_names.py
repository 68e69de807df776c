"""What a unit is called in the trace, and what of it is seen outside once it is on disk."""

from __future__ import annotations

from tests.durability.matrix.steps import STEPS
from windlass.journal import (
    CallReturned,
    Claimed,
    DriveBegan,
    DriveEnded,
    Entry,
    ModelAnswered,
    Recorded,
)
from windlass.journal.keys import parse_key
from windlass.ports import Unit


def unit_name(unit: Unit) -> str:
    """Return the parts of a unit, in the order in which they take effect."""
    found = ["accept"] * (unit.accept is not None) + ["start"] * (unit.start is not None)
    # That a drive began or ended rides along with other things.
    told = [one for one in unit.entries if not isinstance(one, (DriveBegan, DriveEnded))]
    found += [_entry_name(entry) for entry in told]
    found += [f"ask {wait.kind}" for wait in unit.waits]
    found += ["park"] * unit.parks + ["commit"] * (unit.commit is not None)
    found += [f"send {type(errand).__name__}" for errand in unit.errands]
    return " + ".join(found)


def lines_of(unit: Unit) -> list[str]:
    """Return what is to be noted of a unit that is on disk."""
    lines = []
    for entry in unit.entries:
        if isinstance(entry, Claimed) and entry.contract is not None:
            lines.append(f"claimed {_tool(entry.key)} {entry.contract}")
        elif isinstance(entry, Recorded) and isinstance(entry.outcome, CallReturned):
            lines.append(f"recorded {_tool(entry.key)} {entry.outcome.outcome.status}")
        elif isinstance(entry, Recorded) and isinstance(entry.outcome, ModelAnswered):
            lines.append(f"kept {parse_key(entry.key).scope.iteration}")
    return lines + ["committed"] * (unit.commit is not None)


def _tool(key: str) -> str:
    """Return the tool that a call's key is about: by its place in what the model asks for."""
    parts = parse_key(key)
    assert parts.call_ordinal is not None
    return STEPS[parts.scope.iteration or 0][parts.call_ordinal]


def _entry_name(entry: Entry) -> str:
    if isinstance(entry, Claimed):
        is_wait = parse_key(entry.key).kind == "await_event"
        return "pending" if is_wait else f"claim {_tool(entry.key)}"
    if not isinstance(entry, Recorded):
        return "begin"
    parts = parse_key(entry.key)
    if parts.kind == "tool_call":
        what = "leave" if parts.moment == "decide" else "result"
        return f"{what} {_tool(entry.key)}"
    return {
        "model_call": f"reply {parts.scope.iteration}",
        "direct_call": "reply adviser",
        "await_event": f"answer {parts.effect_id.rpartition('.')[2]}",
        "checkpoint": "mail" if getattr(entry.outcome, "taken", ()) else "repair",
        "sync_environment": "tools",
    }[parts.kind]
