"""Long results are looked through beside everything else."""

from __future__ import annotations

import asyncio

from tests.plugins.fake_turn import FakeTurn
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.plugins import Redaction


async def test_other_turns_go_on_while_a_long_result_is_looked_through() -> None:
    text = "bob@example.com " * 4_096
    call = CompletedToolCall(
        call_id="c", name="fetch", args={}, outcome=ToolOutcome(value={"mails": [text]})
    )
    steps = 0

    async def others() -> None:
        nonlocal steps
        while True:
            await asyncio.sleep(0)
            steps += 1

    going_on = asyncio.create_task(others())
    made = await Redaction().after_tool(FakeTurn("redaction"), call)
    going_on.cancel()

    assert made is not None
    assert made.value == {"mails": ["[email] " * 4_096]}
    assert steps > 1
