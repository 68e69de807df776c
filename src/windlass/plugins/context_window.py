"""The context window: what of a long session the model is shown, so that every request has room.

Nothing is ever taken out of the history. What is shown follows from two edges, which are message ids that the session
remembers; they move when a request has grown too long, far enough not to move again soon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.errors import ConfigError
from windlass.kernel.chain import Chain
from windlass.kernel.history_view import WHOLE, HistoryView, MessageReplaced, is_summary
from windlass.kernel.messages import Message
from windlass.kernel.model_call import ModelRequest
from windlass.kernel.tokens import (
    estimate_tokens,
    tokens_of,
    tokens_of_request,
    tokens_of_tools,
)
from windlass.plugins import options
from windlass.plugins.kept_output import READER
from windlass.plugins.shortened_results import shortened_results
from windlass.plugins.window_plan import Edges, Places, Planner, Room, Sizes, is_input
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn

_MOST_RESERVED: Final = 8_192
_CLEARED: Final = "(output of {name} cleared to save space)"
_CLEARED_AND_KEPT: Final = (
    '(output of {{name}} cleared to save space; {reader}(call_id="{{call_id}}") shows it)'
)
# What is said around a history: that it goes on, what woke the turn.
_AROUND: Final = 64
# How far an estimate may be off before something else must be wrong with what was reported.
_LEAST_SCALE: Final = 0.5
_MOST_SCALE: Final = 4.0
_NOTICED: Final = 0.1


class ContextWindow(Plugin):
    """Shows the model as much of a session as its window has room for.

    Args:
        window: The model's window, in tokens.
        reserve: How many of them are kept for the reply; a quarter, and at most 8,192, unless said.
        keep_turns: So many turns, the one that runs among them, keep their outputs as long as there is any other way.
        clear_at: The share of the rest from which on older outputs and attachments are cleared.
        drop_at: The share from which on the oldest turns are not shown.
        target: What share is left then.
        reader: The tool that shows cleared outputs, named to the model if it is on offer.
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
            raise _refused("reserve", reserve, f"less than the window of {window}")
        usable = window - reserve
        shares = {"target": target, "clear_at": clear_at, "drop_at": drop_at}
        for field, share in shares.items():
            _check_share(share, field)
        if not target <= drop_at:
            raise _refused("target", target, f"drop_at ({drop_at}) or less")
        if not clear_at <= drop_at:
            raise _refused("clear_at", clear_at, f"drop_at ({drop_at}) or less")
        self._room = Room(usable, *(int(usable * share) for share in (clear_at, drop_at, target)))
        self._keep_turns = options.whole(keep_turns, field="ContextWindow.keep_turns", low=1)
        self._reader = options.words(reader, field="ContextWindow.reader")

    # ------------------------------------------------------------------ hooks

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> None:
        """Note what the request is taken for; the provider's own count will show how far that is off."""
        turn.patch(scale=_scale(turn), sent={"tokens": tokens_of_request(request), **_spent(turn)})

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
        return _told(
            HistoryView(
                drop_before=drop_before,
                clear_before=clear_before,
                replace=self._shortened(turn, planner, edges, reader),
                placeholder="" if clear_before is None else placeholder,
            )
        )

    # ------------------------------------------------------------------ inside

    def _remember(
        self, turn: PluginTurn, drop: str | None, clear: str | None, scale: float
    ) -> None:
        """Keep the edges for the session, and how far estimates are off; nothing if nothing changed."""
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
        """Shorten the last results if nothing else helped; say so if even that does not."""
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


def _told(view: HistoryView) -> HistoryView | None:
    return None if view == WHOLE else view


def _base(turn: PluginTurn) -> int:
    """Return what stands in a request besides the history."""
    return _AROUND + estimate_tokens(turn.system_prompt) + tokens_of_tools(turn.tools)


def _start(turn: PluginTurn, history: Chain[Message]) -> int:
    """Return where the turn that runs begins: with what it added, or else with what was said last."""
    n_added = len(turn.turn_messages)
    if n_added:
        return history.length - n_added
    inputs = (at for at in range(history.length - 1, -1, -1) if is_input(history[at]))
    return next(inputs, 0)


def _edges(memory: Mapping[str, Any], history: Chain[Message]) -> Edges:
    """Return where the remembered edges are; those of another frame are nowhere."""
    wanted: dict[str, list[str]] = {}
    for edge in ("drop", "clear"):
        if edge in memory:
            wanted.setdefault(memory[edge], []).append(edge)  # both may be one
    found = {"drop": 0, "clear": 0}
    # Both stand in what is shown, so looking for them from the end costs no more than that.
    for place in range(history.length - 1, -1, -1):
        if not wanted:
            break
        for edge in wanted.pop(history[place].id, ()):
            found[edge] = place
    return Edges(**found)


def _ids(edges: Edges, history: Chain[Message]) -> tuple[str | None, str | None]:
    drop = history[edges.drop].id if edges.drop else None
    # Before the first message that is shown nothing is cleared, but for the files of a summary.
    is_told = edges.clear > (0 if is_summary(history[0]) else edges.drop)
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


def _check_share(found: object, field: str) -> None:
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if not is_number or not 0 < found <= 1:  # type: ignore[operator] # a number
        raise _refused(field, found, "a share above 0, and 1 at most")


def _refused(field: str, found: object, wanted: str) -> ConfigError:
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    shown = found if is_number else type(found).__name__
    place = f"ContextWindow.{field}"
    return ConfigError(
        f"{place}: found {shown}, wanted {wanted}", field=place, found=shown, wanted=wanted
    )
