"""The chunks of one chat completion, read into a reply.

Law 1. A reply is whole when the server said why it ended; what it says after that, but for usage, is not
    part of it. Which servers have to say `[DONE]`, too, and for which it is enough, is the dialect's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.errors import ProviderError
from windlass.kernel import Json, Reasoning, Text, ToolCall, canonical
from windlass.kernel.model_call import KnownTerminal, ModelReply, ReplyPart
from windlass.models.message_parts import Words, text_at, tool_call
from windlass.models.openai.parts import objects_in, reply_of, texts_in
from windlass.models.openai_chat.dialects import Dialect
from windlass.models.provider_errors import (
    clip,
    cut_off,
    from_error_object,
    malformed,
    wrong_kind,
)
from windlass.models.route import Route, replay_blob
from windlass.models.usage_report import UsageReport
from windlass.ports.model import EmitModelEvent, ReasoningChunk

_TERMINALS: dict[str, KnownTerminal] = {
    "stop": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "output_limit",
    "content_filter": "content_filter",
}
# The server gave up in the middle, and says so in the place of a reason.
_GAVE_UP = frozenset({"abort", "error", "insufficient_system_resource"})


class ChatReader:
    """Reads one completion. `wants_value`: a schema was asked for, so a refusal is not an answer."""

    def __init__(
        self, route: Route, dialect: Dialect, emit: EmitModelEvent, *, wants_value: bool = False
    ) -> None:
        self._route = route
        self._dialect = dialect
        self._wants_value = wants_value
        self._words = Words(emit)
        self._thoughts = Words(emit, ReasoningChunk)
        self._details: list[dict[str, Any]] = []
        self._calls = CallPieces(route.provider, numbered=dialect.calls_numbered)
        self._usage = UsageReport(route)
        self._reason: str | None = None
        self._refused = False
        self._has_chunks = False
        self.is_over = False

    def take(self, event: dict[str, Any] | None) -> None:
        """Read one chunk; None is `[DONE]`.

        Raises:
            ProviderError: the chunk says so, or is not in the protocol.
        """
        if self.is_over:
            return
        if event is None:
            self.is_over = True
            return
        if event.get("error"):
            raise self._fault(event["error"])
        self._has_chunks = True
        self._usage.take(event.get("usage"), served=event.get("model"))
        for choice in objects_in(event, "choices", self._route.provider):
            if not choice.get("index"):
                self._take_choice(choice)

    def reply(self) -> ModelReply:
        """Return the reply.

        Raises:
            Unavailable: the stream broke off before its end.
            Malformed: what it says is not in the protocol.
        """
        dialect = self._dialect
        is_ended = self.is_over or not dialect.done_needed
        if self._reason is None:
            is_ended = self.is_over and dialect.done_is_enough and self._has_chunks
        if not is_ended:
            raise cut_off(self._route.provider)
        reason = "stop" if self._reason is None else self._reason
        terminal = _TERMINALS.get(reason, "unknown")
        diagnostic = f"finish_reason: {clip(reason)}" if terminal == "unknown" else None
        parts = (*self._said(), *self._calls.calls())
        is_refused = self._refused and self._wants_value
        return reply_of(parts, self._usage, terminal, diagnostic, is_refused=is_refused)

    # --- chunks -------------------------------------------------------------------------------------

    def _take_choice(self, choice: dict[str, Any]) -> None:
        if self._reason is not None:
            return
        if choice.get("error"):
            raise self._fault(choice["error"])
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise wrong_kind(self._route.provider, "delta", delta, "an object")
        self._think(delta)
        self._words.add(self._text_in(delta.get("content")))
        refusal = text_at(delta, "refusal")
        self._refused = self._refused or bool(refusal)
        self._words.add(refusal)
        for piece in objects_in(delta, "tool_calls", self._route.provider):
            self._calls.take(piece)
        self._end(choice.get("finish_reason"))

    def _think(self, delta: dict[str, Any]) -> None:
        thoughts = [text_at(delta, field) for field in self._dialect.reasoning_fields]
        self._thoughts.add(next(filter(None, thoughts), ""))
        details = delta.get("reasoning_details")
        if self._dialect.replay_field == "reasoning_details" and isinstance(details, list):
            for detail in details:
                if isinstance(detail, dict):
                    _add_detail(self._details, detail)

    def _text_in(self, content: object) -> str:
        """Return the words of a delta: text, or a list of parts, as some servers write it."""
        if content is None or isinstance(content, str):
            return content or ""
        if not isinstance(content, list):
            raise wrong_kind(self._route.provider, "content", content, "text")
        return "".join(texts_in(content))

    def _end(self, reason: object) -> None:
        if reason is None or reason == "":
            return
        if not isinstance(reason, str):
            raise wrong_kind(self._route.provider, "finish_reason", reason, "text")
        if reason in _GAVE_UP:
            raise self._fault({"type": "server_error", "message": f"finish_reason {reason}"})
        self._reason = reason

    def _fault(self, error: object) -> ProviderError:
        said = error if isinstance(error, dict) else {"message": str(error)}
        code = text_at(said, "code")
        if code == "context_length_exceeded":
            said = {**said, "status": 400}
        elif code.isdecimal() and len(code) == 3:
            said = {**said, "status": int(code)}
        return from_error_object(said, provider=self._route.provider)

    # --- the reply ----------------------------------------------------------------------------------

    def _said(self) -> list[ReplyPart]:
        parts: list[ReplyPart] = []
        thoughts, words = self._thoughts.text, self._words.text
        replay = self._replay(thoughts)
        if thoughts or replay is not None:
            parts.append(Reasoning(text=thoughts, replay=replay))
        if words:
            parts.append(Text(text=words))
        return parts

    def _replay(self, thoughts: str) -> Json:
        field = self._dialect.replay_field
        kept: object = self._details if field == "reasoning_details" else thoughts
        return replay_blob({field: kept}, self._route) if field is not None and kept else None


def _add_detail(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Add a piece of a thought to the thought it belongs to, or begin another."""
    last = details[-1] if details else None
    is_same = last is not None and all(
        last.get(name) == piece.get(name) for name in ("type", "index")
    )
    if last is None or not is_same:
        details.append(dict(piece))
        return
    for name, value in piece.items():
        if name in ("text", "summary", "data") and isinstance(value, str):
            last[name] = (last.get(name) or "") + value
        elif value is not None:
            last[name] = value


# ----------------------------------------------------------------------------- tool calls in pieces


class _Draft(msgspec.Struct):
    """A call as far as it is there."""

    number: int
    call_id: str = ""
    name: str = ""
    written: list[str] = []

    @property
    def is_whole(self) -> bool:
        try:
            return isinstance(canonical.parse("".join(self.written)), dict)
        except ValueError:
            return False


class CallPieces:
    """Puts the tool calls of one reply together. `numbered`: the server numbers them without a gap.

    OpenAI sends pieces of each call under its number. Others send calls whole, give no numbers or the same one to
    all, leave ids out, or write the arguments as an object.
    """

    def __init__(self, provider: str, *, numbered: bool) -> None:
        self._provider = provider
        self._numbered = numbered
        self._drafts: list[_Draft] = []
        self._at: dict[int, _Draft] = {}

    def take(self, delta: dict[str, Any]) -> None:
        """Take one of the `tool_calls` of a chunk.

        Raises:
            Malformed: it is not in the protocol.
        """
        function = delta.get("function")
        if function is None:
            function = {}
        if not isinstance(function, dict):
            raise wrong_kind(self._provider, "function", function, "an object")
        call_id = self._text(delta, "id")
        name = self._text(function, "name")
        draft = self._draft_for(delta.get("index"), call_id, name)
        draft.call_id = draft.call_id or call_id
        if name != draft.name:
            draft.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            draft.written = [canonical.encode(arguments).decode()]
        elif isinstance(arguments, str):
            draft.written.append(arguments)
        elif arguments is not None:
            raise wrong_kind(self._provider, "arguments", arguments, "text")

    def _draft_for(self, index: object, call_id: str, name: str) -> _Draft:
        """Return the call that a piece belongs to, or a new one."""
        known: _Draft | None = None
        if type(index) is int:
            known = self._at.get(index)
        elif call_id:
            known = next((each for each in self._drafts if each.call_id == call_id), None)
        elif not name and self._drafts:
            known = self._drafts[-1]
        if known is not None and not _is_another(known, call_id, name):
            return known
        last = max((each.number for each in self._drafts), default=-1)
        is_free = type(index) is int and known is None
        draft = _Draft(index if is_free else last + 1)  # type: ignore[arg-type] # an int if free
        self._drafts.append(draft)
        if type(index) is int:
            self._at[index] = draft
        return draft

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls in their order.

        Raises:
            Malformed: one has no name, or one is missing.
        """
        drafts = sorted(self._drafts, key=lambda each: each.number)
        if self._numbered and [each.number for each in drafts] != list(range(len(drafts))):
            raise malformed(self._provider, "tool_calls: found a gap in their numbers")
        if any(not each.name for each in drafts):
            raise malformed(self._provider, "tool_calls: found a call without a name")
        return tuple(tool_call(each.call_id, each.name, "".join(each.written)) for each in drafts)

    def _text(self, owner: dict[str, Any], field: str) -> str:
        found = owner.get(field)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise wrong_kind(self._provider, field, found, "text")
        return found


def _is_another(known: _Draft, call_id: str, name: str) -> bool:
    """Whether a piece under a known number begins another call, as servers send that number all alike."""
    if call_id and known.call_id and call_id != known.call_id:
        return True
    return bool(name) and not call_id and known.is_whole
