"""A bar for work that takes seconds: on a terminal only, on standard error, gone when done."""

from __future__ import annotations

import sys
from collections.abc import Iterator

_WIDTH = 30


def progress(what: str, total: int) -> Iterator[int]:
    """Count to `total`, showing how far it is."""
    is_shown = sys.stderr.isatty()
    for at in range(total):
        if is_shown:
            filled = _WIDTH * at // total
            bar = "#" * filled + "." * (_WIDTH - filled)
            sys.stderr.write(f"\r{what:<12.12} [{bar}] {100 * at // total:3} %")
            sys.stderr.flush()
        yield at
    if is_shown:
        sys.stderr.write("\r" + " " * (_WIDTH + 22) + "\r")
        sys.stderr.flush()
