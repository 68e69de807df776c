"""The body of a tool: user code, called so that what it does ends here.

Law 1. A sync function runs in a thread, with the caller's context variables; it never blocks the loop.
Law 2. What would end the program (SystemExit, KeyboardInterrupt ...) ends the call. A CancelledError passes
    if the task was cancelled.
Law 3. Making a tool does not import asyncio: that alone would cost as much as all of windlass.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable

from windlass.errors import ToolFailed

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
            return await _in_thread()(functools.partial(self._call_sync, args, kwargs))
        try:
            value = await self.fn(*args, **kwargs)  # type: ignore[misc]  # its call gives a coroutine
        except BaseException as error:
            failure = _failure(error)
            if failure is None:
                raise
            raise self._failed(failure) from error
        return value if type(value) in _PLAIN else self._checked(value)

    async def ask(self, *args: object) -> object:
        """Call it as `call` does; a sync function may also return something to await."""
        if self.is_async:
            return await self.call(*args)
        value = await _in_thread()(functools.partial(self._contained, args, {}))
        if not inspect.isawaitable(value):
            return value
        try:
            return await value
        except BaseException as error:
            failure = _failure(error)
            if failure is None:
                raise
            raise self._failed(failure) from error

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
        missing = "is an `async def` or an `await` missing?"
        raise self._failed(f"returned a {type(value).__name__} instead of a result; {missing}")

    def _failed(self, what: str) -> ToolFailed:
        return ToolFailed(f"{self.name}: the function {what}", field=self.name, found=what)


def _failure(error: BaseException) -> str | None:
    """Return how the body failed; None if the error is the turn's: an Exception, or a real cancellation."""
    if isinstance(error, Exception):
        return None
    import asyncio  # noqa: PLC0415 - loaded already: this code was awaited

    if not isinstance(error, asyncio.CancelledError):
        return f"raised {type(error).__name__}"
    task = asyncio.current_task()
    if task is not None and task.cancelling() > 0:
        return None
    return "raised CancelledError, but its task was not cancelled"


@functools.cache
def _in_thread() -> Callable[[Callable[[], object]], Awaitable[object]]:
    from windlass.tools.threads import in_thread  # noqa: PLC0415 - imports asyncio

    return in_thread


def is_async(fn: Callable[..., object]) -> bool:
    """Whether calling `fn` gives a coroutine: an async function, method, partial or `__call__`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.iscoroutinefunction(fn):
        return True
    return not inspect.isroutine(fn) and inspect.iscoroutinefunction(
        getattr(type(fn), "__call__", None)  # noqa: B004 - which function it is, not whether there is one
    )
