"""Auto-continue: an answer that was cut at its output limit goes on."""

from __future__ import annotations

from windlass.journal.patch import add
from windlass.kernel.outcomes import Stopped
from windlass.plugins import options
from windlass.plugins.nudge import has_room, nudge
from windlass.ports.directives import Delivery
from windlass.ports.plugin import AtCheckpoint, Plugin
from windlass.ports.plugin_turn import PluginTurn

TEXT = "Please continue exactly where you stopped."


class AutoContinue(Plugin):
    """Asks for the rest of an answer that was cut off. Its pieces stay messages of their own.

    Args:
        times: How often in one turn.
        text: What the model is told.
    """

    name = "auto_continue"
    version = "1"

    def __init__(self, *, times: int = 3, text: str = TEXT) -> None:
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
