"""`windlass show`: a session, a turn, and a turn's journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

import msgspec
from rich.text import Text as Line
from rich.tree import Tree

from windlass import journal
from windlass.cli import output, terminal
from windlass.cli.arguments import JsonOption, SessionWord, StoreOption
from windlass.cli.opening import with_store
from windlass.cli.terminal import console, ending, line, one_line
from windlass.errors import SessionDeleted, UnknownSession
from windlass.kernel import Json, ModelFailure, ModelReply, events, messages
from windlass.kernel.value import snake_case
from windlass.ports import SessionView, Store, TurnView, WaitView
from windlass.ports.children import ChildEnd
from windlass.runtime.folded import FoldedTurn, FoldedTurns

# Deeper trees are damaged; what is below is not shown.
_MAX_DEPTH = 16
_TOLD = (events.ProcessEvent, events.ToolFinished)
_STYLES = {"user": "cyan", "assistant": "green", "tool": "dim", "system": "magenta"}


def show(
    session: SessionWord,
    /,
    *,
    turn: str | None = None,
    journal: bool = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show a session turn by turn. --journal shows one turn: that of --turn, the unfinished or the last.

    Args:
        turn: only this turn, by its id
        journal: the journal: what was asked, what came back
    """

    async def read(rows: Store) -> tuple[SessionView, tuple[WaitView, ...], ShownTurn | None]:
        view = await rows.load_session(session)
        waits = await rows.list_waits(session_id=session)
        last = view.pages[-1].turn_id if view.pages else None
        turn_id = (view.active or last) if turn is None and journal else turn
        if turn_id is None:
            return view, waits, None
        found = await _read_tree(rows, FoldedTurns(rows), (session, turn_id))
        if found is None:
            raise UnknownSession(f"turn: session {session} has no turn {turn_id}", field="turn")
        return view, waits, found

    found, waits, shown = with_store(store, read)
    if shown is not None and journal:
        _show_journal(shown.turn.view, json=json)
    elif json:
        record = _session_record(found, waits) if shown is None else _turn_record(shown)
        output.write_json(record)
    else:
        console().print(_session_tree(found, waits) if shown is None else _turn_tree(shown))


# ---------------------------------------------------------------------- a session, a turn


def _session_record(view: SessionView, waits: Iterable[WaitView]) -> output.Record:
    turns = [output.page_record(page) for page in view.pages]
    waiting = [output.wait_record(each.wait) for each in waits]
    more = {"queued": list(view.queued), "waits": waiting, "parent": view.parent}
    return output.session_record(view, turns, **more)


def _session_tree(view: SessionView, waits: Iterable[WaitView]) -> Tree:
    about = f"  agent {view.agent}, started {terminal.moment(view.created_ms)}"
    if view.parent is not None:
        about += f", forked from {view.parent} at turn {view.parent_head}"
    tree = Tree(line((view.session_id, "bold cyan"), (about, "dim")))
    for number, page in enumerate(view.pages, start=1):
        about = f"  {page.turn_id}, {terminal.moment(page.committed_ms)}"
        label = line((f"{number}  {ending(page.outcome)}", "bold"), (about, "dim"))
        _add_messages(tree.add(label), output.page_messages(page))
    if view.active is not None:
        branch = tree.add(line((f"unfinished: {view.active}", "yellow")))
        for each in waits:
            branch.add(line((terminal.wait_line(each.wait), "yellow")))
    for turn_id in view.queued:
        tree.add(line((f"queued: {turn_id}", "dim")))
    return tree


def _add_messages(branch: Tree, shown: Iterable[messages.Message]) -> None:
    for message in shown:
        role = terminal.speaker(message)
        text = terminal.message_text(message) or "(empty)"
        branch.add(line((f"{role} ", _STYLES.get(role, "")), (text, "not bold default")))


class ShownTurn(NamedTuple):
    """A turn and the turns that it waits or waited for; `name` is what its session was called when it was begun."""

    turn: FoldedTurn
    name: str = ""
    below: tuple[ShownTurn, ...] = ()


async def _read_tree(
    rows: Store, turns: FoldedTurns, place: tuple[str, str], depth: int = 0
) -> ShownTurn | None:
    """Return a turn with those below it; None if there is none, or none any more."""
    try:
        turn = await turns.of(*place)
        session = None if turn is None else await rows.load_session(place[0], history=False)
    except SessionDeleted:
        return None
    if turn is None or session is None:
        return None
    places = [(str(named["session"]), str(named["turn"])) for named in _children_of(turn.view)]
    below = [
        await _read_tree(rows, turns, each, depth + 1) for each in places if depth < _MAX_DEPTH
    ]
    return ShownTurn(turn, session.label or "", tuple(one for one in below if one is not None))


def _children_of(view: TurnView) -> Iterator[dict[str, Json]]:
    """Yield where the turns are that a turn waits or waited for."""
    for one in view.waits:
        detail = one.wait.detail
        if one.wait.kind == "child" and isinstance(detail, dict):
            yield detail


def _turn_record(shown: ShownTurn) -> output.Record:
    turn = shown.turn
    view = turn.view
    return {
        "session": view.session_id,
        "turn": view.turn_id,
        "agent": view.agent,
        "state": view.state,
        "outcome": output.plain(view.outcome),
        "input": output.plain(turn.fold.input),
        "messages": output.message_records(turn.fold.messages),
        "waits": [{**output.wait_record(each.wait), "state": each.state} for each in view.waits],
        "takeovers": view.takeovers,
        "units": len(view.pages),
        "events": [_event_record(each) for each in turn.fold.facts if type(each) in _TOLD],
        "children": [_turn_record(each) for each in shown.below],
    }


def _event_record(event: events.Event) -> output.Record:
    if isinstance(event, events.ProcessEvent):
        return {"name": event.name, "value": output.plain(event.value)}
    assert isinstance(event, events.ToolFinished)  # noqa: S101 - of the two kinds
    return {
        "step": event.name,
        "status": event.outcome.status,
        "value": output.plain(event.outcome.value),
    }


def _turn_tree(shown: ShownTurn) -> Tree:
    view = shown.turn.view
    about = f"  {view.state}, {ending(view.outcome)}"
    whose = f"  {view.agent}"
    tree = Tree(line((view.turn_id, "bold cyan"), (about, "default"), (whose, "dim")))
    _add_turn(tree, shown)
    return tree


def _child_label(shown: ShownTurn) -> Line:
    view = shown.turn.view
    state = view.state if view.outcome is None else ending(view.outcome)
    return terminal.child_label(shown.name, view.agent, state, view.session_id)


def _add_turn(tree: Tree, shown: ShownTurn) -> None:
    """Draw what a turn says, does and waits for; the turns below it as branches."""
    turn = shown.turn
    is_process = not turn.fold.messages
    _add_messages(tree, turn.fold.messages)
    for event in turn.fold.facts if is_process else ():
        told = _process_line(event)
        if told is not None:
            tree.add(told)
    below = {(each.turn.view.session_id, each.turn.view.turn_id): each for each in shown.below}
    for view in turn.view.waits:
        detail = view.wait.detail if isinstance(view.wait.detail, dict) else {}
        child = below.get((str(detail.get("session")), str(detail.get("turn"))))
        wait = view.wait
        if child is not None:
            _add_turn(tree.add(_child_label(child)), child)
        elif view.state == "open":
            tree.add(terminal.wait_branch(wait))
        elif not is_process:
            tree.add(line((f"{wait.kind}: {wait.title} ({view.state})", "dim")))


def _process_line(event: events.Event) -> Line | None:
    """Return a step of a process or what it told, in one line."""
    if isinstance(event, events.ToolFinished):
        words = f" {event.outcome.status}: {terminal.result_line(event.outcome, 120)}"
        return line((event.name, "green"), (words, "default"))
    if isinstance(event, events.ProcessEvent):
        return line((event.name, "magenta"), (f" {terminal.as_json(event.value)}", "default"))
    if isinstance(event, events.WaitResolved) and event.kind in ("timer", "signal"):
        return line((f"{event.kind} {event.status}", "dim"))
    return None


# ---------------------------------------------------------------------- a journal


class JournalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One entry; `unit` is the commit that made it durable."""

    unit: int
    generation: int
    entry: str
    key: str = ""
    asked: str = ""
    answered: str = ""


def _journal_rows(turn: TurnView, since: int = 0) -> Iterator[JournalRow]:
    """Yield the entries of a turn's journal, from unit number `since` on."""
    for unit, page in enumerate(turn.pages[since:], start=since):
        for entry in page.entries:
            yield JournalRow(
                unit=unit,
                generation=page.generation,
                entry=type(entry).__name__.removeprefix("Turn").lower(),
                key=getattr(entry, "key", ""),
                asked=_asked(entry),
                answered=_answered(entry),
            )


def _asked(entry: journal.Entry) -> str:
    """Return what an entry asks for, in one line."""
    match entry:
        case journal.TurnStarted():
            tools = terminal.count(len(entry.contracts), "tool")
            words = f"agent {entry.agent}, model {entry.model}, {tools}"
        case journal.DriveBegan():
            words = f"worker {entry.worker} {entry.place}".rstrip()
        case journal.Emitted():
            words = f"emit {terminal.call_line(entry.name, {'value': entry.value}, 120)}"
        case _:
            words = _command_words(entry)
    return terminal.safe(words)


def _command_words(entry: journal.Entry) -> str:
    match getattr(entry, "command", None):
        case None:
            words = ""
        case journal.ToolCallCommand() as command:
            contract = getattr(entry, "contract", None)
            called = terminal.call_line(command.name, command.args, 120)
            words = f"{contract}: {called}" if contract else called
        case journal.ModelCallCommand() as command:
            words = terminal.count(command.request.message_count, "message")
        case journal.AwaitEventCommand() as command:
            words = f"wait {terminal.short_key(command.wait_key)}"
        case journal.ProcessCommand() as command:
            words = f"{command.operation} {command.name}".rstrip()
        case journal.SleepCommand() as command:
            words = f"sleep {timedelta(milliseconds=command.duration_ms)}"
        case other:
            words = _words(type(other).__name__.removesuffix("Command"))
    return words


def _answered(entry: journal.Entry) -> str:
    """Return what came back, in one line."""
    match getattr(entry, "outcome", None):
        case None:
            words = str(getattr(entry, "why", ""))
        case journal.CallReturned() as returned:
            result = terminal.result_line(returned.outcome, 120)
            words = f"{returned.outcome.status}: {result}"
        case journal.ModelAnswered() as answered:
            words = _reply_words(answered.result)
        case journal.CallDecided() as decided:
            words = f"{decided.verdict}: {decided.reason}".removesuffix(": ")
        case journal.EventAwaited() as awaited:
            words = f"{awaited.status} by {awaited.by}" if awaited.by else awaited.status
        case journal.ProcessAnswered() as answered:
            end = ChildEnd.of(answered.value)
            value = "" if answered.value is None else terminal.as_json(answered.value)
            if end is not None:
                value = end.text if end.is_finished else end.failure
            words = f"{answered.status} {value}".strip() or "done"
        case other:
            words = _words(type(other).__name__)
    return one_line(words, 120)


def _reply_words(reply: ModelReply | ModelFailure) -> str:
    if isinstance(reply, ModelFailure):
        return f"failed: {reply.message}"
    calls = [part for part in reply.parts if isinstance(part, messages.ToolCall)]
    shown = [terminal.call_line(call.name, call.args or {}, 80) for call in calls]
    return " ".join(filter(None, [reply.text, *shown]))


def _words(name: str) -> str:
    return snake_case(name).replace("_", " ")


def _write_row(turn: TurnView, row: JournalRow) -> None:
    place = {"session": turn.session_id, "turn": turn.turn_id}
    output.write_json({**place, **msgspec.structs.asdict(row)})


def _show_journal(view: TurnView, *, json: bool) -> None:
    rows = list(_journal_rows(view))
    if json:
        for each in rows:
            _write_row(view, each)
        return
    console().print(line((f"turn {view.turn_id}: {view.state}, {ending(view.outcome)}", "bold")))
    cells = []
    for each in rows:
        effect = each.key and journal.key_place(each.key)[0]
        cells.append((str(each.unit), each.entry, effect, each.asked, each.answered))
    heads = ("unit", "entry", "effect", "asked", "came back")
    terminal.print_table(heads, cells, ("dim", "cyan"), empty="its journal is no longer kept")
