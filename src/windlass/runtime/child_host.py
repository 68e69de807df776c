"""What a tool's body may do with children: begin one, tell it something, stop it, and list all of them.

Law. Each act is an errand whose id derives from the call and from the number of earlier acts of the body. So a body that
    runs again repeats the same errands, and the store runs each once.
"""

from __future__ import annotations

from windlass.errors import SessionDeleted, ToolError
from windlass.guards import check_id
from windlass.guards.text import check_text
from windlass.journal import derived_session_id
from windlass.kernel import PendingToolCall, Text
from windlass.ports import CancelTurn, NewItem, PostItem, SessionSummary, Store, TurnRequest, Wait
from windlass.ports.children import Child, ChildState, ChildView, Ends, as_answer, own_usage
from windlass.runtime.children import (
    NewChild,
    below,
    carried,
    is_too_deep,
    share_of,
    spawn_child,
)
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import TurnRecord

_TOO_DEEP = "Agents may begin each other {most} deep, and this one is there."
_NO_ROOM = "{most} children may work at a time in this tree; this one did not start."
_PAGE = 100
_LABEL_HEX = 6


class ChildHost:
    """The part of a tool's context that acts on children."""

    turn: Turn
    call: PendingToolCall
    effect_id: str
    ordinal: int
    # The call's place in its turn: effect and ordinal.
    place: str

    async def spawn(self, agent: object, text: str, name: str | None, nth: int) -> Child:
        """Begin a child in the background."""
        turn, agent_name = self.turn, str(getattr(agent, "name", agent))
        check_id(agent_name, field="agent")
        check_text(text, field="input")
        label = agent_name if name is None else check_text(name, field="name")
        place = below(turn, label, self.call.call_id)
        if is_too_deep(place):
            raise ToolError(_TOO_DEEP.format(most=place.max_depth))
        names = (turn.session_id, turn.turn_id, self.effect_id, self.ordinal, nth)
        session_id = derived_session_id(turn.services.store.secret, "child", *names)
        if name is None:
            label = f"{label}-{session_id[-_LABEL_HEX:]}"
        limits, tokens = share_of(turn, getattr(agent, "limits", None), {}, 1)
        child = NewChild(
            session_id=session_id,
            turn_id="t",
            agent=agent_name,
            name=label,
            request=TurnRequest(
                input=(Text(text=text),), overrides={"limits": limits} if limits else {}
            ),
            label=label,
            tokens=tokens,
            allotted={} if turn.allots is None else turn.allots(1),
        )
        if not await spawn_child(turn, child, self.call.call_id):
            raise ToolError(_NO_ROOM.format(most=place.max_children))
        return Child(session_id=session_id, name=label)

    async def send(self, child: str, text: str, nth: int) -> None:
        """Tell a child something: the text enters the child's turn, or begins one, whose end wakes this session."""
        turn = self.turn
        check_text(text, field="text")
        found = await self._find(child)
        name = found.label or found.session_id
        ends = Ends(wakes=turn.session_id, name=name, source=name, carries=carried(turn))
        carries = {"tree": as_answer(below(turn, name, self.call.call_id)), "ends": as_answer(ends)}
        parts = [{"type": "text", "text": text}]
        item = NewItem(
            item_id=f"m_{turn.ids.prefix}.{self.place}.{nth}",
            content={"parts": parts, "carries": carries},
        )
        now_ms = turn.services.clock.now_ms()
        turn.lane.run_errand(PostItem(session_id=found.session_id, item=item, now_ms=now_ms))
        await turn.lane.durable()

    async def stop(self, child: str) -> bool:
        """Cancel a child's unfinished turns and withdraw its inbox items; return whether it had unfinished turns."""
        turn, store = self.turn, self.turn.services.store
        found = await self._find(child)
        for item in (await store.inbox(found.session_id)).items:
            await store.withdraw(found.session_id, item.item_id)
        session = await store.load_session(found.session_id, history=False)
        unfinished = [one for one in (session.active, *session.queued) if one is not None]
        for turn_id in unfinished:
            reason = f"{turn.program.name} stopped it"
            turn.lane.run_errand(
                CancelTurn(session_id=found.session_id, turn_id=turn_id, reason=reason)
            )
        await turn.lane.durable()
        return bool(unfinished)

    async def children(self) -> tuple[ChildView, ...]:
        """Return the children of this session and their states."""
        return await children_of(self.turn.services.store, self.turn.session_id)

    async def _find(self, name: str) -> SessionSummary:
        """Return the child of a name (the newest, if there are several) or of a session id.

        Raises:
            ToolError: this session has no such child.
        """
        store, session_id = self.turn.services.store, self.turn.session_id
        check_text(name, field="child")
        found = [
            one
            for one in await _begun_by(store, session_id)
            if name in (one.label, one.session_id) and one.kind == "child"
        ]
        if not found:
            raise ToolError(f"This session has no child called {name}.")
        return max(found, key=lambda one: (one.created_ms, one.session_id))


# ---------------------------------------------------------------------- reading


async def children_of(
    store: Store, session_id: str, *, deep: bool = False
) -> tuple[ChildView, ...]:
    """Return the sessions that a session began, the oldest first; `deep`: each followed by the sessions below it."""
    return tuple(await _views(store, session_id, 1, deep=deep))


async def _views(store: Store, session_id: str, depth: int, *, deep: bool) -> list[ChildView]:
    found: list[ChildView] = []
    for one in await _begun_by(store, session_id):
        try:
            found.append(await _view(store, one, depth))
        except SessionDeleted:
            continue  # between the two reads
        if deep:
            found += await _views(store, one.session_id, depth + 1, deep=True)
    return found


async def begun_below(store: Store, session_id: str) -> list[str]:
    """Return the sessions that are deleted with a session: everything below it except chats and what chats began."""
    found, waiting = list[str](), [session_id]
    while waiting:
        below = [one for one in await _begun_by(store, waiting.pop()) if one.kind != "chat"]
        found += [one.session_id for one in below]
        waiting += [one.session_id for one in below]
    return found


async def _begun_by(store: Store, session_id: str) -> list[SessionSummary]:
    found: list[SessionSummary] = []
    after = ""
    while True:
        page = await store.list_sessions(after=after, limit=_PAGE, kind=None, started_by=session_id)
        found += page
        if len(page) < _PAGE:
            return sorted(found, key=lambda one: (one.created_ms, one.session_id))
        after = page[-1].session_id


async def _view(store: Store, one: SessionSummary, depth: int) -> ChildView:
    session = await store.load_session(one.session_id, history=False)
    usage = list(own_usage(session.usage))
    turn_id = session.active
    state: ChildState = "idle"
    waits: tuple[Wait, ...] = ()
    if turn_id is None and session.queued:
        turn_id, state = session.queued[0], "queued"
    elif turn_id is not None:
        view = await store.load_turn(one.session_id, turn_id)
        if view is not None and view.state != "done":
            state = "parked" if view.state == "parked" else "running"
            usage += view.journal().usage()
            waits = tuple(wait.wait for wait in view.waits if wait.state == "open")
    last = await store.load_history(one.session_id, limit=1) if session.head else ()
    record = TurnRecord.of_page(one.session_id, last[-1], None) if last else None
    return ChildView(
        session_id=one.session_id,
        agent=session.agent,
        name=one.label or "",
        kind=one.kind,
        depth=depth,
        parent=one.started_by,
        state=state,
        turn_id=turn_id,
        text="" if record is None else record.text,
        outcome=None if record is None else record.outcome,
        usage=tuple(usage),
        waits=waits,
    )
