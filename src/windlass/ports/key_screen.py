"""What a model says, without secrets: some providers echo the key that they were sent, and a model what it has read.

Law 1. A key passes in no event, whole or in pieces, and in no field of the reply. A mark with its name
    stands in its place.
Law 2. Only an end that may begin a key is held back, until the next piece tells.
Law 3. A blob is the provider's own and cannot be changed: one with a key in it is dropped.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from windlass.guards.secret import Redactor
from windlass.journal.redaction import clean_json
from windlass.kernel import Reasoning, Text, ToolCall, canonical
from windlass.kernel.messages import ServerToolCall
from windlass.kernel.model_call import ModelReply, ReplyPart
from windlass.ports.model import (
    AttemptFailed,
    CallChunk,
    EmitModelEvent,
    ModelEvent,
    ReasoningChunk,
    TextChunk,
)

_Chunk: TypeAlias = TextChunk | ReasoningChunk | CallChunk


def _strand(chunk: _Chunk) -> tuple[type, str | None]:
    """Return what pieces have to share to go on one another: their kind, their phase, or the call they are of."""
    if isinstance(chunk, CallChunk):
        return CallChunk, chunk.call_id
    return type(chunk), chunk.phase if isinstance(chunk, TextChunk) else None


def _show_nobody(_event: ModelEvent) -> None:
    """Screen a reply that was shown already."""


class KeyScreen:
    """Screens one reply before anything else sees it. `redactor` knows what must not be in it."""

    def __init__(self, redactor: Redactor, emit: EmitModelEvent = _show_nobody) -> None:
        self._redactor = redactor
        self._emit = emit
        # What the next piece may go on, and a clean chunk of its kind, whose text does not count.
        self._strand: tuple[type, str | None] = (TextChunk, None)
        self._like: _Chunk = TextChunk(text="")
        self._held = ""

    def emit(self, event: ModelEvent) -> None:
        """Show an event, as far as it is surely clean."""
        if isinstance(event, AttemptFailed):
            self.flush()
            self._emit(event)
            return
        strand = _strand(event)
        if strand != self._strand:
            self.flush()
            self._strand, self._like = strand, self._clean_like(event)
        text = self._redactor.clean(self._held + event.text)
        length = self._redactor.clean_length(text)
        self._held = text[length:]
        if length:
            self._emit(replace(self._like, text=text[:length]))

    def _clean_like(self, event: _Chunk) -> _Chunk:
        clean = self._redactor.clean
        if isinstance(event, CallChunk):
            return CallChunk(call_id=clean(event.call_id), name=clean(event.name), text="")
        if isinstance(event, TextChunk) and event.phase:
            return TextChunk(text="", phase=clean(event.phase))
        return event

    def reply(self, reply: ModelReply) -> ModelReply:
        """Show what was held back; return the whole reply, clean."""
        self.flush()
        return self.cleaned(reply)

    def cleaned(self, reply: ModelReply) -> ModelReply:
        """Return a reply, clean. Shows nothing, so a thread may ask for it."""
        known = self._redactor
        if not (known.secrets and known.is_in(canonical.encode(reply))):
            return reply
        return ModelReply(
            parts=self._parts(reply.parts),
            usage=reply.usage,
            terminal=self._redactor.clean(reply.terminal),
            diagnostic=clean_json(reply.diagnostic, self._redactor),
            provider_usage=clean_json(reply.provider_usage, self._redactor),
        )

    def flush(self) -> None:
        """Show what was held back: there is no more."""
        held, self._held = self._held, ""
        if held:
            self._emit(replace(self._like, text=held))

    def _parts(self, found: tuple[ReplyPart, ...]) -> tuple[ReplyPart, ...]:
        parts = [part for each in found if (part := self._part(each)) is not None]
        words = "".join([part.text for part in parts if isinstance(part, Text)])
        if self._redactor.is_in(words.encode()):  # cut over two parts, which the reply's text joins
            others = [part for part in parts if not isinstance(part, Text)]
            parts = [Text(text=self._redactor.clean(words)), *others]
        return tuple(parts)

    def _part(self, part: ReplyPart) -> ReplyPart | None:
        clean = self._redactor.clean
        if isinstance(part, Text):
            return self._text(part)
        replay = None if self._redactor.is_in(canonical.encode(part.replay)) else part.replay
        if isinstance(part, Reasoning):
            text = clean(part.text)
            return Reasoning(text=text, replay=replay) if text or replay is not None else None
        if isinstance(part, ServerToolCall):
            return ServerToolCall(name=clean(part.name), text=clean(part.text), replay=replay)
        return self._call(replace(part, replay=replay))

    def _text(self, part: Text) -> Text:
        clean = self._redactor.clean
        if not self._redactor.is_in(canonical.encode(part)):
            return part
        citations = tuple([each.changed(clean) for each in part.citations])
        # The blob belongs to the words to the letter.
        return Text(text=clean(part.text), phase=part.phase, citations=citations)

    def _call(self, call: ToolCall) -> ToolCall:
        clean = self._redactor.clean
        args = clean_json(call.args, self._redactor)
        # Arguments may be spelled in ways that hide the key in their text; then it is written anew.
        raw = clean(call.raw) if args == call.args else canonical.encode(args).decode()
        return replace(call, call_id=clean(call.call_id), name=clean(call.name), args=args, raw=raw)
