"""Nodes: the entries of a session's append-only graph, and the part of a turn that a fork begins with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from windlass.errors import InvalidInput
from windlass.folds import TurnFold
from windlass.journal import ForkedFrom, HistoryPage, NodeBody, OutcomeUnknown, node_id
from windlass.kernel import ConversationRecord, Message, Stopped, ToolCall, ToolResult, Value
from windlass.ports import SessionView, Store, TurnView
from windlass.runtime.folded import history_of
from windlass.runtime.session_memory import call_digest
from windlass.runtime.turn_record import attached_to, calls_so_far, messages_in
from windlass.runtime.turn_start import is_compaction


class Node(Value, kw_only=True):
    """One entry, with the node before it and the turn that added it."""

    id: str
    parent: str | None
    turn_id: str
    body: NodeBody


def nodes_of(view: SessionView) -> tuple[Node, ...]:
    """Return the nodes of a session, oldest first."""
    nodes: list[Node] = []
    for page in view.pages:
        # What a fork took from inside a turn are that turn's nodes.
        session_id = view.session_id if page.forked is None else page.forked.session_id
        for ordinal, body in enumerate(page.nodes):
            parent = nodes[-1].id if nodes else None
            name = node_id(session_id, page.turn_id, ordinal)
            nodes.append(Node(id=name, parent=parent, turn_id=page.turn_id, body=body))
    return tuple(nodes)


def messages_of(pages: Iterable[HistoryPage]) -> tuple[Message, ...]:
    """Return the messages on pages of history, oldest first."""
    return tuple(
        body.message
        for page in pages
        for body in page.nodes
        if isinstance(body, ConversationRecord)
    )


# ---------------------------------------------------------------------- a part of a turn


class TurnPart(NamedTuple):
    """What a fork shares of a session that goes on inside a turn: so many whole turns, and a page with a part of one."""

    turns: int
    page: HistoryPage
    blobs: tuple[str, ...]


async def part_of_turn(store: Store, view: TurnView, iterations: int, *, now_ms: int) -> TurnPart:
    """Return the first iterations of a turn that runs, waits or has ended: each with the results of its calls.

    Decisions that people allowed for the session, and what plugins keep, stay with the turn: they are its end's.

    Raises:
        InvalidInput: the turn has not ended so many iterations.
    """
    nodes = await _nodes_so_far(store, view)
    ends = ends_of_iterations(nodes)
    if not ends:
        raise InvalidInput(f"at: turn {view.turn_id} has not ended an iteration yet", field="at")
    last = max(ends)
    if type(iterations) is not int or not 1 <= iterations <= last:
        wanted = f"1 to {last}, the iterations of turn {view.turn_id} that have ended"
        raise InvalidInput.at("iterations", repr(iterations)[:40], wanted)
    # An iteration whose reply was withheld added nothing: it ends where the one before it does.
    kept = nodes[: max(end for count, end in ends.items() if count <= iterations)]
    page = HistoryPage(
        format=HistoryPage.FORMAT,
        turn_id=view.turn_id,
        nodes=(*kept, *_unknown_calls(view)),
        outcome=Stopped(reason="incomplete", detail="This session was forked inside the turn."),
        committed_ms=now_ms,
        forked=ForkedFrom(session_id=view.session_id, turn_id=view.turn_id, iterations=iterations),
    )
    head = view.receipt.head if view.receipt is not None else view.turn_index or 1
    return TurnPart(head - 1, page, tuple(dict.fromkeys(attached_to(messages_in(kept)))))


async def _nodes_so_far(store: Store, view: TurnView) -> Sequence[NodeBody]:
    if view.request is not None and is_compaction(view.request):
        return ()
    if view.page is not None:
        return view.page.nodes
    return TurnFold.of(view, await history_of(store, view)).records


def ends_of_iterations(nodes: Sequence[NodeBody]) -> dict[int, int]:
    """Return how many of a turn's nodes there are when an iteration of it has ended, by how many have ended then.

    An iteration ends with the results of its calls; if it has none, with its reply. What enters at the checkpoint
    behind it belongs to the next one.
    """
    ends: dict[int, int] = {}
    open_count = 0
    for at, node in enumerate(nodes, start=1):
        if type(node) is not ConversationRecord:
            continue
        message = node.message
        if message.role == "assistant":
            # Replies have the number of their iteration in their id: `m_<turn>.<iteration>.reply`.
            number = message.id.split(".")[1:2]
            if not number or not number[0].isdigit():
                continue  # a plugin put it before the input
            open_count = int(number[0]) + 1
            if not any(type(part) is ToolCall for part in message.parts):
                ends[open_count], open_count = at, 0
        elif open_count and any(type(part) is ToolResult for part in message.parts):
            ends[open_count], open_count = at, 0
    return ends


def _unknown_calls(view: TurnView) -> list[NodeBody]:
    """Return which calls of the turn may have acted: an equal one in the fork asks a person first."""
    if view.page is not None:
        return [node for node in view.page.nodes if type(node) is OutcomeUnknown]
    calls = [one for one in calls_so_far(view.journal()) if one.outcome.status == "unknown"]
    return [OutcomeUnknown(call=call_digest(one.name, one.args)) for one in calls]
