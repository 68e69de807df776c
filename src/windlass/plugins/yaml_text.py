"""A piece of text as YAML writes it: quotes, escapes, comments, lines that are folded into one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_HEX: Final = {"x": 2, "u": 4, "U": 8}
_ESCAPES: Final = {
    "\\": "\\",
    '"': '"',
    "/": "/",
    " ": " ",
    "\t": "\t",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_COMMENT: Final = re.compile(r"(?:^|[ \t])#")


class Unreadable(Exception):
    """What is not understood, and in which line of the file."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason
        self.line = line


def without_comment(text: str) -> str:
    """Return plain text up to its comment."""
    found = _COMMENT.search(text)
    return text if found is None else text[: found.start()]


def folded(lines: Sequence[str], *, keep_indented: bool = False) -> str:
    """Return lines as one: an end of line is a space, each empty line after it an end of line.

    With `keep_indented`, lines that are indented further keep their line ends.
    """
    made, empty, was_indented = "", 0, False
    for line in lines:
        if not line.strip():
            empty += 1
            continue
        indented = keep_indented and line[0] in " \t"
        if not made:
            joint = ""
        elif indented or was_indented:
            joint = "\n" * (empty + 1)
        else:
            joint = "\n" * empty or " "
        made += joint + line
        empty, was_indented = 0, indented
    return made


def quoted(lines: Sequence[str], number: int) -> str:
    """Return the text in quotes that begins these lines, of which the first is that `number`.

    Raises:
        Unreadable: it has no end, or something stands behind it.
    """
    mark = lines[0][0]
    pieces: list[str] = []
    for at, line in enumerate(lines):
        text = line[1:] if at == 0 else line.strip()
        end = _end_of(text, mark)
        if end is not None:
            if without_comment(text[end + 1 :]).strip():
                raise Unreadable("found something behind the quotes", number + at)
            if any(line.strip() and not line.strip().startswith("#") for line in lines[at + 1 :]):
                raise Unreadable("found a line below the quotes", number + at + 1)
            pieces.append(text[:end])
            break
        pieces.append(text.rstrip())
    else:
        raise Unreadable("found a quote that is not closed", number)
    # Written out piece by piece, so that an escaped end of line is not folded.
    return _single(pieces) if mark == "'" else _double(pieces, number)


def _end_of(text: str, mark: str) -> int | None:
    at = 0
    while at < len(text):
        char = text[at]
        if (char == "\\" and mark == '"') or (mark == "'" and text[at : at + 2] == "''"):
            at += 2
        elif char == mark:
            return at
        else:
            at += 1
    return None


def _single(pieces: Sequence[str]) -> str:
    return folded(pieces).replace("''", "'")


def _double(pieces: Sequence[str], number: int) -> str:
    made: list[str] = []
    empty = 0
    joined = True
    for at, piece in enumerate(pieces):
        if not piece and 0 < at < len(pieces) - 1:
            empty += 1
            continue
        if not joined:
            made.append("\n" * empty or " ")
        text, joined = _unescaped(piece, number + at)
        made.append(text)
        empty = 0
    return "".join(made)


def _unescaped(piece: str, number: int) -> tuple[str, bool]:
    """Return what is meant, and whether the next line follows without a space."""
    made: list[str] = []
    at = 0
    while at < len(piece):
        if piece[at] != "\\":
            made.append(piece[at])
            at += 1
            continue
        if at + 1 == len(piece):
            return "".join(made), True
        code = piece[at + 1]
        if code in _HEX:
            digits = piece[at + 2 : at + 2 + _HEX[code]]
            made.append(_character(digits, _HEX[code], number))
            at += 2 + _HEX[code]
        elif code in _ESCAPES:
            made.append(_ESCAPES[code])
            at += 2
        else:
            raise Unreadable(f"found the escape \\{code}, which YAML does not have", number)
    return "".join(made), False


def _character(digits: str, n_digits: int, number: int) -> str:
    is_hex = len(digits) == n_digits and all(char in "0123456789abcdefABCDEF" for char in digits)
    if not is_hex or int(digits, 16) > 0x10FFFF:
        raise Unreadable("found an escape that is no character", number)
    return chr(int(digits, 16))
