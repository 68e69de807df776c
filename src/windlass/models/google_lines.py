"""The lines of a stream of events, cut as events are: at CR and LF, and nowhere else.

The SDK below takes its lines from `httpx2`, which also cuts at U+2028 and its like, in the middle of a text; and it
takes a comment, or `data:` without a blank behind it, for an answer that is no JSON. A server other than Google's own
sends all of these.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Protocol

from windlass.guards.limits import DEFAULT_LIMITS
from windlass.models.provider_errors import malformed

MAX_LINE = 8 * DEFAULT_LIMITS.server_event_bytes
_END = re.compile(r"\r\n|\n|\r")
_FIELDS_OF_NO_USE = frozenset({"event", "id", "retry"})


class TextSource(Protocol):
    """A response whose text comes in pieces."""

    def aiter_text(self) -> AsyncIterator[str]:
        """Return the pieces."""
        ...


async def event_lines(response: TextSource) -> AsyncIterator[str]:
    """Yield the lines of a response that carry an event, or end one.

    Raises:
        Malformed: a line is longer than any event.
    """
    cutter = LineCutter()
    async for text in response.aiter_text():
        for line in cutter.cut(text):
            if (shown := _of_use(line)) is not None:
                yield shown
    if (shown := _of_use(cutter.rest())) is not None:
        yield shown


class LineCutter:
    """Cuts pieces of text into lines, wherever the pieces were cut."""

    def __init__(self) -> None:
        self._begun: list[str] = []
        self._n_begun = 0
        self._has_cr = False

    def cut(self, text: str) -> list[str]:
        """Take a piece; return the lines that are whole now.

        Raises:
            Malformed: the one that is begun is too long.
        """
        if self._has_cr:
            text = "\r" + text
        # A CR at the end of a piece may be half of a CRLF.
        self._has_cr = text.endswith("\r")
        first, *others = _END.split(text[:-1] if self._has_cr else text)
        self._begin(first)
        if not others:
            return []
        lines = [self.rest(), *others[:-1]]
        self._begun, self._n_begun = [], 0
        self._begin(others[-1])
        return lines

    def rest(self) -> str:
        """Return the line that is begun."""
        return "".join(self._begun)

    def _begin(self, piece: str) -> None:
        self._begun.append(piece)
        self._n_begun += len(piece)
        if self._n_begun > MAX_LINE:
            raise malformed("google", f"a line of more than {MAX_LINE} characters")


def _of_use(line: str) -> str | None:
    """Return a line as the SDK reads it; None for a comment or a field that it has no use for."""
    field, colon, value = line.partition(":")
    if colon and (not field or field in _FIELDS_OF_NO_USE):
        return None
    return f"data: {value.removeprefix(' ')}" if colon and field == "data" else line
