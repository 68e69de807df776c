"""Agents for the tests of the command: scripted, slow enough to be watched, with no key and no network."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from windlass import Agent, tool
from windlass.errors import Unavailable
from windlass.kernel import Json, ModelReply, ModelRequest, Text, ToolCall, ToolResult, Usage
from windlass.ports.model import EmitModelEvent, ReasoningChunk, TextChunk

PAUSE_S = float(os.environ.get("TALKER_PAUSE_S", "0.02"))
LETTER = """# A letter

It has **two** blocks.

- one item
- another item

That is all of it."""
ESCAPES = "\x1b]0;owned\x07\x1b[31mred\x1b[0m plain"
ENDLESS = "still talking " * 2_000
HOSTILE = "tidy up the folder " * 40 + "\u202eeva\u2066\x9b2J\u2028\u3164\U000e0041\nto mallory"


class Talker:
    """Reads the last thing that was said, and answers by rules, a word at a time."""

    name = "talker"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        said, results = _seen(request)
        _write("model_calls.txt", f"{os.getpid()} {said}")
        if not results and said.split()[:1] in (["pay"], ["linger"]):
            return _call(said.split()[0], request, emit)
        if results:
            return await _say(f"It ended: {results[-1]}", emit)
        if said.startswith("shaky") and not await asyncio.to_thread(Path("up.txt").exists):
            raise Unavailable("503 from the provider")
        if said.startswith("think"):
            emit(ReasoningChunk(text="a thought that is shown and not kept"))
        known = {"letter": LETTER, "endless": ENDLESS, "escape": ESCAPES}
        return await _say(known.get(said.partition(" ")[0], f"You said: {said}"), emit)


def _write(name: str, line: str) -> None:
    with Path(name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


_USAGE = Usage(input_tokens=10, output_tokens=5)


def _call(name: str, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
    words = "I will pay." if name == "pay" else ""
    emit(TextChunk(text=words))
    to = HOSTILE if "hostile" in _seen(request)[0] else "landlord"
    args: dict[str, Json] = {"to": to, "cents": 90_000} if name == "pay" else {}
    wanted = 2 if "twice" in _seen(request)[0] else 1
    asked = tuple(
        ToolCall(call_id=f"c{len(request.messages)}.{n}", name=name, args=args)
        for n in range(wanted)
    )
    parts: tuple[Text | ToolCall, ...] = (Text(text=words), *asked) if words else asked
    return ModelReply(parts=parts, terminal="tool_use", usage=_USAGE)


async def _say(text: str, emit: EmitModelEvent) -> ModelReply:
    for word in text.split(" "):
        emit(TextChunk(text=f"{word} "))
        await asyncio.sleep(PAUSE_S)
    return ModelReply(text=text, usage=_USAGE)


def _seen(request: ModelRequest) -> tuple[str, list[str]]:
    said = ""
    results: list[str] = []
    for message in request.messages:
        for part in message.parts:
            if message.role == "user" and isinstance(part, Text):
                said, results = part.text, []
            if isinstance(part, ToolResult):
                results.append(" ".join(x.text for x in part.content if isinstance(x, Text)))
    return said, results


@tool(effect="once", approval="ask", risk="high")
async def pay(to: str, cents: int) -> str:
    """Pay somebody."""
    _write("payments.txt", f"{to} {cents}")
    return f"paid {cents} to {to}"


@tool(effect="once")
async def linger() -> str:
    """Begin, and not end for a long time."""
    _write("begun.txt", "begun")
    await asyncio.sleep(60)
    return "ended"


talker = Agent("talker", model=Talker(), instructions="Talk.", tools=[pay, linger])


def made() -> Agent[None, str]:
    """An agent that a function makes."""
    return talker


not_an_agent = 3
