"""How a turn has to finish, as pure policy.

`TurnConfig.termination` says it to the standard driver: None, by any answer; `value`, by a value; a list of names, by one of
these tools. Anything else is for another driver and asks for nothing here.

Law 1. Words that do not finish the turn get one nudge, which names what is wanted. After it the turn ends as `unfinished`.
Law 2. A tool that ends the turn has ended it: if it is another one than was wanted, there is no nudge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.kernel.messages import ConversationRecord, PluginOrigin, Record
from windlass.kernel.outcomes import Finished, Outcome, Stopped
from windlass.kernel.value import Json

BY_VALUE = "value"
NUDGE_ORIGIN = PluginOrigin(plugin="finish")

_NUDGE = "This turn is not finished: it has to end with {wanted}. Do that now."
_UNFINISHED = "The turn had to end with {wanted}; it ended with {found}."


def finishing_tools(termination: Json) -> Sequence[str]:
    """Return the tools of which one has to end the turn; none if it need not be a tool."""
    return termination if isinstance(termination, (list, tuple)) else ()


def takes_words(termination: Json, outcome: Outcome) -> bool:
    """Whether the model's words, read as this outcome, may finish the turn."""
    if termination == BY_VALUE:
        return not isinstance(outcome, Finished)
    return not finishing_tools(termination)


def takes_tool(termination: Json, tool: str) -> bool:
    """Whether this tool may finish the turn."""
    wanted = finishing_tools(termination)
    return not wanted or tool in wanted


def nudge_text(termination: Json) -> str:
    """Return what the model is told once its words have not finished the turn."""
    return _NUDGE.format(wanted=_wanted(termination))


def unfinished(termination: Json, found: str) -> Stopped:
    """Return the outcome of a turn that ended with something else than it had to."""
    detail = _UNFINISHED.format(wanted=_wanted(termination), found=found)
    return Stopped(reason="unfinished", detail=detail)


def was_nudged(records: Iterable[Record]) -> bool:
    """Whether the model was nudged in the turn of these records."""
    return any(
        type(one) is ConversationRecord and one.message.origin == NUDGE_ORIGIN for one in records
    )


def _wanted(termination: Json) -> str:
    names = finishing_tools(termination)
    if not names:
        return "a value, by a tool that ends the turn"
    return f"a call of {names[0]}" if len(names) == 1 else f"a call of one of {', '.join(names)}"
