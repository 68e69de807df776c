"""The plan of a context window: from where on a history is shown, and from where on with its outputs.

Law 1. A history is cut in front of an input only, so no call is parted from its result.
Law 2. Edges move forward, rarely and far: what stands before them is what providers keep in their caches.
Law 3. What is newest is given up last: outputs of old turns, old turns, outputs of the turns that are kept, all turns
    but the one that runs, its own outputs; never those of its last step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from windlass.kernel import Chain, ToolCall, ToolResult
from windlass.kernel.history_view import is_summary
from windlass.kernel.messages import Attachment, InputOrigin, Message, PluginOrigin
from windlass.kernel.tokens import FRAME_TOKENS, estimate_tokens, tokens_of, tokens_of_part


class Room(NamedTuple):
    """How many tokens there are for a request, and how many of them lead to what."""

    usable: int
    clear_at: int
    drop_at: int
    target: int

    @property
    def least_saving(self) -> int:
        """What moving an edge has to save to be worth it while everything fits."""
        return self.usable // 10


class Edges(NamedTuple):
    """Places in a history: nothing before `drop` is shown, and no output before `clear`."""

    drop: int = 0
    clear: int = 0

    def clearing(self, place: int) -> Edges:
        """Return edges that clear up to there."""
        return Edges(self.drop, max(self.clear, place))

    def dropping(self, place: int) -> Edges:
        """Return edges that drop up to there."""
        return Edges(place, max(self.clear, place))


class Places(NamedTuple):
    """Where things are in a history.

    `cuts` are the inputs in front of which it may be cut, the last of them the beginning (`start`) of the turn that
    runs; from `kept` on turns keep their outputs; `calls` are the messages with calls of the turn that runs.
    """

    cuts: tuple[int, ...]
    kept: int
    start: int
    calls: tuple[int, ...]

    @classmethod
    def of(cls, history: Sequence[Message], since: int, start: int, keep_turns: int) -> Places:
        """Look from `since` on; the turn that runs begins at `start`."""
        cuts, turns, calls = [], [], []
        for place in range(since, len(history)):
            message = history[place]
            if place == start or (place < start and is_input(message)):
                cuts.append(place)
                if place == start or begins_turn(message):
                    turns.append(place)
            elif place > start and any(type(part) is ToolCall for part in message.parts):
                calls.append(place)
        kept = turns[-keep_turns] if len(turns) >= keep_turns else since
        return cls(tuple(cuts), kept, start, tuple(calls))


def is_input(message: Message) -> bool:
    """Whether a message came from outside: a person's words, or an event."""
    if message.role == "event":
        return True
    is_said = message.role == "user" and type(message.parts[0]) is not ToolResult
    return is_said and not isinstance(message.origin, PluginOrigin)


def begins_turn(message: Message) -> bool:
    """Whether an input is the one that its turn began with."""
    return not isinstance(message.origin, InputOrigin) or message.origin.input_id is None


class Sizes:
    """How many tokens a history takes under any edges. What each message takes is kept with the history."""

    def __init__(self, history: Chain[Message], since: int, placeholder: str) -> None:
        known = history.memo((Sizes, placeholder), dict[int, tuple[int, int]])
        for place in range(since, history.length):
            if place not in known:
                message = history[place]
                known[place] = (tokens_of(message), tokens_when_cleared(message, placeholder))
        sizes = [known[place] for place in range(since, history.length)]
        self._since = since
        self._summary = (0, 0)
        if history.length > 0 and is_summary(history[0]):
            # A summary that the history begins with is shown under any edges.
            first = history[0]
            self._summary = (tokens_of(first), tokens_when_cleared(first, placeholder))
        self._whole = [0, *accumulate(whole for whole, _ in sizes)]
        self._cleared = [0, *accumulate(cleared for _, cleared in sizes)]

    def under(self, edges: Edges) -> int:
        """Return what is shown under these edges."""
        drop, clear = edges.drop - self._since, max(edges.clear, edges.drop) - self._since
        shown = self._cleared[clear] - self._cleared[drop] + self._whole[-1] - self._whole[clear]
        # Its files are cleared as soon as anything is.
        return shown + (self._summary[edges.clear > 0] if edges.drop else 0)


def tokens_when_cleared(message: Message, placeholder: str) -> int:
    """Return what a message takes whose outputs and attachments are shown as placeholders."""
    return FRAME_TOKENS + sum(
        [
            2 * FRAME_TOKENS + estimate_tokens(placeholder + part.name * 2 + part.call_id)
            if isinstance(part, ToolResult)
            else FRAME_TOKENS + estimate_tokens(part.name or part.ref)
            if isinstance(part, Attachment)
            else tokens_of_part(part)
            for part in message.parts
        ]
    )


class Planner(NamedTuple):
    """Finds the edges under which a history has room.

    `base` is what stands around the history, `scale` how far estimates were off the last time.
    """

    room: Room
    places: Places
    sizes: Sizes
    base: int
    scale: float

    def size(self, edges: Edges) -> int:
        """Return how many tokens a request takes under these edges."""
        return math.ceil((self.base + self.sizes.under(edges)) * self.scale)

    def over(self, edges: Edges) -> int:
        """Return how many estimated tokens are too many under these edges; none, if it is 0 or below."""
        return math.ceil((self.size(edges) - self.room.usable) / self.scale)

    def last_results(self, history: Sequence[Message]) -> Message | None:
        """Return the results of the last step of the turn that runs."""
        return history[self.places.calls[-1] + 1] if self.places.calls else None

    def plan(self, now: Edges) -> Edges:
        """Return the edges from now on: the same, as long as there is room."""
        room, places = self.room, self.places
        size = self.size(now)
        if size <= room.clear_at:
            return now
        edges = now.clearing(places.kept)
        saved = size - self.size(edges)
        if saved < (room.least_saving if size <= room.drop_at else 1):
            edges = now
        if self.size(edges) <= room.drop_at:
            return edges
        edges = self._first(edges, self._drops(edges, places.kept))
        if self.size(edges) <= room.usable:
            return edges
        edges = edges.clearing(places.start)
        if self.size(edges) <= room.drop_at:
            return edges
        edges = self._first(edges, self._drops(edges, places.start))
        if self.size(edges) <= room.usable:
            return edges
        return self._first(edges, [edges.clearing(call) for call in places.calls])

    def _drops(self, edges: Edges, limit: int) -> list[Edges]:
        return [edges.dropping(cut) for cut in self.places.cuts if edges.drop < cut <= limit]

    def _first(self, now: Edges, further: Iterable[Edges]) -> Edges:
        """Return the first edges that come down to the target, or the furthest."""
        for edges in further:
            now = edges
            if self.size(edges) <= self.room.target:
                break
        return now
