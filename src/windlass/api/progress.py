"""How far a batch is, and a bar that shows it: on a terminal only, and with rich where that is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO, TypeAlias

from windlass.kernel.value import Value
from windlass.ports import Clock

_REDRAWN_MS: Final = 100
_WIDTH: Final = 30


class BatchProgress(Value, kw_only=True):
    """How far a batch is.

    Attributes:
        done: How many items are done, those that failed included.
        failed: How many of them failed.
        total: How many there are; None for a generator whose length was not given.
    """

    done: int = 0
    failed: int = 0
    total: int | None = None

    @property
    def is_last(self) -> bool:
        """Whether all items are done."""
        return self.done == self.total


ShowProgress: TypeAlias = Callable[[BatchProgress], None]
"""A function that is called with the progress of a batch: once before its first item, then after each."""


@contextmanager
def bar_for(wanted: bool | ShowProgress, clock: Clock) -> Iterator[ShowProgress]:  # noqa: FBT001 - the public value
    """Give what shows the progress of a batch: the caller's own function, a bar on the terminal, or nothing."""
    if not isinstance(wanted, bool):
        yield wanted
    elif wanted and sys.stderr.isatty():
        try:
            from rich.progress import Progress  # noqa: F401, PLC0415 - only where a bar is drawn
        except ImportError:
            yield from _plain_bar(sys.stderr, clock)
        else:
            yield from _rich_bar()
    else:
        yield _show_nothing


def _show_nothing(_now: BatchProgress) -> None:
    return


def _rich_bar() -> Iterator[ShowProgress]:
    from rich.console import Console  # noqa: PLC0415 - only where a bar is drawn
    from rich.progress import (  # noqa: PLC0415  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None, failed="")

        def show(now: BatchProgress) -> None:
            bar.update(task, completed=now.done, total=now.total, failed=_failed(now))

        yield show


def _plain_bar(out: TextIO, clock: Clock) -> Iterator[ShowProgress]:
    """Draw a line and draw it again, no more than ten times a second."""
    last: list[BatchProgress] = []
    drawn_ms = 0

    def show(now: BatchProgress) -> None:
        nonlocal drawn_ms
        last[:] = [now]
        if clock.now_ms() - drawn_ms >= _REDRAWN_MS:
            drawn_ms = clock.now_ms()
            out.write(f"\r{line_of(now)}")
            out.flush()

    try:
        yield show
    finally:
        out.write(f"\r{line_of(last[0])}\n" if last else "")
        out.flush()


def line_of(now: BatchProgress) -> str:
    """Return the progress as a line of text."""
    if not now.total:
        return f"{now.done} done{_failed(now)}"
    full = _WIDTH * now.done // now.total
    return f"[{'#' * full}{'.' * (_WIDTH - full)}] {now.done}/{now.total}{_failed(now)}"


def _failed(now: BatchProgress) -> str:
    return f", {now.failed} failed" if now.failed else ""
