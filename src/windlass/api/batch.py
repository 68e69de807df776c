"""Batches: many inputs, each a turn of its own, so many at a time.

Law 1. What a turn of a batch is called derives from the batch and its input alone: a script that is run again after a
    crash finds every turn that it began, and pays for none of them twice.
Law 2. No more inputs are taken than are worked on, so a generator of inputs may be endless.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Sized
from contextlib import aclosing
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from windlass.api.progress import BatchProgress, ShowProgress, bar_for
from windlass.api.turn_handle import ThroughParks, kinds_of
from windlass.api.turn_options import Input, TurnOptions, check_names
from windlass.api.turn_result import TurnResult
from windlass.errors import ConfigError, InvalidInput, StoreError, WindlassError
from windlass.guards import check_id
from windlass.kernel import Attachment, Text, canonical
from windlass.ports import Upload

if TYPE_CHECKING:
    from windlass.api.session import Session
    from windlass.engines.admission import Admission

O = TypeVar("O")  # noqa: E741 - the output's type
BatchInput: TypeAlias = Input | tuple[str, Input] | tuple[str, Input, str]
"""One input of a batch: what a turn is given, or `(session_id, input)`, or `(session_id, input, turn_id)`."""
BatchInputs: TypeAlias = Iterable[BatchInput] | AsyncIterable[BatchInput]
# Waits that end without anybody's answer.
_BY_THEMSELVES: Final = ("provider", "timer")
_KEY_CHARS: Final = 24


class BatchOptions(TurnOptions, total=False):
    """What a caller may say about a batch; `Runtime.map` says what each is for."""

    batch: str
    concurrency: int
    progress: bool | ShowProgress
    total: int | None
    through_parks: ThroughParks
    raise_failures: bool


class BatchItem(Generic[O]):
    """What became of one input of a batch.

    Attributes:
        index: The place of its input, from 0.
        session_id: The session of its turn; empty if the input named none and none could be derived.
        turn_id: Its turn in that session.
        result: The result of its turn; None if the turn was refused.
        error: Why the turn was refused; None if it was not.
    """

    __slots__ = ("error", "index", "result", "session_id", "turn_id")

    def __init__(
        self,
        index: int,
        session_id: str,
        turn_id: str,
        result: TurnResult[O] | None = None,
        error: WindlassError | None = None,
    ) -> None:
        self.index = index
        self.session_id = session_id
        self.turn_id = turn_id
        self.result = result
        self.error = error

    @property
    def failed(self) -> bool:
        """Whether there is no finished turn: it was refused, it stopped, was handed off, or is parked."""
        return self.failure is not None

    @property
    def failure(self) -> WindlassError | None:
        """Why it failed; None if its turn finished."""
        if self.result is None:
            return self.error
        try:
            self.result.raise_for_outcome()
        except WindlassError as error:
            return error
        return None

    @property
    def output(self) -> O:
        """The output of its turn.

        Raises:
            WindlassError: why there is none.
        """
        if self.result is None:
            assert self.error is not None  # noqa: S101 - it has the one or the other
            raise self.error
        return self.result.output

    def __repr__(self) -> str:
        what = self.result if self.result is not None else self.error
        return f"BatchItem({self.index}: {what!r})"


class Batch(Generic[O]):
    """A batch that runs while it is read. `rt.map` returns one.

    `await batch` returns its items in the order of the inputs. `async for item in batch` gives each item when it is
    done, and keeps none of them.
    """

    def __init__(
        self,
        admission: Admission,
        session: Callable[[str], Session[Any]],
        inputs: BatchInputs,
        output_type: type[Any] | None,
        options: BatchOptions,
    ) -> None:
        self._admission = admission
        self._session = session
        self._inputs = inputs
        self._output_type = output_type
        self._batch = check_id(options.pop("batch", "map"), field="batch")
        self._through = kinds_of(options.pop("through_parks", _BY_THEMSELVES))
        self._concurrency = options.pop("concurrency", 8)
        self._show = options.pop("progress", False)
        self._raises = options.pop("raise_failures", False)
        total = options.pop("total", None)
        self._options: TurnOptions = options
        _check_options(self._concurrency, total, self._show)
        check_names(self._options)
        if "turn_id" in options:
            wanted = "(session_id, input, turn_id) for each input"
            raise InvalidInput.at("turn_id", "one for the whole batch", wanted)
        if isinstance(inputs, str) or not isinstance(inputs, (Iterable, AsyncIterable)):
            raise InvalidInput.at(
                "inputs", type(inputs).__name__, "a list or a generator of inputs"
            )
        self._total = len(inputs) if total is None and isinstance(inputs, Sized) else total

    def __await__(self) -> Generator[Any, None, list[BatchItem[O]]]:
        return self._whole().__await__()

    async def _whole(self) -> list[BatchItem[O]]:
        async with aclosing(aiter(self)) as items:
            return sorted([item async for item in items], key=lambda item: item.index)

    async def __aiter__(self) -> AsyncGenerator[BatchItem[O], None]:
        """Yield each item when it is done.

        Raises:
            ConfigError, StoreError: no turn can be run here. The turns that began go on.
            ExceptionGroup: with `raise_failures`, at the end: why items failed.
        """
        failures: list[WindlassError] = []
        failed = done = 0
        async with aclosing(self._as_done()) as items:
            with bar_for(self._show, self._admission.services.clock) as show:
                show(BatchProgress(total=self._total))
                async for item in items:
                    done += 1
                    if (failure := item.failure) is not None:
                        failed += 1
                        if self._raises:
                            failures.append(failure)
                    show(BatchProgress(done=done, failed=failed, total=self._total))
                    yield item
        if failures:
            told = f"batch {self._batch}: {failed} of {done} items failed"
            raise ExceptionGroup(told, failures)

    async def _as_done(self) -> AsyncGenerator[BatchItem[O], None]:
        """Work on so many inputs at a time; leaving ends the waiting, never a turn."""
        loop = asyncio.get_running_loop()
        source = _each(self._inputs)
        running: set[asyncio.Task[BatchItem[O]]] = set()
        index, has_more = 0, True
        try:
            while True:
                while has_more and len(running) < self._concurrency:
                    try:
                        given = await anext(source)
                    except StopAsyncIteration:
                        has_more = False
                        break
                    running.add(loop.create_task(self._work(index, given)))
                    index += 1
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    yield one.result()
        finally:
            for one in running:
                one.cancel()
            if running:
                await asyncio.wait(running)
            await source.aclose()

    async def _work(self, index: int, given: BatchInput) -> BatchItem[O]:
        session_id, turn_id = "", self._batch
        try:
            session_id, words, turn_id = self._named(given)
            options: Any = {**self._options, "turn_id": turn_id}
            handle = await self._session(session_id).submit(
                words, output_type=self._output_type, **options
            )
            result: TurnResult[Any] = await handle.result(through_parks=self._through)
        except (ConfigError, StoreError):
            raise
        except WindlassError as error:
            if not self._admission.is_open:
                raise
            return BatchItem(index, session_id, turn_id, error=error)
        return BatchItem(index, session_id, turn_id, result)

    def _named(self, given: BatchInput) -> tuple[str, Input, str]:
        """Return session, input and turn of an item, named by the caller or derived."""
        if not isinstance(given, tuple):
            words: Input = given
            return f"{self._batch}.{_key_of(words)}", words, self._batch
        if len(given) not in (2, 3) or not isinstance(given[0], str):
            raise InvalidInput.at(
                "inputs", "another tuple", "(session_id, input) or (session_id, input, turn_id)"
            )
        turn_id = given[2] if len(given) == 3 else self._batch
        return given[0], given[1], turn_id  # type: ignore[return-value]  # checked where they are used


def _check_options(concurrency: object, total: object, show: object) -> None:
    if type(concurrency) is not int or concurrency < 1:
        raise InvalidInput.at("concurrency", repr(concurrency)[:60], "a whole number above 0")
    if total is not None and (type(total) is not int or total < 0):
        raise InvalidInput.at("total", repr(total)[:60], "a whole number, or None")
    if not isinstance(show, bool) and not callable(show):
        raise InvalidInput.at("progress", type(show).__name__, "True, False or a function")


async def _each(inputs: BatchInputs) -> AsyncGenerator[BatchInput, None]:
    if isinstance(inputs, AsyncIterable):
        async for one in inputs:
            yield one
    else:
        for one in inputs:
            yield one


def _key_of(words: Input) -> str:
    """Return what an input is told apart by: equal inputs are one turn."""
    parts = words if isinstance(words, list) else [words]
    marks: list[list[str]] = []
    for part in parts:
        if isinstance(part, Upload):
            marks.append(["file", sha256(part.data).hexdigest(), part.media_type])
        elif isinstance(part, Attachment):
            marks.append(["file", part.ref, part.media_type])
        elif isinstance(part, (str, Text)):
            marks.append(["text", part if isinstance(part, str) else part.text])
        else:
            found = type(part).__name__
            raise InvalidInput.at("inputs", found, "text, an Attachment, or a list of both")
    return canonical.digest(marks)[:_KEY_CHARS]
