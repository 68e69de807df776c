"""Agents for the tests of questions: a person is asked what a schema wants, or to allow a call that shows a diff."""

from __future__ import annotations

from difflib import unified_diff
from typing import Any

from windlass import Again, Agent, Pending, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, Text, ToolResult
from windlass.testing import FunctionModel, call, say

OLD = "one\ntwo\nthree\n"
SCHEMAS: dict[str, Any] = {
    "colour": {"type": "string", "enum": ["blue", "light green", "\u202egnorw"]},
    "name": {"type": "string", "minLength": 2},
    "age": {"type": "integer", "minimum": 0},
    "sure": {"type": "boolean"},
    "grade": {"enum": [3, 2, 1]},
    "date": {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]},
    "any": None,
    "hostile": None,
}
QUESTIONS = {"hostile": "Pay\u202e eva?\x1b[2J\x1b]0;owned\x07\nSecond line."}


@tool(effect="idempotent")
async def ask(ctx: ToolContext[None], what: str) -> Pending:
    """Ask a person."""
    return await ctx.ask(QUESTIONS.get(what, f"Which {what}?"), schema=SCHEMAS[what])


@tool(effect="idempotent")
async def defer(ctx: ToolContext[None]) -> Pending:
    """Wait for a result."""
    return await ctx.defer()


@tool(effect="idempotent")
def again() -> str:
    """Come back in an hour."""
    raise Again(after=3_600)


def diff(args: dict[str, Any]) -> str:
    """Return what the call would change."""
    rows = unified_diff(
        OLD.split("\n"), args["text"].split("\n"), "a/notes", "b/notes", lineterm=""
    )
    return "\n".join(rows)


@tool(effect="idempotent", approval="ask", preview=diff)
async def write(text: str) -> str:
    """Write the notes."""
    return f"wrote {len(text)}"


TEXTS = {
    "change": "one\ntwo and a half\nthree\n",
    # Lines that look like the beginning of another file, and like an end of this one.
    "forge": "one\n++ b/harmless\n-- a/harmless\n@@ -1 +1 @@\ntwo\u2028-gone\r\nthree\n",
    # In 100 columns what is behind the blanks would begin a row.
    "long": f"one\ntwo;{' ' * 100}-gone()\nthree\n",
    "whole": "1\n2\n3\n4\n",
}


def reply(request: ModelRequest) -> ModelReply:
    """Answer by what the user said last, and by what a tool told."""
    last = request.messages[-1].parts
    told = [part for part in last if isinstance(part, ToolResult)]
    if told:
        words = " ".join(one.text for one in told[-1].content if isinstance(one, Text))
        return say(f"It is {told[-1].status}: {words}")
    said = " ".join(part.text for part in last if isinstance(part, Text))
    if said in TEXTS:
        return call("write", text=TEXTS[said])
    return call(said) if said in ("defer", "again") else call("ask", what=said)


asker = Agent("asker", model=FunctionModel(reply, name="asker"), tools=[ask, defer, again, write])
