"""What a turn itself cut off a result, and the attachment in which it kept the whole.

A turn shows no more of a result than its tool's `output_limit`, or 1 MiB. It then ends the text with a note, and the
whole text follows as an attachment; what comes after that was added later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from windlass.kernel.messages import Attachment, ResultPart, Text
from windlass.plugins.windowing import head_of
from windlass.tools.results import visible

NAME: Final = "full-output"
_NOTE: Final = re.compile(r"\n\(cut here: [0-9,]+ of [0-9,]+ bytes are not shown\)\Z")


class CutByTurn(NamedTuple):
    """A view that the turn cut: what stands before the whole text, and after it."""

    before: tuple[ResultPart, ...]
    whole: Attachment
    after: tuple[ResultPart, ...]

    @property
    def n_shown(self) -> int:
        """How many bytes of text it shows."""
        texts = "".join(part.text for part in self.before if isinstance(part, Text))
        return len(_NOTE.sub("", texts).encode())

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """What else came before the whole text."""
        return tuple(part for part in self.before if isinstance(part, Attachment))


def is_whole(part: object) -> bool:
    """Whether a part is the attachment in which a turn kept a whole text."""
    return isinstance(part, Attachment) and part.name == NAME and part.media_type == "text/plain"


def cut_by_turn(parts: Sequence[ResultPart]) -> CutByTurn | None:
    """Return what the turn cut, if it did."""
    at = next((at for at, part in enumerate(parts) if is_whole(part)), None)
    if at is None:
        return None
    whole = parts[at]
    texts = [part.text for part in parts[:at] if isinstance(part, Text)]
    if not isinstance(whole, Attachment) or not texts or not _NOTE.search(texts[-1]):
        return None
    return CutByTurn(tuple(parts[:at]), whole, tuple(parts[at + 1 :]))


def cut_again(text: str, n_bytes: int, n_more: int = 0) -> str:
    """Return what a turn would show of a text, of which `n_more` bytes are missing already."""
    shown = visible(text)
    size = len(shown.encode()) + n_more
    if size <= n_bytes:
        return shown
    head = head_of(shown, n_bytes)
    return f"{head}\n(cut here: {size - len(head.encode()):,} of {size:,} bytes are not shown)"
