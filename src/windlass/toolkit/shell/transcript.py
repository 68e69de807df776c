"""What a command printed, as a model reads it: its beginning and its end, without what a terminal would do.

Law 1. It takes bounded memory, however much is printed.
Law 2. A registered secret is taken out before anything is cut: half a secret is still a secret.
Law 3. What cannot be seen is not shown: escape sequences are dropped, a progress bar shows its last state, and other
    hidden characters are replaced by U+FFFD.
"""

from __future__ import annotations

import re
from typing import Final

from windlass.guards.secret import REGISTERED
from windlass.guards.text import is_hidden

SHOWN_BYTES: Final = 32 * 1024
_HALF: Final = SHOWN_BYTES // 2
# What is kept of the beginning and of the end, as it was printed: what is tidied may be much shorter.
_KEPT: Final = 64 * 1024
# What a cut may go through: a character, or an escape sequence as programs write them.
_EDGE: Final = 64
_NEWEST_CHARS: Final = 2_000

# Colors and cursor moves; titles and links; the rest of what a terminal obeys.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]"
)
_OVERSTRUCK: Final = re.compile(r"[^\n\x08]\x08")
# It begins only where the returns begin, and gives none back: in a long row of them each is looked at once.
_ENDS_OF_LINES: Final = re.compile(r"(?<!\r)\r++\n")
_REPLACED: Final = re.compile("\ufffd{2,}")
_DROPPED: Final = str.maketrans({"\ufe0f": None, "\u200d": None, "\u00a0": " "})


class Transcript:
    """Takes bytes as they come."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._n_told = 0

    def add(self, data: bytes) -> None:
        """Take what was printed next."""
        self.n_bytes += len(data)
        room = _KEPT - len(self._head)
        self._head += data[: max(room, 0)]
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * _KEPT:
            del self._tail[:-_KEPT]

    @property
    def has_news(self) -> bool:
        """Whether something was printed since `newest` was asked."""
        return self.n_bytes > self._n_told

    @property
    def _has_gap(self) -> bool:
        return self.n_bytes > len(self._head) + len(self._tail)

    def newest(self) -> str:
        """Return the last whole lines, for someone who looks on."""
        self._n_told = self.n_bytes
        kept = bytes((self._head + self._tail)[-_KEPT:])
        text = tidy(kept)[_edge() if self.n_bytes > len(kept) else 0 :]
        if REGISTERED.secrets:
            # What is behind the last line may be the first half of a secret, and so may be the last lines.
            text = text[: text.rfind("\n") + 1]
            text = text[: REGISTERED.clean_length(text)]
        return text[-_NEWEST_CHARS:]

    def text(self) -> str:
        """Return all of it, or its beginning and its end with a line between that says how much is missing."""
        if not self._has_gap:
            shown = tidy(bytes(self._head + self._tail)).encode()
            if len(shown) <= SHOWN_BYTES:
                return shown.decode()
            return _cut(shown, shown, len(shown))
        head, tail = tidy(bytes(self._head)), tidy(bytes(self._tail))
        n_in_gap = self.n_bytes - len(self._head) - len(self._tail)
        total = len(head.encode()) + n_in_gap + len(tail.encode())
        return _cut(head[: -_edge()].encode(), tail[_edge() :].encode(), total)


def _edge() -> int:
    """Return how many characters at a gap may be half of what the cut went through: of a secret, too, and of what is in it."""
    return _EDGE + REGISTERED.longest


def _cut(head: bytes, tail: bytes, total: int) -> str:
    """Return the start of the one and the end of the other, and between them how many bytes of all are missing."""
    # A cut that goes through a character leaves that out.
    start = head[:_HALF].decode(errors="ignore")
    end = tail[-_HALF:].decode(errors="ignore")
    missing = total - len(start.encode()) - len(end.encode())
    note = f"[{missing:,} of {total:,} bytes are not shown here]"
    return f"{start.removesuffix(chr(10))}\n{note}\n{end}"


def tidy(data: bytes) -> str:
    """Return printed bytes as a text that can be read: what a terminal would show in the end."""
    text = _ENDS_OF_LINES.sub("\n", REGISTERED.clean(data.decode(errors="replace")))
    text = _OVERSTRUCK.sub("", _ESCAPES.sub("", text))
    if "\r" in text:
        text = "\n".join(map(_last_state, text.split("\n")))
    # A secret may hold what is dropped, and what is dropped may stand in a secret.
    text = REGISTERED.clean(REGISTERED.clean(text).translate(_DROPPED))
    if text.isascii() and text.isprintable():
        return text
    shown = "".join("\ufffd" if one not in "\n\t" and is_hidden(one) else one for one in text)
    return _REPLACED.sub("\ufffd", shown)


def _last_state(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part), "")
