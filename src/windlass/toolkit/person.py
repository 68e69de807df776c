"""The tool with which a model asks a person something and waits, for as long as it takes.

Law 1. The question outlives the process: it is a wait of the turn, and asking again after a crash asks nothing new.
Law 2. Of the answers that a model offers, no other one is taken.
"""

from __future__ import annotations

from typing import Any

from windlass.errors import ToolError
from windlass.guards.limits import check_seconds
from windlass.ports.tool import ToolContext
from windlass.tools import FunctionTool, tool

_MOST_CHOICES = 20


def ask_person(*, deadline: float | None = None) -> FunctionTool[Any, ..., Any]:
    """Return the tool `ask_person`, with which a model asks a person something; the answer may come next week.

    Args:
        deadline: Seconds until the call fails without an answer; None waits for as long as it takes.

    Raises:
        InvalidInput: the deadline is no number of seconds.
    """
    check_seconds(deadline, field="deadline")

    async def ask_person(  # noqa: D417 - what a model is told
        ctx: ToolContext[Any], question: str, choices: list[str] | None = None
    ) -> object:
        """Ask the person you work for. Use it when only they can know or decide; the answer may take long.

        Args:
            question: What you want to know, with what they need to answer it.
            choices: The possible answers, if there are only some.
        """
        if not question.strip():
            raise ToolError("question: found no words, wanted what the person is asked")
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if choices:
            schema = {"type": "string", "enum": _listed(choices)}
        return await ctx.ask(question, schema=schema, deadline=deadline)

    return tool(ask_person, effect="idempotent")


def _listed(choices: list[str]) -> list[str]:
    listed = list(dict.fromkeys(" ".join(each.split()) for each in choices))
    if not 2 <= len(listed) <= _MOST_CHOICES or not all(listed):
        raise ToolError(
            f"choices: found {len(listed)}, wanted 2 to {_MOST_CHOICES} different answers, none of them empty; "
            "without choices, any answer will do"
        )
    return listed
