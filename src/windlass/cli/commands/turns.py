"""`windlass show`: a session, a turn, and a turn's journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from rich.tree import Tree

from windlass import journal
from windlass.cli import output, terminal
from windlass.cli.arguments import JsonOption, SessionWord, StoreOption
from windlass.cli.opening import with_store
from windlass.cli.terminal import console, ending, line, one_line
from windlass.errors import UnknownSession
from windlass.kernel import ModelReply, messages
from windlass.kernel.value import snake_case
from windlass.ports import SessionView, Store, TurnView, WaitView
from windlass.runtime.folded import FoldedTurn, FoldedTurns

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

    async def read(rows: Store) -> tuple[SessionView, tuple[WaitView, ...], FoldedTurn | None]:
        view = await rows.load_session(session)
        waits = await rows.list_waits(session_id=session)
        last = view.pages[-1].turn_id if view.pages else None
        turn_id = (view.active or last) if turn is None and journal else turn
        if turn_id is None:
            return view, waits, None
        found = await FoldedTurns(rows).of(session, turn_id)
        if found is None:
            raise UnknownSession(f"turn: session {session} has no turn {turn_id}", field="turn")
        return view, waits, found

    found, waits, shown = with_store(store, read)
    if shown is not None and journal:
        _show_journal(shown.view, json=json)
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


def _turn_record(turn: FoldedTurn) -> output.Record:
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
    }


def _turn_tree(turn: FoldedTurn) -> Tree:
    view = turn.view
    about = f"  {view.state}, {ending(view.outcome)}"
    tree = Tree(line((view.turn_id, "bold cyan"), (about, "default")))
    _add_messages(tree, turn.fold.messages)
    for wait in view.waits:
        tree.add(line((f"{wait.wait.kind}: {wait.wait.title} ({wait.state})", "yellow")))
    return tree


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
    if isinstance(entry, journal.TurnStarted):
        tools = terminal.count(len(entry.contracts), "tool")
        return f"agent {entry.agent}, model {entry.model}, {tools}"
    if isinstance(entry, journal.DriveBegan):
        return terminal.safe(f"worker {entry.worker} {entry.place}".rstrip())
    command = getattr(entry, "command", None)
    if isinstance(command, journal.ToolCallCommand):
        contract = getattr(entry, "contract", None)
        called = terminal.call_line(command.name, command.args, 120)
        return f"{contract}: {called}" if contract else called
    if isinstance(command, journal.ModelCallCommand):
        return terminal.count(command.request.message_count, "message")
    if isinstance(command, journal.AwaitEventCommand):
        return f"wait {terminal.short_key(command.wait_key)}"
    return "" if command is None else _words(type(command).__name__.removesuffix("Command"))


def _answered(entry: journal.Entry) -> str:
    outcome = getattr(entry, "outcome", None)
    if isinstance(outcome, journal.CallReturned):
        return f"{outcome.outcome.status}: {terminal.result_line(outcome.outcome, 120)}"
    if isinstance(outcome, journal.ModelAnswered):
        reply = outcome.result
        if not isinstance(reply, ModelReply):
            return f"failed: {one_line(reply.message, 120)}"
        calls = [part for part in reply.parts if isinstance(part, messages.ToolCall)]
        shown = [terminal.call_line(call.name, call.args or {}, 80) for call in calls]
        return one_line(" ".join(filter(None, [reply.text, *shown])), 120)
    if isinstance(outcome, journal.CallDecided):
        return one_line(f"{outcome.verdict}: {outcome.reason}".removesuffix(": "), 120)
    if isinstance(outcome, journal.EventAwaited):
        return terminal.safe(f"{outcome.status} by {outcome.by}" if outcome.by else outcome.status)
    return getattr(entry, "why", "") if outcome is None else _words(type(outcome).__name__)


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
