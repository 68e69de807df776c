"""The engine: it says when a worker looks for work.

What there is to do, the store knows; how it is done, the worker knows. So an engine is a clock with ears: a timer in this
process, a scheduler on another machine. Law: a call that does not come costs time, never a turn.
"""

from __future__ import annotations

from typing import Protocol


class Work(Protocol):
    """What an engine sets going: the worker of this process."""

    async def look(self) -> None:
        """Look once for all that is due, begin what can be begun, and return."""
        ...

    async def drive(self, session_id: str) -> int | None:
        """Drive one session until nothing of it is due; return the time at which something will be, if one is known.

        What another worker has is left to it.
        """
        ...


class Engine(Protocol):
    """Says when."""

    async def open(self, work: Work) -> None:
        """Begin to call the worker."""
        ...

    def kick(self, session_id: str | None = None) -> None:
        """Hear that something may be due now: in this session, or in any."""
        ...

    async def close(self) -> None:
        """Stop to call the worker. What it drives is its own to end."""
        ...
