"""A table that grows line by line on a terminal, 100 columns wide at most."""

from __future__ import annotations

import os
import textwrap
from typing import Literal, TextIO

import msgspec

COLUMNS = 100
_WIDTHS = (8, 30, 37, 22)
_HEADS = ("what", "asked", "came back", "how")
_GAP = " "

_CODES = {
    "bold": "1", "dim": "2", "red": "1;31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36",
}  # fmt: skip
Color = Literal["bold", "dim", "red", "green", "yellow", "magenta", "cyan"]


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """What the terminal can show."""

    color: bool
    unicode: bool

    @classmethod
    def of(cls, stream: TextIO, *, plain: bool) -> Style:
        """Look at the stream, at NO_COLOR and at what was asked for."""
        # A setting of terminals, not of windlass: no-color.org, for every program alike.
        is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"  # noqa: TID251
        is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
        return cls(color=not plain and is_wanted and stream.isatty(), unicode=not plain and is_utf8)

    def paint(self, text: str, color: Color | None) -> str:
        """Return `text` in a color, if colors may be shown."""
        if color is None or not self.color:
            return text
        return f"\x1b[{_CODES[color]}m{text}\x1b[0m"

    def rule(self) -> str:
        """Return a line under a head."""
        dash = "─" if self.unicode else "-"
        return self.paint(_GAP.join(dash * width for width in _WIDTHS), "dim")

    def sign(self, sign: str, plain: str) -> str:
        """Return a sign, or what stands for it where only ASCII can be shown."""
        return sign if self.unicode else plain

    def cut(self, text: str, width: int) -> str:
        """Return `text` in at most `width` characters, marked where it was cut."""
        dots = self.sign("…", "...")
        return text if len(text) <= width else text[: width - len(dots)] + dots


class Timeline:
    """Writes the lines of the table to a stream."""

    def __init__(self, stream: TextIO, style: Style) -> None:
        self.style = style
        self._stream = stream

    def say(self, text: str = "", color: Color | None = None) -> None:
        """Write a line beside the table, at once."""
        self._stream.write(self.style.paint(text, color) + "\n")
        self._stream.flush()

    def tell(self, label: str, text: str, color: Color | None = None) -> None:
        """Write words under a label, on as many lines as they need."""
        lines = textwrap.wrap(text, COLUMNS - 11)
        for at, line in enumerate(lines):
            self.say(f"{label if at == 0 else '':<10} {line}", color)

    def head(self) -> None:
        """Write the head of the table."""
        self.say(self._line(_HEADS), "bold")
        self.say(self.style.rule())

    def row(self, *cells: str, color: Color | None = None) -> None:
        """Write one line of the table."""
        self.say(self._line(cells), color)

    def _line(self, cells: tuple[str, ...]) -> str:
        placed = [
            self.style.cut(cell, width).ljust(width)
            for cell, width in zip(cells, _WIDTHS, strict=True)
        ]
        return _GAP.join(placed).rstrip()
