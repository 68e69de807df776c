"""What a turn begins with: the history of its frame, what plugins put first, and its input."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.journal.entries import TurnStarted
from windlass.journal.pages import FrameOpened, HistoryPage
from windlass.kernel import Chain, ConversationRecord, Message, TurnIds
from windlass.kernel.history import trust_history
from windlass.kernel.messages import InputOrigin, Part
from windlass.ports.hand_off import handed
from windlass.ports.unit import TurnRequest


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
    opening = started.messages
    if parts:
        given = None if request is None or not request.overrides else handed(request)
        opening = (*opening, _input(place, parts, None if given is None else given.by))
    for message in opening:
        history = history.append(message)
    return history, opening


def _input(place: tuple[str, str], parts: tuple[Part, ...], agent: str | None) -> Message:
    message_id = TurnIds(*place).message("in", "input")
    origin = InputOrigin(turn_id=place[1], agent=agent)
    return Message(id=message_id, role="user", parts=parts, origin=origin)


def frame_in(pages: Iterable[HistoryPage]) -> Chain[Message]:
    """Return the messages of the last frame among pages of history."""
    said: list[Message] = []
    for page in pages:
        for node in page.nodes:
            if type(node) is ConversationRecord:
                said.append(node.message)
            elif type(node) is FrameOpened:
                said.clear()
    frame = Chain(said)
    trust_history(frame)  # it was one when it was stored
    return frame
