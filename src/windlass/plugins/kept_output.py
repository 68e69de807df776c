"""Outputs that a session kept, and the tool with which a model pages through them.

Law 1. Only what the session's own messages refer to is read: guessing the digest of other bytes tells nothing, not
    even that they exist.
Law 2. A page is within the limits of what is shown of any result.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from windlass.errors import CallerError, ToolError
from windlass.kernel.messages import Attachment, Message, ResultPart, Text, ToolResult
from windlass.plugins.windowing import Lines, Room, head_of
from windlass.ports.tool import ToolContext
from windlass.tools import FunctionTool, tool
from windlass.tools.results import visible

READER: Final = "read_output"
"""The tool's name, unless the caller wants another."""
# Enough of a digest that no session has two of; short enough for a model to copy.
SHOWN_REF_CHARS: Final = 12
_LEAST_REF_CHARS: Final = 8
_MAX_NAME_CHARS: Final = 60


class Found(NamedTuple):
    """A kept output: what to call it, how to ask for it, and where it is, or what it says."""

    name: str
    how: str
    ref: str | None = None
    text: str = ""


def kept_name(tool_name: str, call_id: str) -> str:
    """Return the name under which the output of a call is kept."""
    return f"{tool_name}-{call_id}.txt"


def asking(tool_name: str, how: str, start: int) -> str:
    """Return how a model asks for more."""
    return f"{tool_name}({how}, start={start})"


def by_ref(ref: str) -> str:
    """Return how a model names an attachment."""
    return f'ref="{ref[:SHOWN_REF_CHARS]}"'


def reading_tool(name: str, room: Room, width: int, page_lines: int) -> FunctionTool[Any, ..., Any]:
    """Return the tool that pages through what this session kept."""

    async def read_output(  # noqa: D417 - what a model is told of; it gives no context
        ctx: ToolContext[Any],
        ref: str = "",
        call_id: str = "",
        start: int = 1,
        lines: int = page_lines,
    ) -> str:
        """Read on in an output that was cut or cleared: some lines of it, by their numbers.

        Args:
            ref: Which output, by the reference in the note about the cut.
            call_id: Or by the id of the call that it came from.
            start: The first line, from 1.
            lines: How many lines; fewer come if they are long.
        """
        found = _find(ctx.messages, ref, call_id)
        text = found.text if found.ref is None else await _read(ctx, found.ref)
        # A whole output may have 64 MiB: other turns go on meanwhile.
        return await asyncio.to_thread(
            _page, found, text, (start, lines), tool_name=name, room=room, width=width
        )

    return tool(read_output, name=name, effect="pure")


async def _read(ctx: ToolContext[Any], ref: str) -> str:
    try:
        data = await ctx.read(ref)
    except CallerError:
        raise ToolError("That output is no longer kept.") from None
    return await asyncio.to_thread(_decoded, data)


def _decoded(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\x00"
    if "\x00" in text:
        raise ToolError("That is not text; it cannot be read by lines.")
    return text


def _find(messages: Sequence[Message], ref: str, call_id: str) -> Found:
    if bool(ref) == bool(call_id):
        raise ToolError("Give either ref or call_id, to say which output to read.")
    return _by_ref(messages, ref) if ref else _by_call(messages, call_id)


def _by_ref(messages: Sequence[Message], ref: str) -> Found:
    if len(ref) < _LEAST_REF_CHARS:
        raise ToolError(f"ref: wanted at least {_LEAST_REF_CHARS} characters of the reference.")
    found = {one.ref: one for one in _attachments(messages) if one.ref.startswith(ref)}
    if not found:
        raise ToolError("No output of this session has that ref.")
    if len(found) > 1:
        several = f"{len(found)} outputs of this session have a ref like that"
        raise ToolError(f"{several}; give more of it.")
    (one,) = found.values()
    return Found(one.name or "attachment", by_ref(one.ref), ref=one.ref)


def _by_call(messages: Sequence[Message], call_id: str) -> Found:
    for result in _results(messages):
        if result.call_id != call_id:
            continue
        mine = kept_name(result.name, call_id)
        for part in result.content:
            if isinstance(part, Attachment) and (part.name == mine or is_whole(part)):
                return Found(mine, by_ref(part.ref), ref=part.ref)
        text = "\n".join(part.text for part in result.content if isinstance(part, Text))
        return Found(mine, f'call_id="{call_id}"', text=text)
    raise ToolError("No call of this session that has ended has that call_id.")


def _results(messages: Sequence[Message]) -> Iterator[ToolResult]:
    """Yield all results, the last first: some providers count their call ids anew for each reply."""
    for message in reversed(messages):
        for part in reversed(message.parts):
            if isinstance(part, ToolResult):
                yield part


def _attachments(messages: Sequence[Message]) -> Iterator[Attachment]:
    for message in messages:
        for part in message.parts:
            inner = part.content if isinstance(part, ToolResult) else (part,)
            yield from (one for one in inner if isinstance(one, Attachment))


def _page(
    found: Found, text: str, wanted: tuple[int, int], *, tool_name: str, room: Room, width: int
) -> str:
    lines = Lines(visible(text), width)
    start, count = max(1, wanted[0]), max(1, wanted[1])
    name, total = visible(found.name)[:_MAX_NAME_CHARS].replace("\n", " "), len(lines)
    if start > total:
        return f"[{name} has {total:,} lines; there is no line {start:,}]"

    def head(last: int) -> str:
        return f"[{name}: lines {start:,} to {last:,} of {total:,}]\n"

    rest = "\n[" + asking(tool_name, found.how, total) + " reads on]"
    said = len((head(total) + rest).encode()) + 1
    left = Room(max(0, room.n_bytes - said), min(count, max(1, room.n_lines - 2)))
    last = start - 1 + max(1, lines.fitting(left, start - 1))
    page = head(last) + lines.between(start - 1, last).removesuffix("\n")
    return page if last == total else f"{page}\n[{asking(tool_name, found.how, last + 1)} reads on]"


# ---------------------------------------------------------------------------------- cut by the turn


FULL_OUTPUT: Final = "full-output"
"""The name of the attachment in which a turn keeps the whole of a text that it cut."""
_NOTE: Final = re.compile(
    r"\n\(cut here: [0-9,]+ of [0-9,]+ bytes are not shown(?:, and [0-9,]+ are not kept)?\)\Z"
)


class CutByTurn(NamedTuple):
    """A view that the turn cut: what stands before the whole text, and after it.

    A turn shows no more of a result than its tool's `output_limit`, or 1 MiB. It then ends the text with a note, and
    the whole text follows as an attachment; anything after that was added later.
    """

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
    if not isinstance(part, Attachment):
        return False
    return part.name == FULL_OUTPUT and part.media_type == "text/plain"


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
