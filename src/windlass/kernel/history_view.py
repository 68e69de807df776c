"""What of a history a model is shown. The history itself never changes.

Law 1. Whatever a view says, calls and results pair: a result whose call is not shown is not shown, and a
    call that is shown has its result shown, cleared at worst.
Law 2. What is shown of a history is a function of that history and the view. It is worked out message by
    message, so showing a longer version costs what is new.
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
_CALLED = frozenset({ToolCall, Reasoning})
# Parts that a replacement cannot bring in: they belong to the model and to tools.
_OWN = frozenset({ToolCall, ToolResult, Reasoning})


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

    Nothing before `drop_before` is shown, but for a summary that the history begins with. Before `clear_before` the
    outputs of tools are shown as `placeholder`, in which `{name}` and `{call_id}` stand for the call, and attachments
    as their names. `drop` and `replace` are for single messages. Both edges are one id each, so that what a turn
    records of its view does not grow with the history.
    """

    drop_before: str | None = None
    clear_before: str | None = None
    drop: tuple[str, ...] = ()
    replace: tuple[MessageReplaced, ...] = ()
    placeholder: str = ""

    def __post_init__(self) -> None:
        """Refuse what could not be looked up."""
        for name in ("drop", "replace"):
            if isinstance(getattr(self, name), list):
                set_field(self, name, tuple(getattr(self, name)))
            check_instance(getattr(self, name), tuple, field=f"HistoryView.{name}")
        for at, message_id in enumerate(self.drop):
            check_text(message_id, field=f"HistoryView.drop[{at}]")
        for at, one in enumerate(self.replace):
            check_instance(one, MessageReplaced, field=f"HistoryView.replace[{at}]")
        check_text(self.drop_before or "", field="HistoryView.drop_before")
        check_text(self.clear_before or "", field="HistoryView.clear_before")
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
        self._start(0, 0)

    def _start(self, drop_at: int, clear_at: int) -> None:
        self._edges = (drop_at, clear_at)
        self._lens = _Lens(self._view)
        self._shown: Chain[Message] = Chain()
        self._grow = self._shown.grower()
        # How much of `_shown` each version of the history has, from the edge on.
        self._lengths = [0]

    def of(self, history: Chain[Message]) -> Chain[Message]:
        self._look(history)
        edges = (
            self._place(self._view.drop_before, history),
            self._place(self._view.clear_before, history),
        )
        if edges != self._edges:
            # Only when an edge comes into the history, or for a version from before it did.
            self._start(*edges)
            if edges[0] and is_summary(history[0]):
                self._keep_first(history[0], cleared=edges[1] > 0)
        drop_at, clear_at = edges
        lengths = self._lengths
        at = drop_at + len(lengths) - 1
        for message in history.since(at):
            shown = self._lens.look(message, cleared=at < clear_at)
            if shown is not None:
                self._grow(shown)
            lengths.append(lengths[-1] + (shown is not None))
            at += 1
        return self._shown.prefix(lengths[history.length - drop_at])

    def _keep_first(self, summary: Message, *, cleared: bool) -> None:
        """Show what stands for older messages, though it is before the edge."""
        shown = _Lens(self._view).look(summary, cleared=cleared)
        if shown is not None:
            self._grow(shown)
            self._lengths = [1]

    def _look(self, history: Chain[Message]) -> None:
        """Find the edges in what is new, from its end: what is shown begins at an edge, and is the lesser part."""
        wanted = {self._view.drop_before, self._view.clear_before} - {None, *self._places}
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

    __slots__ = ("_drop", "_follows", "_placeholder", "_replace")

    def __init__(self, view: HistoryView) -> None:
        self._drop = frozenset(view.drop)
        self._replace = {one.id: one.parts for one in view.replace}
        self._placeholder = view.placeholder if view.placeholder.strip() else CLEARED
        # Whether the message before is shown: it has the calls that results answer.
        self._follows = False

    def look(self, message: Message, *, cleared: bool) -> Message | None:
        """Return the message as it is shown, or None if it is not."""
        parts = self._parts(message, cleared=cleared)
        if not self._follows and parts and type(parts[0]) is ToolResult:
            parts = tuple([part for part in parts if type(part) is not ToolResult])
        self._follows = bool(parts)
        if parts is message.parts:
            return message
        if not parts:
            return None
        return msgspec.structs.replace(message, parts=parts, prune=INTACT)

    def _parts(self, message: Message, *, cleared: bool) -> tuple[Part, ...]:
        parts = message.parts
        if message.id in self._drop:
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


def _unless_equal(parts: tuple[Part, ...], given: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return what was given if nothing of it became another, so that a message stays the very message."""
    return given if all(map(_is, parts, given)) else parts


def _is(left: object, right: object) -> bool:
    return left is right
