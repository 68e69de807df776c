"""A process of its own, for one step of a turn that asks: `python asking_process.py STEP FILE NOW_MS LOG`.

ask      run the turn until it is parked, print the wait's key, and die without a word to anybody
answer   approve the only wait there is, without any agent, and print the receipt
finish   drive the turn to its end and print its text
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from windlass import Agent, Runtime, tool
from windlass.testing import ScriptedModel, call, say, virtual_clock


def payer(log: Path) -> Agent[None, str]:
    @tool(effect="once", approval="ask")
    async def pay(cents: int) -> str:
        """Pay."""
        with log.open("a") as file:
            file.write(f"{os.getpid()} paid {cents}\n")
        return f"paid {cents}"

    model = ScriptedModel([call("pay", cents=5), say("Done.")])
    return Agent("payer", model=model, tools=[pay])


async def main(step: str, file: str, now_ms: str, log: str) -> None:
    store, clock = f"sqlite:///{file}", virtual_clock(int(now_ms))
    agents = () if step == "answer" else (payer(Path(log)),)
    async with Runtime(*agents, store=store, clock=clock) as rt:
        if step == "ask":
            result = await rt.session("s").run("Pay 5.", turn_id="t")
            sys.stdout.write(result.waits[0].key)
            sys.stdout.flush()
            os._exit(9)
        elif step == "answer":
            (wait,) = await rt.approvals()
            receipt = await rt.approve(wait.key, by="eva")
            sys.stdout.write(f"{wait.key} {receipt.status}")
        else:
            result = await rt.turn("s", "t").result(timeout=120)
            sys.stdout.write(result.text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
