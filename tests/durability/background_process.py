"""A process whose background tool dies by SIGKILL in its first life; run with `python -m`.

Arguments: the folder, the tool's effect, and the life: `first` or `next`. Each run of the body is a line in a file beside
the store, synced before anything else. The next life waits for the end of what the first one started, and prints what
its session heard.
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
from windlass.kernel import ModelReply, ModelRequest, Text
from windlass.testing import FunctionModel, call

PATIENCE_S = 60


def built(folder: Path) -> list[str]:
    """Return the runs of the body, in all lives: the key of each."""
    file = folder / "built"
    return file.read_text().splitlines() if file.exists() else []


def _agent(folder: Path, effect: Contract, life: str) -> Agent[None, str]:
    def reply(request: ModelRequest) -> ModelReply | str:
        return call("build") if len(request.messages) == 1 else "I see."

    @tool(effect=effect, background=True)
    async def build(ctx: ToolContext[None]) -> str:
        """Build, and die in the first life."""
        with (folder / "built").open("a") as file:
            file.write(f"{ctx.idempotency_key}\n")
            file.flush()
            os.fsync(file.fileno())
        if life == "first":
            os.kill(os.getpid(), signal.SIGKILL)
        return "built"

    return Agent("ci", model=FunctionModel(reply), tools=[build])


async def main(folder: Path, effect: Contract, life: str) -> None:
    async with Runtime(_agent(folder, effect, life), store=f"sqlite:///{folder}/a.db") as rt:
        if life == "first":
            await rt.session("s").run("Build.", turn_id="t")
            await asyncio.sleep(PATIENCE_S)  # the body ends this
            raise AssertionError("the body did not run")
        await rt.turn("s", "t").result(timeout=PATIENCE_S)
        for one in await rt.sessions(kind="process", started_by="s"):
            await rt.turn(one.session_id, "run").result(timeout=PATIENCE_S)
        await rt.session("s").wait(timeout=PATIENCE_S)
        for message in await rt.session("s").history():
            if message.role == "event":
                words = "".join(one.text for one in message.parts if isinstance(one, Text))
                sys.stdout.write(f"{words}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), cast("Contract", sys.argv[2]), sys.argv[3]))
