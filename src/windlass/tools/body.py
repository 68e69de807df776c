"""The body of a tool: user code, called so that what it does ends here.

Law 1. A sync function runs in a thread, with the caller's context variables; it never blocks the loop.
Law 2. The threads are daemons and are never joined: a body that never returns delays neither a turn
    that gave up on it nor the end of the program.
Law 3. What would end the program (SystemExit, KeyboardInterrupt ...) ends the call. A CancelledError passes
    if the task was cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from windlass.errors import ToolFailed

_IDLE_S = 10.0
# Values of these very types cannot be awaited.
_PLAIN = frozenset({str, int, float, bool, type(None), dict, list, tuple})


class Body:
    """A function of the user's, sync or async, with the name that its failures carry."""

    __slots__ = ("fn", "is_async", "name")

    def __init__(self, fn: Callable[..., object], *, name: str) -> None:
        self.fn = fn
        self.name = name
        self.is_async = is_async(fn)

    async def call(self, *args: object, **kwargs: object) -> object:
        """Call it and return what it returns.

        Raises:
            ToolFailed: it raised what would end the program, or returned a coroutine.
            Exception: anything else it raised.
        """
        if not self.is_async:
            return await _in_thread(functools.partial(self._call_sync, args, kwargs))
        try:
            value = await self.fn(*args, **kwargs)  # type: ignore[misc]  # its call gives a coroutine
        except BaseException as error:
            if _passes(error):
                raise
            raise self._failed(f"raised {_name(error)}") from error
        return value if type(value) in _PLAIN else self._checked(value)

    async def ask(self, *args: object) -> object:
        """Call it as `call` does; a sync function may also return something to await."""
        if self.is_async:
            return await self.call(*args)
        value = await _in_thread(functools.partial(self._contained, args, {}))
        if not inspect.isawaitable(value):
            return value
        try:
            return await value
        except BaseException as error:
            if _passes(error):
                raise
            raise self._failed(f"raised {_name(error)}") from error

    def _call_sync(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        return self._checked(self._contained(args, kwargs))

    def _contained(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        try:
            return self.fn(*args, **kwargs)
        except StopIteration as error:
            # A future cannot carry it: an `await` would take it for its own end.
            raise self._failed("raised StopIteration") from error
        except Exception:
            raise
        except BaseException as error:
            raise self._failed(f"raised {type(error).__name__}") from error

    def _checked(self, value: object) -> object:
        if not inspect.isawaitable(value):
            return value
        close = getattr(value, "close", None) or getattr(value, "cancel", None)
        if close is not None:
            close()
        raise self._failed(
            f"returned a {type(value).__name__} instead of a result; is an `async def` or an `await` missing?"
        )

    def _failed(self, what: str) -> ToolFailed:
        return ToolFailed(f"{self.name}: the function {what}", field=self.name, found=what)


def _passes(error: BaseException) -> bool:
    """Whether an error is the turn's to handle: an Exception, or a real cancellation."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, Exception)


def _name(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "CancelledError, but its task was not cancelled"
    return type(error).__name__


def is_async(fn: Callable[..., object]) -> bool:
    """Whether calling `fn` gives a coroutine: an async function, method, partial or `__call__`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.iscoroutinefunction(fn):
        return True
    return not inspect.isroutine(fn) and inspect.iscoroutinefunction(
        getattr(type(fn), "__call__", None)  # noqa: B004 - which function it is, not whether there is one
    )


# ------------------------------------------------------------------------------------- threads


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


async def _in_thread(fn: Callable[[], object]) -> object:
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
