"""What both stores say alike."""

from __future__ import annotations

from windlass.errors import InvalidInput
from windlass.kernel.messages import Attachment
from windlass.ports import NewTurn, Unit


def accepting_unit(session_id: str, turn_id: str, turn: NewTurn) -> Unit:
    """Return the unit that accepts a turn; the files that it brings are in use from then on."""
    files = tuple(part.ref for part in turn.request.input if isinstance(part, Attachment))
    return Unit(session_id=session_id, turn_id=turn_id, accept=turn, blobs=files)


def check_in_session(session_id: str | None, turn_id: str | None) -> None:
    """Refuse to look for a turn in no session: turn ids are of their session."""
    if turn_id is not None and session_id is None:
        raise InvalidInput("turn_id: found no session_id with it", field="turn_id")
