"""Ids minted inside a turn: they derive from session, turn and position, never from a clock.

So a replay mints the same ids. The prefix is a digest, not the turn id itself: a fork may use a turn
id again, and an id has at most 128 characters.
"""

from __future__ import annotations

from hashlib import sha256


class TurnIds:
    """Mints the ids of one turn."""

    __slots__ = ("prefix",)

    def __init__(self, session_id: str, turn_id: str) -> None:
        # Neither id can hold a "/", so the two cannot run into each other.
        self.prefix = sha256(f"{session_id}/{turn_id}".encode()).hexdigest()[:16]

    def message(self, position: int | str, purpose: str) -> str:
        """A message's id; `purpose` keeps apart what is minted at one position."""
        return f"m_{self.prefix}.{position}.{purpose}"

    def event(self, position: int | str) -> str:
        """An event's id."""
        return f"e_{self.prefix}.{position}"

    def correlation(self, about: int | str) -> str:
        """What the events about one effect have in common, or about one call in it: `3`, `3.1`."""
        return f"c_{self.prefix}.{about}"

    def call(self, iteration: int, call: int) -> str:
        """The id of a call whose provider gave none that every provider takes."""
        return f"call_{self.prefix}_{iteration}_{call}"
