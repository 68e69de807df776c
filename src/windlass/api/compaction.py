"""A compaction that somebody asks for: a turn like any other, whose id derives from the head it was asked at."""

from __future__ import annotations

from windlass.api.machinery import Machinery
from windlass.api.turn_handle import TurnHandle
from windlass.api.turn_result import TurnResult
from windlass.errors import UnknownSession
from windlass.guards.ids import check_id
from windlass.guards.limits import check_limit
from windlass.guards.text import check_text
from windlass.kernel.outcomes import Finished
from windlass.ports import NewTurn, SessionView, TurnRequest
from windlass.runtime.turn_record import TurnRecord


async def compact(
    machinery: Machinery, session_id: str, instructions: str | None, turn_id: str | None
) -> TurnResult[str]:
    """Run a compaction and wait for it; without any turn in the session there is nothing to run."""
    wanted = {}
    if instructions is not None:
        wanted["instructions"] = check_text(instructions, field="instructions")
        check_limit("input_text_bytes", len(instructions.encode()), field="instructions")
    if turn_id is not None:
        check_id(turn_id, field="turn_id")
    view = await _session(machinery, session_id)
    turn_id = turn_id or f"compact-{0 if view is None else view.head}"
    if view is None or not (view.head or view.active or view.queued):
        nothing = TurnRecord(session_id=session_id, turn_id=turn_id, outcome=Finished(), issues=())
        return TurnResult(nothing)
    services = machinery.services
    turn = NewTurn(
        agent=view.agent,
        request=TurnRequest(overrides={"compact": wanted}),
        submitter=services.worker_id or None,
        now_ms=services.clock.now_ms(),
    )
    # It calls no tools, so it needs nothing to work with.
    turn_id, _ = await machinery.admission.run(session_id, turn_id, turn, deps=None)
    # A summary takes long: what is accepted meanwhile must come after it.
    await machinery.engine.flush(session_id)
    handle: TurnHandle[str] = TurnHandle(machinery, session_id, turn_id, turn=turn)
    return await handle.result()


async def _session(machinery: Machinery, session_id: str) -> SessionView | None:
    # A turn that was just begun may be all that there is of the session.
    await machinery.engine.flush(session_id)
    try:
        return await machinery.store.load_session(session_id, history=False)
    except UnknownSession:
        return None
