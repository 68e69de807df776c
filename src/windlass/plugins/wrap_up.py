"""Wrap-up: a word to the model before its iterations run out."""

from __future__ import annotations

from windlass.plugins import options
from windlass.plugins.nudge import nudge
from windlass.plugins.wording import filled
from windlass.ports.directives import Delivery
from windlass.ports.plugin import AtCheckpoint, Plugin
from windlass.ports.plugin_turn import PluginTurn

TEXT = (
    "This turn is almost over: {remaining} more replies, and it is stopped. "
    "Finish what you have begun, then give your answer."
)


class WrapUp(Plugin):
    """Tells the model, once in a turn, that it should come to an end.

    Args:
        remaining: With how many iterations left; 0 for never.
        text: What the model is told; `{remaining}` is filled in.
    """

    name = "wrap_up"
    version = "1"

    def __init__(self, *, remaining: int = 3, text: str = TEXT) -> None:
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
