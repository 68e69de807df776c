"""A talk to sum up, and machines that do."""

from __future__ import annotations

from typing import Any

from tests.kernel.builders import (
    ADD,
    SESSION,
    TURN,
    answers,
    assistant,
    call,
    config,
    reply_to,
    result,
)
from windlass.journal import FrameOpened
from windlass.kernel import (
    ConversationRecord,
    InputOrigin,
    Message,
    ModelReply,
    ModelRequest,
    Reasoning,
    Text,
    TurnMachine,
)
from windlass.kernel.compaction import CompactionDriver, CompactionOptions
from windlass.runtime.ending import frame_nodes

LONG = "x" * 3_000
SIGNED = Reasoning(text="hm", replay={"signature": "abc"})


def said(text: str, id: str) -> Message:
    origin = InputOrigin(turn_id=id)
    return Message(id=id, role="user", parts=(Text(text=text),), origin=origin)


# Words, thoughts, two calls of one reply with their results, a last answer.
HISTORY = (
    said("Book a table for 4.", "u1"),
    Message(
        id="a1",
        role="assistant",
        parts=(SIGNED, Text(text="I look."), call("c1", "find", n=4), call("c2", "weather")),
    ),
    answers(
        result("c1", LONG, name="find"),
        result("c2", "?", name="weather", status="unknown"),
        id="r1",
    ),
    assistant("Done: Luigi, 8 pm.", "a2"),
    said("Thanks. And a taxi?", "u2"),
    assistant("Ordered.", "a3"),
)


def compacting(
    history: tuple[Message, ...] = HISTORY, *, turn: str = TURN, **options: Any
) -> TurnMachine:
    driver = CompactionDriver(CompactionOptions(**options))
    return TurnMachine(
        config(driver, tools=(ADD,), turn_id=turn, system_prompt="Be brief."), history
    )


def nodes_of(
    machine: TurnMachine, history: tuple[Message, ...] = HISTORY, *, turn: str = TURN
) -> tuple[Any, ...]:
    assert machine.outcome is not None
    return frame_nodes((SESSION, turn), history, (), machine.records, machine.outcome)


def texts(request: ModelRequest) -> list[str]:
    return [
        "|".join(part.text if isinstance(part, Text) else type(part).__name__ for part in one.parts)
        for one in request.messages
    ]


def finished(
    history: tuple[Message, ...] = HISTORY, *, turn: str = TURN, **options: Any
) -> Message:
    """Return the message that a compaction opens the next frame with."""
    machine = compacting(history, turn=turn, **options)
    reply_to(machine, ModelReply(text="<summary>Table and taxi are booked.</summary>"))
    frame, record = nodes_of(machine, history, turn=turn)
    assert isinstance(frame, FrameOpened)
    assert isinstance(record, ConversationRecord)
    return record.message
