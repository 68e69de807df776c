"""A block of a reply: how it grows, the part that it becomes, and how it is sent back to the API."""

from __future__ import annotations

from typing import Any

from windlass.errors import CallerError
from windlass.kernel import Reasoning, Text, ToolCall, canonical
from windlass.kernel.messages import Citation, ServerToolCall
from windlass.kernel.model_call import ReplyPart
from windlass.models.anthropic.server_tools import is_call, is_result, runs_at_the_provider
from windlass.models.message_parts import Words, Written, paired, text_at, tool_call, whole_text
from windlass.models.provider_errors import clip, malformed
from windlass.models.route import Route, replay_blob
from windlass.ports.model import EmitModelEvent, ReasoningChunk, TextChunk

_PROVIDER = "anthropic"
_CHUNKS: dict[object, type[TextChunk | ReasoningChunk]] = {
    "text": TextChunk,
    "thinking": ReasoningChunk,
}
# The one field of a server tool's input that says best what it was asked for.
_ASKED = ("query", "url", "command", "code", "question")


class Block:
    """A block as far as it has come. `hidden` is the name of a tool whose arguments are not shown."""

    def __init__(
        self, start: dict[str, Any], emit: EmitModelEvent, *, hidden: str | None = None
    ) -> None:
        self.kind = start.get("type")
        self.start = start
        self.is_whole = False
        self.citations: list[Any] = []
        self._signature = [text_at(start, "signature")]
        self._pieces: list[str] = []
        self._words: Words | None = None
        self._written: Written | None = None
        self._id, self._name = text_at(start, "id"), text_at(start, "name")
        if self.kind in _CHUNKS:
            self._words = Words(emit, _CHUNKS[self.kind])
            self.add(text_at(start, str(self.kind)))
        elif self.kind == "tool_use" and self._name != hidden:
            self._written = Written(emit)
        given = start.get("citations")
        for citation in given if isinstance(given, list) else ():
            self.cite(citation)

    @property
    def runs_at_the_provider(self) -> bool:
        """Whether it is a tool that the provider runs, or what came of one."""
        return runs_at_the_provider(self.start)

    # --- growing ----------------------------------------------------------------------------------

    def add(self, said: str) -> None:
        """Take more of it, and show it: words, thoughts, arguments of a call."""
        self._pieces.append(said)
        if self._words is not None:
            self._words.add(said)
        elif self._written is not None and said:
            self._written.add(said, call_id=self._id, name=self._name)

    def sign(self, said: str) -> None:
        """Take more of a thought's signature."""
        self._signature.append(said)

    def cite(self, citation: object) -> None:
        """Take where the words come from."""
        if isinstance(citation, dict):
            self.citations.append(citation)

    # --- the part ---------------------------------------------------------------------------------

    def part(self, route: Route) -> ReplyPart | None:
        """Return what becomes of the block, if it is not of the provider's own tools; None if it says nothing.

        Raises:
            Malformed: it is a call without an id or a name.
        """
        match self.kind:
            case "text":
                return self._text(route)
            case "thinking":
                blob = self.sent_back()
                replay = None if blob is None else replay_blob(blob, route)
                return Reasoning(text=self._said, replay=replay)
            case "redacted_thinking":
                return Reasoning(replay=replay_blob(self.sent_back(), route))
            case "tool_use":
                return self._call()
            case _:
                return None

    @property
    def _said(self) -> str:
        return "" if self._words is None else self._words.text

    def _text(self, route: Route) -> Text | None:
        said = self._said
        if not said:
            return None
        if not self.citations:
            return Text(text=said)
        cited = tuple([_citation(each, len(said)) for each in self.citations])
        replay = replay_blob({"citations": self.citations}, route)
        return Text(text=said, citations=cited, replay=replay)

    def _call(self) -> ToolCall:
        """Return a call with its arguments, if they can be read; the text is kept either way."""
        if not self._id or not self._name:
            raise malformed(_PROVIDER, "a call without an id or a name")
        written = "".join(self._pieces)
        given = self.start.get("input")
        if written.strip() or not isinstance(given, dict):
            return tool_call(self._id, self._name, written)
        try:
            return ToolCall(call_id=whole_text(self._id), name=whole_text(self._name), args=given)
        except CallerError:
            return tool_call(self._id, self._name, written)

    def server_part(self) -> ServerToolCall:
        """Return what the provider ran, without its blob."""
        name = self._name or str(self.kind).removesuffix("_tool_result")
        return ServerToolCall(name=clip(name), text=_in_words(self._input()))

    # --- back to the API --------------------------------------------------------------------------

    def sent_back(self) -> dict[str, Any] | None:
        """Return the block as the API wants it back: to the letter. None if it cannot be sent."""
        match self.kind:
            case "text":
                said = self._said
                cited = {"citations": self.citations} if self.citations else {}
                return None if said.isspace() or not said else {**_TEXT, "text": said, **cited}
            case "thinking":
                signature = "".join(self._signature)
                thought = paired("".join(self._pieces))
                blob = {"type": "thinking", "thinking": thought, "signature": signature}
                return blob if signature else None
            case "redacted_thinking":
                return {"type": "redacted_thinking", "data": text_at(self.start, "data")}
            case "tool_use":
                call = self._call()
                said_call = {"id": call.call_id, "name": call.name, "input": call.args}
                return {"type": "tool_use", **said_call}
            case _:
                return self._server_block()

    def _server_block(self) -> dict[str, Any] | None:
        if not self.runs_at_the_provider:
            return None
        if not is_call(self.start):
            owner = "tool_use_id" if is_result(self.start) else "type"
            return self.start if text_at(self.start, owner) else None
        given = self._input()
        return None if given is None or not self._id else {**self.start, "input": given}

    def _input(self) -> dict[str, Any] | None:
        """Return what a tool of the provider was given; None if that was cut off."""
        written = "".join(self._pieces)
        found = self.start.get("input")
        if written.strip():
            try:
                found = canonical.parse(paired(written))
            except ValueError:
                return None
        return found if isinstance(found, dict) else None


_TEXT = {"type": "text"}


def _citation(found: dict[str, Any], end: int) -> Citation:
    """Return a source in windlass's words. Its block holds just the words that rest on it."""
    title = text_at(found, "title") or text_at(found, "document_title")
    url = text_at(found, "url") or text_at(found, "source")
    quote = text_at(found, "cited_text")
    return Citation(url=url, title=title, quote=quote, start=0, end=end)


def _in_words(given: dict[str, Any] | None) -> str:
    """Return in short words what a tool was asked for."""
    if not given:
        return ""
    for field in _ASKED:
        if text_at(given, field):
            return clip(given[field])
    return clip(canonical.encode(given).decode())
