"""Bodies that run in threads: a crash waits for them, because no thread can be stopped half way."""

from __future__ import annotations

import copy
import functools
from threading import Condition
from typing import Any

from windlass.ports.tool import Tool
from windlass.tools.body import Body


class ThreadBodies:
    """Counts the sync bodies of one life that are at work."""

    def __init__(self) -> None:
        self._at_work = 0
        self._change = Condition()

    def watched(self, tool: Tool) -> Tool:
        """Return a tool whose sync body is counted while it runs; any other as it is."""
        body = getattr(tool, "_body", None)
        if not isinstance(body, Body) or body.is_async:
            return tool
        fn = body.fn

        @functools.wraps(fn)
        def counted(*args: object, **options: object) -> object:
            self._count(1)
            try:
                return fn(*args, **options)
            finally:
                self._count(-1)

        watched: Any = copy.copy(tool)
        watched._body = Body(counted, name=body.name)  # noqa: SLF001 - a copy of its own
        return watched  # type: ignore[no-any-return]  # of the same kind

    def wait(self, seconds: float) -> None:
        """Wait until none is at work, but no longer than that."""
        with self._change:
            self._change.wait_for(lambda: self._at_work == 0, seconds)

    def _count(self, change: int) -> None:
        with self._change:
            self._at_work += change
            self._change.notify_all()
