"""The audit of a round of errands: what each session says it did, compared with what happened to the others.

end       every turn is done, as it was to end; none is parked, no wait is open, no item waits
child     a child that was asked for is there once, begun by its parent's unit, and ended once
orphan    a child that is there was asked for
posted    an item arrived once if its sender says that it sent it, and never if not; with the same word
signal    a session heard the word that its neighbour says that it sent
moved     a process that was given to another session is there once, belongs to that one, and ended once
answer    a parent has the word that its child recorded; one whose child could not begin was told why
cancel    a tree that was cancelled ended so, all of it, with the word of the call that did it
gone      nothing is in a session that was deleted, and what was sent there was dropped
once      no errand was run twice
file      the file is whole
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from tests.durability.errands import plan
from tests.durability.errands.histories import (
    Call,
    calls_in,
    news_in,
    task_in,
    told_at_end,
    word_asked,
)
from tests.durability.errands.worker import file_of, ledgers_in
from tests.durability.errands.yard import item_id_of
from tests.durability.soak.ledger import Line
from tests.inside_calls import CHILD_TURN, child_of, tree_of
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import SessionView
from windlass.stores.sqlite import SqliteStore

POSTING = ("post", "send", "later")
_TURNS = "SELECT 'turn ' || s.id || '/' || t.id || ' is ' || state FROM turns AS t JOIN sessions AS s ON s.no = t.session"
_OF_DELETED = "SELECT s.id || ' was deleted and has ' || '{0}' FROM {0} JOIN sessions AS s ON s.no = session WHERE deleted_ms"
_LEFT_OVER = (
    ("end", f"{_TURNS} WHERE state <> 'done'"),
    ("end", "SELECT 'an open wait of kind ' || kind FROM waits WHERE state = 'open'"),
    ("end", "SELECT 'item ' || id || ' is ' || state FROM inbox WHERE state IN ('pending', 'taken')"),
    *(("gone", _OF_DELETED.format(table)) for table in ("turns", "inbox", "waits")),
    ("file", "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
)  # fmt: skip


class Finding(NamedTuple):
    """Something that does not hold."""

    rule: str
    what: str


class Report(NamedTuple):
    """What an audit came to.

    errands: those whose receipt was heard. `owned` had a target that a worker had, and `foreign` one that another worker had
        than the one that ran them; `dropped` had none.
    again: those of units that were handed in again, as far as they were answered.
    reclaimed: items of which the store kept no trace.
    cut: calls of `send` that a kill cut short.
    """

    findings: list[Finding]
    errands: int = 0
    owned: int = 0
    foreign: int = 0
    dropped: int = 0
    again: int = 0
    reclaimed: int = 0
    cut: int = 0
    items: int = 0
    children: int = 0


async def audit(folder: Path) -> Report:
    """Look at the file of a round and at its ledgers, when no worker is left."""
    return (await read(folder)).report()


async def read(folder: Path) -> Audit:
    """Read the file of a round and its ledgers."""
    store = SqliteStore(file_of(folder))
    await store.open()
    try:
        found = await store.list_sessions(kind=None, limit=10_000)
        sessions = {one.session_id: await store.load_session(one.session_id) for one in found}
    finally:
        await store.close()
    lines = [line for ledger in ledgers_in(folder) for line in ledger.lines()]
    return Audit(store, sessions, left_over(file_of(folder)), lines)


def left_over(file: Path) -> list[Finding]:
    """Find what is to be in no file when all is over."""
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return [
            Finding(rule, str(what)) for rule, query in _LEFT_OVER for (what,) in db.execute(query)
        ]
    finally:
        db.close()


class Audit:
    """A round, read whole."""

    def __init__(
        self,
        store: SqliteStore,
        sessions: dict[str, SessionView],
        found: list[Finding],
        lines: list[Line],
    ) -> None:
        self.store = store
        self.sessions = sessions
        self.found = found
        self.lines = lines
        self.calls = [call for one in sessions.values() for call in calls_in(one)]
        # What was said to each session, by item: the words of all that came.
        self._news: dict[tuple[str, str], list[str]] = {}
        for session_id, session in sessions.items():
            for item_id, word in news_in(session):
                self._news.setdefault((session_id, item_id), []).append(word)
        trees = [tree_of(store, one, plan.TURN, *plan.CANCELLED) for one in plan.trees()]
        self._cancelled = {session_id for tree in trees for session_id, _ in tree}

    def report(self) -> Report:
        """Return what does not hold, and the figures."""
        rules = (self.ends, self.children, self.orphans, self.posted, self.answers)
        more = (self.signals, self.moved, self.cancels, self.receipts)
        ran = [line for line in self.lines if line.kind == "errand"]
        owned = [line for line in ran if line.said["owner"] is not None]
        return Report(
            findings=[*self.found, *(found for rule in (*rules, *more) for found in rule())],
            errands=len(ran),
            owned=len(owned),
            foreign=sum(line.said["owner"] != line.said["by"] for line in owned),
            dropped=sum(line.said["status"] == "dropped" for line in ran),
            again=sum(line.kind == "again" for line in self.lines),
            reclaimed=sum(line.said["items"] for line in self.lines if line.kind == "reclaimed"),
            cut=sum(call.status == "unknown" and call.name == "send" for call in self.calls),
            items=sum(map(len, self._news.values())),
            children=sum(one.kind == "child" for one in self.sessions.values()),
        )

    # --------------------------------------------------------------------- turns and children

    def ends(self) -> Iterator[Finding]:
        """Find turns that were not committed once, with all of their task done."""
        asked = dict.fromkeys((*plan.roots(), *plan.trees()), plan.TURN)
        children = (name for name, one in self.sessions.items() if one.kind != "chat")
        for session_id, turn_id in (asked | dict.fromkeys(children, CHILD_TURN)).items():
            session = self.sessions.get(session_id)
            pages = [p for p in session.pages if p.turn_id == turn_id] if session else []
            if len(pages) != 1:
                yield Finding("end", f"{session_id}/{turn_id} was committed {len(pages)} times")
            for page in pages:
                wanted = Finished(text=f"did {len(task_in(page))}")
                if page.outcome != wanted and session_id not in self._cancelled:
                    yield Finding("end", f"{session_id}/{turn_id} came to {page.outcome}")

    def children(self) -> Iterator[Finding]:
        """Find children that were asked for and are not there, or not as they were asked for."""
        for call in self.calls:
            if not self._asked_for_a_child(call):
                continue
            child = self.sessions.get(self._child(call))
            if child is None:
                yield Finding("child", f"{call} asked for a child that is not there")
                continue
            top = self.sessions[call.session_id].root or call.session_id
            family = (child.kind, child.started_by, child.root)
            if family != ("child", call.session_id, top):
                yield Finding("child", f"{call} has a child of the family {family}")
            if [page.turn_id for page in child.pages] != [CHILD_TURN]:
                yield Finding("child", f"{call} has a child that ended {child.head} times")
            if call.name == "spawn" and word_asked(child) != call.word:
                yield Finding("child", f"{call} has a child that another run began")

    def orphans(self) -> Iterator[Finding]:
        """Find children that no call asked for."""
        asked = {self._child(call) for call in self.calls if self._asked_for_a_child(call)}
        for session_id, session in self.sessions.items():
            if session.kind == "child" and session_id not in asked:
                yield Finding("orphan", f"{session_id}, begun by {session.started_by}")

    def _asked_for_a_child(self, call: Call) -> bool:
        # A call that starts a child with its result has none without the result.
        return call.name == "ask" or (call.name == "spawn" and call.status == "ok")

    def _child(self, call: Call) -> str:
        name = call.of.partition(":")[0]
        return child_of(self.store, call.session_id, call.turn_id, name)

    # --------------------------------------------------------------------- items, answers, cancels

    def posted(self) -> Iterator[Finding]:
        """Find items that did not arrive once, and those that were not sent."""
        left = dict(self._news)
        for call in self.calls:
            if call.name not in POSTING:
                continue
            arrived = left.pop((call.of, item_id_of(call.session_id, call.call_id)), [])
            wanted = [call.word] if call.status == "ok" else []
            if len(arrived) != len(wanted):
                yield Finding("posted", f"{call} ({call.status}) arrived {len(arrived)} times")
            elif arrived != wanted:
                yield Finding("posted", f"{call} arrived with the word of another run")
        for session_id, item_id in left:
            yield Finding("posted", f"{item_id} arrived in {session_id} and was not sent")

    def answers(self) -> Iterator[Finding]:
        """Find waits that have not the answer that was given."""
        told = {call.session_id: call.word for call in self.calls if call.name == "tell"}
        told |= {name: word for name, one in self.sessions.items() for word in told_at_end(one)}
        for call in self.calls:
            if call.name == "miss":
                wanted = ("error", f"session {call.of}: was deleted")
            elif call.name == "ask" and call.session_id not in self._cancelled:
                wanted = ("ok", told.get(self._child(call), "nothing"))
            else:
                continue
            if (call.status, call.word) != wanted:
                yield Finding("answer", f"{call} has {call.status}, {call.word}: wanted {wanted}")

    def signals(self) -> Iterator[Finding]:
        """Find sessions that did not hear what was sent to them."""
        sent = {call.of: (call.status, call.word) for call in self.calls if call.name == "signal"}
        for call in self.calls:
            if call.name == "hear" and (call.status, call.word) != sent.get(call.session_id):
                heard, wanted = (call.status, call.word), sent.get(call.session_id)
                yield Finding("signal", f"{call} heard {heard}: wanted {wanted}")

    def moved(self) -> Iterator[Finding]:
        """Find processes that are not where they were given to, and those that no call gave."""
        left = {name: one for name, one in self.sessions.items() if one.kind == "process"}
        for call in self.calls:
            if call.name != "adopt" or call.status != "ok":
                continue
            name = child_of(self.store, call.session_id, call.turn_id, plan.ADOPTED)
            left.pop(name, None)
            process = self.sessions.get(name)
            if process is None:
                yield Finding("moved", f"{call} started a process that is not there")
                continue
            found = (process.started_by, process.root, process.head, word_asked(process))
            if found != (call.of, call.of, 1, call.word):
                yield Finding("moved", f"{call} has a process that is {found}")
        for name in left:
            yield Finding("moved", f"{name} is a process that no call started")

    def cancels(self) -> Iterator[Finding]:
        """Find turns of cancelled trees that ended otherwise."""
        for call in self.calls:
            if call.name != "stop":
                continue
            tree = tree_of(self.store, call.of, plan.TURN, *plan.CANCELLED)
            wanted = Stopped(reason="cancelled", detail=call.word)
            for session_id, turn_id in tree:
                session = self.sessions.get(session_id)
                ends = [(p.turn_id, p.outcome) for p in session.pages] if session else []
                if ends != [(turn_id, wanted)]:
                    yield Finding("cancel", f"{call}: {session_id}/{turn_id} came to {ends}")

    # --------------------------------------------------------------------- receipts

    def receipts(self) -> Iterator[Finding]:
        """Find errands that were run twice, or into what was deleted."""
        lines = [line for line in self.lines if line.kind in ("errand", "again")]
        done = [line.call for line in lines if line.said["status"] == "done"]
        for name, count in Counter(done).items():
            if count > 1:
                yield Finding("once", f"{name.partition(' ')[0]} errand was run {count} times")
            if name.split()[1] in plan.deleted():
                yield Finding("gone", f"{name} was run")
