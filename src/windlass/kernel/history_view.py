"""What of a history a model is shown. The history itself never changes.

Law 1. Whatever a view says, calls and results pair: a result whose call is not shown is not shown, and a
    call that is shown has its result shown, cleared at worst.
Law 2. What is shown of a history is a function of that history and the view. It is worked out message by
    message, so showing a longer version costs what is new.
Law 3. What is told in words holds no call, no result and no thought: nothing of it has to pair or to be offered.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from windlass.errors import InvalidInput
from windlass.guards.text import check_text
from windlass.kernel import canonical
from windlass.kernel.chain import Chain
from windlass.kernel.messages import (
    INTACT,
    Attachment,
    Message,
    Part,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    is_blank,
)
from windlass.kernel.value import Value, check_instance, set_field

CLEARED = "(cleared to save space)"

# The one in force, and the one before it: a turn that is looked at again may still have that.
_MAX_VIEWS = 2

_PARTS = frozenset(get_args(Part))
_CALLED = frozenset({ToolCall, ServerToolCall, Reasoning})
# Parts that a replacement cannot bring in: they belong to the model and to tools.
_OWN = frozenset({ToolCall, ToolResult, ServerToolCall, Reasoning})
_EDGES = ("drop_before", "clear_before", "words_before")
_TOLD = "[note from the system]\nAnother agent called {name}({args}). "


class MessageReplaced(Value, kw_only=True):
    """A message that is shown with other parts.

    Its calls stay, with the thoughts that a provider signed for them, and so do its results: a result's content is
    taken from the result of that call among the parts, if there is one. Calls, thoughts and other results among the
    parts are left out.
    """

    id: str
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        """Refuse what could not be shown."""
        if type(self.parts) is not tuple:
            set_field(self, "parts", tuple(self.parts))
        check_text(self.id, field="MessageReplaced.id")
        for at, part in enumerate(self.parts):
            if type(part) not in _PARTS:
                found = type(part).__name__
                field = f"MessageReplaced.parts[{at}]"
                raise InvalidInput(
                    f"{field}: found {found}, wanted a part", field=field, found=found
                )


class HistoryView(Value, kw_only=True):
    """A view, by message id. An id that the history does not have says nothing.

    Nothing before `drop_before` is shown, but for a summary that the history begins with and the messages that `keep`
    names. Before `clear_before` the outputs of tools are shown as `placeholder`, in which `{name}` and `{call_id}` stand
    for the call, and attachments as their names. Before `words_before` calls and their results are told in words: they
    are another agent's, whose tools this one need not have. `drop` and `replace` are for single messages. Each edge is
    one id, so that what a turn records of its view does not grow with the history.
    """

    drop_before: str | None = None
    clear_before: str | None = None
    drop: tuple[str, ...] = ()
    replace: tuple[MessageReplaced, ...] = ()
    placeholder: str = ""
    words_before: str | None = None
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what could not be looked up."""
        for name in ("drop", "replace", "keep"):
            if isinstance(getattr(self, name), list):
                set_field(self, name, tuple(getattr(self, name)))
            check_instance(getattr(self, name), tuple, field=f"HistoryView.{name}")
        for name in ("drop", "keep"):
            for at, message_id in enumerate(getattr(self, name)):
                check_text(message_id, field=f"HistoryView.{name}[{at}]")
        for at, one in enumerate(self.replace):
            check_instance(one, MessageReplaced, field=f"HistoryView.replace[{at}]")
        for name in _EDGES:
            check_text(getattr(self, name) or "", field=f"HistoryView.{name}")
        check_text(self.placeholder, field="HistoryView.placeholder")


WHOLE = HistoryView()


def shown_messages(history: Chain[Message], view: HistoryView) -> Chain[Message]:
    """Return the messages of a history that a view shows, as it shows them.

    Versions of one history share what is shown of them, so that readers of the result may keep with it what they
    made of it.
    """
    if view is WHOLE:
        return history
    return history.memo(_Views, _Views).shown(view).of(history)


def is_summary(message: Message) -> bool:
    """Whether a message stands for others that came before: no edge hides it."""
    is_said = message.role == "user" and type(message.parts[0]) is not ToolResult
    return is_said and message.prune == "summarized"


def attachment_name(part: Attachment) -> str:
    """Return what is said of an attachment that is not shown."""
    return f"[attachment {part.name or part.ref}]"


class _Views:
    """What the last views show of one history.

    They are kept apart from what others keep with the history, which is not to go because a view has changed.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, _Shown] = {}

    def shown(self, view: HistoryView) -> _Shown:
        key = canonical.digest(view)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= _MAX_VIEWS:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[key] = _Shown(view)
        return kept


class _Shown:
    """What is shown of one history, as far as a request needed it."""

    __slots__ = ("_edges", "_grow", "_lengths", "_lens", "_looked", "_places", "_shown", "_view")

    def __init__(self, view: HistoryView) -> None:
        self._view = view
        # Where the edges stand, as far as the history was read.
        self._places: dict[str | None, int] = {}
        self._looked = 0
        self._start((0, 0, 0))

    def _start(self, edges: tuple[int, ...]) -> None:
        self._edges = edges
        self._lens = _Lens(self._view)
        self._shown: Chain[Message] = Chain()
        self._grow = self._shown.grower()
        # How much of `_shown` each version of the history has, from its first message on that may be shown.
        self._lengths = [0]

    def of(self, history: Chain[Message]) -> Chain[Message]:
        view = self._view
        self._look(history)
        edges = tuple([self._place(getattr(view, name), history) for name in _EDGES])
        if edges != self._edges:
            # Only when an edge comes into the history, or for a version from before it did.
            self._start(edges)
            if edges[0] and not view.keep and is_summary(history[0]):
                self._keep_first(history[0], cleared=edges[1] > 0)
        drop_at, clear_at, words_at = edges
        begins_at = 0 if view.keep else drop_at
        lengths = self._lengths
        at = begins_at + len(lengths) - 1
        for message in history.since(at):
            is_kept = at >= drop_at or message.id in view.keep or (not at and is_summary(message))
            shown = self._lens.look(
                message, cleared=at < clear_at, worded=at < words_at, dropped=not is_kept
            )
            if shown is not None:
                self._grow(shown)
            lengths.append(lengths[-1] + (shown is not None))
            at += 1
        return self._shown.prefix(lengths[history.length - begins_at])

    def _keep_first(self, summary: Message, *, cleared: bool) -> None:
        """Show what stands for older messages, though it is before the edge."""
        shown = _Lens(self._view).look(summary, cleared=cleared)
        if shown is not None:
            self._grow(shown)
            self._lengths = [1]

    def _look(self, history: Chain[Message]) -> None:
        """Find the edges in what is new, from its end: what is shown begins at an edge, and is the lesser part."""
        wanted = {getattr(self._view, name) for name in _EDGES} - {None, *self._places}
        new = history.since(self._looked)
        at = self._looked + len(new)
        self._looked = at
        while wanted and new:
            at -= 1
            message_id = new.pop().id
            if message_id in wanted:
                wanted.remove(message_id)
                self._places[message_id] = at

    def _place(self, message_id: str | None, history: Chain[Message]) -> int:
        at = self._places.get(message_id, 0)
        return at if at < history.length else 0


class _Lens:
    """A view at work: it is given a history's messages in their order."""

    __slots__ = ("_calls", "_drop", "_follows", "_placeholder", "_replace")

    def __init__(self, view: HistoryView) -> None:
        self._drop = frozenset(view.drop)
        self._replace = {one.id: one.parts for one in view.replace}
        self._placeholder = view.placeholder if view.placeholder.strip() else CLEARED
        # Whether the message before is shown: it has the calls that results answer.
        self._follows = False
        # The calls of the message before, where they are told in words.
        self._calls: dict[str, ToolCall] = {}

    def look(
        self, message: Message, *, cleared: bool, worded: bool = False, dropped: bool = False
    ) -> Message | None:
        """Return the message as it is shown, or None if it is not."""
        if worded:
            return self._told(message, cleared=cleared, dropped=dropped)
        parts = self._parts(message, cleared=cleared, dropped=dropped)
        if not self._follows and parts and type(parts[0]) is ToolResult:
            parts = tuple([part for part in parts if type(part) is not ToolResult])
        self._follows = bool(parts)
        return _with_parts(message, parts)

    def _told(self, message: Message, *, cleared: bool, dropped: bool) -> Message | None:
        """Return a message without calls and results, or None if it is not shown."""
        parts: tuple[Part, ...] = ()
        if not dropped and message.id not in self._drop:
            cleared = cleared or message.prune == "cleared"
            parts = self._in_words(self._parts(message, cleared=cleared))
        self._calls = {part.call_id: part for part in message.parts if isinstance(part, ToolCall)}
        self._follows = False
        return _with_parts(message, _unless_equal(parts, message.parts))

    def _in_words(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return parts whose results tell what was called, in place of the calls themselves.

        The model's own words never hold a call: a model that reads one there writes the next one there, too.
        """
        told: list[Part] = []
        for part in parts:
            if isinstance(part, ToolResult):
                call = self._calls.get(part.call_id)
                args = "" if call is None else canonical.encode(call.args).decode()
                said = _TOLD.format(name=part.name, args=args)
                ended = "It returned:" if part.status == "ok" else f"It ended with {part.status}:"
                told += (Text(text=said + ended), *part.content)
            elif isinstance(part, Text):
                # What the provider ran for these words is told no more, so its blob refers to nothing.
                told.append(
                    part if part.replay is None else msgspec.structs.replace(part, replay=None)
                )
            elif type(part) not in _CALLED:
                told.append(part)
        return tuple(told)

    def _parts(self, message: Message, *, cleared: bool, dropped: bool = False) -> tuple[Part, ...]:
        parts = message.parts
        if dropped or message.id in self._drop:
            return tuple([self._clear(part) for part in parts if type(part) is ToolResult])
        instead = self._replace.get(message.id)
        if cleared or (instead is not None and message.prune == "cleared"):
            parts = _unless_equal(tuple([self._clear(part) for part in parts]), parts)
        return parts if instead is None else self._merge(parts, instead)

    def _merge(self, parts: tuple[Part, ...], instead: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return a message's parts with others in their place, its calls and results as they were."""
        others = {part.call_id: part for part in instead if isinstance(part, ToolResult)}
        results: list[Part] = []
        for part in parts:
            if isinstance(part, ToolResult):
                content = others.get(part.call_id, part).content
                said = tuple([each for each in content if not is_blank(each)])
                changed = msgspec.structs.replace(part, content=said)
                results.append(changed if said else self._clear(part))
        words = [part for part in instead if type(part) not in _OWN]
        if any(type(part) is ToolCall for part in parts):
            # A provider may refuse a call without the thought that it signed for it.
            words += [part for part in parts if type(part) in _CALLED]
        return (*results, *words)

    def _clear(self, part: Part) -> Part:
        if isinstance(part, ToolResult):
            said = self._placeholder.replace("{name}", part.name)
            said = said.replace("{call_id}", part.call_id)
            return msgspec.structs.replace(part, content=(Text(text=said),))
        return Text(text=attachment_name(part)) if isinstance(part, Attachment) else part


def _with_parts(message: Message, parts: tuple[Part, ...]) -> Message | None:
    if parts is message.parts:
        return message
    return msgspec.structs.replace(message, parts=parts, prune=INTACT) if parts else None


def _unless_equal(parts: tuple[Part, ...], given: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return what was given if nothing of it became another, so that a message stays the very message."""
    is_same = len(parts) == len(given) and all(map(_is, parts, given))
    return given if is_same else parts


def _is(left: object, right: object) -> bool:
    return left is right
