"""One write of each kind, on a store that has all it takes, and how often it has landed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

import msgspec

from tests.durability.workload import Worker, blob, commit, item, new_turn, unit
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import InvalidInput, UnknownSession
from windlass.journal import HistoryPage
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    ImportedSession,
    ImportedTurn,
    MoveSession,
    NewItem,
    PostItem,
    Start,
    Store,
    Wait,
    WaitAnswer,
)

AWAITED = Wait(key="w_go", kind="signal", session_id="p0", turn_id="t0", detail={"signal": "go"})
EARLY = Wait(
    key="w_early", kind="signal", session_id="s0", turn_id="t0", detail={"signal": "early"}
)
PROCESS = AcceptTurn(session_id="p0", turn_id="t0", turn=new_turn("p0", 0), kind="process")
WAIT = Wait(key="w_ask", kind="approval", session_id="s0", turn_id="t0")
CHILD = AcceptTurn(session_id="c0", turn_id="t0", turn=new_turn("c0", 0), kind="child")
YES = WaitAnswer(value={"ok": True}, by="ada", now_ms=2_000)
LARGE = b"another blob" * 1_000

Run: TypeAlias = Callable[[Store, Worker, int], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOperation:
    """A write, and a count of it: 0 before it has landed, 1 after, whatever happened in between."""

    name: str
    run: Run
    landed: Callable[[Store], Awaitable[int]]
    is_fenced: bool = False


async def prepare(store: Store) -> Worker:
    """Bring a new store to where each of the operations can be done once."""
    worker = Worker(await store.join(until_ms=3_601_000, now_ms=1_000))
    begins = Start(worker_id=worker.worker_id, until_ms=worker.until_ms, now_ms=1_000)
    await store.accept("s0", "t0", new_turn("s0", 0))
    await UnitShortcuts(store).start("s0", "t0", begins, generation=1)
    await store.put_blob(blob("s0", 0), now_ms=0)
    await store.submit(unit("s0", 0, 0, generation=1)).durable()
    await UnitShortcuts(store).open_wait("s0", "t0", WAIT, generation=1)
    await store.accept("s1", "t0", new_turn("s1", 0))
    await store.run_errands([PROCESS, signal("s0", "early")], now_ms=1_000)
    await UnitShortcuts(store).start("p0", "t0", begins, generation=1)
    await UnitShortcuts(store).open_wait("p0", "t0", AWAITED, generation=1)
    return worker


def signal(session_id: str, name: str) -> PostItem:
    """Return the errand that sends a signal."""
    content = {"name": name, "value": {"of": name}, "by": "ada"}
    item = NewItem(item_id=f"k_{name}", kind="signal", when="asked", content=content)
    return PostItem(session_id=session_id, item=item, now_ms=1_500)


async def _submit(store: Store, _: Worker, generation: int) -> object:
    return await store.submit(unit("s0", 0, 1, generation=generation)).durable()


async def _submitted(store: Store) -> int:
    turn = await store.load_turn("s0", "t0")
    assert turn is not None
    assert [page.entries for page in turn.pages] == [
        unit("s0", 0, position, generation=1).entries for position in range(len(turn.pages))
    ]
    return len(turn.pages) - 1


ERRANDS: tuple[Errand, ...] = (
    CHILD,
    PostItem(session_id="s1", item=NewItem(item_id="up", content={"n": 1})),
    CancelTurn(session_id="s1", turn_id="t0", reason="enough"),
    AnswerWait(key=WAIT.key, answer=YES),
    PostItem(session_id="s9", item=NewItem(item_id="gone")),
    signal("p0", "go"),
    MoveSession(session_id="p0", to="s1"),
)


async def _send(store: Store, _: Worker, generation: int) -> object:
    sent = msgspec.structs.replace(unit("s0", 0, 1, generation=generation), errands=ERRANDS)
    receipt = await store.submit(sent).durable()
    assert len(receipt.errands) == len(ERRANDS)
    return receipt


async def _sent(store: Store) -> int:
    """A page and what its errands did are there together, and once."""
    pages = await _submitted(store)
    assert await _errands_run(store) == pages
    return pages


async def _run_errands(store: Store, _: Worker, __: int) -> object:
    return await store.run_errands(ERRANDS, now_ms=2_000)


async def _errands_run(store: Store) -> int:
    child = await store.load_turn("c0", "t0")
    inbox, turn = await store.inbox("s1"), await store.load_turn("s1", "t0")
    assert turn is not None
    found = {
        0 if child is None else len((await store.inbox("c0")).queued_turns),
        len(inbox.items),
        int(turn.cancel is not None),
        await _resolved(store),
        await _signalled(store),
        int((await store.load_session("p0")).started_by == "s1"),
    }
    assert len(found) == 1
    return found.pop()


async def _signalled(store: Store) -> int:
    """A signal and the wait that asked for it are over together."""
    turn, items = await store.load_turn("p0", "t0"), (await store.inbox("p0")).items
    assert turn is not None
    (view,) = turn.waits
    got = WaitAnswer(value={"of": "go"}, by="ada", now_ms=1_500)
    assert (view.state, view.answer) in [("open", None), ("answered", got)]
    assert items == ()
    return int(view.state == "answered")


async def _ask(store: Store, _: Worker, generation: int) -> object:
    return await UnitShortcuts(store).open_wait("s0", "t0", EARLY, generation=generation)


async def _asked(store: Store) -> int:
    """A wait and the signal that was there before it meet, or neither has changed."""
    turn, items = await store.load_turn("s0", "t0"), (await store.inbox("s0")).items
    assert turn is not None
    opened = [view for view in turn.waits if view.wait.key == EARLY.key]
    assert [view.answer and view.answer.value for view in opened] == [{"of": "early"}] * len(opened)
    assert len(opened) + len(items) == 1
    return len(opened)


async def _commit(store: Store, _: Worker, generation: int) -> object:
    receipt = await UnitShortcuts(store).commit("s0", "t0", commit("s0", 0), generation=generation)
    assert receipt.head == 1
    return receipt


async def _committed(store: Store) -> int:
    view = await store.load_session("s0")
    assert [page.nodes for page in view.pages] == [commit("s0", 0).nodes] * view.head
    return view.head


async def _accept(store: Store, _: Worker, __: int) -> object:
    return await store.accept("s0", "t1", new_turn("s0", 1))


async def _accepted(store: Store) -> int:
    return (await store.inbox("s0")).queued_turns.count("t1")


async def _start(store: Store, worker: Worker, _: int) -> object:
    begins = Start(worker_id=worker.worker_id, until_ms=worker.until_ms, now_ms=1_000)
    return await UnitShortcuts(store).start("s1", "t0", begins, generation=1)


async def _started(store: Store) -> int:
    return (await store.load_session("s1")).generation


async def _claim(store: Store, worker: Worker, _: int) -> object:
    return await store.claim(
        worker.worker_id,
        agents=[new_turn("s1", 0).agent],
        limit=5,
        until_ms=worker.until_ms,
        now_ms=1_000,
        session_id="s1",
    )


async def _resolve(store: Store, _: Worker, __: int) -> object:
    receipt = await store.resolve_wait(WAIT.key, YES)
    assert receipt.answer == YES
    return receipt


async def _resolved(store: Store) -> int:
    turn = await store.load_turn("s0", "t0")
    assert turn is not None
    (view,) = turn.waits
    assert (view.state, view.answer) in [("open", None), ("answered", YES)]
    return int(view.state == "answered")


async def _enqueue(store: Store, _: Worker, __: int) -> object:
    return await store.enqueue("s0", item("s0", 0))


async def _enqueued(store: Store) -> int:
    return sum(item.when != "asked" for item in (await store.inbox("s0")).items)


async def _put_blob(store: Store, _: Worker, __: int) -> object:
    return await store.put_blob(LARGE, now_ms=0)


async def _blob_is_there(store: Store) -> int:
    try:
        return int(await store.get_blob(sha256(LARGE).hexdigest()) == LARGE)
    except InvalidInput:
        return 0


async def _cancel(store: Store, _: Worker, __: int) -> object:
    return await store.request_cancel("s0", "t0", reason="enough")


async def _cancelled(store: Store) -> int:
    turn = await store.load_turn("s0", "t0")
    assert turn is not None
    assert turn.cancel in (None, "enough")
    return int(turn.cancel is not None)


IMPORTED = ImportedSession(
    session_id="imported",
    agent="a",
    created_ms=1,
    turns=tuple(
        ImportedTurn(
            page=HistoryPage(
                format=1,
                turn_id=f"t{number}",
                nodes=commit("s0", number).nodes,
                outcome=commit("s0", number).outcome,
            ),
            request_digest=f"{number:064x}",
        )
        for number in range(3)
    ),
)


async def _import(store: Store, _: Worker, __: int) -> object:
    return await store.import_session(IMPORTED, now_ms=2_000)


async def _imported(store: Store) -> int:
    """The session is there with all of its turns, or not at all."""
    try:
        view = await store.load_session("imported")
    except UnknownSession:
        return 0
    assert view.pages == tuple(turn.page for turn in IMPORTED.turns)
    assert [await store.load_turn("imported", f"t{number}") is None for number in range(4)] == [
        False, False, False, True,
    ]  # fmt: skip
    return 1


OPERATIONS = (
    StoreOperation(name="submit", run=_submit, landed=_submitted, is_fenced=True),
    StoreOperation(name="errands", run=_send, landed=_sent, is_fenced=True),
    StoreOperation(name="run_errands", run=_run_errands, landed=_errands_run),
    StoreOperation(name="signal", run=_ask, landed=_asked, is_fenced=True),
    StoreOperation(name="commit", run=_commit, landed=_committed, is_fenced=True),
    StoreOperation(name="accept", run=_accept, landed=_accepted),
    StoreOperation(name="start", run=_start, landed=_started),
    StoreOperation(name="resolve_wait", run=_resolve, landed=_resolved),
    StoreOperation(name="enqueue", run=_enqueue, landed=_enqueued),
    StoreOperation(name="put_blob", run=_put_blob, landed=_blob_is_there),
    StoreOperation(name="request_cancel", run=_cancel, landed=_cancelled),
    StoreOperation(name="import_session", run=_import, landed=_imported),
)
CLAIM = StoreOperation(name="claim", run=_claim, landed=_started)
"""Lands once as the others do; asked again, it gives what is left, which is nothing."""
