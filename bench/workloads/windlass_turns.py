"""windlass through its public API, with the script as its model and one tool.

Variants: what the tool declares (`once`, the default, or `pure`, `idempotent`, `keyed`), or `ask`: a tool that needs
somebody's approval.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from bench.workloads.candidate import Candidate
from bench.workloads.script import script
from windlass import Agent, Limits, Runtime, tool
from windlass.kernel import (
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from windlass.ports.clock import Clock
from windlass.ports.model import EmitModelEvent, TextChunk
from windlass.ports.plugin import Plugin
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.store import Durability

CRASH_TURN = "turn-1"
FILE = "windlass.db"
_USAGE = Usage(input_tokens=1_200, output_tokens=40)
_NO_LIMIT = Limits(max_iterations=10_000)

Effect = Literal["pure", "idempotent", "keyed", "once"]


class ScriptedModel:
    """The script as a model. It keeps no requests, so that what stays in memory is windlass's."""

    name = "bench:scripted"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer from the last question and the results after it."""
        asked, n_results = _last_question(request)
        await script.think()
        said = script.reply(asked, n_results, len(request.messages))
        if isinstance(said, str):
            emit(TextChunk(text=said))
            return ModelReply(text=said, parts=(Text(text=said),), usage=_USAGE)
        calls = tuple(
            ToolCall(call_id=script.call_id(), name="sound", args=dict(args)) for args in said
        )
        return ModelReply(parts=calls, usage=_USAGE, terminal="tool_use")


def _last_question(request: ModelRequest) -> tuple[str, int]:
    """Find the last question and how many results came after it.

    The last result says which it is, and each iteration of one call is two messages: as a rule nobody has to walk.
    """
    messages = request.messages
    last = messages[-1].parts[0]
    if isinstance(last, ToolResult) and len(messages[-1].parts) == 1:
        n_results = _number_of(last) + 1
        at = len(messages) - 1 - 2 * n_results
        asked = messages[at].parts[0] if at >= 0 else last
        if isinstance(asked, Text) and messages[at].role == "user":
            return asked.text, n_results
    return _walk(request)


def _number_of(result: ToolResult) -> int:
    text = result.content[0].text if isinstance(result.content[0], Text) else ""
    number, _, _ = text.partition(":")
    return int(number) if number.isdecimal() else 0


def _walk(request: ModelRequest) -> tuple[str, int]:
    n_results = 0
    for at in range(len(request.messages) - 1, -1, -1):
        message = request.messages[at]
        for part in message.parts:
            if isinstance(part, ToolResult):
                n_results += 1
            elif isinstance(part, Text) and message.role == "user":
                return part.text, n_results
    raise AssertionError("nobody asked")


async def sound(i: int) -> str:
    """Sound the depth.

    Args:
        i: Where to sound.
    """
    return await script.run_tool(i)


def agent_of(variant: str, plugins: Sequence[Plugin] = ()) -> Agent[None, str]:
    """Return the agent of a variant."""
    if variant == "ask":
        sounding = tool(approval="ask")(sound)
    else:
        sounding = tool(effect=cast("Effect", variant))(sound)
    return Agent(
        "bench", model=ScriptedModel(), tools=[sounding], limits=_NO_LIMIT, plugins=plugins
    )


class WindlassTurns(Candidate):
    """A runtime on one SQLite file."""

    def __init__(
        self,
        variant: str,
        folder: Path,
        *,
        durability: Durability = "power",
        vfs: str | None = None,
        lease_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(variant, folder)
        self._store = SqliteStore(folder / FILE, durability=durability, vfs=vfs)
        lease_s = lease_s or float(os.environ.get("BENCH_LEASE_S", "15"))
        self.runtime = Runtime(
            self.agent(), store=self._store, max_turns=1_000, lease_s=lease_s, clock=clock
        )

    def agent(self) -> Agent[None, str]:
        """Return who works."""
        return agent_of(self.variant)

    @property
    def commits(self) -> int:
        """How many commits the file has seen from here."""
        return self._store._writer.commits  # noqa: SLF001 - a count that nobody else needs

    @property
    def commits_in_loop(self) -> int:
        """How many of them were made on the loop's own thread, because a single turn was at work."""
        return self._store._writer.commits_in_loop  # noqa: SLF001 - a count that nobody else needs

    async def open(self) -> None:
        """Open the file and enter the runtime."""
        await self._store.open()
        await self.runtime.__aenter__()

    async def close(self) -> None:
        """Leave the runtime and close the file: it is ours, because we count its commits."""
        await self.runtime.__aexit__(None, None, None)
        await self._store.close()

    async def turn(self, session: str, asked: str) -> str:
        """Run a turn; the one that is to be killed has a name."""
        turn_id = CRASH_TURN if session == "crash" else None
        result = await self.runtime.session(session).run(asked, turn_id=turn_id)
        return result.text

    async def resume(self, session: str, asked: str) -> str:
        """Wait for the turn that the runtime has found and driven on."""
        del asked
        result = await self.runtime.turn(session, CRASH_TURN).result()
        return result.text
