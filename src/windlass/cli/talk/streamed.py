"""A reply as it grows: which of it is settled enough to stay on the screen, and which may still change.

A block that a blank line ended is settled, unless the line stands in a code block.
"""

from __future__ import annotations

_FENCES = ("```", "~~~")


class Streamed:
    """The text of one model call."""

    def __init__(self) -> None:
        self._text = ""
        self._settled = 0

    @property
    def rest(self) -> str:
        """What is not settled yet."""
        return self._text[self._settled :]

    @property
    def was_shown(self) -> bool:
        """Whether some of it stands on the screen for good."""
        return self._settled > 0

    def add(self, text: str) -> str:
        """Add some words; return the blocks that they settled."""
        self._text += text
        end = _settled_length(self.rest)
        block = self.rest[:end]
        self._settled += end
        return block

    def finish(self, whole: str) -> str | None:
        """Take the reply as it was recorded; return what is left to show, None if it was another one."""
        if not whole.startswith(self._text[: self._settled]):
            return None
        return whole[self._settled :]


def _settled_length(text: str) -> int:
    """Return where the last settled block of a text ends."""
    end = place = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        place += len(line)
        start = line.lstrip()[:3]
        if fence:
            fence = "" if start == fence else fence
        elif start in _FENCES:
            fence = start
        elif line.endswith("\n") and not line.strip():
            end = place
    return end
