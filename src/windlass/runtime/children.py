"""What a turn does about the turns that it begins, and about the turn that began it.

Law 1. The unit that opens the wait for a child accepts the child, and the child's own commit answers that wait. So no crash
    leaves a child that no turn knows of, or a turn that waits for a child that does not exist.
Law 2. A turn that ends cancels the children that it still waits for, in the unit of its commit.
Law 3. A child's usage comes with its answer. So the figures of a tree are exact, whatever was killed.
Law 4. One unit writes what a child may use of its parent's budgets into its request and into the wait for it. While the
    child works the parent counts all of it as used; afterwards it counts what the child really used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from windlass.errors import SessionDeleted
from windlass.journal.redaction import cleaned
from windlass.kernel.outcomes import HandedOff, Stopped
from windlass.kernel.value import EMPTY_DICT, Json
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    NewItem,
    NewTurn,
    PostItem,
    SessionKind,
    TurnCommit,
    TurnRequest,
    WaitAnswer,
    WaitView,
)
from windlass.ports.children import Above, ChildEnd, Ends, Tree, as_answer, as_child_usage
from windlass.ports.waits import AnswerStatus
from windlass.runtime.hand_off import last_turn, turn_that_follows
from windlass.runtime.limits import Limits
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import TurnRecord

_ENDED_ABOVE = "the turn that waits for it has ended"
_CANCELLED_ABOVE = "the turn that began it was cancelled"


class NewChild(msgspec.Struct, frozen=True, kw_only=True):
    """A turn to begin in another session. `name` is its name in the turn that begins it.

    `tokens` and `allotted` are its share of what its parent has left: the parent counts them as used while it works.
    """

    session_id: str
    turn_id: str
    agent: str
    name: str
    request: TurnRequest
    kind: SessionKind = "child"
    label: str | None = None
    tokens: int | None = None
    allotted: dict[str, Any] = EMPTY_DICT


def below(turn: Turn, name: str, call_id: str | None = None, allotted: Json = EMPTY_DICT) -> Tree:
    """Return the place of a child of this turn."""
    own, limits = Tree.of(turn.request), turn.limits
    is_top = own.max_depth is None
    looks = () if turn.started is None else turn.started.looks
    here = Above(
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        call_id=call_id,
        is_shown="tools" not in looks,
    )
    return Tree(
        above=(*own.above, here),
        path=(*(own.path or (turn.program.name,)), name),
        max_depth=limits.max_depth if is_top else own.max_depth,
        max_children=limits.max_children if is_top else own.max_children,
        allotted=allotted,
    )


def is_too_deep(place: Tree) -> bool:
    """Whether a place is too deep in its tree for a child."""
    return place.max_depth is not None and place.depth > place.max_depth


def start_child(
    turn: Turn,
    child: NewChild,
    *,
    about: str,
    title: str,
    at: str,
    call_id: str | None = None,
) -> WaitView:
    """Open the wait for a child and accept it, in one unit."""
    detail: dict[str, Json] = {
        "session": child.session_id,
        "turn": child.turn_id,
        "agent": child.agent,
        "at": at,
    }
    if child.tokens is not None:
        detail["tokens"] = child.tokens
    if child.allotted:
        detail["allotted"] = child.allotted
    view = turn.open_wait(
        "child", about=about, digest="child", title=title, detail=detail, call_id=call_id
    )
    key = view.wait.key
    ends = Ends(answers=key, source=child.name)
    place = below(turn, child.name, call_id, child.allotted)
    turn.lane.run_errand(acceptance(turn, child, ends, place, key))
    return view


async def spawn_child(turn: Turn, child: NewChild, call_id: str | None = None) -> bool:
    """Begin a child in the background: its end wakes this session. Return whether there is room for it.

    Called again after a crash, it finds the child that it began before.
    """
    store = turn.services.store
    if await store.load_turn(child.session_id, child.turn_id) is not None:
        return True
    place = below(turn, child.name, call_id, child.allotted)
    name = child.label or child.name
    ends = Ends(wakes=turn.session_id, name=name, source=name, carries=carried(turn))
    turn.lane.run_errand(acceptance(turn, child, ends, place))
    await turn.lane.durable()
    return await store.load_turn(child.session_id, child.turn_id) is not None


def carried(turn: Turn) -> dict[str, Json]:
    """Return what gives a later turn of this session the same place in the tree as this turn."""
    said = turn.request.overrides.get("tree")
    return {} if said is None else {"tree": said}


def acceptance(
    turn: Turn, child: NewChild, ends: Ends | None, place: Tree, rejects: str | None = None
) -> AcceptTurn:
    """Return the errand that accepts a turn in another session; if it is dropped, the wait `rejects` is rejected."""
    overrides = {**child.request.overrides, "tree": as_answer(place)}
    if ends is not None:
        overrides["ends"] = as_answer(ends)
    request = msgspec.structs.replace(child.request, overrides=overrides)
    new = NewTurn(
        agent=child.agent,
        request=cleaned(request),
        by=turn.session_id,
        now_ms=turn.services.clock.now_ms(),
    )
    return AcceptTurn(
        session_id=child.session_id,
        turn_id=child.turn_id,
        turn=new,
        kind=child.kind,
        label=child.label,
        most=place.max_children if child.kind == "child" else None,
        rejects=rejects,
    )


# ---------------------------------------------------------------------- what a child may use


def open_children(turn: Turn) -> Iterator[dict[str, Json]]:
    """Return the details of the open waits for children."""
    for view in turn.waits.values():
        named = view.wait.detail if view.wait.kind == "child" else None
        if view.state == "open" and isinstance(named, dict):
            yield named


def share_of(
    turn: Turn, own: Limits | None, wanted: Mapping[str, Any], n: int
) -> tuple[dict[str, Any], int | None]:
    """Return the limits of a child that is one of `n` about to begin, and how many tokens it may use at most.

    It gets the smallest of its agent's token limit, its tool's limit, and its share of what this turn has left without
    the tokens that running children may still use. It gets at most the time that this turn has left.
    """
    limits, spent = turn.limits, dict(wanted)
    left: int | None = None
    if limits.max_tokens is not None:
        held = sum(int(one.get("tokens") or 0) for one in open_children(turn))
        left = max(0, limits.max_tokens - turn.spent.tokens() - held) // max(1, n)
    own_tokens = None if own is None else own.max_tokens
    tokens = _least(own_tokens, wanted.get("max_tokens"), left)
    if tokens is not None:
        spent["max_tokens"] = tokens
    left_s: float | None = None
    if limits.max_seconds is not None and turn.started is not None:
        passed_ms = turn.services.clock.now_ms() - turn.started.started_ms
        left_s = max(0.0, limits.max_seconds - passed_ms / 1000)
    seconds = _least(None if own is None else own.max_seconds, wanted.get("max_seconds"), left_s)
    if seconds is not None:
        spent["max_seconds"] = seconds
    return spent, tokens if left is not None else None


def _least(*given: Any) -> Any:  # noqa: ANN401 - counts or seconds
    return min((one for one in given if one is not None), default=None)


# ---------------------------------------------------------------------- the end of a turn


def end_errands(turn: Turn, commit: TurnCommit, by: str | None) -> Iterator[Errand]:
    """Return the errands of a turn's end: for the turn that waits for it, or the turn that continues its work.

    If another turn continues its work, on behalf of the same `by`, only the end of that turn is reported.
    """
    outcome, ends = commit.outcome, Ends.of(turn.request)
    if isinstance(outcome, HandedOff) and turn.program.code is not None:
        yield _next_turn(turn, commit)
    elif isinstance(outcome, HandedOff):
        yield turn_that_follows(turn, outcome, by, commit.now_ms)
    elif ends is not None:
        yield from _tell(turn, commit, ends)


async def cancels_below(turn: Turn, commit: TurnCommit) -> list[Errand]:
    """Return the cancels of a turn's end: for the children that it waits for and, if it was cancelled, all others."""
    errands: list[Errand] = []
    for named in open_children(turn):
        # A child may have handed off since: then the turn that continues its work is cancelled.
        session_id, turn_id = str(named["session"]), str(named["turn"])
        turn_id = await last_turn(turn.services.store, session_id, turn_id)
        errands.append(CancelTurn(session_id=session_id, turn_id=turn_id, reason=_ENDED_ABOVE))
    outcome = commit.outcome
    if isinstance(outcome, Stopped) and outcome.reason == "cancelled":
        errands += await _spawned_cancels(turn)
    return errands


async def _spawned_cancels(turn: Turn) -> tuple[Errand, ...]:
    """Return the cancels for the background children of a cancelled turn."""
    found: list[Errand] = []
    store = turn.services.store
    for one in await store.list_sessions(kind="child", started_by=turn.session_id, limit=1_000):
        with suppress(SessionDeleted):  # since it was listed: nothing is left to cancel there
            found += await _cancels_in(turn, one.session_id)
    return tuple(found)


async def _cancels_in(turn: Turn, session_id: str) -> list[Errand]:
    """Return the cancels for the background children of a turn in a session."""
    store, found = turn.services.store, list[Errand]()
    session = await store.load_session(session_id, history=False)
    for turn_id in (session.active, *session.queued):
        view = None if turn_id is None else await store.load_turn(session_id, turn_id)
        if view is None or view.request is None:
            continue
        above, ends = Tree.of(view.request).above, Ends.of(view.request)
        is_ours = bool(above) and above[-1].turn_id == turn.turn_id
        if is_ours and ends is not None and ends.wakes is not None:
            cancel = CancelTurn(
                session_id=session_id, turn_id=view.turn_id, reason=_CANCELLED_ABOVE
            )
            found.append(cancel)
    return found


def _tell(turn: Turn, commit: TurnCommit, ends: Ends) -> Iterator[Errand]:
    end = ChildEnd(
        outcome=commit.outcome,
        text=TurnRecord.of_turn(turn, commit).text,
        usage=as_child_usage(commit.usage, ends.source),
        issues=tuple(one for one in turn.issues if one.code == "unknown_outcome"),
    )
    if ends.answers is not None:
        status: AnswerStatus = "answered" if end.is_finished else "rejected"
        answer = WaitAnswer(status=status, value=as_answer(end), now_ms=commit.now_ms)
        yield AnswerWait(key=ends.answers, answer=answer)
    if ends.wakes is not None:
        event_type = "ended" if end.is_finished else "failed"
        content: dict[str, Json] = {
            "event_type": event_type,
            "text": f"{ends.name}: {_said(end)}",
            "from": turn.session_id,
        }
        if ends.carries:
            content["carries"] = ends.carries
        item_id = ends.item or f"w_{turn.ids.prefix}"
        item = NewItem(item_id=item_id, kind="wake", content=content)
        yield PostItem(session_id=ends.wakes, item=item, now_ms=commit.now_ms)


def _said(end: ChildEnd) -> str:
    """Return how a turn ended, as text for the model of the session that it wakes."""
    outcome = end.outcome
    if end.is_finished:
        return "(no output)" if end.value in (None, "") else end.text
    if isinstance(outcome, Stopped) and outcome.reason == "runtime_error":
        return f"It failed. {outcome.detail}".rstrip()
    if isinstance(outcome, Stopped) and outcome.reason == "cancelled":
        why = f" ({outcome.detail})" if outcome.detail else ""
        unknown = " It is not known whether it acted." if end.issues else ""
        return f"It was stopped{why}.{unknown}"
    return end.failure


def next_turn_id(turn_id: str) -> str:
    """Return the id of the turn in which a process continues: `run`, `run-2`, `run-3`."""
    name, _, number = turn_id.rpartition("-")
    return f"{name}-{int(number) + 1}" if name and number.isdigit() else f"{turn_id}-2"


def _next_turn(turn: Turn, commit: TurnCommit) -> AcceptTurn:
    """Return the errand that continues a process in its own session, with other arguments."""
    assert isinstance(commit.outcome, HandedOff)  # noqa: S101 - the caller looked
    overrides = {
        **turn.request.overrides,
        **commit.outcome.task,
    }  # its arguments, and its record so far
    request = msgspec.structs.replace(turn.request, overrides=overrides)
    new = NewTurn(agent=turn.program.name, request=request, now_ms=commit.now_ms)
    turn_id = next_turn_id(turn.turn_id)
    return AcceptTurn(session_id=turn.session_id, turn_id=turn_id, turn=new, kind="process")
