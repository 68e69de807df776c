"""How a provider counts: not as anybody estimates, but not far from it either."""

from __future__ import annotations

from zlib import crc32

from windlass.kernel import Attachment, ModelRequest, Text, ToolCall, ToolResult
from windlass.kernel.tokens import FRAME_TOKENS, tokens_of_part, tokens_of_tools

_STEPS = 1_000


class Tokenizer:
    """Counts each part by a factor of its own between `low` and `high`, which follows from what it says.

    With `by_kind` words count as few as they may, and all else as many: what comes next is not like what was.
    """

    def __init__(self, low: float, high: float, *, by_kind: bool = False) -> None:
        self._low = low
        self._high = high
        self._by_kind = by_kind

    def count(self, request: ModelRequest) -> int:
        """Return how many tokens a request has."""
        total = tokens_of_tools(request.tools) * self._factor("tools")
        for message in request.messages:
            total += FRAME_TOKENS
            for part in message.parts:
                total += self._of_part(part)
        return round(total)

    def _of_part(self, part: object) -> float:
        if isinstance(part, ToolResult):
            return FRAME_TOKENS + sum([self._of_part(each) for each in part.content])
        if isinstance(part, Text):
            return tokens_of_part(part) * self._factor(part.text)
        if isinstance(part, Attachment):
            return tokens_of_part(part) * self._factor(part.ref)
        assert isinstance(part, ToolCall), "no other kind is sent here"
        return tokens_of_part(part) * self._factor(part.call_id)

    def _factor(self, text: str) -> float:
        if self._by_kind:
            begins = text[:40].replace(" ", "")
            return self._low if begins.isascii() and begins.isalpha() else self._high
        place = crc32(f"{len(text)} {text[:40]}".encode()) % _STEPS
        return self._low + (self._high - self._low) * place / _STEPS
