"""What a turn begins with: the history of its frame, what plugins put first, and its input."""

from __future__ import annotations

from windlass.errors import InvalidInput
from windlass.journal.entries import Recorded, TurnStarted
from windlass.journal.moments import ModelAnswered, ReplyHooked
from windlass.journal.pages import FrameOpened
from windlass.kernel import Chain, ConversationRecord, Message, TurnIds
from windlass.kernel.compaction import COMPACTION
from windlass.kernel.history import trust_history
from windlass.kernel.messages import InputOrigin, Part, ToolCall
from windlass.kernel.model_call import ModelReply
from windlass.ports.unit import TurnRequest
from windlass.ports.views import SessionView, TurnView


def with_opening(
    history: Chain[Message],
    place: tuple[str, str],
    started: TurnStarted,
    request: TurnRequest | None,
) -> tuple[Chain[Message], tuple[Message, ...]]:
    """Return a history with what the turn at `place` begins with, and that: what plugins put first, then its input."""
    parts = started.input
    if parts is None:
        parts = () if request is None else request.input
    opening = (*started.messages, _input(place, parts)) if parts else started.messages
    for message in opening:
        history = history.append(message)
    return history, opening


def _input(place: tuple[str, str], parts: tuple[Part, ...]) -> Message:
    message_id = TurnIds(*place).message("in", "input")
    return Message(id=message_id, role="user", parts=parts, origin=InputOrigin(turn_id=place[1]))


def history_before(session: SessionView, turn: TurnView) -> Chain[Message]:
    """Return what the frame of a turn held when the turn began.

    Raises:
        InvalidInput: the session was read from a later frame on; a turn that has ended may need more than the last.
    """
    n_before = session.head if turn.receipt is None else turn.receipt.head - 1
    first = session.head - len(session.pages)
    if (
        n_before <= first and first > 0
    ):  # a turn may have opened the frame that the pages begin with
        found = f"the pages from {first + 1} on"
        raise InvalidInput.at("session.pages", found, f"those before page {n_before + 1}")
    said: list[Message] = []
    for page in session.pages[: n_before - first]:
        for node in page.nodes:
            if type(node) is ConversationRecord:
                said.append(node.message)
            elif type(node) is FrameOpened:
                said.clear()
    history = Chain(said)
    trust_history(history)  # it was one when it was stored
    return history


def needs_history(turn: TurnView) -> bool:
    """Whether the facts that this view holds can depend on what was said before the turn.

    They do where the turn sums up, where a call's id may have been in use before, and where the turn began with no
    words of its own. More pages may change the answer.
    """
    entries = (entry for page in turn.pages for entry in page.entries)
    for entry in entries:
        if type(entry) is TurnStarted:
            _, opening = with_opening(Chain(), (turn.session_id, turn.turn_id), entry, turn.request)
            if entry.driver == COMPACTION or not opening:
                return True
        elif type(entry) is Recorded and _has_calls(entry.outcome):
            return True
    return False


def _has_calls(outcome: object) -> bool:
    reply: object = None
    if isinstance(outcome, ModelAnswered):
        reply = outcome.result
    elif isinstance(outcome, ReplyHooked):
        reply = outcome.reply
    return isinstance(reply, ModelReply) and any(type(part) is ToolCall for part in reply.parts)
