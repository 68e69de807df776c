"""Call limit: how many tool calls a turn may ask for, in all and of single tools.

Law. Of the calls that the model asks for, in the order in which it asks, exactly the first so many run; calls of one
reply are counted by their place in it, whichever is decided first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from windlass.errors import ConfigError
from windlass.journal.patch import add
from windlass.kernel.messages import ToolCall
from windlass.plugins import options
from windlass.ports import AskedCall, AtCheckpoint, Deny, Plugin, PluginTurn, Stop

Then: TypeAlias = Literal["deny", "stop"]
_SUM_UP = "Sum up what you have and answer."


class CallLimit(Plugin):
    """Denies calls beyond a turn's limit.

    Args:
        per_turn: How many calls a turn may make; None for any number.
        per_tool: How many of single tools.
        then: `"deny"` lets the model sum up; `"stop"` ends the turn once the calls of that reply are answered.
    """

    name = "call_limit"
    version = "1"

    def __init__(
        self,
        *,
        per_turn: int | None = 128,
        per_tool: Mapping[str, int] | None = None,
        then: Then = "deny",
    ) -> None:
        self._per_turn = per_turn
        if per_turn is not None:
            options.whole(per_turn, field="CallLimit.per_turn")
        self._per_tool: dict[str, int] = {
            tool: options.whole(limit, field=f"CallLimit.per_tool[{tool}]")
            for tool, limit in options.by_tool(per_tool, field="CallLimit.per_tool").items()
        }
        if per_turn is None and not self._per_tool:
            raise ConfigError.at("CallLimit.per_turn", "no limit", "per_turn or per_tool")
        self._stops = options.choice(then, ("deny", "stop"), field="CallLimit.then") == "stop"

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> Deny | None:
        """Count a call, and deny it if it is one too many."""
        state, limit = turn.state, self._per_tool.get(call.name)
        # A call is shown once more when another plugin changed its arguments; it counts once.
        was_counted = state.get("last") == call.call_id
        if not was_counted:
            counted: dict[str, Any] = {"calls": add(1), "last": call.call_id}
            if limit is not None:
                counted["tools"] = {call.name: add(1)}
            turn.patch(**counted)
        before = state.get("calls", 0) - was_counted + call.ordinal
        if self._per_turn is not None and before >= self._per_turn:
            return Deny(reason=f"Not run: {self._spent()}. Call no more tools. {_SUM_UP}")
        if limit is None:
            return None
        of_tool = state.get("tools", {}).get(call.name, 0) - was_counted + _twins_before(turn, call)
        if of_tool < limit:
            return None
        spent = _spent_of(call.name, limit)
        return Deny(reason=f"Not run: {spent}. Do not call it again. {_SUM_UP}")

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Stop | None:
        """End the turn if it asked for too much and `then="stop"`."""
        if not self._stops or at.kind != "after_work":
            return None
        if self._per_turn is not None and turn.state.get("calls", 0) > self._per_turn:
            return Stop(self._spent())
        asked = turn.state.get("tools", {})
        for tool, limit in self._per_tool.items():
            if asked.get(tool, 0) > limit:
                return Stop(_spent_of(tool, limit))
        return None

    def _spent(self) -> str:
        return f"the turn's limit of {self._per_turn} tool calls is used up"


def _spent_of(tool: str, limit: int) -> str:
    return f"the turn's limit of {limit} calls of {tool} is used up"


def _twins_before(turn: PluginTurn, call: AskedCall) -> int:
    """Return how many calls of the same tool stand before this one in its reply."""
    if not call.ordinal or not turn.turn_messages:
        return 0
    n_before = 0
    for part in turn.turn_messages[-1].parts:
        if isinstance(part, ToolCall):
            if part.call_id == call.call_id:
                # Of those that stand before it some may have been malformed, and are not run.
                return min(n_before, call.ordinal)
            n_before += part.name == call.name
    return 0
