"""`windlass children`: the sessions that a session began, and what each waits for."""

from __future__ import annotations

from rich.text import Text as Line
from rich.tree import Tree

from windlass.cli.arguments import JsonOption, SessionWord, StoreOption
from windlass.cli.opening import with_store
from windlass.cli.output import Record, plain, wait_record, write_json
from windlass.cli.terminal import child_label, console, ending, line, one_line, wait_branch
from windlass.ports import Store
from windlass.ports.children import ChildView
from windlass.runtime.child_host import children_of

_TEXT_WIDTH = 56


def children(
    session: SessionWord, /, *, store: StoreOption = None, json: JsonOption = False
) -> None:
    """Show the sessions that a session began, and those below them, each with what it waits for."""

    async def read(rows: Store) -> tuple[ChildView, ...]:
        await rows.load_session(session, history=False)  # raises if there is no such session
        return await children_of(rows, session, deep=True)

    found = with_store(store, read)
    if json:
        for each in found:
            write_json(_record(each))
    elif found:
        console().print(_tree(session, found))
    else:
        console().print(line((f"{session} has begun no sessions", "")))


def _tree(session: str, found: tuple[ChildView, ...]) -> Tree:
    tree = Tree(line((session, "bold cyan")))
    branches = {session: tree}
    for each in found:
        branch = branches[each.parent or session].add(_label(each))
        branches[each.session_id] = branch
        if each.text:
            branch.add(line((one_line(each.text, _TEXT_WIDTH), "default")))
        for wait in each.waits:
            if wait.kind != "child":  # the child is drawn below
                branch.add(wait_branch(wait))
    return tree


def _label(child: ChildView) -> Line:
    state = child.state if child.outcome is None or child.turn_id else ending(child.outcome)
    return child_label(child.name, child.agent, state, child.session_id)


def _record(child: ChildView) -> Record:
    return {
        "session": child.session_id,
        "parent": child.parent,
        "depth": child.depth,
        "name": child.name,
        "agent": child.agent,
        "kind": child.kind,
        "state": child.state,
        "turn": child.turn_id,
        "text": child.text,
        "outcome": plain(child.outcome),
        "waits": [wait_record(wait) for wait in child.waits],
    }
