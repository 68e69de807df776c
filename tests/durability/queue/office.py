"""An agent whose sessions are given turns, items and cancels in a known order; all that it does is written down outside.

Each session has a script of batches. All entries of a batch are given in one pass of the loop; the next batch comes when the
last turn of the one before has ended. In some batches that turn leaves a message for the inbox, so that the next one finds
the session at work; else it finds it idle. So the order in which everything enters is known: entry by entry, and behind a
batch what its last turn left. Only a note, which is for `now`, may enter any turn that is under way, or begin one.
"""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple, TypeAlias

from tests.durability.soak.ledger import Ledger
from windlass import Agent, ToolContext, TurnInfo, tool
from windlass.kernel import CompletedToolCall, ModelReply, ModelRequest, Outcome, Text, ToolCall
from windlass.plugins import Finale, Plugin, PluginTurn
from windlass.testing import FunctionModel

N_SESSIONS = 3
How: TypeAlias = Literal["run", "submit", "cancel", "item", "note"]


class Entry(NamedTuple):
    """Something that is given to a session: as a turn, as a turn that is then cancelled, or into the inbox."""

    name: str
    how: How


def _batch(number: int, *ways: How) -> tuple[Entry, ...]:
    return tuple(Entry(f"{number}{'abcdefgh'[at]}", how) for at, how in enumerate(ways))


SCRIPT = (
    _batch(0, "run", "run"),
    _batch(1, "run", "submit", "item", "run", "run"),
    _batch(2, "item", "run"),
    _batch(3, "run", "cancel", "note", "item", "submit", "run"),
    _batch(4, "submit", "cancel", "run"),
)
NOTES = frozenset(entry.name for batch in SCRIPT for entry in batch if entry.how == "note")
CANCELLED = frozenset(entry.name for batch in SCRIPT for entry in batch if entry.how == "cancel")
_LEAVING = (1, 3)
_LAST = {SCRIPT[number][-1].name: f"left-{number}" for number in _LEAVING}


def sessions() -> list[str]:
    """Return the sessions of a round."""
    return [f"s{number}" for number in range(N_SESSIONS)]


def wanted_order() -> list[str]:
    """Return in which order everything but the notes enters a session, written out from the script."""
    order: list[str] = []
    for batch in SCRIPT:
        order += [entry.name for entry in batch if entry.how != "note"]
        order += [_LAST[entry.name] for entry in batch if entry.name in _LAST]
    return order


def words(session: str, name: str) -> str:
    """Return what is said with an entry."""
    return f"Work, {session} {name}"


def name_in(text: str) -> str:
    """Return which entry says this."""
    return text.rsplit(maxsplit=1)[-1]


class Witness(Plugin):
    """Looks at each turn's beginning and at each result, and leaves a message behind each batch."""

    name = "witness"
    version = "1"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def before_turn(self, turn: PluginTurn) -> None:
        """Write down that a turn begins."""
        self._ledger.write("hook", turn.session_id, turn.turn_id)

    async def after_tool(self, turn: PluginTurn, ended: CompletedToolCall) -> None:
        """Take a moment to look at a result."""
        await asyncio.sleep(0.003)
        self._ledger.write("looked", turn.session_id, ended.call_id, name=ended.args["what_for"])

    async def after_turn(self, turn: PluginTurn, _outcome: Outcome) -> Finale | None:
        """Leave a message behind the last turn of a batch."""
        first = turn.turn_messages[0].parts[0] if turn.turn_messages else None
        left = _LAST.get(name_in(first.text)) if isinstance(first, Text) else None
        return None if left is None else Finale(messages=[words(turn.session_id, left)])


def office(ledger: Ledger) -> Agent[None, str]:
    """Return the agent: one payment, then words, in each turn."""

    async def sell(request: ModelRequest) -> ModelReply:
        session, name, place = _place(request)
        word = ledger.mint()
        ledger.write("model", session, name, word=word)
        await asyncio.sleep(0.004)
        ledger.write("reply", session, name, word=word)
        if place:
            return ModelReply(text=word)
        # A call that may have acted is asked about if it comes again: each has arguments of its own.
        call = ToolCall(call_id=name, name="pay", args={"what_for": name})
        return ModelReply(parts=(Text(text=word), call), terminal="tool_use")

    @tool(effect="once")
    async def pay(ctx: ToolContext[None], what_for: str) -> str:
        """Pay."""
        word = ledger.mint()
        ledger.write("tool", ctx.session_id, ctx.call_id, word=word)
        # A worker that leaves waits for the slow ones.
        await asyncio.sleep(0.050 if ctx.session_id == "s0" else 0.002)
        return word

    async def instructions(_: TurnInfo) -> str:
        # For a moment a turn has begun, and the store does not know of it.
        await asyncio.sleep(0.004)
        return "Pay, then say so."

    return Agent(
        "office",
        model=FunctionModel(sell, name="seller"),
        instructions=instructions,
        tools=[pay],
        plugins=[Witness(ledger)],
    )


def _place(request: ModelRequest) -> tuple[str, str, int]:
    """Return the session, the entry that was said last, and how many replies came since."""
    replies = 0
    for message in reversed(request.messages):
        replies += message.role == "assistant"
        for part in message.parts:
            if type(part) is Text and part.text.startswith("Work, "):
                session, name = part.text.removeprefix("Work, ").split()
                return session, name, replies
    raise AssertionError("a request without an entry")
