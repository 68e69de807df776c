"""A process whose tool asks a model five times and then dies by SIGKILL, in its first life; run with `python -m`.

Arguments: the folder, the tool's effect, and how it asks: `in_turn` or `at_once`. Each purchase is a line in a file
beside the store, synced before the model answers. The model answers without waiting for anything.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import cast

from windlass import Agent, Runtime, ToolContext, tool
from windlass.journal import Contract
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text
from windlass.testing import FunctionModel, call, say

N_ASKED = 5


def bought(folder: Path) -> list[str]:
    """Return what was bought, in all lives."""
    file = folder / "bought"
    return file.read_text().splitlines() if file.exists() else []


def _note(folder: Path, what: str) -> None:
    with (folder / "bought").open("a") as file:
        file.write(f"{what}\n")
        file.flush()
        os.fsync(file.fileno())


def _last_words(request: ModelRequest) -> str:
    return "".join(part.text for part in request.messages[-1].parts if isinstance(part, Text))


def _agent(folder: Path, effect: Contract, how: str) -> tuple[Agent[None, str], FunctionModel]:
    def answer(request: ModelRequest) -> ModelReply:
        _note(folder, _last_words(request))
        return say("an answer")

    def reply(request: ModelRequest) -> ModelReply:
        return say("Done.") if any(m.role == "assistant" for m in request.messages) else call("ask")

    @tool(effect=effect)
    async def ask(ctx: ToolContext[None]) -> str:
        """Ask the helper, and die in the first life."""
        requests = [
            ModelRequest(
                model="helper",
                messages=(ModelMessage(role="user", parts=(Text(text=f"question {n}"),)),),
            )
            for n in range(N_ASKED)
        ]
        if how == "at_once":
            await asyncio.gather(*(ctx.complete(one) for one in requests))
        else:
            for one in requests:
                await ctx.complete(one)
        died = folder / "died"
        if not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "asked"

    return Agent("asker", model=FunctionModel(reply), tools=[ask]), FunctionModel(
        answer, name="helper"
    )


async def _live(folder: Path, effect: Contract, how: str) -> None:
    agent, helper = _agent(folder, effect, how)
    async with Runtime(agent, store=f"sqlite:///{folder}/store.db", models=[helper]) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        sys.stdout.write(result.text)


if __name__ == "__main__":
    asyncio.run(_live(Path(sys.argv[1]), cast("Contract", sys.argv[2]), sys.argv[3]))
