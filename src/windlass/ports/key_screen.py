"""What a model says, without secrets: some providers echo the key that they were sent, and a model what it has read.

Law 1. A key passes in no event, whole or in pieces, and in no field of the reply. A mark with its name
    stands in its place.
Law 2. Only an end that may begin a key is held back, until the next piece tells.
Law 3. A blob is the provider's own and cannot be changed: one with a key in it is dropped.
"""

from __future__ import annotations

from msgspec.structs import replace

from windlass.guards.secret import Redactor
from windlass.journal.redaction import clean_json
from windlass.kernel import Reasoning, Text, ToolCall, canonical
from windlass.kernel.model_call import ModelReply, ReplyPart
from windlass.ports.model import EmitModelEvent, ModelEvent, ReasoningChunk, TextChunk


def _show_nobody(_event: ModelEvent) -> None:
    """Screen a reply that was shown already."""


class KeyScreen:
    """Screens one reply before anything else sees it. `redactor` knows what must not be in it."""

    def __init__(self, redactor: Redactor, emit: EmitModelEvent = _show_nobody) -> None:
        self._redactor = redactor
        self._emit = emit
        self._kind: type[TextChunk | ReasoningChunk] = TextChunk
        self._held = ""

    def emit(self, event: ModelEvent) -> None:
        """Show an event, as far as it is surely clean."""
        if not isinstance(event, self._kind):
            self.flush()
        if not isinstance(event, (TextChunk, ReasoningChunk)):
            self._emit(event)
            return
        self._kind = type(event)
        text = self._redactor.clean(self._held + event.text)
        length = self._redactor.clean_length(text)
        self._held = text[length:]
        if length:
            self._emit(self._kind(text=text[:length]))

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
            self._emit(self._kind(text=held))

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
            return Text(text=clean(part.text))
        replay = None if self._redactor.is_in(canonical.encode(part.replay)) else part.replay
        if isinstance(part, Reasoning):
            text = clean(part.text)
            return Reasoning(text=text, replay=replay) if text or replay is not None else None
        return self._call(replace(part, replay=replay))

    def _call(self, call: ToolCall) -> ToolCall:
        clean = self._redactor.clean
        args = clean_json(call.args, self._redactor)
        # Arguments may be spelled in ways that hide the key in their text; then it is written anew.
        raw = clean(call.raw) if args == call.args else canonical.encode(args).decode()
        return replace(call, call_id=clean(call.call_id), name=clean(call.name), args=args, raw=raw)
