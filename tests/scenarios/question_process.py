"""A process of its own, for one step of a turn that asks a person: `python question_process.py STEP FILE LOG EFFECT`.

ask      the body opens its question, writes its key down and kills its process with SIGKILL before it returns
answer   answer the only question there is, without any agent, and print the receipt
finish   drive the turn until it is over or parked; print its text, or that it is parked
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import cast

from windlass import Agent, Pending, Runtime, ToolContext, tool
from windlass.journal import Contract
from windlass.kernel import ModelReply, ModelRequest
from windlass.testing import FunctionModel, call, say


def asker(log: Path, effect: Contract, *, dies: bool) -> Agent[None, str]:
    """Return an agent whose tool asks; each run of its body is a line of the log."""

    @tool(effect=effect)
    async def choose(ctx: ToolContext[None]) -> Pending:
        """Have a person choose."""
        schema = {"type": "string", "enum": ["blue", "green"]}
        pending = await ctx.ask("Which colour?", schema=schema)
        with log.open("a") as file:
            file.write(f"{pending.key}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return pending

    def reply(request: ModelRequest) -> ModelReply:
        results = [
            part.text
            for message in request.messages
            for result in message.parts
            for part in getattr(result, "content", ())
        ]
        return say(f"It is {results[-1]}.") if results else call("choose")

    return Agent("asker", model=FunctionModel(reply), tools=[choose])


async def main(step: str, file: str, log: str, effect: str) -> None:
    made = asker(Path(log), cast("Contract", effect), dies=step == "ask")
    async with Runtime(*([] if step == "answer" else [made]), store=f"sqlite:///{file}") as rt:
        if step == "ask":
            await rt.session("s").run("Choose.", turn_id="t")
        elif step == "answer":
            (wait,) = await rt.waits("question")
            receipt = await rt.resolve(wait.key, "green", by="eva")
            sys.stdout.write(f"{wait.key} {receipt.status}")
        else:
            result = await rt.turn("s", "t").result(timeout=120)
            sys.stdout.write("parked" if result.parked else result.text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
