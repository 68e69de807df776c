"""Turns whose every byte follows from where they stand, so that a file can be checked against nothing but names.

A session's turns are numbered; each has `PAGES` units, then a commit. What was acknowledged is told as a `Mark`.
The n-th turn arrives in one of three shapes: step by step, begun by its first unit, or as one single unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import UnknownSession
from windlass.journal import (
    Claimed,
    Entry,
    Envelope,
    Invocation,
    ModelAnswered,
    ModelCallCommand,
    Recorded,
    RequestSpec,
    Scope,
    TurnStarted,
)
from windlass.kernel.messages import ConversationRecord, Message, Text
from windlass.kernel.model_call import ModelReply
from windlass.kernel.outcomes import Finished
from windlass.ports import (
    NewItem,
    NewTurn,
    SessionView,
    Start,
    Store,
    TurnCommit,
    TurnRequest,
    Unit,
)

PAGES = 3
SIZES = (40, 300, 2_500, 9_000, 30_000)
LEASE_MS = 3_600_000

Shape: TypeAlias = Literal["steps", "begun", "single"]
SHAPES: tuple[Shape, ...] = ("steps", "begun", "single")
Kind: TypeAlias = Literal["accept", "start", "item", "blob", "unit", "commit"]


class Mark(NamedTuple):
    """Something that was acknowledged as durable."""

    kind: Kind
    session: str
    turn: int
    position: int = 0

    def line(self) -> str:
        return f"{self.kind} {self.session} {self.turn} {self.position}"

    @classmethod
    def read(cls, line: str) -> Mark:
        kind, session, turn, position = line.split()
        return cls(kind, session, int(turn), int(position))  # type: ignore[arg-type]  # as written


Tell: TypeAlias = Callable[[Mark], None]


class Worker(NamedTuple):
    """A worker that has joined, and the time it believes in."""

    worker_id: str
    now_ms: int = 1_000
    until_ms: int = 1_000 + LEASE_MS


# ------------------------------------------------------------------------- what is written


def turn_name(turn: int) -> str:
    return f"t{turn}"


def words(session: str, turn: int, position: int) -> str:
    """Return a text that is found nowhere else; some are short, some long enough to be kept apart."""
    word = f"{session}-{turn}-{position} "
    size = SIZES[(turn * 7 + position * 3 + len(session)) % len(SIZES)]
    return (word * (size // len(word) + 1))[:size]


def blob(session: str, turn: int) -> bytes:
    return f"blob of {session} {turn}".encode() * 90


def item(session: str, turn: int) -> NewItem:
    return NewItem(item_id=f"i{turn}", when="next_turn", content={"of": f"{session} {turn}"})


def new_turn(session: str, turn: int) -> NewTurn:
    return NewTurn(
        agent="clerk",
        request=TurnRequest(input=(Text(text=words(session, turn, 100)),)),
        now_ms=turn,
    )


def envelope(session: str, turn: int, position: int) -> Envelope:
    scope = Scope(session_id=session, turn_id=turn_name(turn), turn_index=turn, iteration=position)
    return Envelope(
        invocation=Invocation.effect(scope, "model_call", f"e{position}"),
        command=ModelCallCommand(
            request=RequestSpec(model="m", messages=f"{turn:064x}", message_count=position)
        ),
    )


def entries(session: str, turn: int, position: int) -> tuple[Entry, ...]:
    """Return the entries of a turn's unit: what the one before asked came back, the next is asked."""
    claimed = Claimed.of(envelope(session, turn, position))
    if position == 0:
        return (TurnStarted(agent="clerk", model="m", history=turn), claimed)
    reply = ModelAnswered(result=ModelReply(text=words(session, turn, position)))
    before = envelope(session, turn, position - 1)
    return (Recorded.of(before, reply, claimed=True), claimed)


def unit(session: str, turn: int, position: int, *, generation: int) -> Unit:
    return Unit(
        session_id=session,
        turn_id=turn_name(turn),
        generation=generation,
        position=position,
        entries=entries(session, turn, position),
        blobs=(sha256(blob(session, turn)).hexdigest(),) if position == 1 else (),
    )


def commit(session: str, turn: int) -> TurnCommit:
    says = Message(id=f"m{turn}", role="assistant", parts=(Text(text=words(session, turn, 200)),))
    return TurnCommit(
        expected_head=turn,
        nodes=(ConversationRecord(message=says),),
        outcome=Finished(text=words(session, turn, 201)),
        now_ms=turn,
    )


# ------------------------------------------------------------------------- writing


async def run_turn(
    store: Store,
    session: str,
    turn: int,
    worker: Worker,
    generation: int,
    tell: Tell,
    *,
    shape: Shape | None = None,
) -> None:
    """Run a new turn from its arrival to its commit."""
    name = turn_name(turn)
    begins = Start(worker_id=worker.worker_id, until_ms=worker.until_ms, now_ms=worker.now_ms)
    shape = shape or SHAPES[turn % len(SHAPES)]
    if shape == "steps":
        # What waits comes first. The turn enters with it and does not use it, so that it waits again.
        takes = await _waiting(store, session)
        await store.accept(session, name, replace(new_turn(session, turn), takes=takes))
        tell(Mark("accept", session, turn))
        await store.enqueue(session, item(session, turn))
        tell(Mark("item", session, turn))
        await UnitShortcuts(store).start(session, name, begins, generation=generation)
        tell(Mark("start", session, turn))
        await go_on(store, session, turn, generation, tell)
        return
    digest = await store.put_blob(blob(session, turn), now_ms=turn)
    assert digest == sha256(blob(session, turn)).hexdigest()
    tell(Mark("blob", session, turn))
    if shape == "begun":
        ticket = store.submit(
            Unit(
                session_id=session,
                turn_id=name,
                generation=generation,
                accept=new_turn(session, turn),
                start=begins,
                entries=entries(session, turn, 0),
            )
        )
        await ticket.durable()
        tell(Mark("unit", session, turn, 0))
        await go_on(store, session, turn, generation, tell, first=1)
        return
    all_entries = tuple(e for position in range(PAGES) for e in entries(session, turn, position))
    ticket = store.submit(
        Unit(
            session_id=session,
            turn_id=name,
            generation=generation,
            accept=new_turn(session, turn),
            start=begins,
            entries=all_entries,
            commit=commit(session, turn),
            blobs=(digest,),
        )
    )
    await ticket.durable()
    tell(Mark("commit", session, turn))


async def _waiting(store: Store, session: str) -> tuple[str, ...]:
    try:
        return tuple(one.item_id for one in (await store.inbox(session)).items)
    except UnknownSession:
        return ()


async def go_on(
    store: Store, session: str, turn: int, generation: int, tell: Tell, *, first: int = 0
) -> None:
    """Write a turn's units from one on, two of them at once where that can be, and commit it."""
    if first <= 1:
        await store.put_blob(blob(session, turn), now_ms=turn)
        tell(Mark("blob", session, turn))
    tickets = [
        (position, store.submit(unit(session, turn, position, generation=generation)))
        for position in range(first, PAGES)
    ]
    for position, ticket in tickets:
        await ticket.durable()
        tell(Mark("unit", session, turn, position))
    receipt = await UnitShortcuts(store).commit(
        session, turn_name(turn), commit(session, turn), generation=generation
    )
    assert receipt.head == turn + 1
    tell(Mark("commit", session, turn))


async def resume(store: Store, session: str, worker: Worker, tell: Tell) -> tuple[int, int]:
    """Take a session over, end its unfinished turn; return its generation and the next turn's number."""
    view = await find_session(store, session)
    if view is None:
        return 1, 0
    if view.active is not None:
        lease = await store.take_over(
            session,
            view.active,
            worker_id=worker.worker_id,
            until_ms=worker.until_ms,
            now_ms=worker.now_ms,
        )
        turn = await store.load_turn(session, view.active)
        assert turn is not None
        number = int(view.active[1:])
        await go_on(store, session, number, lease.generation, tell, first=len(turn.pages))
        return lease.generation, number + 1
    generation = view.generation + 1
    queued = await store.load_turn(session, turn_name(view.head))
    if queued is not None:
        begins = Start(worker_id=worker.worker_id, until_ms=worker.until_ms, now_ms=worker.now_ms)
        await UnitShortcuts(store).start(
            session, turn_name(view.head), begins, generation=generation
        )
        await go_on(store, session, view.head, generation, tell)
        return generation, view.head + 1
    return generation, view.head


# ------------------------------------------------------------------------- checking


async def find_session(store: Store, session: str) -> SessionView | None:
    try:
        return await store.load_session(session)
    except UnknownSession:
        return None


async def check_session(store: Store, session: str, marks: Iterable[Mark]) -> int:
    """Compare a session with what was acknowledged and what could have been written; return its head."""
    told = set(marks)
    view = await find_session(store, session)
    if view is None:
        # A blob belongs to no session.
        assert {mark for mark in told if mark.kind != "blob"} == set()
        await _check_blobs(store, told)
        return 0
    await _check_blobs(store, told)
    assert len(view.pages) == view.head
    for number, page in enumerate(view.pages):
        wanted = commit(session, number)
        assert page.turn_id == turn_name(number)
        assert page.nodes == wanted.nodes
        assert page.outcome == wanted.outcome
        assert await _check_turn(store, session, number) == "done"
    active = await _check_turn(store, session, view.head)
    assert await store.load_turn(session, turn_name(view.head + 1)) is None
    assert view.active == (turn_name(view.head) if active == "running" else None)
    await _check_marks(store, session, view.head, told)
    return view.head


async def _check_turn(store: Store, session: str, number: int) -> str | None:
    turn = await store.load_turn(session, turn_name(number))
    if turn is None:
        return None
    assert turn.request_digest == new_turn(session, number).request.digest()
    found = [page.entries for page in turn.pages]
    single = [tuple(e for p in range(PAGES) for e in entries(session, number, p))]
    if turn.state != "done" or found != single:
        assert found == [entries(session, number, position) for position in range(len(found))]
        assert len(found) == PAGES or turn.state != "done"
    generations = [page.generation for page in turn.pages]
    assert generations == sorted(generations)
    if found and not (len(found) == 1 and turn.state != "done"):
        digest = sha256(blob(session, number)).hexdigest()
        assert await store.get_blob(digest) == blob(session, number)
    if turn.state == "done":
        assert turn.outcome == commit(session, number).outcome
        assert turn.receipt is not None
        assert turn.receipt.head == number + 1
    return turn.state


async def _check_blobs(store: Store, told: set[Mark]) -> None:
    for mark in told:
        if mark.kind == "blob":
            data = blob(mark.session, mark.turn)
            assert await store.get_blob(sha256(data).hexdigest()) == data


async def _check_marks(store: Store, session: str, head: int, told: set[Mark]) -> None:
    last = await store.load_turn(session, turn_name(head))
    n_pages = -1 if last is None else len(last.pages)
    items = {i.item_id for i in (await store.inbox(session)).items}
    for mark in told:
        match mark.kind:
            case "commit":
                assert mark.turn < head, mark
            case "unit":
                assert mark.turn < head or (mark.turn == head and n_pages > mark.position), mark
            case "accept":
                assert mark.turn < head or (mark.turn == head and last is not None), mark
            case "start":
                running = last is not None and last.state == "running"
                assert mark.turn < head or (mark.turn == head and running), mark
            case "item":
                assert f"i{mark.turn}" in items, mark
            case "blob":
                pass
