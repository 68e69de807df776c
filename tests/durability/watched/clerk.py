"""Two turns to be watched: several iterations, parallel calls, an approval, and words that are streamed.

Their facts are written out here, by hand. A death changes what a call came to, never which facts there are nor their
order: so every round tells these.

The model ends a reply when all facts before it are in the ledger. So observers die, come and go on in the middle of the
turns, and what they are not told holds everything up.
"""

from __future__ import annotations

import asyncio

from tests.durability.soak.ledger import Ledger
from windlass import Agent, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, Text, Usage
from windlass.models.scripted import placed, replies_so_far
from windlass.ports import EmitModelEvent, TextChunk
from windlass.ports.tool import Tool
from windlass.testing import calls

SESSION = "s"
TASKS = {"first": "Book the trip.", "second": "Thanks."}
_CALL = ("UsageReported", "ModelFinished")
NAMES = (
    *_CALL, "ToolFinished", "ToolFinished", "ToolFinished",
    *_CALL, "WaitOpened", "WaitResolved", "ToolFinished", "ToolFinished",
    *_CALL, "ToolFinished",
    *_CALL, "TurnEnded",
    *_CALL, "TurnEnded",
)  # fmt: skip
"""The facts of both turns, in order."""
_FACTS_BEFORE = {TASKS["first"]: (0, 5, 11, 14), TASKS["second"]: (17,)}
_LOOK_S = 0.002


def _reply(words: str, *asked: str) -> ModelReply:
    """Return words, and the calls behind them."""
    parts = calls(*((name, {}) for name in asked)).parts if asked else ()
    usage = Usage(input_tokens=10, output_tokens=5)
    terminal = "tool_use" if parts else "completed"
    return ModelReply(parts=(Text(text=words), *parts), terminal=terminal, usage=usage)


SCRIPTS = {
    TASKS["first"]: (
        _reply("Let me look, write it down and send it.", "look", "note", "send"),
        _reply("Now I pay.", "pay", "look"),
        _reply("One more look.", "look"),
        _reply("It is booked, paid and sent. Have a good trip."),
    ),
    TASKS["second"]: (_reply("You are welcome."),),
}


class Speaker:
    """A model that says its words in pieces; which ones, follows from the request."""

    name = "speaker"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._size = self._n_told = 0

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Say the reply whose place this is."""
        task, position = _task(request), replies_so_far(request)
        reply = placed(SCRIPTS[task][position], position)
        *first, last = reply.text.split(" ")
        for word in first:
            emit(TextChunk(text=f"{word} "))
            await asyncio.sleep(0)
        while self._told() < _FACTS_BEFORE[task][position]:  # noqa: ASYNC110 - others write the file
            await asyncio.sleep(_LOOK_S)
        emit(TextChunk(text=last))
        return reply

    def _told(self) -> int:
        """Return how many facts are in the ledger."""
        size = self._ledger.size()
        if size != self._size:
            self._size = size
            self._n_told = sum(not line.said["preview"] for line in self._ledger.lines("event"))
        return self._n_told


def _task(request: ModelRequest) -> str:
    said = [part.text for one in request.messages for part in one.parts if isinstance(part, Text)]
    return next(text for text in reversed(said) if text in SCRIPTS)


def clerk(ledger: Ledger) -> Agent[None, str]:
    """Return the agent."""
    return Agent("clerk", model=Speaker(ledger), tools=_tools())


def _tools() -> list[Tool]:
    @tool(effect="pure")
    async def look(ctx: ToolContext[None]) -> str:
        """Look."""
        ctx.progress("half way")
        await asyncio.sleep(0)
        return "a good hotel"

    @tool(effect="idempotent")
    async def note() -> str:
        """Write down."""
        await asyncio.sleep(0)
        return "noted"

    @tool(effect="once")
    async def send() -> str:
        """Send."""
        await asyncio.sleep(0)
        return "sent"

    @tool(effect="once", approval="ask")
    async def pay() -> str:
        """Pay."""
        await asyncio.sleep(0)
        return "paid"

    return [look, note, send, pay]
