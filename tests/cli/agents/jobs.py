"""Processes for the tests of the command line."""

from __future__ import annotations

from typing import Any

from windlass import ProcessContext, process


@process(signals={"paid": int})
async def order(ctx: ProcessContext[Any], customer: str) -> dict[str, Any]:
    """Wait to be paid."""
    await ctx.emit("ordered", customer)
    return {"customer": customer, "paid": await ctx.wait("paid")}
