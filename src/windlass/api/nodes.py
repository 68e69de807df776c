"""Nodes: the entries of a session's append-only graph."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.journal import HistoryPage, NodeBody, node_id
from windlass.kernel import ConversationRecord, Message, Value
from windlass.ports import SessionView


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
        for ordinal, body in enumerate(page.nodes):
            parent = nodes[-1].id if nodes else None
            name = node_id(view.session_id, page.turn_id, ordinal)
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
