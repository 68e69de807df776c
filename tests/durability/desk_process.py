"""A desk that hands off, then comes back for a job; it dies by SIGKILL in the middle of what it does.

Run with `python -m`. Arguments: the folder, and at which of the things that it notes this life ends; 0: at none.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from windlass import Again, Agent, Runtime, ToolContext, TurnResult, tool
from windlass.kernel import ModelReply, ModelRequest, ToolResult
from windlass.testing import FunctionModel, call

_noted: list[str] = []
_dies_at = 0


def note(folder: Path, line: str) -> None:
    """Write a line down outside the store, where it is whatever dies; then die, if this is the place."""
    with (folder / "ledger").open("ab", buffering=0) as ledger:
        ledger.write(f"{line}\n".encode())
        os.fsync(ledger.fileno())
    _noted.append(line)
    if len(_noted) == _dies_at:
        os.kill(os.getpid(), signal.SIGKILL)


def agents(folder: Path) -> tuple[Agent[Any, Any], ...]:
    """Return the agent that hands off, and the one that waits for a job."""

    @tool(effect="keyed")
    async def pay(ctx: ToolContext[None]) -> str:
        """Pay. It is done at the third look."""
        note(folder, f"pay {ctx.attempt} {ctx.idempotency_key}")
        looks = sum(line.startswith("pay ") for line in ledger(folder))
        if looks < 3:
            raise Again(after=0.05)
        return "paid"

    def first(_request: ModelRequest) -> ModelReply | str:
        note(folder, "triage")
        return call("transfer_to_billing", task="Pay.")

    def second(request: ModelRequest) -> ModelReply | str:
        note(folder, "billing")
        is_paid = isinstance(request.messages[-1].parts[0], ToolResult)
        return "Paid." if is_paid else call("pay")

    return (
        Agent("triage", model=FunctionModel(first, name="t"), handoffs=["billing"]),
        Agent("billing", model=FunctionModel(second, name="b"), tools=[pay]),
    )


def ledger(folder: Path) -> list[str]:
    """Return what was written down."""
    path = folder / "ledger"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def main(folder: Path) -> TurnResult[Any]:
    """Run the one turn, or go on with it."""
    store = f"sqlite:///{folder / 'desk.db'}"
    async with Runtime(*agents(folder), store=store, lease_s=0.5) as rt:
        return await rt.session("s", "triage").run("My money.", turn_id="t")


if __name__ == "__main__":
    place, _dies_at = Path(sys.argv[1]), int(sys.argv[2])
    done = asyncio.run(main(place))
    note(place, f"done {done.text} {[one.turn_id for one in done.followed]}")
