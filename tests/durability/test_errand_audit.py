"""The audit of the errand soak can fail: each of its rules finds what was forged into a round that went well."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TypeAlias

import apsw
import pytest
from msgspec.structs import replace

from tests.durability.errands import plan
from tests.durability.errands.audit import Audit, left_over, read
from tests.durability.errands.histories import Call
from tests.durability.errands.rounds import N_WORKERS, play
from tests.durability.errands.worker import file_of
from tests.durability.soak.ledger import Line
from tests.durability.soak.lives import Nursery
from tests.inside_calls import child_of, tree_of
from windlass.journal import HistoryPage
from windlass.kernel import ConversationRecord, Message, Text, ToolResult
from windlass.kernel.outcomes import Finished
from windlass.ports import SessionView

Forgery: TypeAlias = Callable[[Audit], None]
OPEN_WAIT = (
    "INSERT INTO waits (key, session, turn, kind, state, consumed, wait, page)"
    " VALUES ('w', 1, 1, 'child', 'open', 0, x'00', 0)"
)
ITEM = (
    "INSERT INTO inbox (session, id, arrived, state, due, digest, ended_ms, item)"
    " SELECT no, 'stray', 99, '{state}', 'now', '', 0, x'00' FROM sessions WHERE id = '{session}'"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A round without a kill."""
    folder = tmp_path_factory.mktemp("quiet")
    with ExitStack() as stack:
        nurseries = [
            stack.enter_context(
                Nursery(folder / f"stderr.{number}", "tests.durability.errands.nursery")
            )
            for number in range(N_WORKERS)
        ]
        assert play(nurseries, folder, Random(0), 0, "") == 0
    return folder


@pytest.fixture(scope="module")
def quiet(folder: Path) -> Audit:
    found = asyncio.run(read(folder))
    report = found.report()
    assert report.findings == []
    assert report.cut == 0
    # Of each root 4 posts, 1 send and 1 later, and 1 post of the child that it asks.
    assert report.items == plan.N_ROOTS * 7
    # The children a, b, c and q of each root, u and v of each tree.
    assert report.children == plan.N_ROOTS * 4 + plan.N_TREES * 2
    return found


def _change(page: HistoryPage, change: Callable[[Message], list[Message]]) -> HistoryPage:
    """Return a page with other messages."""
    nodes = [
        made
        for node in page.nodes
        for made in (
            [ConversationRecord(message=one) for one in change(node.message)]
            if isinstance(node, ConversationRecord)
            else [node]
        )
    ]
    return replace(page, nodes=tuple(nodes))


def _forge(audit: Audit, session_id: str, change: Callable[[Message], list[Message]]) -> None:
    session = audit.sessions[session_id]
    pages = tuple(_change(page, change) for page in session.pages)
    audit.sessions[session_id] = replace(session, pages=pages)


def _says(message: Message, word: str) -> bool:
    return any(isinstance(part, Text) and word in part.text for part in message.parts)


def _call(audit: Audit, name: str, session_id: str = "r05") -> Call:
    calls = [one for one in audit.calls if (one.name, one.session_id) == (name, session_id)]
    return calls[0]


def _child(audit: Audit, name: str) -> SessionView:
    return audit.sessions[child_of(audit.store, "r05", plan.TURN, name)]


def _with_result(audit: Audit, call: Call, text: str) -> None:
    """Let a call have another result."""

    def change(message: Message) -> list[Message]:
        parts = tuple(
            replace(part, content=(Text(text=text),))
            if isinstance(part, ToolResult) and part.call_id == call.call_id
            else part
            for part in message.parts
        )
        return [replace(message, parts=parts)]

    _forge(audit, call.session_id, change)


# ------------------------------------------------------------------------- forgeries


def committed_twice(audit: Audit) -> None:
    session = audit.sessions["r05"]
    again = [page for page in session.pages if page.turn_id == plan.TURN]
    audit.sessions["r05"] = replace(session, pages=(*session.pages, *again))


def ended_otherwise(audit: Audit) -> None:
    child = _child(audit, "a")
    pages = (replace(child.pages[0], outcome=Finished(text="did nothing")),)
    audit.sessions[child.session_id] = replace(child, pages=pages)


def child_that_is_not_there(audit: Audit) -> None:
    del audit.sessions[_child(audit, "a").session_id]


def child_of_another(audit: Audit) -> None:
    child = _child(audit, "b")
    audit.sessions[child.session_id] = replace(child, started_by="r06")


def child_that_goes_on(audit: Audit) -> None:
    child = _child(audit, "a")
    later = replace(child.pages[0], turn_id="t2")
    audit.sessions[child.session_id] = replace(child, pages=(*child.pages, later))


def child_of_another_run(audit: Audit) -> None:
    _with_result(audit, _call(audit, "spawn"), "early.1")


def child_that_was_not_asked_for(audit: Audit) -> None:
    audit.sessions["c_stray"] = replace(_child(audit, "a"), session_id="c_stray")


def item_that_is_lost(audit: Audit) -> None:
    call = _call(audit, "post")
    _forge(audit, call.of, lambda one: [] if _says(one, call.word) else [one])


def item_that_came_twice(audit: Audit) -> None:
    call = _call(audit, "later")
    _forge(audit, call.of, lambda one: [one, one] if _says(one, call.word) else [one])


def item_of_another_run(audit: Audit) -> None:
    _with_result(audit, _call(audit, "send"), "early.1")


def item_that_was_not_sent(audit: Audit) -> None:
    call, seen = _call(audit, "post"), list[Message]()

    def change(message: Message) -> list[Message]:
        if seen or not _says(message, call.word):
            return [message]
        seen.append(message)
        return [message, replace(message, parts=(Text(text="News stray early.1"),))]

    _forge(audit, call.of, change)


def answer_of_another_run(audit: Audit) -> None:
    _with_result(audit, _call(audit, "tell", _child(audit, "b").session_id), "early.1")


def answer_that_is_missing(audit: Audit) -> None:
    child = _child(audit, "c")
    nodes = [node for node in child.pages[0].nodes if isinstance(node, ConversationRecord)]
    pages = (replace(child.pages[0], nodes=tuple(nodes)),)
    audit.sessions[child.session_id] = replace(child, pages=pages)


def child_that_cannot_begin_and_answers(audit: Audit) -> None:
    _with_result(audit, _call(audit, "miss"), "early.1")


def signal_of_another_run(audit: Audit) -> None:
    _with_result(audit, _call(audit, "signal"), "early.1")


def signal_that_was_not_heard(audit: Audit) -> None:
    _with_result(audit, _call(audit, "hear"), "")


def process_that_did_not_move(audit: Audit) -> None:
    process = _child(audit, plan.ADOPTED)
    audit.sessions[process.session_id] = replace(process, started_by="r05")


def process_in_the_old_tree(audit: Audit) -> None:
    process = _child(audit, plan.ADOPTED)
    audit.sessions[process.session_id] = replace(process, root="r05")


def process_that_no_call_started(audit: Audit) -> None:
    audit.sessions["p_stray"] = replace(_child(audit, plan.ADOPTED), session_id="p_stray")


def tree_that_is_not_cancelled_whole(audit: Audit) -> None:
    (session_id, _) = tree_of(audit.store, "x01", plan.TURN, *plan.CANCELLED)[-1]
    leaf = audit.sessions[session_id]
    pages = (replace(leaf.pages[0], outcome=Finished(text="did 2")),)
    audit.sessions[session_id] = replace(leaf, pages=pages)


def errand_that_ran_twice(audit: Audit) -> None:
    audit.lines.append(_done(audit))


def errand_into_what_is_gone(audit: Audit) -> None:
    audit.lines.append(_done(audit)._replace(call=f"post {plan.deleted()[0]} stray"))


def _done(audit: Audit) -> Line:
    lines = (line for line in audit.lines if line.kind == "errand")
    return next(line for line in lines if line.said["status"] == "done")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forge", "rules"),
    [
        (committed_twice, {"end", "posted"}),
        (ended_otherwise, {"end"}),
        (child_that_is_not_there, {"child"}),
        (child_of_another, {"child"}),
        (child_that_goes_on, {"child"}),
        (child_of_another_run, {"child"}),
        (child_that_was_not_asked_for, {"orphan"}),
        (item_that_is_lost, {"posted"}),
        (item_that_came_twice, {"posted"}),
        (item_of_another_run, {"posted"}),
        (item_that_was_not_sent, {"posted"}),
        (answer_of_another_run, {"answer"}),
        (answer_that_is_missing, {"answer"}),
        (child_that_cannot_begin_and_answers, {"answer"}),
        (signal_of_another_run, {"signal"}),
        (signal_that_was_not_heard, {"signal"}),
        (process_that_did_not_move, {"moved"}),
        (process_in_the_old_tree, {"moved"}),
        (process_that_no_call_started, {"moved"}),
        (tree_that_is_not_cancelled_whole, {"cancel"}),
        (errand_that_ran_twice, {"once"}),
        (errand_into_what_is_gone, {"gone"}),
    ],
)
def test_the_audit_notices_what_it_is_there_for(
    quiet: Audit, forge: Forgery, rules: set[str]
) -> None:
    forged = Audit(quiet.store, dict(quiet.sessions), [], list(quiet.lines))
    forge(forged)
    again = Audit(forged.store, forged.sessions, [], forged.lines)
    assert {finding.rule for finding in again.report().findings} == rules


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "rule", "what"),
    [
        ("UPDATE turns SET state = 'parked' WHERE no = 20", "end", "is parked"),
        (OPEN_WAIT, "end", "an open wait of kind child"),
        (ITEM.format(state="pending", session="r05"), "end", "item stray is pending"),
        (ITEM.format(state="settled", session="d00"), "gone", "d00 was deleted and has inbox"),
    ],
)
def test_the_audit_notices_what_is_left_over_in_the_file(
    folder: Path, tmp_path: Path, change: str, rule: str, what: str
) -> None:
    file = tmp_path / "forged.db"
    shutil.copy(file_of(folder), file)
    assert left_over(file) == []
    db = apsw.Connection(str(file))
    db.execute(change)
    db.close()
    (found,) = left_over(file)
    assert (found.rule, what in found.what) == (rule, True)
