"""The office: an agent whose tools return up to 1 MiB of anything, with the plugins that keep it in its window."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from tests.plugins.long_sessions.clerk import WINDOW, Clerk, Watch
from tests.plugins.long_sessions.gauges import Instructions
from tests.plugins.long_sessions.ledger import Ledger
from tests.plugins.long_sessions.plans import words
from windlass import Agent, ToolContext, tool
from windlass.errors import ToolError
from windlass.kernel import Attachment, Text, canonical
from windlass.plugins import Compaction, ContextWindow, OutputBudget, Plugin


def window_of(kind: type[ContextWindow]) -> ContextWindow:
    """Return a context window, or something like one."""
    return kind(window=WINDOW)


def plugins(*, compact_at: float = 0.5, window: ContextWindow | None = None) -> list[Plugin]:
    """Return what keeps a session in its window."""
    return [
        OutputBudget(max_bytes=2_048, max_lines=60, windows={"look": "both"}, page_lines=40),
        window or window_of(ContextWindow),
        Compaction(window=WINDOW, at=compact_at),
    ]


def office(ledger: Ledger, clerk: Clerk, used: list[Plugin]) -> Agent[None, str]:
    """Return the agent of one process."""

    @tool(effect="pure")
    async def look(ctx: ToolContext[None], n: int, shape: str, size: int) -> object:
        """Look something up."""
        await clerk.live_or_hang()
        with Instructions.pause():
            made = await _SHAPES[shape](ctx, random.Random(n), size)
            ledger.brought_bytes += _bytes_of(made)
        ledger.brought_files += size if shape == "files" else 0
        if shape == "error":
            raise ToolError(str(made))
        return made

    @tool(effect="idempotent")
    async def hold(n: int) -> str:
        """Wait until somebody says so."""
        entered, gate = ledger.hold(n)
        entered.set()
        await gate.wait()
        return f"held {n}"

    @tool(effect="once", approval="ask")
    async def sign(n: int) -> str:
        """Sign a paper."""
        ledger.signed[n] += 1
        return f"signed {n}"

    return Agent(
        "office",
        model=clerk.model,
        instructions="Look things up, and be brief.",
        tools=[look, hold, sign],
        plugins=[*used, Watch(ledger)],
    )


def _bytes_of(made: object) -> int:
    if isinstance(made, str):
        return len(made.encode())
    if isinstance(made, list) and any(isinstance(part, Attachment) for part in made):
        return sum(len(part.text) for part in made if isinstance(part, Text))
    return len(canonical.encode(made))


async def _lines(_ctx: ToolContext[None], chance: random.Random, size: int) -> object:
    return words(chance, size)


async def _line(_ctx: ToolContext[None], chance: random.Random, size: int) -> object:
    return words(chance, size).replace("\n", " ")


async def _wide(_ctx: ToolContext[None], chance: random.Random, size: int) -> object:
    line = f"港の深さは{chance.randrange(10**6)}\x07 🚢\n"
    return (line * (size // 30 + 1))[: max(1, size // 3)]


async def _rows(_ctx: ToolContext[None], chance: random.Random, size: int) -> object:
    row = {"berth": chance.randint(1, 99), "name": words(chance, 40), "depths": [1.5, 2.25, None]}
    return [row] * (size // 100 + 1)


async def _object(_ctx: ToolContext[None], chance: random.Random, size: int) -> object:
    text = words(chance, size)
    return {"report": text[: size // 2], "more": {"deep": [text[size // 2 :]]}, "ok": True}


async def _parts(ctx: ToolContext[None], chance: random.Random, size: int) -> object:
    half = words(chance, size // 2) or "nothing"
    scan = await ctx.attach(chance.randbytes(200), media_type="image/png", name="scan.png")
    return [Text(text=half), scan, Text(text="between"), Text(text=half)]


async def _files(ctx: ToolContext[None], chance: random.Random, size: int) -> object:
    data = chance.randbytes(size)
    return [
        "what was found:",
        await ctx.attach(data, name="found.bin"),
        await ctx.attach(words(chance, 300).encode(), media_type="text/plain", name="found.txt"),
    ]


async def _error(_ctx: ToolContext[None], chance: random.Random, size: int) -> object:
    return words(chance, min(size, 20_000)) or "no"


_SHAPES: dict[str, Callable[[ToolContext[Any], random.Random, int], Awaitable[object]]] = {
    "lines": _lines,
    "line": _line,
    "wide": _wide,
    "rows": _rows,
    "object": _object,
    "parts": _parts,
    "files": _files,
    "error": _error,
}
