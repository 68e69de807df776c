"""The context window: how much of a long session the model is shown, so that every request fits.

The history itself never loses anything. Two edges, message ids that the session remembers, say what is shown; they
move when a request has grown too long, far enough not to move again soon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from windlass.kernel import Chain, Message, ModelRequest, Text, ToolResult, history_view, tokens
from windlass.kernel.history_view import HistoryView, MessageReplaced
from windlass.kernel.tokens import FRAME_TOKENS, estimate_tokens, tokens_of, tokens_of_part
from windlass.plugins import options
from windlass.plugins.kept_output import READER
from windlass.plugins.window_plan import Edges, Places, Planner, Room, Sizes, is_input
from windlass.plugins.windowing import head_of, shares, tail_of
from windlass.ports import Plugin, PluginTurn

_MOST_RESERVED: Final = 8_192
_CLEARED: Final = "(output of {name} cleared to save space)"
_CLEARED_AND_KEPT: Final = (
    '(output of {{name}} cleared to save space; {reader}(call_id="{{call_id}}") shows it)'
)
# For what a request says besides the history: that it goes on, what woke the turn.
_AROUND: Final = 64
# An estimate is not off by more than this; beyond it the provider's count must be wrong.
_LEAST_SCALE: Final = 0.5
_MOST_SCALE: Final = 4.0
_NOTICED: Final = 0.1


class ContextWindow(Plugin):
    """Shows the model as much of a session as its window has room for.

    Args:
        window: The model's window, in tokens.
        reserve: How many of them are kept for the reply; by default a quarter, and at most 8,192.
        keep_turns: How many of the latest turns, with the running one, keep their outputs as long as possible.
        clear_at: The share of the rest at which older outputs and attachments are cleared.
        drop_at: The share at which the oldest turns are no longer shown.
        target: The share that is still in use after that.
        reader: The tool that shows cleared outputs; the model is told of it if it is offered.
    """

    name = "context_window"
    version = "1"

    def __init__(  # noqa: PLR0913 - options, all by name
        self,
        *,
        window: int,
        reserve: int | None = None,
        keep_turns: int = 2,
        clear_at: float = 0.6,
        drop_at: float = 0.85,
        target: float = 0.5,
        reader: str = READER,
    ) -> None:
        options.whole(window, field="ContextWindow.window", low=1)
        if reserve is None:
            reserve = min(window // 4, _MOST_RESERVED)
        options.whole(reserve, field="ContextWindow.reserve")
        if reserve >= window:
            wanted = f"less than the window of {window}"
            raise options.refused(reserve, wanted, field="ContextWindow.reserve")
        usable = window - reserve
        for field, found in (("drop_at", drop_at), ("target", target), ("clear_at", clear_at)):
            options.share(found, field=f"ContextWindow.{field}")
            if found > drop_at:
                wanted = f"drop_at ({drop_at}) or less"
                raise options.refused(found, wanted, field=f"ContextWindow.{field}")
        self._room = Room(usable, *(int(usable * share) for share in (clear_at, drop_at, target)))
        self._keep_turns = options.whole(keep_turns, field="ContextWindow.keep_turns", low=1)
        self._reader = options.words(reader, field="ContextWindow.reader")

    # ------------------------------------------------------------------ hooks

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> None:
        """Record the estimated size of the request; the provider's own count will show how far it is off."""
        sent = {"tokens": tokens.tokens_of_request(request), **_spent(turn)}
        turn.patch(scale=_scale(turn), sent=sent)

    async def view(self, turn: PluginTurn) -> HistoryView | None:
        """Return what is shown of the history in the iteration that begins."""
        history: Chain[Message] = Chain.of(turn.messages)
        if not history.length:
            return None
        now, scale = _edges(turn.memory, history), _scale(turn)
        reader = self._reader if any(tool.name == self._reader for tool in turn.tools) else ""
        placeholder = _CLEARED_AND_KEPT.format(reader=reader) if reader else _CLEARED
        places = Places.of(history, now.drop, _start(turn, history), self._keep_turns)
        sizes = Sizes(history, now.drop, placeholder)
        planner = Planner(self._room, places, sizes, base=_base(turn), scale=scale)
        edges = planner.plan(now)
        drop_before, clear_before = _ids(edges, history)
        self._remember(turn, drop_before, clear_before, scale)
        if edges != now:
            turn.emit(
                "trimmed",
                {
                    "tokens_before": planner.size(now),
                    "tokens": planner.size(edges),
                    "dropped_messages": edges.drop,
                    "cleared_messages": max(0, edges.clear - edges.drop),
                },
            )
        view = HistoryView(
            drop_before=drop_before,
            clear_before=clear_before,
            replace=self._shortened(turn, planner, edges, reader),
            placeholder="" if clear_before is None else placeholder,
        )
        return None if view == history_view.WHOLE else view

    # ------------------------------------------------------------------ inside

    def _remember(
        self, turn: PluginTurn, drop: str | None, clear: str | None, scale: float
    ) -> None:
        """Keep the edges for the session, and how far estimates are off, if they changed."""
        memory = turn.memory
        changes: dict[str, str | float | None] = {}
        if memory.get("drop") != drop or memory.get("clear") != clear:
            changes = {"drop": drop, "clear": clear}
        if changes or abs(scale - memory.get("scale", 1.0)) >= _NOTICED:
            changes["scale"] = round(scale, 2)
        if changes:
            turn.remember(**changes)

    def _shortened(
        self, turn: PluginTurn, planner: Planner, edges: Edges, reader: str
    ) -> tuple[MessageReplaced, ...]:
        """Shorten the last results if nothing else helped; emit an event if even that does not."""
        over = planner.over(edges)
        if over <= 0:
            return ()
        replaced: tuple[MessageReplaced, ...] = ()
        message = planner.last_results(turn.messages)
        if message is not None:
            size = tokens_of(message)
            replaced = (shortened_results(message, size - over, reader),)
            over -= size - tokens_of(replaced[0])
        if over > 0:
            turn.emit("does_not_fit", {"tokens": planner.size(edges), "usable": self._room.usable})
        return replaced


def _base(turn: PluginTurn) -> int:
    """Return how many tokens a request takes besides the history."""
    return _AROUND + estimate_tokens(turn.system_prompt) + tokens.tokens_of_tools(turn.tools)


def _start(turn: PluginTurn, history: Chain[Message]) -> int:
    """Return where the running turn begins: with the first message it added, or else with the last input."""
    n_added = len(turn.turn_messages)
    if n_added:
        return history.length - n_added
    inputs = (at for at in range(history.length - 1, -1, -1) if is_input(history[at]))
    return next(inputs, 0)


def _edges(memory: Mapping[str, Any], history: Chain[Message]) -> Edges:
    """Return where the remembered edges are; 0 for edges of another frame."""
    wanted = {memory[edge] for edge in ("drop", "clear") if edge in memory}
    found: dict[str, int] = {}
    # Both stand in what is shown, so looking for them from the end costs no more than that.
    for place in range(history.length - 1, -1, -1):
        if len(found) == len(wanted):
            break
        if history[place].id in wanted:
            found[history[place].id] = place
    return Edges(found.get(memory.get("drop", ""), 0), found.get(memory.get("clear", ""), 0))


def _ids(edges: Edges, history: Chain[Message]) -> tuple[str | None, str | None]:
    drop = history[edges.drop].id if edges.drop else None
    # Before the first message that is shown nothing is cleared, but for the files of a summary.
    is_told = edges.clear > (0 if history_view.is_summary(history[0]) else edges.drop)
    return drop, history[edges.clear].id if is_told else None


def _spent(turn: PluginTurn) -> dict[str, int]:
    """Return what the turn's own model calls came to so far."""
    lines = [line for line in turn.usage if line.source == "turn"]
    return {
        "calls": sum(line.calls for line in lines),
        "lost": sum(line.lost for line in lines),
        "prompt": sum(line.usage.prompt_tokens for line in lines),
    }


def _scale(turn: PluginTurn) -> float:
    """Return how many tokens a provider counts for one that was estimated."""
    state = turn.state
    sent: dict[str, int] | None = state.get("sent")
    spent = _spent(turn)
    if sent and spent["calls"] == sent["calls"] + 1 and spent["lost"] == sent["lost"]:
        counted = spent["prompt"] - sent["prompt"]
        # A provider that does not count leaves everything as it was.
        if counted > 0:
            return min(max(counted / max(sent["tokens"], 1), _LEAST_SCALE), _MOST_SCALE)
    known: float = state.get("scale") or turn.memory.get("scale", 1.0)
    return known


# -------------------------------------------------------------------------------- shortened results


_NOTE = "\n({left:,} of {size:,} characters left out{where})\n"
# Of what has room, so much is the beginning.
_HEAD = 2 / 3


def shortened_results(message: Message, n_tokens: int, reader: str) -> MessageReplaced:
    """Return a message with its results within so many tokens.

    `reader` is the tool with which a model reads on, or empty.
    """
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    sizes = [tokens_of_part(part) for part in results]
    given = shares(sizes, n_tokens - FRAME_TOKENS - sum(map(tokens_of_part, others)))
    parts = [
        part if share >= size else _shortened(part, share, reader)
        for part, size, share in zip(results, sizes, given, strict=True)
    ]
    return MessageReplaced(id=message.id, parts=(*parts, *others))


def _shortened(result: ToolResult, n_tokens: int, reader: str) -> ToolResult:
    where = f'; {reader}(call_id="{result.call_id}") shows them' if reader else ""
    room = n_tokens - FRAME_TOKENS - estimate_tokens(result.name)
    named = history_view.attachment_name
    text = "\n".join(one.text if isinstance(one, Text) else named(one) for one in result.content)
    size = estimate_tokens(text)
    n_bytes = len(text.encode())
    shown = _cut(text, n_bytes, where)
    while n_bytes > 0 and estimate_tokens(shown) > room:
        n_bytes = min(n_bytes * max(room, 0) // size, n_bytes * 7 // 8)
        shown = _cut(text, n_bytes, where)
        size = max(estimate_tokens(shown), 1)
    return replace(result, content=(Text(text=shown.strip()),))


def _cut(text: str, n_bytes: int, where: str) -> str:
    head = head_of(text, int(n_bytes * _HEAD))
    tail = tail_of(text, n_bytes - len(head.encode()))
    left = len(text) - len(head) - len(tail)
    if left <= 0:
        return text
    return head + _NOTE.format(left=left, size=len(text), where=where) + tail
