"""Hand-off: whether a turn may end with one, the turn that follows, and what the agent that takes over sees.

Law 1. One unit ends the turn, gives the session away and accepts the turn that follows. So either the old agent has the
    session and the turn is unfinished, or the new agent has it and its turn waits.
Law 2. The start record of each of the new agent's turns says what the agent sees of the earlier history. The history itself
    does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windlass.errors import SessionDeleted
from windlass.guards import is_id
from windlass.journal.redaction import cleaned
from windlass.kernel import Chain, HistoryView, Message
from windlass.kernel.messages import InputOrigin, Text
from windlass.kernel.outcomes import HandedOff, Outcome, Stopped
from windlass.kernel.tool_call import as_text
from windlass.ports import NewTurn, Store, TurnRequest, TurnView
from windlass.ports.hand_off import MAX_HAND_OFFS, Handed, handed, turn_after
from windlass.ports.unit import AcceptTurn
from windlass.ports.views import NO_PAGES
from windlass.runtime.program import HandoffView
from windlass.runtime.turn import Turn

# What the caller wants of the answer, and who learns of it: these apply to the turn that gives the answer.
_GOES_ALONG = ("output", "ends", "tree")
_NO_TASK = "Go on from here."


def decided_hand_off(turn: Turn, outcome: HandedOff) -> Outcome:
    """Return the outcome of a turn that a tool hands off: the hand-off, or `Stopped` if it is not allowed."""
    before, target = handed(turn.request), outcome.target
    if not is_id(target):
        detail = "The turn was handed off to something that is no name of an agent."
        return Stopped(reason="tool_failure", detail=detail)
    if target in (turn.program.name, *turn.program.aliases):
        detail = f"The turn was handed off by {target} to itself."
        return Stopped(reason="tool_failure", detail=detail)
    if before is not None and before.times >= MAX_HAND_OFFS:
        detail = (
            f"The session was handed off {before.times} times for one input, the limit is {MAX_HAND_OFFS}; "
            f"{turn.program.name} did not hand it off to {target}."
        )
        return Stopped(reason="limit", detail=detail)
    return outcome


def turn_that_follows(turn: Turn, outcome: HandedOff, by: str | None, now_ms: int) -> AcceptTurn:
    """Return the errand for the turn of the agent that takes over. Its input is the task; `by` is the original caller."""
    request, before = turn.request, handed(turn.request)
    now = Handed(
        by=turn.program.name,
        turn=turn.turn_id,
        first=turn.turn_id if before is None else before.first,
        times=1 if before is None else before.times + 1,
    )
    task = "" if outcome.task is None else as_text(outcome.task)
    along = {name: request.overrides[name] for name in _GOES_ALONG if name in request.overrides}
    asked = TurnRequest(
        input=(Text(text=task if task.strip() else _NO_TASK),),
        context=request.context,
        overrides={**along, **now.as_override()},
    )
    new = NewTurn(
        agent=outcome.target,
        request=cleaned(asked),
        submitter=turn.services.worker_id or None,
        by=by,
        now_ms=now_ms,
    )
    return AcceptTurn(session_id=turn.session_id, turn_id=turn_after(turn.turn_id), turn=new)


async def last_turn(store: Store, session_id: str, turn_id: str) -> str:
    """Return the last turn of a chain of hand-offs; without a hand-off, the turn itself."""
    try:
        last = await last_view(store, session_id, turn_id)
    except SessionDeleted:
        last = None
    return turn_id if last is None else last.turn_id


async def last_view(store: Store, session_id: str, turn_id: str) -> TurnView | None:
    """Return the last turn of a chain of hand-offs without its journal; None if the first is not known.

    Raises:
        SessionDeleted: the session was deleted.
    """
    last: TurnView | None = None
    for _ in range(MAX_HAND_OFFS + 1):
        view = await store.load_turn(session_id, turn_id, since=NO_PAGES)
        if view is None:
            break
        last = view
        if not isinstance(view.outcome, HandedOff):
            break
        turn_id = turn_after(turn_id)
    return last


class ViewFault(Exception):
    """An agent's `handoff_view` function raised, or returned something that cannot be used."""


def view_from_before(history: Chain[Message], n_before: int, shows: HandoffView) -> HistoryView:
    """Return what an agent sees if the session was handed off to it after the first `n_before` messages of `history`.

    Raises:
        ViewFault: the agent's function raised, or returned messages that it was not given.
    """
    edge = history[n_before].id
    if shows == "all":
        return HistoryView(words_before=edge)
    before = tuple(history.prefix(n_before))
    if shows == "last":
        keep = [one.id for one in before if _is_from_caller(one)][-1:]
    else:
        keep = _chosen(shows, before)
    return HistoryView(words_before=edge, drop_before=edge, keep=tuple(keep))


def _is_from_caller(message: Message) -> bool:
    origin = message.origin
    return message.role == "user" and isinstance(origin, InputOrigin) and origin.agent is None


def _chosen(shows: Callable[[Sequence[Message]], Any], before: Sequence[Message]) -> list[str]:
    known = {message.id for message in before}
    try:
        chosen = [message.id for message in shows(before)]
    except Exception as error:
        raise ViewFault(f"handoff_view raised {type(error).__name__}") from error
    if not known.issuperset(chosen):
        raise ViewFault("handoff_view returned messages that are not in the history")
    return chosen
