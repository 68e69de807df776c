"""Guards that answer a checkpoint with a nudge.

AutoContinue      an answer that was cut at its output limit goes on
ToolEnforcement   an answer without a tool call is not accepted at once
WrapUp            the model is told before its iterations run out
"""

from __future__ import annotations

from collections.abc import Collection

from windlass.journal.patch import add
from windlass.kernel import Finished, FinishedValue, Stopped, ToolCall
from windlass.plugins import options
from windlass.plugins.wording import filled, has_room, nudge
from windlass.ports import AtCheckpoint, Delivery, Plugin, PluginTurn

CONTINUE = "Please continue exactly where you stopped."
CALL_FIRST = (
    "You answered without calling a tool. Call {tools} first, then answer from what it returns."
)
WRAP_UP = (
    "This turn is almost over: {remaining} more replies, and it is stopped. "
    "Finish what you have begun, then give your answer."
)


class AutoContinue(Plugin):
    """Asks for the rest of an answer that was cut off. Its pieces stay messages of their own.

    Args:
        times: How often in one turn.
        text: What the model is told.
    """

    name = "auto_continue"
    version = "1"

    def __init__(self, *, times: int = 3, text: str = CONTINUE) -> None:
        self._times = options.whole(times, field="AutoContinue.times")
        self._text = options.words(text, field="AutoContinue.text")

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Delivery | None:
        """Send the turn on, if it is about to end in the middle of an answer."""
        if at.kind != "before_completion" or not _is_cut(at):
            return None
        if turn.state.get("times", 0) >= self._times or not has_room(turn):
            return None
        turn.patch(times=add(1))
        return nudge(self._text)


def _is_cut(at: AtCheckpoint) -> bool:
    is_incomplete = isinstance(at.outcome, Stopped) and at.outcome.reason == "incomplete"
    # Without words there is nothing to go on from.
    return is_incomplete and at.reply is not None and bool(at.reply.text.strip())


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
        self, *, tools: Collection[str] | None = None, nudges: int = 3, text: str = CALL_FIRST
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


class WrapUp(Plugin):
    """Tells the model, once in a turn, that it should come to an end.

    Args:
        remaining: With how many iterations left; 0 for never.
        text: What the model is told; `{remaining}` is filled in.
    """

    name = "wrap_up"
    version = "1"

    def __init__(self, *, remaining: int = 3, text: str = WRAP_UP) -> None:
        self._remaining = options.whole(remaining, field="WrapUp.remaining")
        self._text = options.words(text, field="WrapUp.text")

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Delivery | None:
        """Say it after work; before completion it would only keep the turn from ending."""
        if at.kind != "after_work" or turn.max_iterations is None or turn.state.get("is_told"):
            return None
        remaining = turn.max_iterations - turn.iteration
        if not 0 < remaining <= self._remaining:
            return None
        turn.patch(is_told=True)
        return nudge(filled(self._text, remaining=remaining))
