"""Parts of messages as every adapter reads and sends them: text in pieces, tool calls, attachments, schemas as words."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.errors import CallerError, InvalidInput
from windlass.guards.text import clean_text
from windlass.kernel import (
    Attachment,
    Json,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    canonical,
    freeze,
)
from windlass.ports.model import READ_BLOB, CallChunk, EmitModelEvent, ReasoningChunk, TextChunk

_SEARCH = "web_search"


class Words:
    """Text as it grows, shown as chunks of a kind. Half of a character waits for its other half."""

    def __init__(
        self,
        emit: EmitModelEvent,
        kind: type[TextChunk | ReasoningChunk] = TextChunk,
        *,
        phase: str | None = None,
    ) -> None:
        self._emit = emit
        self._kind = kind
        self.phase = phase
        self._shown: list[str] = []
        self._half = ""

    def add(self, piece: str) -> None:
        """Take a piece, and show what can be shown now."""
        shown, self._half = _without_half(self._half + piece)
        self._shown.append(shown)
        if shown and self._kind is TextChunk:
            self._emit(TextChunk(text=shown, phase=self.phase))
        elif shown:
            self._emit(self._kind(text=shown))

    @property
    def text(self) -> str:
        """All of it; a half that stayed alone is U+FFFD."""
        return "".join(self._shown) + ("\ufffd" if self._half else "")


class Written:
    """The arguments of a call as they grow, shown as chunks. Half of a character waits for its other half."""

    def __init__(self, emit: EmitModelEvent) -> None:
        self._emit = emit
        self._pieces: list[str] = []
        self._half = ""

    def add(self, piece: str, *, call_id: str, name: str) -> None:
        """Take a piece, and show what can be shown now."""
        self._pieces.append(piece)
        shown, self._half = _without_half(self._half + piece)
        if shown:
            about = CallChunk(call_id=whole_text(call_id), name=whole_text(name), text=shown)
            self._emit(about)

    @property
    def text(self) -> str:
        """All of it, to the letter."""
        return "".join(self._pieces)


def _without_half(text: str) -> tuple[str, str]:
    """Return what can be shown of text that grows, and the half of a character at its end that cannot yet."""
    is_half = bool(text) and "\ud800" <= text[-1] <= "\udbff"
    return (whole_text(text[:-1]), text[-1]) if is_half else (whole_text(text), "")


def whole_text(text: str) -> str:
    """Return text with the halves of characters put together, and without what cannot be stored."""
    return clean_text(paired(text))


def paired(text: str) -> str:
    """Return text to the letter, but with the halves of characters put together; one that is alone is U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def words_said(parts: Iterable[object]) -> str:
    """Return a message's texts as one, for who takes only one: those of another phase stand apart."""
    pieces: list[str] = []
    last: Text | None = None
    for part in parts:
        if isinstance(part, Text):
            is_apart = last is not None and last.phase != part.phase
            pieces += ["\n\n", part.text] if is_apart else [part.text]
            last = part
    return "".join(pieces)


def ran_elsewhere(parts: Iterable[object]) -> list[str]:
    """Return what operators are told of tools that the provider ran: each once, but for searches, which show pages."""
    ran = [part for part in parts if isinstance(part, ServerToolCall)]
    kept = dict.fromkeys([part.name for part in ran if part.replay is not None])
    lost = dict.fromkeys([part.name for part in ran if part.replay is None])
    return [
        *[
            f"{name} ran at the provider; its parts are kept and returned"
            for name in kept
            if name != _SEARCH
        ],
        *[f"{name} ran at the provider" for name in lost if name != _SEARCH and name not in kept],
    ]


def text_at(owner: object, field: str) -> str:
    """Return the text in a field of what should be an object; empty where there is none."""
    found = owner.get(field) if isinstance(owner, dict) else None
    return found if isinstance(found, str) else ""


def tool_call(call_id: str, name: str, written: str) -> ToolCall:
    """Return the call a model wrote; arguments that do not parse are kept as they were written."""
    raw = whole_text(written)
    try:
        args = freeze(canonical.parse(raw)) if raw.strip() else {}
    except (ValueError, CallerError):
        args = {}
    return ToolCall(
        call_id=whole_text(call_id),
        name=whole_text(name),
        args=args if isinstance(args, dict) else {},
        raw=raw,
    )


def arguments_of(call: ToolCall) -> str:
    """Return a call's arguments as they are sent back: as written, if that is what was understood."""
    try:
        if call.raw and canonical.parse(call.raw) == call.args:
            return call.raw
    except ValueError:
        pass
    return canonical.encode(call.args).decode()


async def bytes_of(attachment: Attachment) -> bytes:
    """Return an attachment's bytes, from the store of the turn that is running.

    Raises:
        InvalidInput: no turn is running, so there is no store to read it from.
        StoreError: the store could not.
    """
    read = READ_BLOB.get()
    if read is None:
        wanted = "a turn whose store holds its bytes"
        raise InvalidInput.at("Attachment.ref", "an attachment", wanted)
    return await read(attachment.ref)


async def attached_words(attachment: Attachment) -> str:
    """Return an attachment as words: a text with its name above it, of anything else the name. Raises as `bytes_of`."""
    if not attachment.media_type.startswith("text/"):
        return stand_in(attachment)
    words = clean_text((await bytes_of(attachment)).decode(errors="replace"))
    return f"{stand_in(attachment)}\n{words}"


def result_words(result: ToolResult) -> str:
    """Return a result as words alone: an attachment is named."""
    return "\n".join(
        [part.text if isinstance(part, Text) else stand_in(part) for part in result.content]
    )


def stand_in(attachment: Attachment) -> str:
    """Return the words that stand for an attachment which is not sent."""
    return f"[attachment {attachment.name or attachment.media_type}]"


def schema_words(schema: Json) -> str:
    """Return what a model is told that cannot be held to a schema."""
    return (
        "Answer with one JSON value and nothing else, no prose and no code fence. "
        f"It has to fit this JSON schema:\n{canonical.encode(schema).decode()}"
    )
