"""From a history to the next request.

Law 1. A projection is a pure function of its view. What is cached is cached with the history itself.
Law 2. Each message is rendered on its own, once: the cost of a request is what is new since the last.
Law 3. The request is valid for every provider: the system prompt first and nowhere else, a user
    message next and last, nothing empty. (Calls and results pair already: see history.py, and
    history_view.py for what is shown of them.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, Protocol

import msgspec

from windlass.kernel import canonical
from windlass.kernel.chain import Chain
from windlass.kernel.history_view import (
    CLEARED,
    WHOLE,
    HistoryView,
    attachment_name,
    shown_messages,
)
from windlass.kernel.messages import (
    Attachment,
    Code,
    CodeOutput,
    ErrorText,
    Message,
    Origin,
    Part,
    PluginOrigin,
    ProcessOrigin,
    Reasoning,
    Record,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    TurnCause,
    is_blank,
    words_before_calls,
)
from windlass.kernel.model_call import AUTO, Generation, ModelMessage, ModelRequest, RequestPart
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import Value

# Said in the user's place where a provider demands a user message and the history has none.
OPENING = "(the conversation goes on from here)"
CONTINUE = "(continue)"

RENDERING = 1
"""Counts the ways in which messages were ever rendered: a digest made in one says nothing in another."""

_NOTHING: frozenset[str] = frozenset()
_SENT_AS_IS = frozenset({Text, ToolCall})
_SPEAKERS = frozenset({"user", "assistant"})
_NOTES = {"system": "[note from the system]\n", "event": "[event]\n"}


class RequestSettings(Protocol):
    """What of a turn's configuration goes into a request (`TurnConfig` has it)."""

    @property
    def model(self) -> str: ...
    @property
    def model_variant(self) -> str | None: ...
    @property
    def session_id(self) -> str: ...
    @property
    def system_prompt(self) -> str: ...
    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...
    @property
    def generation(self) -> Generation: ...
    @property
    def view(self) -> HistoryView: ...


class ProjectorView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a projector sees. `config` holds the prompt, tools and view that are in force now."""

    config: RequestSettings
    messages: Chain[Message]
    records: Sequence[Record] = ()
    causes: tuple[TurnCause, ...] = ()
    iteration: int = 0
    use_tools: bool = True


class Projector(Protocol):
    """Makes a request out of a history."""

    def project(self, view: ProjectorView) -> ModelRequest: ...


class SentPrefix(Value, kw_only=True):
    """What requests begin with from some message of a history on: the prompt and `count` - 1 messages, by their digest.

    `first` is the digest of the first of them; it shows whether the prompt is the same.
    """

    first: str
    count: int
    digest: str
    rendering: int = RENDERING


class ChatProjector:
    """System prompt, then the history, then what woke the turn."""

    def project(self, view: ProjectorView) -> ModelRequest:
        """Return the next request."""
        config, causes, use_tools = view.config, view.causes, view.use_tools
        prompt, shown = config.system_prompt, view.messages
        hidden = frozenset([cause.id for cause in causes]) if causes else _NOTHING
        if config.view is not WHOLE:
            shown = shown_messages(shown, config.view)
        messages = shown.memo((ChatProjector, prompt, hidden), _Rendering, prompt, hidden).of(shown)
        if causes:
            messages = messages.with_tail(_user(render_causes(causes)))
        elif not messages.length or messages.last().role != "user":
            messages = messages.with_tail(_user(CONTINUE))
        return ModelRequest(
            model=config.model,
            messages=messages,
            tools=config.tools if use_tools else (),
            tool_choice=AUTO if use_tools else "none",
            variant=config.model_variant,
            generation=config.generation,
            session_id=config.session_id,
        )


def sent_prefix(history: Chain[Message], system_prompt: str) -> SentPrefix | None:
    """Return what requests begin with after all of `history`; None if that is nothing."""
    sent = _sent(history, system_prompt)
    if not sent.length:
        return None
    return SentPrefix(
        first=canonical.digest(sent[0]), count=sent.length, digest=sent.chain_digest()
    )


def take_prefix(history: Chain[Message], system_prompt: str, prefix: SentPrefix) -> None:
    """Spare the next request the digests of `history`, if it is sent as it was when `prefix` was made."""
    sent = _sent(history, system_prompt)
    if (sent.length, RENDERING) != (prefix.count, prefix.rendering):
        return
    if canonical.digest(sent[0]) == prefix.first:
        sent.take_digest(prefix.digest)


def _sent(history: Chain[Message], system_prompt: str) -> Chain[ModelMessage]:
    key = (ChatProjector, system_prompt, _NOTHING)
    return history.memo(key, _Rendering, system_prompt, _NOTHING).of(history)


class _Rendering:
    """A history as it is sent, rendered as far as a request needed it."""

    __slots__ = ("_is_open", "_lengths", "_render", "_send", "_sent")

    def __init__(self, system_prompt: str, hidden: frozenset[str]) -> None:
        prompt = ModelMessage(role="system", parts=(Text(text=system_prompt),))
        self._render = partial(_render_unless, hidden) if hidden else render_message
        self._sent: Chain[ModelMessage] = Chain([prompt] if system_prompt.strip() else [])
        self._send = self._sent.grower()
        # How much of `_sent` a history of each length has.
        self._lengths = [len(self._sent)]
        # Whether something follows the prompt.
        self._is_open = False

    def of(self, history: Chain[Message]) -> Chain[ModelMessage]:
        lengths = self._lengths
        if len(lengths) <= history.length:
            sent = [*map(self._render, history.since(len(lengths) - 1))]
            if None in sent or not self._is_open:
                self._add_one_by_one(sent)
            else:
                send, length = self._send, lengths[-1]
                for message in sent:
                    send(message)  # type: ignore[arg-type] # none of them is None
                lengths += range(length + 1, length + len(sent) + 1)
        return self._sent.prefix(lengths[history.length])

    def _add_one_by_one(self, rendered: list[ModelMessage | None]) -> None:
        length = self._lengths[-1]
        for sent in rendered:
            if sent is not None:
                if not self._is_open and sent.role == "assistant":
                    self._send(_user(OPENING))
                    length += 1
                self._is_open = True
                self._send(sent)
                length += 1
            self._lengths.append(length)


def render_message(message: Message) -> ModelMessage | None:
    """Return a message as it is sent, or None if nothing of it is."""
    role = message.role
    if role in _SPEAKERS and message.prune == "intact":
        has_calls = False
        for part in message.parts:
            kind = type(part)
            if kind is Text:
                text = part.text  # type: ignore[union-attr] # by its kind
                if has_calls or not text or text.isspace():
                    break
            elif kind is ToolCall:
                has_calls = True
            elif kind is not ToolResult:
                break
        else:
            # Words, then calls or results: nothing of it has to change.
            return ModelMessage(role=role, parts=message.parts)  # type: ignore[arg-type] # a speaker
    return _render_changed(message)


def _render_unless(hidden: frozenset[str], message: Message) -> ModelMessage | None:
    if message.role == "event" and message.id in hidden:
        return None
    return render_message(message)


def _render_changed(message: Message) -> ModelMessage | None:
    role: Literal["user", "assistant"] = "assistant" if message.role == "assistant" else "user"
    parts: list[RequestPart] = []
    for part in message.parts:
        sent = part if type(part) in _SENT_AS_IS else _render_part(part, message)
        if sent is not None and not is_blank(sent):
            parts.append(sent)  # type: ignore[arg-type]
    if role == "assistant":
        parts = _as_taken_back(parts)
    if not parts:
        return None
    note = _NOTES.get(message.role)
    if note is not None:
        first = parts[0]
        said = first.text if type(first) is Text else ""
        parts[: 1 if said else 0] = [Text(text=note + said)]
    return ModelMessage(role=role, parts=tuple(parts))


def _as_taken_back(parts: list[RequestPart]) -> list[RequestPart]:
    """Return an assistant's parts as providers take them back: no words behind a call, no thought last."""
    parts = words_before_calls(parts)
    while parts and type(parts[-1]) is Reasoning:
        parts.pop()
    return parts


def _render_part(part: Part, message: Message) -> RequestPart | None:
    if isinstance(part, ToolResult):
        if message.prune != "cleared":
            return part
        return msgspec.structs.replace(part, content=(Text(text=CLEARED),))
    if isinstance(part, (Reasoning, ServerToolCall)):
        # A provider takes back only thoughts that it signed, and tools that it ran itself.
        return part if part.replay is not None else None
    if isinstance(part, Attachment):
        if message.role == "assistant" or message.prune == "cleared":
            return Text(text=attachment_name(part))
        return part
    return Text(text=_as_words(part))  # type: ignore[arg-type] # the other kinds are sent as is


def _as_words(part: Code | CodeOutput | ErrorText) -> str:
    if isinstance(part, Code):
        return f"```{part.language}\n{part.source}\n```"
    if isinstance(part, CodeOutput):
        error = f"\n[error] {part.error}" if part.error else ""
        return f"[output]\n{part.text}{error}"
    return f"[error] {part.text}"


def render_causes(causes: Sequence[TurnCause]) -> str:
    """Return one text that names each cause's type, id, origin and words."""
    blocks = [
        f"{at}. {cause.event_type} ({cause.id}), from {_render_origin(cause.origin)}:\n"
        f"{cause.text.strip()}"
        for at, cause in enumerate(causes, start=1)
    ]
    return "\n\n".join(["[what woke this turn]", *blocks])


def _render_origin(origin: Origin) -> str:
    if isinstance(origin, PluginOrigin):
        return f"plugin {origin.plugin}"
    if isinstance(origin, ProcessOrigin):
        wake = f" (wake {origin.wake_id})" if origin.wake_id else ""
        return f"process {origin.process_id}, {origin.event_type} number {origin.sequence}{wake}"
    return f"input of turn {origin.turn_id}"


def _user(text: str) -> ModelMessage:
    return ModelMessage(role="user", parts=(Text(text=text),))
