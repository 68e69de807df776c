"""The live feeds of a worker: one for each session that is watched or driven here."""

from __future__ import annotations

from itertools import islice
from os import urandom

from windlass.ports.clock import Clock
from windlass.runtime.feed import SessionFeed

_MAX_FEEDS = 1_024
_TIDIED_AT_ONCE = 16


class Feeds:
    """Finds the feed of a session; the one that was not asked for longest goes first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._feeds: dict[str, SessionFeed] = {}

    def of(self, session_id: str) -> SessionFeed:
        """Return the feed of a session, made on first use."""
        feed = self._feeds.pop(session_id, None)
        if feed is None:
            # Its cursors are its own: those of another session, process or time have a gap here.
            feed = SessionFeed(session_id, incarnation=urandom(4).hex(), clock=self._clock)
            self._make_room()
        self._feeds[session_id] = feed
        return feed

    def _make_room(self) -> None:
        if len(self._feeds) < _MAX_FEEDS:
            return
        idle = next((name for name, feed in self._feeds.items() if not feed.has_live_turns), None)
        if idle is not None:
            self._feeds.pop(idle).close()

    def tidy(self) -> None:
        """Let go of what is too old to be read again, a few sessions at a time."""
        for name in tuple(islice(self._feeds, _TIDIED_AT_ONCE)):
            feed = self._feeds.pop(name)
            feed.forget_old()
            if not feed.is_forgotten:
                self._feeds[name] = feed

    def close(self) -> None:
        """End all readers."""
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()
