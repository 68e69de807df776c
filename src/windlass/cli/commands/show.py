"""`windlass show`: a session, a turn, or a turn's journal."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text
from rich.tree import Tree

from windlass.cli import records
from windlass.cli.journal_rows import journal_rows
from windlass.cli.json_lines import plain, write_json
from windlass.cli.opening import opened_store
from windlass.cli.options import JsonOption, SessionWord, StoreOption
from windlass.cli.terminal import console, row, table
from windlass.cli.wording import ending, message_text, moment, one_line, safe
from windlass.errors import UnknownSession
from windlass.journal import HistoryPage
from windlass.kernel import messages
from windlass.ports import SessionView, Store, TurnView

_STYLES = {"user": "cyan", "assistant": "green", "tool": "dim", "system": "magenta"}


def show(
    session: SessionWord,
    /,
    *,
    turn: Annotated[str | None, Parameter(name="--turn", help="only this turn, by its id")] = None,
    journal: Annotated[
        bool, Parameter(name="--journal", help="the journal: what was asked, what came back")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Show a session turn by turn. With --journal the turn under way, the last one, or the one of --turn."""
    found, shown = asyncio.run(_read(session, turn, store, journal=journal))
    if shown is not None and journal:
        _show_journal(shown, json=json)
    elif shown is not None:
        _show_turn(shown, json=json)
    elif json:
        write_json(_session_record(found))
    else:
        _show_session(found)
    return 0


# ---------------------------------------------------------------------- a session


def _session_record(view: SessionView) -> dict[str, Any]:
    return {
        "session": view.session_id,
        "agent": view.agent,
        "created_ms": view.created_ms,
        "turns": [_page_record(page) for page in view.pages],
        "active": view.active,
        "queued": list(view.queued),
        "parent": view.parent,
    }


def _page_record(page: HistoryPage) -> dict[str, Any]:
    return {
        "turn": page.turn_id,
        "committed_ms": page.committed_ms,
        "outcome": records.outcome_record(page.outcome),
        "messages": [records.message_record(each) for each in _messages(page)],
    }


def _messages(page: HistoryPage) -> list[messages.Message]:
    return [node.message for node in page.nodes if isinstance(node, messages.ConversationRecord)]


def _show_session(view: SessionView) -> None:
    head = Text(safe(view.session_id), style="bold cyan")
    head.append(f"  agent {safe(view.agent)}, begun {moment(view.created_ms)}", style="dim")
    if view.parent is not None:
        head.append(f", forked from {safe(view.parent)} at turn {view.parent_head}", style="dim")
    tree = Tree(head)
    for number, page in enumerate(view.pages, start=1):
        label = Text(f"{number}  {ending(page.outcome)}", style="bold")
        label.append(f"  {safe(page.turn_id)}, {moment(page.committed_ms)}", style="dim")
        _add_messages(tree.add(label), _messages(page))
    if view.active is not None:
        tree.add(Text(f"under way: {safe(view.active)}", style="yellow"))
    for turn_id in view.queued:
        tree.add(Text(f"queued: {safe(turn_id)}", style="dim"))
    console().print(tree)


def _add_messages(branch: Tree, shown: list[messages.Message]) -> None:
    for message in shown:
        is_result = any(isinstance(part, messages.ToolResult) for part in message.parts)
        role = "tool" if is_result else message.role
        text = Text(f"{role} ", style=_STYLES.get(role, ""))
        text.append(message_text(message) or "(nothing)", style="not bold default")
        branch.add(text)


# ---------------------------------------------------------------------- a turn


def _show_turn(view: TurnView, *, json: bool) -> None:
    if json:
        write_json(_turn_record(view))
        return
    label = Text(safe(view.turn_id), style="bold cyan")
    label.append(f"  {view.state}, {ending(view.outcome)}", style="default")
    tree = Tree(label)
    if view.page is not None:
        _add_messages(tree, _messages(view.page))
    elif view.request is not None:
        asked = " ".join(
            part.text for part in view.request.input if isinstance(part, messages.Text)
        )
        tree.add(Text(f"user {one_line(asked, 200)}"))
    for wait in view.waits:
        tree.add(Text(f"{wait.wait.kind}: {safe(wait.wait.title)} ({wait.state})", style="yellow"))
    console().print(tree)


def _turn_record(view: TurnView) -> dict[str, Any]:
    return {
        "session": view.session_id,
        "turn": view.turn_id,
        "agent": view.agent,
        "state": view.state,
        "outcome": records.outcome_record(view.outcome),
        "input": None if view.request is None else plain(view.request.input),
        "messages": None if view.page is None else _page_record(view.page)["messages"],
        "waits": [{**records.wait_record(each.wait), "state": each.state} for each in view.waits],
        "takeovers": view.takeovers,
        "units": len(view.pages),
    }


def _show_journal(view: TurnView, *, json: bool) -> None:
    rows = list(journal_rows(view))
    if json:
        for each in rows:
            write_json({"session": view.session_id, "turn": view.turn_id, **each.record()})
        return
    listed = table("unit", "entry", "effect", "asked", "came back")
    for each in rows:
        cells = (str(each.unit), each.entry, each.effect, each.asked, each.answered)
        row(listed, *cells, styles=("dim", "cyan"))
    screen = console()
    screen.print(Text(f"turn {safe(view.turn_id)}: {view.state}, {ending(view.outcome)}", "bold"))
    screen.print(listed if rows else "its journal is not kept any more")


# ---------------------------------------------------------------------- reading


async def _read(
    session: str, turn: str | None, store: str | None, *, journal: bool
) -> tuple[SessionView, TurnView | None]:
    async with opened_store(store) as rows:
        view = await rows.load_session(session)
        if turn is None and journal:
            turn = view.active or (view.pages[-1].turn_id if view.pages else None)
        return view, None if turn is None else await _turn(rows, session, turn)


async def _turn(rows: Store, session: str, turn: str) -> TurnView:
    found = await rows.load_turn(session, turn)
    if found is None:
        raise UnknownSession(f"turn {turn}: session {session} has no such turn", field="turn")
    return found
