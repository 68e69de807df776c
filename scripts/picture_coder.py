"""The agent of the coding picture: windlass's own coder, with a model of a few rules that writes word by word."""

from __future__ import annotations

import asyncio
from pathlib import Path

from windlass.cli.own_agents import coder as own_coder
from windlass.cli.settings import Settings
from windlass.kernel import Json, ModelReply, ModelRequest, Text, ToolCall, ToolResult, Usage
from windlass.ports.model import EmitModelEvent, TextChunk

_PAUSE_S = 0.06
_STEPS: tuple[tuple[str, str, dict[str, Json]], ...] = (
    ("I look at how prices are computed.", "read_file", {"path": "shop/price.py"}),
    (
        "The division leaves fractions of a cent. I make it a whole division.",
        "edit_file",
        {"path": "shop/price.py", "old": "gross * 100 / 119", "new": "gross * 100 // 119"},
    ),
    ("Now the tests.", "run_command", {"command": "python3 -m unittest 2>&1 | tail -1"}),
)
_ANSWER = """\
**Prices are whole cents now.** I changed one line of `shop/price.py`:

- `net` divides with `//`, so no fraction of a cent is left;
- the three tests pass, the one for odd prices among them.

Nothing else was touched.
"""


class Rules:
    """Looks, edits, tests, and tells."""

    name = "rules"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Do the first step that is not done yet."""
        done = sum(
            isinstance(part, ToolResult) for message in request.messages for part in message.parts
        )
        if done == len(_STEPS):
            await _write(_ANSWER, emit)
            return ModelReply(text=_ANSWER, usage=Usage(input_tokens=2_214, output_tokens=71))
        words, name, args = _STEPS[done]
        await _write(words, emit)
        call = ToolCall(call_id=f"call_{done}", name=name, args=args)
        usage = Usage(input_tokens=1_650 + 180 * done, output_tokens=40)
        return ModelReply(parts=(Text(text=words), call), terminal="tool_use", usage=usage)


async def _write(text: str, emit: EmitModelEvent) -> None:
    for word in text.split(" "):
        emit(TextChunk(text=f"{word} "))
        await asyncio.sleep(_PAUSE_S)


coder = own_coder(Rules(), Settings(), Path.cwd())
