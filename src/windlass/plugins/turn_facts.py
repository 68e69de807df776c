"""Turn facts: what the tools of the last turn did, in a few lines before the next input."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.kernel import Message, Outcome, ToolCall, ToolResult, canonical
from windlass.plugins import options
from windlass.plugins.wording import clipped
from windlass.ports import Plugin, PluginTurn

_TITLE = "[what the tools did in the turn before]"
_ARGS_CHARS = 120
# More would not fit into what a plugin may remember at once, in any alphabet.
_MAX_KEPT = 100


class TurnFacts(Plugin):
    """Reminds the model of its last actions, for histories of which it no longer sees everything.

    Args:
        keep: How many calls are told, the last ones; of the others their number is.
    """

    name = "turn_facts"
    version = "1"

    def __init__(self, *, keep: int = 20) -> None:
        self._keep = options.whole(keep, field="TurnFacts.keep", low=1, high=_MAX_KEPT)

    async def before_turn(self, turn: PluginTurn) -> Sequence[str] | None:
        """Tell what was remembered."""
        facts = turn.memory.get("facts")
        if not facts:
            return None
        more = turn.memory.get("more", 0)
        left_out = [f"- {more} earlier calls"] if more else []
        return ["\n".join([_TITLE, *left_out, *(f"- {fact}" for fact in facts)])]

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> None:  # noqa: ARG002 - the hook's shape
        """Remember what the turn did, and forget what the turn before did."""
        facts = _facts(turn.turn_messages)
        if not facts and not turn.memory:
            return
        n_more = max(0, len(facts) - self._keep)
        turn.remember(facts=facts[n_more:] or None, more=n_more or None)


def _facts(messages: Sequence[Message]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    status = {part.call_id: part.status for part in parts if isinstance(part, ToolResult)}
    return [
        f"{part.name} {_args(part)}: {status.get(part.call_id, 'unknown')}"
        for part in parts
        if isinstance(part, ToolCall)
    ]


def _args(call: ToolCall) -> str:
    return clipped(canonical.encode(call.args).decode(), _ARGS_CHARS)
