"""The demo's task: book a weekend with three tools, and a stand-in for the model.

Law 1. Whatever costs or acts is written to a file by whoever does it, before it answers, so that it
    can be counted from outside the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windlass.kernel import (
    CompletedToolCall,
    Message,
    ModelReply,
    ModelRequest,
    PendingToolCall,
    StandardDriver,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
    TurnConfig,
    canonical,
)

QUESTION = "Book 2 nights in Lisbon for at most 300 euros."
CALLS_FILE = "model-calls.txt"
TOOLS_FILE = "tools.txt"

_HOTELS = {
    "Lisbon": {"hotel": "Casa do Rio", "euros": 118},
    "Vienna": {"hotel": "Zum Anker", "euros": 131},
}


def _spec(name: str, description: str, **properties: str) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return ToolSpec(name=name, description=description, parameters=schema)


CONFIG = TurnConfig(
    driver=StandardDriver(),
    model="stand-in/rules",
    session_id="demo",
    turn_id="t1",
    system_prompt="Book what the user asks for, within the budget.",
    tools=(
        _spec("look_up", "Find a hotel and its price for a night.", city="string"),
        _spec("multiply", "Multiply two numbers.", a="number", b="number"),
        _spec("book", "Book a hotel.", hotel="string", nights="integer", euros="number"),
    ),
    max_iterations=8,
)
INPUT = (Message(id="m1", role="user", parts=(Text(text=QUESTION),)),)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file and see it onto the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


# --- the stand-in ------------------------------------------------------------------------------


def reply_to(request: ModelRequest, folder: Path) -> ModelReply:
    """Answer a request by rules: read the question and the results, take the next step.

    It is no model, but it knows only what is in the request: were a result lost on the way, it would
    ask for it again.
    """
    append_line(folder / CALLS_FILE, canonical.digest(request))
    city, nights, budget = _read_question(request)
    results = _read_results(request)
    if "look_up" not in results:
        return _call(request, "look_up", city=city)
    found = results["look_up"]
    if "multiply" not in results:
        return _call(request, "multiply", a=found["euros"], b=nights)
    euros = results["multiply"]
    if euros > budget:
        return ModelReply(text=f"{found['hotel']} would cost {euros} euros: over your {budget}.")
    if "book" not in results:
        return _call(request, "book", hotel=found["hotel"], nights=nights, euros=euros)
    return ModelReply(
        text=f"Booked: {nights} nights at {found['hotel']} in {city} for {euros} euros, "
        f"confirmation {results['book']['confirmation']}."
    )


def _read_question(request: ModelRequest) -> tuple[str, int, int]:
    said = " ".join(
        part.text
        for message in request.messages
        if message.role == "user"
        for part in message.parts
        if isinstance(part, Text)
    )
    wanted = re.search(r"(\d+) nights in (\w+) for at most (\d+) euros", said)
    if wanted is None:
        raise ValueError("the stand-in only understands the demo's question")
    return wanted[2], int(wanted[1]), int(wanted[3])


def _read_results(request: ModelRequest) -> dict[str, Any]:
    """Return each tool's last result, read back from the text that a model would see."""
    results: dict[str, Any] = {}
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ToolResult) and isinstance(part.content[0], Text):
                results[part.name] = canonical.decode(part.content[0].text.encode(), Any)
    return results


def _call(request: ModelRequest, name: str, **args: object) -> ModelReply:
    call_id = f"call_{len(request.messages)}"
    return ModelReply(parts=(ToolCall(call_id=call_id, name=name, args=args),), terminal="tool_use")


# --- the tools ---------------------------------------------------------------------------------


def run_tool(
    call: PendingToolCall, folder: Path, ask_desk: Callable[[], None]
) -> CompletedToolCall:
    """Run one call. `book` first calls the hotel's desk, which takes its time to answer."""
    append_line(folder / TOOLS_FILE, f"started {call.name}")
    match call.name:
        case "look_up":
            value: object = _HOTELS[call.args["city"]]
        case "multiply":
            value = call.args["a"] * call.args["b"]
        case "book":
            ask_desk()
            append_line(folder / TOOLS_FILE, "acted book")
            value = {"confirmation": f"RIO-{call.args['nights']}N-{call.args['euros']}"}
        case _:
            raise ValueError(f"there is no tool called {call.name}")
    append_line(folder / TOOLS_FILE, f"ended {call.name}")
    return CompletedToolCall(
        call_id=call.call_id,
        name=call.name,
        args=call.args,
        outcome=ToolOutcome(value=value),
    )
