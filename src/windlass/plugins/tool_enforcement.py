"""Tool enforcement: an answer that no tool was asked about is not taken at once."""

from __future__ import annotations

from collections.abc import Collection

from windlass.journal.patch import add
from windlass.kernel.messages import ToolCall
from windlass.kernel.outcomes import Finished, FinishedValue
from windlass.plugins import options
from windlass.plugins.nudge import has_room, nudge
from windlass.plugins.wording import filled
from windlass.ports.directives import Delivery
from windlass.ports.plugin import AtCheckpoint, Plugin
from windlass.ports.plugin_turn import PluginTurn

TEXT = "You answered without calling a tool. Call {tools} first, then answer from what it returns."


class ToolEnforcement(Plugin):
    """Sends a turn on that would end with words though no tool was called in it.

    What the model said too early was said, and shown: it stays in the history. After the last nudge it stands.

    Args:
        tools: Which tools count; None for any.
        nudges: How often a turn is sent on.
        text: What the model is told; `{tools}` is filled in.
    """

    name = "tool_enforcement"
    version = "1"

    def __init__(
        self, *, tools: Collection[str] | None = None, nudges: int = 3, text: str = TEXT
    ) -> None:
        self._tools = None
        if tools is not None:
            self._tools = options.tool_names(tools, field="ToolEnforcement.tools")
        self._nudges = options.whole(nudges, field="ToolEnforcement.nudges")
        self._text = options.words(text, field="ToolEnforcement.text")

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Delivery | None:
        """Send the turn on, if it is about to end with an answer out of the blue."""
        # Only an answer: a turn that was cut off or stopped ends for a reason of its own.
        if at.kind != "before_completion" or not isinstance(at.outcome, (Finished, FinishedValue)):
            return None
        offered = {tool.name for tool in turn.tools}
        wanted = offered if self._tools is None else offered & self._tools
        if not wanted or self._was_called(turn):
            return None
        if turn.state.get("nudges", 0) >= self._nudges or not has_room(turn):
            return None
        turn.patch(nudges=add(1))
        named = "one of your tools" if self._tools is None else " or ".join(sorted(wanted))
        return nudge(filled(self._text, tools=named))

    def _was_called(self, turn: PluginTurn) -> bool:
        return any(
            isinstance(part, ToolCall) and (self._tools is None or part.name in self._tools)
            for message in turn.turn_messages
            for part in message.parts
        )
