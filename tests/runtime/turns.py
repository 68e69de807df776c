"""What a turn writes, by where it stands: replies, decisions, intents, results, and its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from tests.unit_shortcuts import UnitShortcuts
from windlass.journal import (
    CallDecided,
    CallReturned,
    Claimed,
    Envelope,
    Invocation,
    ModelAnswered,
    ModelCallCommand,
    Moment,
    Recorded,
    RequestSpec,
    Scope,
    ToolCallCommand,
    TurnStarted,
)
from windlass.kernel.messages import ConversationRecord, Message, Text
from windlass.kernel.model_call import ModelReply, Usage
from windlass.kernel.outcomes import Finished
from windlass.kernel.tool_call import ToolOutcome
from windlass.kernel.value import Json
from windlass.ports import NewTurn, Start, TurnCommit, TurnRequest, TurnView, Unit
from windlass.stores.sqlite import SqliteStore

UNTIL_MS = 3_600_000
STARTED = TurnStarted(agent="helper", model="m")
GENERATION = 1
"""The first generation of a session: whoever starts its first turn gets it."""


def scope(session_id: str, turn_id: str, iteration: int) -> Scope:
    return Scope(session_id=session_id, turn_id=turn_id, turn_index=1, iteration=iteration)


def reply(
    session_id: str, iteration: int, *, turn_id: str = "t1", text: str | None = None
) -> Recorded:
    """Return the record of a model's reply; its text says which one it is."""
    envelope = Envelope(
        invocation=Invocation.effect(scope(session_id, turn_id, iteration), "model_call", "model"),
        command=ModelCallCommand(
            request=RequestSpec(model="m", messages="ab" * 32, message_count=1)
        ),
    )
    said = text if text is not None else f"reply {iteration}"
    answered = ModelAnswered(result=ModelReply(text=said, usage=Usage(output_tokens=10)))
    return Recorded.of(envelope, answered)


def call(
    session_id: str,
    iteration: int,
    moment: Moment,
    *,
    turn_id: str = "t1",
    args: dict[str, Any] | None = None,
) -> Envelope:
    """Return one moment of an iteration's only tool call."""
    return Envelope(
        invocation=Invocation.effect(
            scope(session_id, turn_id, iteration),
            "tool_call",
            "tools",
            call_ordinal=0,
            moment=moment,
        ),
        command=ToolCallCommand(
            call_id=f"c{iteration}", name="pay", args={"n": iteration} if args is None else args
        ),
    )


def decided(session_id: str, iteration: int, **where: Any) -> Recorded:
    return Recorded.of(call(session_id, iteration, "decide", **where), CallDecided())


def intent(session_id: str, iteration: int, **where: Any) -> Claimed:
    return Claimed.of(call(session_id, iteration, "intent", **where), contract="once")


def result(
    session_id: str, iteration: int, *, value: Json = "paid", claimed: bool = True, **where: Any
) -> Recorded:
    """Return what a call gave. It is recorded under the digest of its intent: they are one row."""
    asked = call(session_id, iteration, "intent", **where)
    given = call(session_id, iteration, "result", **where)
    return Recorded(
        key=given.key,
        digest=asked.digest() if claimed else given.digest(),
        outcome=CallReturned(outcome=ToolOutcome(value=value)),
        command=None if claimed else given.command,
    )


def new_turn(text: str = "hello", **fields: Any) -> NewTurn:
    return NewTurn(
        agent="helper", request=TurnRequest(input=(Text(text=text),)), now_ms=1, **fields
    )


def begins(worker_id: str) -> Start:
    return Start(worker_id=worker_id, until_ms=UNTIL_MS, now_ms=1)


def ending(text: str = "done", *, head: int = 0, **more: Any) -> TurnCommit:
    says = Message(id=f"m{head}", role="assistant", parts=(Text(text=text),))
    return TurnCommit(
        expected_head=head,
        nodes=(ConversationRecord(message=says),),
        outcome=Finished(text=text),
        now_ms=2,
        **more,
    )


def unit(session_id: str, position: int, *entries: Any, turn_id: str = "t1", **parts: Any) -> Unit:
    return Unit(
        session_id=session_id,
        turn_id=turn_id,
        generation=GENERATION,
        position=position,
        entries=entries,
        **parts,
    )


async def begin(
    store: SqliteStore, session_id: str, worker_id: str, *, turn_id: str = "t1", text: str = "hello"
) -> None:
    """Accept a turn and start it."""
    await store.accept(session_id, turn_id, new_turn(text))
    await UnitShortcuts(store).start(session_id, turn_id, begins(worker_id), generation=GENERATION)


def said(turn: TurnView | None) -> list[str]:
    """Return the texts of the replies in a turn's journal, in the order of its pages."""
    assert turn is not None
    return [
        entry.outcome.result.text
        for page in turn.pages
        for entry in page.entries
        if isinstance(entry, Recorded)
        and isinstance(entry.outcome, ModelAnswered)
        and isinstance(entry.outcome.result, ModelReply)
    ]


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every table, as another program sees them."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = [
            name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")
        ]
        return {
            str(table): sorted(db.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
            for table in tables
        }
    finally:
        db.close()
