"""The output budget: how much of a long result the model is shown, while all of it is kept.

The plugin has no state: the history holds what was shown, with the whole text beside it as an attachment.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, get_args

import msgspec

from windlass.errors import CallerError
from windlass.guards.text import from_utf8, utf8_length
from windlass.kernel import CompletedToolCall, Json, canonical
from windlass.kernel.messages import Attachment, ResultPart, Text
from windlass.plugins import kept_output, options, windowing
from windlass.plugins.windowing import Room, Window, shares
from windlass.ports import Plugin, PluginTurn, Tool, ToolProvider
from windlass.tools.results import visible

_KIB: Final = 1024
_WINDOWS: Final = get_args(Window)
# With less room than this, a part of a result says little more than that it was cut.
_LEAST: Final = Room(512, 8)


def _readable(data: bytes) -> tuple[str, bool]:
    """Return kept bytes as text without control characters, and whether there were none."""
    raw = from_utf8(data)
    text = visible(raw)
    return text, text == raw


class _Source(NamedTuple):
    """A text of a result: as it is shown, as it is kept, and the JSON that it says, if it is JSON."""

    text: str
    kept: str
    value: Json = None


class OutputBudget(Plugin):
    """Shows the model a window of a result that is too long, keeps all of it, and offers a tool that reads on.

    Text is cut between lines, at its end, its beginning or in the middle, by tool as `windows` says; JSON stays JSON.
    Attachments stay as they are. What is within `max_bytes` and `max_lines` is not touched.

    Args:
        max_bytes: How much of a result the model is shown; 16 KiB if nothing is said.
        max_lines: How many lines of it; 400 if nothing is said.
        windows: Which part is shown, by the name of a tool: `head`, `tail` or `both` ends.
        default: Which part is shown of all other tools' results.
        tool_name: What the tool is called with which the model reads on.
        page_lines: How many lines that tool shows at a time.
    """

    name = "output_budget"
    version = "1"

    def __init__(
        self,
        *,
        max_bytes: int = 16 * _KIB,
        max_lines: int = 400,
        windows: Mapping[str, Window] | None = None,
        default: Window = "head",
        tool_name: str = kept_output.READER,
        page_lines: int = 200,
    ) -> None:
        self._room = Room(
            options.whole(max_bytes, field="OutputBudget.max_bytes", low=_KIB),
            options.whole(max_lines, field="OutputBudget.max_lines", low=10),
        )
        by_tool = options.by_tool(windows, field="OutputBudget.windows")
        self._windows: dict[str, Window] = {
            tool: options.choice(kind, _WINDOWS, field=f"OutputBudget.windows[{tool!r}]")
            for tool, kind in by_tool.items()
        }
        self._default: Window = options.choice(default, _WINDOWS, field="OutputBudget.default")
        self._page_lines = options.whole(page_lines, field="OutputBudget.page_lines", low=1)
        self._tool_name = options.tool_name(tool_name, field="OutputBudget.tool_name")
        # Longer lines count as several, so that at least a few of them are on each page.
        self._width = min(_KIB, max_bytes // 16)

    def tools(self) -> Sequence[Tool | ToolProvider]:
        """Return the tool that reads on."""
        return (
            kept_output.reading_tool(self._tool_name, self._room, self._width, self._page_lines),
        )

    async def present_result(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> Sequence[ResultPart] | None:
        """Return a window of the result, if it is too long."""
        parts = call.as_result(call.name).content
        if _has_room([part.text for part in parts if isinstance(part, Text)], self._room):
            return None
        cut = kept_output.cut_by_turn(parts)
        if cut is not None:
            return await self._of_cut(turn, call, cut)
        items = _items(call, parts)
        whole = await _keep(turn, call, items)
        # A result has up to 1 MiB, and what a turn kept of it 64: other turns go on meanwhile.
        view = await asyncio.to_thread(self._view, call.name, items, whole, self._room)
        return view if whole is None else [*view, whole]

    async def _of_cut(
        self, turn: PluginTurn, call: CompletedToolCall, cut: kept_output.CutByTurn
    ) -> list[ResultPart]:
        """Return a window of what the turn kept whole already, instead of its own."""
        data = await turn.read(cut.whole.ref)
        text, is_as_written = await asyncio.to_thread(_readable, data)
        value = call.outcome.value if is_as_written else None
        source = _Source(text, text, value if isinstance(value, (dict, list)) else None)
        added = [part.text for part in cut.after if isinstance(part, Text)]
        room = Room(
            max(_LEAST.n_bytes, self._room.n_bytes - sum(len(one.encode()) for one in added)),
            max(_LEAST.n_lines, self._room.n_lines - sum(map(windowing.count_lines, added))),
        )
        view = await asyncio.to_thread(self._view, call.name, [source], cut.whole, room)
        return [*view, *cut.attachments, cut.whole, *cut.after]

    def _view(
        self, tool: str, items: Sequence[_Source | ResultPart], whole: Attachment | None, room: Room
    ) -> list[ResultPart]:
        items = _merged(items, room)
        sources = [item for item in items if isinstance(item, _Source)]
        given = _given(sources, room)
        kind, line = self._windows.get(tool, self._default), 0
        view: list[ResultPart] = []
        for item in items:
            if not isinstance(item, _Source):
                view.append(item)
                continue
            share = given.pop(0)
            if _has_room([item.text], share):
                view.append(Text(text=item.text))
            elif item.value is not None:
                view += self._shortened(item, share, kind, whole, line)
            else:
                lines = windowing.Lines(item.text, self._width)
                mark = self._marker(whole, line)
                view.append(Text(text=windowing.window(lines, share, kind, mark)))
            if given:
                line += len(windowing.Lines(item.kept + "\n", self._width))
        return view

    def _marker(self, whole: Attachment | None, before: int) -> windowing.Mark:
        def mark(gap: windowing.Gap) -> str:
            rest = self._rest(whole, before + gap.start, "them")
            return f"[{gap.n_bytes:,} bytes in {gap.n_lines:,} lines are cut here; {rest}]"

        return mark

    def _shortened(
        self, item: _Source, share: Room, kind: Window, whole: Attachment | None, before: int
    ) -> list[ResultPart]:
        size = utf8_length(item.text)
        note = f"[shortened from {size:,} bytes; {self._rest(whole, before + 1, 'all of it')}]"
        made = shortened(item.value, share.n_bytes - len(note.encode()), kind)
        return [Text(text=made), Text(text=note)]

    def _rest(self, whole: Attachment | None, start: int, what: str) -> str:
        if whole is None:
            return "the rest is not kept"
        return f"{kept_output.asking(self._tool_name, kept_output.by_ref(whole.ref), start)} reads {what}"


async def _keep(
    turn: PluginTurn, call: CompletedToolCall, items: Sequence[_Source | ResultPart]
) -> Attachment | None:
    """Keep the whole text; None: the store does not take it, as when it holds a registered secret."""
    kept = "\n".join(item.kept for item in items if isinstance(item, _Source))
    name = kept_output.kept_name(call.name, call.call_id)
    try:
        return await turn.attach(kept.encode(), media_type="text/plain", name=name)
    except CallerError:
        return None


def _items(call: CompletedToolCall, parts: Sequence[ResultPart]) -> list[_Source | ResultPart]:
    """Return the parts of a result with its texts as sources."""
    outcome = call.outcome
    items: list[_Source | ResultPart] = [
        _Source(part.text, part.text) if isinstance(part, Text) else part for part in parts
    ]
    first = items[0]
    is_json = outcome.shown is None and isinstance(outcome.value, (dict, list))
    if is_json and isinstance(first, _Source):
        # Kept with a line for each item, so that it can be read by lines.
        kept = msgspec.json.format(first.text.encode(), indent=2).decode()
        items[0] = _Source(first.text, kept, outcome.value)
    return items


def _merged(items: Sequence[_Source | ResultPart], room: Room) -> Sequence[_Source | ResultPart]:
    """Return the items with one text instead of many, if each would get too little of the room."""
    sources = [item for item in items if isinstance(item, _Source)]
    for source, share in zip(sources, _given(sources, room), strict=True):
        is_cut = not _has_room([source.text], share)
        if is_cut and (share.n_bytes < _LEAST.n_bytes or share.n_lines < _LEAST.n_lines):
            break
    else:
        return items
    text = "\n".join(source.kept for source in sources)
    return [_Source(text, text), *(item for item in items if not isinstance(item, _Source))]


def _given(sources: Sequence[_Source], room: Room) -> list[Room]:
    """Return what each text gets of the room."""
    if len(sources) == 1:
        return [room]
    n_bytes = shares([utf8_length(source.text) for source in sources], room.n_bytes)
    n_lines = shares([windowing.count_lines(source.text) for source in sources], room.n_lines)
    return list(map(Room, n_bytes, n_lines))


def _has_room(texts: Sequence[str], room: Room) -> bool:
    n_bytes = 4 * sum(map(len, texts))  # no character takes more
    if n_bytes > room.n_bytes:
        n_bytes = sum(map(utf8_length, texts))
    return n_bytes <= room.n_bytes and sum(map(windowing.count_lines, texts)) <= room.n_lines


# ----------------------------------------------------------------------------------- shortened JSON


# Every label has room in that: `"… 1,048,576 bytes"`.
_LEAST_BYTES: Final = 32
# An item that is kept is not cut below that, if its list has the room.
_FLOOR: Final = 512
_MORE: Final = "…"


def shortened(value: Json, n_bytes: int, kind: Window = "head") -> str:
    """Return JSON of at most `n_bytes` (32 or more) that says as much of the value as it can.

    What is kept stays as it was, in its place; long text is cut at its end (or where the window says), long lists and
    dicts lose items and say how many.
    """
    return canonical.encode(_fit(value, max(n_bytes, _LEAST_BYTES), kind)).decode()


def _fit(value: Json, room: int, kind: Window) -> Json:
    size = _size(value)
    if size <= room:
        return value
    if isinstance(value, str):
        return _text(value, room, kind)
    if isinstance(value, list):
        return _list(value, room, kind)
    if isinstance(value, dict):
        return _dict(value, room, kind)
    return f"{_MORE} {size:,} digits"


def _size(value: Json) -> int:
    return len(canonical.encode(value))


def _text(text: str, room: int, kind: Window) -> str:
    size = len(text.encode())
    left = room - _size(f"{_MORE} [{size:,} bytes cut] {_MORE}")
    head = text[: _fitting(text, left if kind == "head" else left // 2)] if kind != "tail" else ""
    turned = text[len(head) :][::-1]
    tail = ""
    if kind != "head":
        tail = turned[: _fitting(turned, left - _size(head) + 2 if head else left)][::-1]
    cut = size - len(head.encode()) - len(tail.encode())
    if not head and not tail:
        return f"{_MORE} {size:,} bytes"
    return f"{head}{_MORE} [{cut:,} bytes cut]" + (f" {_MORE}{tail}" if tail else "")


def _fitting(text: str, room: int) -> int:
    """Return how many characters have room, written as JSON without its quotes."""
    most = min(len(text), max(0, room))
    n_chars = bisect_right(range(1, most + 1), room, key=lambda n: _size(text[:n]) - 2)
    return windowing.boundary(text, n_chars)


def _list(items: list[Json], room: int, kind: Window) -> Json:
    note = f"{_MORE} {len(items):,} more items"
    floor = max(_LEAST_BYTES, min(_FLOOR, room // 8))
    left = room - 2 - _size(note) - 1
    sizes: dict[int, int] = {}
    for at in _by_importance(len(items), kind):
        size = _size(items[at])
        left -= min(size, floor) + 1
        if left < 0:
            break
        sizes[at] = size
    if not sizes:
        return f"{_MORE} {len(items):,} items"
    kept = sorted(sizes)
    given = shares([sizes[at] for at in kept], room - 2 - _size(note) - 1 - len(kept))
    made = [_fit(items[at], share, kind) for at, share in zip(kept, given, strict=True)]
    if len(kept) < len(items):
        gap = next((n for n, at in enumerate(kept) if n != at), len(kept))
        made.insert(gap, f"{_MORE} {len(items) - len(kept):,} more items")
    return made


def _by_importance(count: int, kind: Window) -> Iterator[int]:
    if kind == "head":
        yield from range(count)
    elif kind == "tail":
        yield from range(count - 1, -1, -1)
    else:
        for at in range((count + 1) // 2):
            yield at
            if count - 1 - at > at:
                yield count - 1 - at


def _dict(items: dict[str, Json], room: int, kind: Window) -> Json:
    sign = _MORE
    while sign in items:
        sign += _MORE
    note = {sign: f"{len(items):,} more keys"}
    # Names say more than what is under the first of them: rather all, with a little of each.
    floor = max(_LEAST_BYTES, min(_FLOOR, room // len(items) - _LEAST_BYTES))
    left = room - _size(note) - 1
    sizes: dict[str, int] = {}
    for key in sorted(items):
        size = _size(items[key])
        needed = _size(key) + 2 + min(size, floor)
        if needed <= left:
            left -= needed
            sizes[key] = size
    if not sizes:
        return f"{_MORE} {len(items):,} keys"
    names = sum(_size(key) + 2 for key in sizes)
    given = shares(list(sizes.values()), room - _size(note) - 1 - names)
    made = {key: _fit(items[key], share, kind) for key, share in zip(sizes, given, strict=True)}
    if len(sizes) < len(items):
        made[sign] = f"{len(items) - len(sizes):,} more keys"
    return made
