"""How long a store keeps what has ended."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from windlass.errors import ConfigError
from windlass.ports import SessionKind

_MOST = timedelta(days=366_000)
# Schedules and triggers have a session per month, and the id of a deleted session is not used again. So a session is deleted
# only when its last turn ended so long ago that its month must be over.
_MONTH = timedelta(days=31)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long a store keeps what has ended. It keeps chats until you delete them.

    Attributes:
        journals: What turns did, step by step, after their end. What they said stays in the history of their session.
        children: Sessions of subagents, after the end of their last turn; at least until the journal of the turn that
            began them is gone.
        processes: Processes, after their end.
        schedules: The ticks and runs of a schedule, a month at a time, after the last of them ended; at least 31 days.
        triggers: Events and their deliveries, a month at a time, counted from 31 days after the last of them ended. It must
            be at least the `dedupe` of each source.

    Raises:
        ConfigError: one is not a timedelta of 0 or more; names it.
    """

    journals: timedelta = timedelta(days=7)
    children: timedelta = timedelta(days=7)
    processes: timedelta = timedelta(days=30)
    schedules: timedelta = timedelta(days=31)
    triggers: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        """Refuse what is not a time."""
        for name in self.__struct_fields__:
            found = getattr(self, name)
            if not isinstance(found, timedelta) or not timedelta() <= found <= _MOST:
                shown = found if isinstance(found, timedelta) else type(found).__name__
                raise ConfigError.at(f"Retention.{name}", shown, "a timedelta of 0 or more")

    @property
    def journals_ms(self) -> int:
        """How long journals are kept."""
        return _ms(self.journals)

    def keep_ms(self) -> dict[SessionKind, int]:
        """Return how long sessions are kept after the end of their last turn, by kind."""
        return {
            "child": _ms(self.children),
            "process": _ms(self.processes),
            "schedule": _ms(max(self.schedules, _MONTH)),
            "trigger": _ms(self.triggers + _MONTH),
        }


def _ms(kept: timedelta) -> int:
    return kept // timedelta(milliseconds=1)
