"""The tools that a model gets with its background tools: one lists what runs for its session, one stops it.

They come with the first background tool of the agent, its plugins or a provider. They are ordinary tools: their results are
recorded, and a replay does not run them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from windlass.errors import SessionDeleted, ToolError, WindlassBug
from windlass.kernel import ToolSpec
from windlass.ports import CancelTurn, SessionSummary, TurnView
from windlass.ports.tool import Tool, ToolContext
from windlass.ports.views import NO_PAGES
from windlass.runtime.body import CallHost
from windlass.runtime.turn import Turn
from windlass.tools import DynamicTool
from windlass.tools.declaration import is_background

BACKGROUND: Final = "background:"
"""The prefix of the names of programs that run the background tools of an agent."""
_PAGE: Final = 100
_SECOND_MS: Final = 1_000
_LIST = ToolSpec(
    name="processes",
    description="List what runs in the background for this conversation.",
)
_STOP = ToolSpec(
    name="stop_process",
    description="Stop something that runs in the background. Its end arrives by itself.",
    parameters={
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id, as it was given when it started."}
        },
        "required": ["id"],
        "additionalProperties": False,
    },
)


class _OfToolbox(DynamicTool):
    """A tool that comes with background tools."""

    comes_with_background = True


def with_background_tools(tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools, with `processes` and `stop_process` added if one runs in the background and they are missing."""
    listed = list(tools)
    has_them = any(getattr(tool, "comes_with_background", False) for tool in listed)
    if has_them or not any(map(is_background, listed)):
        return listed
    return [
        *listed,
        _OfToolbox(_LIST, _list_processes, effect="pure"),
        _OfToolbox(_STOP, _stop_process, effect="idempotent"),
    ]


async def _list_processes(ctx: ToolContext[Any], _args: Mapping[str, Any]) -> list[dict[str, str]]:
    turn, found = _turn_of(ctx), list[tuple[int, dict[str, str]]]()
    await turn.lane.durable()  # so that processes which parallel calls started are listed
    async for summary in _begun_by(turn):
        view = await _unfinished(turn, summary)
        if view is not None:
            since = datetime.fromtimestamp(summary.created_ms // _SECOND_MS, UTC)
            found.append((summary.created_ms, _line(summary, view, since.isoformat())))
    return [line for _, line in sorted(found, key=lambda one: (one[0], one[1]["id"]))]


def _line(summary: SessionSummary, view: TurnView, since: str) -> dict[str, str]:
    name = view.agent.partition(":")[2] or view.agent
    if view.request is not None:
        name = str(view.request.overrides.get("tool", name))
    state = {"queued": "waits to begin", "parked": "waits"}.get(view.state, "runs")
    if view.cancel is not None:
        state = "is being stopped"
    return {"id": _id_of(summary), "name": name, "since": since, "state": state}


async def _stop_process(ctx: ToolContext[Any], args: Mapping[str, Any]) -> str:
    turn, wanted = _turn_of(ctx), str(args["id"])
    await turn.lane.durable()
    async for summary in _begun_by(turn):
        if wanted not in (_id_of(summary), summary.session_id):
            continue
        view = await _unfinished(turn, summary)
        if view is None:
            return f"{wanted} has ended already."
        reason = "the model asked for it"
        turn.lane.run_errand(
            CancelTurn(session_id=view.session_id, turn_id=view.turn_id, reason=reason)
        )
        return f"{wanted} was asked to stop. Its end arrives by itself; do not wait for it."
    raise ToolError(f"Nothing of the id {wanted} was started in this conversation.")


async def _begun_by(turn: Turn) -> AsyncIterator[SessionSummary]:
    """Yield the processes that the session of a turn has begun."""
    store, after = turn.services.store, ""
    while True:
        page = await store.list_sessions(
            after=after, limit=_PAGE, kind="process", started_by=turn.session_id
        )
        for summary in page:
            yield summary
        if len(page) < _PAGE:
            return
        after = page[-1].session_id


async def _unfinished(turn: Turn, summary: SessionSummary) -> TurnView | None:
    """Return the unfinished turn of a process, if there is one."""
    is_call = summary.agent.startswith(BACKGROUND)
    if is_call and summary.head:
        return None  # it has one turn, and that is over
    store = turn.services.store
    with suppress(SessionDeleted):  # since it was listed: nothing was unfinished there
        session = await store.load_session(summary.session_id, history=False)
        for turn_id in (session.active, *session.queued):
            if turn_id is not None:
                view = await store.load_turn(summary.session_id, turn_id, since=NO_PAGES)
                if view is not None and view.state != "done":
                    return view
    return None


def _id_of(summary: SessionSummary) -> str:
    return summary.label or summary.session_id


def _turn_of(ctx: ToolContext[Any]) -> Turn:
    host = ctx._host  # noqa: SLF001 - a tool of the runtime's own
    if not isinstance(host, CallHost):
        raise WindlassBug("processes: is run by a turn only")
    return host.turn
