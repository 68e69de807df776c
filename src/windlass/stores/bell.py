"""The bell: looks at the version of a store now and then, and tells those who watch that something was written.

Law 1. One look in a period, however many watch; none while nothing watches.
Law 2. Trouble stays here: a look that fails is made again, and one who fails to be told keeps no other from it.
Law 3. All are told once at the first look after one has come: what was written a moment before is not missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PERIOD_S = 0.1


def _nothing() -> None: ...


class Bell:
    """Rings when the version of a store has changed. `looks` counts how often it was asked for.

    `let_go` is called when nothing watches any more, and after a look that failed.
    """

    __slots__ = ("_let_go", "_loop", "_seen", "_tells", "_timer", "_version", "looks")

    def __init__(
        self, version: Callable[[], object], let_go: Callable[[], None] = _nothing
    ) -> None:
        self._version = version
        self._let_go = let_go
        self._tells: dict[object, Callable[[], None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._seen: object = None
        self.looks = 0

    def watch(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` on this loop from now on; return what ends that."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.close()  # a loop that has ended took those who watched there with it
            self._loop = loop
        watcher = object()
        self._tells[watcher] = tell
        self._seen = None
        if self._timer is None:
            self._timer = loop.call_later(PERIOD_S, self._look)

        def leave() -> None:
            if self._tells.pop(watcher, None) is not None and not self._tells:
                self.close()

        return leave

    def close(self) -> None:
        """Ring no more, for none of those who watch now."""
        self._tells.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._let_go()

    def _look(self) -> None:
        assert self._loop is not None  # noqa: S101 - a timer of it called
        self._timer = self._loop.call_later(PERIOD_S, self._look)
        self.looks += 1
        try:
            version = self._version()
        except Exception:  # noqa: BLE001 - a disk that is full, a file that is gone: it is looked at again
            self._seen = None
            self._let_go()
            return
        if version != self._seen:
            self._seen = version
            self._ring()

    def _ring(self) -> None:
        for watcher, tell in tuple(self._tells.items()):
            if watcher not in self._tells:
                continue  # it left because of one that was told before it
            try:
                tell()
            except Exception as error:  # noqa: BLE001 - the others are told
                report = {"message": "one who watches a store failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(report)
