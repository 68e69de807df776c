"""The client of the turn: asks for it, answers what it waits for, asks again after every death."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.durability.matrix.outside import Outside
from tests.durability.matrix.steps import INPUT, SESSION, TURN
from windlass import Runtime, TurnResult, Wait


async def want(runtime: Runtime[Any], outside: Outside) -> TurnResult[Any]:
    """Return the turn's result."""
    result = await runtime.session(SESSION).run(INPUT, turn_id=TURN)
    while result.parked:
        for wait in result.waits:
            await _answer(runtime, outside, wait)
        result = await runtime.turn(SESSION, TURN).result()
    return result


async def _answer(runtime: Runtime[Any], outside: Outside, wait: Wait) -> None:
    if wait.kind == "provider":
        outside.provider_is_back()
        runtime._worker.kick()
        while await runtime.turn(SESSION, TURN).status() == "parked":  # noqa: ASYNC110 - it is the store's
            await asyncio.sleep(0)
    elif outside.says_no and wait.kind == "approval":
        await runtime.deny(wait.key, reason="not today", by="eva")
    elif outside.says_no:
        await runtime.reject(wait.key, "it failed")
    elif wait.kind == "approval":
        await runtime.approve(wait.key, by="eva")
    elif wait.kind == "deferred":
        await runtime.resolve(wait.key, "delivered")
    else:
        assert wait.kind == "unknown_outcome", f"{wait.kind}: {wait.title} {wait.detail}"
        await runtime.resolve(wait.key, "a person looked: it was shipped")
