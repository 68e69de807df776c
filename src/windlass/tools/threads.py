"""The threads in which the sync bodies of tools run: one for each call that runs, used again.

Law. The threads are daemons and are never joined: a body that never returns delays neither a turn
    that gave up on it nor the end of the program.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_IDLE_S = 10.0


class _Worker:
    """A thread that waits a while for more work before it ends."""

    __slots__ = ("_ready", "_work")

    def __init__(self) -> None:
        self._ready = threading.Semaphore(0)
        self._work: Callable[[], None] | None = None
        threading.Thread(target=self._live, name="windlass-tool", daemon=True).start()

    def give(self, work: Callable[[], None]) -> None:
        self._work = work
        self._ready.release()

    def _live(self) -> None:
        while True:
            if not self._ready.acquire(timeout=_IDLE_S):
                try:
                    _IDLE.remove(self)
                except ValueError:  # taken just now; the work is on its way
                    self._ready.acquire()
                else:
                    return
            work, self._work = self._work, None
            if work is not None:
                work()
            # Nothing of the call may live on in a thread that waits.
            del work
            _IDLE.append(self)


# One deque for all threads: its operations are atomic, and the last to come is the first to go.
_IDLE: deque[_Worker] = deque()
# A forked child has the list but not the threads.
os.register_at_fork(after_in_child=_IDLE.clear)


async def in_thread(fn: Callable[[], object]) -> object:
    """Call it in a thread with the caller's context variables, and return what it returns."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        value: object = None
        error: BaseException | None = None
        try:
            value = context.run(fn)
        except BaseException as raised:  # noqa: BLE001 - delivered to the awaiting task
            error = raised
        try:
            loop.call_soon_threadsafe(_deliver, future, value, error)
        except RuntimeError:
            return  # the loop is closed, so nothing awaits the result
        finally:
            del value, error  # an exception and the frame that holds it would keep each other

    try:
        worker = _IDLE.pop()
    except IndexError:
        worker = _Worker()
    worker.give(work)
    return await future


def _deliver(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if future.done():  # cancelled meanwhile: the result comes too late
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
