"""Results that are too long even as the last thing a turn did, shown by their beginnings and ends."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.kernel.history_view import MessageReplaced, attachment_name
from windlass.kernel.messages import Message, ResultPart, Text, ToolResult
from windlass.kernel.tokens import FRAME_TOKENS, estimate_tokens, tokens_of_part
from windlass.plugins.windowing import head_of, shares, tail_of

_NOTE = "\n({left:,} of {size:,} characters left out{where})\n"
# Of what has room, so much is the beginning.
_HEAD = 2 / 3


def shortened_results(message: Message, tokens: int, reader: str) -> MessageReplaced:
    """Return a message with its results within so many tokens.

    `reader` is the tool with which a model reads on, or empty.
    """
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    sizes = [tokens_of_part(part) for part in results]
    given = shares(sizes, tokens - FRAME_TOKENS - sum(map(tokens_of_part, others)))
    parts = [
        part if share >= size else _shortened(part, share, reader)
        for part, size, share in zip(results, sizes, given, strict=True)
    ]
    return MessageReplaced(id=message.id, parts=(*parts, *others))


def _shortened(result: ToolResult, tokens: int, reader: str) -> ToolResult:
    where = f'; {reader}(call_id="{result.call_id}") shows them' if reader else ""
    room = tokens - FRAME_TOKENS - estimate_tokens(result.name)
    text = "\n".join(_words(result.content))
    size = estimate_tokens(text)
    n_bytes = len(text.encode())
    shown = _cut(text, n_bytes, where)
    while n_bytes > 0 and estimate_tokens(shown) > room:
        n_bytes = min(n_bytes * max(room, 0) // size, n_bytes * 7 // 8)
        shown = _cut(text, n_bytes, where)
        size = max(estimate_tokens(shown), 1)
    return ToolResult(
        call_id=result.call_id,
        name=result.name,
        content=(Text(text=shown.strip()),),
        status=result.status,
    )


def _words(content: Sequence[ResultPart]) -> list[str]:
    return [part.text if isinstance(part, Text) else attachment_name(part) for part in content]


def _cut(text: str, n_bytes: int, where: str) -> str:
    head = head_of(text, int(n_bytes * _HEAD))
    tail = tail_of(text, n_bytes - len(head.encode()))
    left = len(text) - len(head) - len(tail)
    if left <= 0:
        return text
    return head + _NOTE.format(left=left, size=len(text), where=where) + tail
