"""Folds: from the stored rows of a turn to the facts that its live feed shows, without the agent.

Law 1. Nothing here does I/O, reads a clock or draws a random number.
Law 2. Folded facts are the live facts: the same, with the same ids, in the same order.
"""

from windlass.folds.cursor import (
    BEGINNING,
    Cursor,
    Place,
    facts_behind,
    place_of,
    read_cursor,
    write_cursor,
)
from windlass.folds.history import frame_in
from windlass.folds.turn_fold import TurnFold, facts_of

__all__ = [
    "BEGINNING", "Cursor", "Place", "TurnFold", "facts_behind", "facts_of", "frame_in", "place_of", "read_cursor",
    "write_cursor",
]  # fmt: skip
