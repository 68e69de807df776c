"""What a history is made of: messages, their parts, where they came from, and records.

Length: every kind of part in one place, with the few questions that are asked of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from msgspec import structs

from windlass.errors import InvalidInput
from windlass.guards import check_id, check_text
from windlass.kernel import canonical
from windlass.kernel.value import (
    CLEAN_TEXT,
    EMPTY_DICT,
    FrozenDict,
    Json,
    JsonValue,
    Value,
    check_instance,
    repair_text,
    set_field,
    use_default,
)

P = TypeVar("P")
Role: TypeAlias = Literal["system", "user", "assistant", "event"]
Prune: TypeAlias = Literal["intact", "cleared", "summarized"]
ToolStatus: TypeAlias = Literal["ok", "error", "denied", "timeout", "cancelled", "unknown"]


BYTES = "application/octet-stream"
OK: ToolStatus = "ok"
INTACT: Prune = "intact"
COMMENTARY = "commentary"


class Citation(Value, kw_only=True):
    """Where some words of an answer come from.

    Attributes:
        url: The address of the page; empty for a source that has none.
        title: What the page or the document is called.
        quote: The words of the source that are referred to.
        start: Where the words begin that rest on it, as a position in the text of their part; None if not told.
        end: Where they end.
    """

    url: str = ""
    title: str = ""
    quote: str = ""
    start: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        """Repair foreign text: a provider wrote it."""
        repair_text(self, "url", "title", "quote")

    def changed(self, change: Callable[[str], str]) -> Citation:
        """Return it with other words, as a redactor makes them; it refers to the same place.

        Args:
            change: What makes the new words of the old ones.
        """
        words = {name: change(getattr(self, name)) for name in ("url", "title", "quote")}
        return structs.replace(self, **words)


class Text(JsonValue, kw_only=True):
    """Words.

    Attributes:
        text: The words themselves; never empty in a stored message.
        phase: `commentary` for words on the way to the answer, which are not part of it; None or another word of
            the provider's for the answer.
        citations: Where the words come from, if the model searched for them.
        replay: The provider's own blob, sent back to the same route as it came.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("replay",)

    text: str
    phase: str | None = None
    citations: tuple[Citation, ...] = ()
    replay: Json = None

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere; freeze the blob."""
        text = self.text
        # Almost all text is plain ASCII; checking that here saves a call.
        if type(text) is not str or not text.isascii() or "\x00" in text:
            check_text(text, field="Text.text")
        if self.replay is not None:
            super().__post_init__()


class Reasoning(JsonValue, kw_only=True):
    """What the model thought. `replay` is the provider's own blob, opaque to windlass.

    It is shown to a model again only with its blob: a provider refuses thoughts it did not sign.

    Attributes:
        text: The thoughts in words; may be empty if the provider hides them.
        replay: The provider's own blob, sent back to the same route as it came.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("replay",)

    text: str = ""
    replay: Json = None

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere; freeze the blob."""
        check_text(self.text, field="Reasoning.text")
        super().__post_init__()


class ToolCall(JsonValue, kw_only=True):
    """The model asks for a tool. `raw` is the provider's text, kept also when it does not parse.

    Arguments with text that cannot be stored everywhere are kept as `raw` alone: then the call is not well formed, and
    the driver tells the model so.

    Attributes:
        call_id: What its result is matched by; unique in the reply.
        name: Which tool the model asks for.
        args: The arguments as JSON, before they were checked.
        raw: The provider's text of the arguments, also when it does not parse.
        replay: The provider's own blob, sent back to the same route as it came.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("args", "replay")

    call_id: str
    name: str
    args: dict[str, Any] = EMPTY_DICT
    raw: str = ""
    replay: Json = None

    def __post_init__(self) -> None:
        """Freeze the arguments; refuse any that are not an object, and unclean names."""
        if type(self.args) is not FrozenDict:
            try:
                self._freeze_field("args")
            except InvalidInput as refused:
                if refused.wanted != CLEAN_TEXT:
                    raise
                self._keep_as_raw(refused)
            if type(self.args) is not FrozenDict:
                check_object(self.args, field="ToolCall.args")
        if self.replay is not None:
            self._freeze_field("replay")
        if type(self.call_id) is not str:
            check_instance(self.call_id, str, field="ToolCall.call_id")
        name, raw = self.name, self.raw
        # Most names are identifiers, which are clean, and `raw` is mostly empty: that saves two calls.
        if type(name) is not str or not name.isidentifier():
            check_text(name, field="ToolCall.name")
        if raw or type(raw) is not str:
            check_text(raw, field="ToolCall.raw")

    def _keep_as_raw(self, refused: InvalidInput) -> None:
        """Keep arguments as JSON text, which has an escape for every character."""
        try:
            text = canonical.escaped(self.args)
        except (TypeError, ValueError, RecursionError):
            raise refused from None
        set_field(self, "raw", self.raw or text)
        set_field(self, "args", EMPTY_DICT)


class ServerToolCall(JsonValue, kw_only=True):
    """A tool that the provider ran by itself while the model answered: a search, a cell of code.

    It is shown to a model again only with its blob, on the route that made it.

    Attributes:
        name: Which tool it was, such as `web_search`.
        text: What it was asked for, in words: the query of a search.
        replay: The provider's own blob: what was asked, and what came back.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("replay",)

    name: str
    text: str = ""
    replay: Json = None

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere; freeze the blob."""
        check_text(self.name, field="ServerToolCall.name")
        check_text(self.text, field="ServerToolCall.text")
        super().__post_init__()


class Attachment(Value, kw_only=True):
    """A file or an image by its reference; the bytes are in the blob store."""

    ref: str
    media_type: str = BYTES
    name: str | None = None
    n_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere; take the default for what it is."""
        check_text(self.ref, field="Attachment.ref")
        check_text(self.media_type, field="Attachment.media_type")
        check_text(self.name or "", field="Attachment.name")
        use_default(self, "media_type", BYTES)


ResultPart: TypeAlias = Text | Attachment


class ToolResult(Value, kw_only=True):
    """What a tool answered, as the model sees it. Plain text may be given for `content`.

    Attributes:
        call_id: Which call it answers, by that call's id.
        name: Which tool was called.
        content: What the model reads: text and attachments.
        status: Whether it went well: `ok`, `error`, `denied`, `timeout`, `cancelled` or `unknown`.
    """

    call_id: str
    name: str
    content: tuple[ResultPart, ...] = ()
    status: ToolStatus = OK

    def __post_init__(self) -> None:
        """Take plain text for content."""
        content: object = self.content
        if type(content) is not tuple:
            set_field(self, "content", as_parts(content))
        if self.status is not OK:
            use_default(self, "status", OK)
        name = self.name
        # Most names are identifiers, which are clean; checking that here saves a call.
        if type(name) is not str or not name.isidentifier():
            check_text(name, field="ToolResult.name")


class Code(Value, kw_only=True):
    """A cell the model wrote."""

    language: str
    source: str

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere."""
        check_text(self.source, field="Code.source")


class CodeOutput(Value, kw_only=True):
    """What a cell printed, and the error it ended with."""

    text: str = ""
    error: str | None = None

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere."""
        check_text(self.text, field="CodeOutput.text")
        check_text(self.error or "", field="CodeOutput.error")


class ErrorText(Value, kw_only=True):
    """An error that is part of the conversation."""

    text: str

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere."""
        check_text(self.text, field="ErrorText.text")


Part: TypeAlias = (
    Text
    | Reasoning
    | ToolCall
    | ToolResult
    | ServerToolCall
    | Attachment
    | Code
    | CodeOutput
    | ErrorText
)


class PluginOrigin(Value, kw_only=True):
    """A plugin put it there. Transient messages are seen by the model and never stored."""

    plugin: str
    transient: bool = False

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere."""
        check_text(self.plugin, field="PluginOrigin.plugin")


class ProcessOrigin(Value, kw_only=True):
    """An event of a background process put it there."""

    process_id: str
    event_type: str
    sequence: int
    wake_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere."""
        check_text(self.process_id, field="ProcessOrigin.process_id")
        check_text(self.event_type, field="ProcessOrigin.event_type")
        check_text(self.wake_id or "", field="ProcessOrigin.wake_id")


class InputOrigin(Value, kw_only=True):
    """A caller's input put it there, or the `agent` that handed the session over with this task."""

    turn_id: str
    input_id: str | None = None
    agent: str | None = None

    def __post_init__(self) -> None:
        """Refuse text that cannot be stored everywhere."""
        check_text(self.turn_id, field="InputOrigin.turn_id")
        if self.input_id is not None:
            check_text(self.input_id, field="InputOrigin.input_id")
        if self.agent is not None:
            check_text(self.agent, field="InputOrigin.agent")


Origin: TypeAlias = PluginOrigin | ProcessOrigin | InputOrigin


class Message(Value, kw_only=True):
    """One entry of a history. Its id is unique in the session.

    Attributes:
        id: Unique in the session, and the same in every process.
        role: Who said it: `system`, `user`, `assistant`, or `event` for what nobody said.
        parts: What was said: text, thoughts, tool calls, results, attachments.
        origin: Where it came from, if not from the user or the model: a plugin, a summary.
        incomplete: Whether the reply was cut off in the middle.
        prune: What of it the model is no longer shown.
    """

    id: str
    role: Role
    parts: tuple[Part, ...]
    origin: Origin | None = None
    incomplete: bool = False
    prune: Prune = INTACT

    def __post_init__(self) -> None:
        """Take any iterable of parts."""
        if type(self.parts) is not tuple:
            set_field(self, "parts", tuple(self.parts))
        if self.prune is not INTACT:
            use_default(self, "prune", INTACT)


class ConversationRecord(Value, kw_only=True):
    """A message, as a record of the turn."""

    message: Message


class DriverRecord(JsonValue, kw_only=True):
    """Something a driver wants to remember at this position of the history."""

    json_fields: ClassVar[tuple[str, ...]] = ("data",)

    data: Json = None


Record: TypeAlias = ConversationRecord | DriverRecord


class TurnCause(Value, kw_only=True):
    """Why a turn runs, or goes on, when no person asked: a wake, a trigger, a process event."""

    id: str
    event_type: str
    origin: Origin
    text: str

    def __post_init__(self) -> None:
        """Refuse what could not become a message."""
        check_id(self.id, field="TurnCause.id")
        check_text(self.event_type, field="TurnCause.event_type")
        check_text(self.text, field="TurnCause.text")


def as_parts(content: object) -> tuple[ResultPart, ...]:
    """Return result content as parts; plain text becomes one text part."""
    if isinstance(content, str):
        return (Text(text=content),)
    if isinstance(content, (list, tuple)):
        return tuple(content)
    raise InvalidInput.at("content", type(content).__name__, "text or parts")


def is_blank(part: object) -> bool:
    """Whether a part says nothing: no provider takes empty text."""
    return type(part) is Text and (not part.text or part.text.isspace())


def answer_in(parts: Iterable[object]) -> str:
    """Return the answer in a message's parts. Commentary is none, unless there are no other words."""
    texts = [part for part in parts if type(part) is Text]
    said = [part.text for part in texts if part.phase != COMMENTARY]
    return "".join(said) if said else "\n\n".join([part.text for part in texts])


def commentary_in(parts: Iterable[object]) -> str:
    """Return what was said on the way to the answer; empty where there is no other answer."""
    texts = [part for part in parts if type(part) is Text]
    aside = [part.text for part in texts if part.phase == COMMENTARY]
    return "" if len(aside) == len(texts) else "\n\n".join(aside)


def citations_in(parts: Iterable[object]) -> tuple[Citation, ...]:
    """Return the citations of a message's words, each page once, in the order in which they are referred to."""
    found: dict[tuple[str, str], Citation] = {}
    for part in parts:
        if type(part) is Text:
            for source in part.citations:
                found.setdefault(
                    (source.url, source.title), Citation(url=source.url, title=source.title)
                )
    return tuple(found.values())


def words_before_calls(parts: Sequence[P]) -> list[P]:
    """Return what an assistant said with all its words before its first call.

    A provider wants a call to be followed by its result, so no words may stand between.
    """
    first = next((at for at, part in enumerate(parts) if type(part) is ToolCall), len(parts))
    late = [part for part in parts[first:] if type(part) is Text]
    if not late:
        return list(parts)
    return [*parts[:first], *late, *(part for part in parts[first:] if type(part) is not Text)]


def check_object(value: object, *, field: str) -> None:
    """Refuse JSON that is not an object."""
    if not isinstance(value, dict):
        raise InvalidInput.at(field, type(value).__name__, "an object")
