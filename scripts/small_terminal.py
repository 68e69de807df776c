"""A terminal in memory: it takes what a program writes and shows what would stand on the screen.

It knows what `windlass chat` uses: colors, moving up, erasing lines, wrapping. Whatever scrolls off the top stays
readable, so that a picture can show a whole run.
"""

from __future__ import annotations

import re
from unicodedata import east_asian_width

_SEQUENCE = re.compile(
    r"\x1b\[(?P<params>[?>]?[\d;]*)(?P<final>[A-Za-z])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[=>()][AB0]?"
    r"|(?P<char>[\s\S])"
)
_BEGUN = re.compile(r"\x1b(?:\[[?>]?[\d;]*|\][^\x07\x1b]*\x1b?|[()])?\Z")
_TAB = 8


class SmallTerminal:
    """Lines of cells; a cell is a character and the codes that color it."""

    def __init__(self, columns: int = 100) -> None:
        self._columns = columns
        self._lines: list[list[tuple[str, str]]] = [[]]
        self._row = 0
        self._column = 0
        self._codes = ""
        # The beginning of a sequence whose end was not read yet.
        self._begun = ""

    def feed(self, text: str) -> None:
        """Take what a program wrote."""
        whole = self._begun + text
        begun = _BEGUN.search(whole)
        self._begun = "" if begun is None else begun[0]
        for found in _SEQUENCE.finditer(whole[: len(whole) - len(self._begun)]):
            if found["char"] is not None:
                self._char(found["char"])
            elif found["final"] is not None:
                self._control(found["final"], found["params"])

    @property
    def text(self) -> str:
        """What stands on the screen, without colors."""
        return "\n".join("".join(char for char, _ in line).rstrip() for line in self._lines)

    @property
    def ansi(self) -> str:
        """What stands on the screen, with nothing but colors in it."""
        return "\n".join(_painted(line) for line in self._lines)

    def _char(self, char: str) -> None:
        match char:
            case "\r":
                self._column = 0
            case "\n":
                self._row += 1
                while len(self._lines) <= self._row:
                    self._lines.append([])
            case "\b":
                self._column = max(0, self._column - 1)
            case "\t":
                self._column += _TAB - self._column % _TAB
            case _ if char >= " ":
                self._put(char)

    def _put(self, char: str) -> None:
        width = 2 if east_asian_width(char) in "WF" else 1
        if self._column + width > self._columns:
            self._column = 0
            self._char("\n")
        line = self._lines[self._row]
        line.extend([(" ", "")] * (self._column + width - len(line)))
        line[self._column] = (char, self._codes)
        if width == 2:
            line[self._column + 1] = ("", self._codes)
        self._column += width

    def _control(self, final: str, params: str) -> None:
        count = int(params) if params.isdigit() else 1
        line = self._lines[self._row]
        match final:
            case "m":
                self._codes = "" if params in ("", "0") else f"{self._codes};{params}".strip(";")
            case "A":
                self._row = max(0, self._row - count)
            case "C":
                self._column = min(self._columns, self._column + count)
            case "D":
                self._column = max(0, self._column - count)
            case "G":
                self._column = count - 1
            case "K" if params == "2":
                line.clear()
            case "K" if params in ("", "0"):
                del line[self._column :]
            case "J":
                del line[self._column :]
                del self._lines[self._row + 1 :]
            case _:
                pass


def _painted(line: list[tuple[str, str]]) -> str:
    text, last = "", ""
    for char, codes in line:
        if codes != last:
            text += f"\x1b[0m\x1b[{codes}m" if codes else "\x1b[0m"
            last = codes
        text += char
    return f"{text}\x1b[0m" if last else text.rstrip()
