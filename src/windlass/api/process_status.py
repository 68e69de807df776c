"""The status of a process, read from its session and its current turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from windlass.kernel import FinishedValue, HandedOff, Json, Outcome
from windlass.kernel.outcomes import Stopped
from windlass.kernel.value import EMPTY_DICT, JsonValue
from windlass.ports import SessionView, TurnView, Wait
from windlass.ports.process import FIRST_TURN, PROGRAM, turn_number

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

ProcessState: TypeAlias = Literal["queued", "running", "waiting", "done", "failed", "cancelled"]


class ProcessStatus(JsonValue, kw_only=True):
    """The current state of a process.

    Attributes:
        id: The id of the process.
        session_id: The session of the process.
        name: The name that its `@process` declares.
        state: `queued`, `running`, `waiting` (for a time, a signal, a turn, a person), or how it ended: `done`, `failed`,
            `cancelled`.
        session: The session that it belongs to, if any.
        waits: What it waits for now.
        record: The last value of each event that it emitted, by the event's name; as long as its journal is kept.
        value: Its value, as JSON.
        error: Why it failed or was cancelled.
        turn_id: Its current turn, or its last.
        n_continued: How often it called `continue_as`.
        started_ms: When it was started, in milliseconds since 1970, UTC.
        ended_ms: When it ended, in the same unit.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("record", "value")

    id: str
    session_id: str
    name: str
    state: ProcessState
    session: str | None = None
    waits: tuple[Wait, ...] = ()
    record: dict[str, Any] = EMPTY_DICT
    value: Json = None
    error: str = ""
    turn_id: str = FIRST_TURN
    n_continued: int = 0
    started_ms: int = 0
    ended_ms: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in ("done", "failed", "cancelled")


async def turn_of(admission: Admission, session: SessionView, since: int) -> TurnView:
    """Return the current turn of a process, or its last."""
    store = admission.services.store
    turn_id = session.active or next(iter(session.queued), None)
    if turn_id is None:
        (last,) = await store.load_history(session.session_id, limit=1)
        turn_id = last.turn_id
    view = await store.load_turn(session.session_id, turn_id, since=since)
    assert view is not None  # noqa: S101 - the session names it
    return view


def status_of(
    session: SessionView, turn: TurnView, record: dict[str, Json] | None = None
) -> ProcessStatus:
    """Return the status of a process, from its session and its current turn."""
    state, error = (
        ending_of(turn.outcome) if turn.outcome is not None else (_STATES[turn.state], "")
    )
    outcome = turn.outcome
    is_over = outcome is not None and not isinstance(outcome, HandedOff)
    return ProcessStatus(
        id=session.label or session.session_id,
        session_id=session.session_id,
        name=session.agent.removeprefix(PROGRAM),
        state=state,
        session=session.started_by,
        waits=tuple(one.wait for one in turn.waits if one.state == "open"),
        record=record or {},
        value=outcome.value if isinstance(outcome, FinishedValue) else None,
        error=error,
        turn_id=turn.turn_id,
        n_continued=turn_number(turn.turn_id) - 1,
        started_ms=session.created_ms,
        ended_ms=turn.page.committed_ms if is_over and turn.page is not None else None,
    )


_STATES: dict[str, ProcessState] = {
    "queued": "queued",
    "running": "running",
    "ready": "running",
    "parked": "waiting",
    "done": "done",
}


def ending_of(outcome: Outcome | None) -> tuple[ProcessState, str]:
    """Return how a process ended, and why."""
    if isinstance(outcome, HandedOff):
        return "running", ""
    if isinstance(outcome, Stopped):
        state: ProcessState = "cancelled" if outcome.reason == "cancelled" else "failed"
        said = (
            outcome.detail if outcome.reason in ("cancelled", "runtime_error") else outcome.reason
        )
        return state, said
    return "done", ""
