"""A nudge: words from a guard that keep a turn going, and are never stored."""

from __future__ import annotations

from windlass.ports.directives import Delivery
from windlass.ports.plugin_turn import PluginTurn


def nudge(text: str) -> Delivery:
    """Return words to the model, seen in this turn only."""
    return Delivery(transient=[text])


def has_room(turn: PluginTurn) -> bool:
    """Whether a turn may go on after the reply at hand.

    After the last iteration there is one more, of grace. Whatever enters after that one ends the turn at its limit,
    and a guard must not turn an answer into that.
    """
    return turn.max_iterations is None or turn.iteration < turn.max_iterations
