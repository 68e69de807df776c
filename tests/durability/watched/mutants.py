"""Faults to plant into drivers and observers: each breaks one promise to those who watch, and the verdict has to say so."""

from __future__ import annotations

from collections.abc import Callable

from windlass.api.watcher import Watcher, _Ready
from windlass.folds import Cursor, TurnFold
from windlass.kernel import Event, WaitOpened
from windlass.ports import Changes, WaitView
from windlass.runtime.feed import TurnFeed


def starts_now() -> None:
    """An observer ignores the place of its cursor."""
    begin = Watcher.begin

    async def anew(self: Watcher, cursor: Cursor | None) -> None:
        await begin(self, None)

    _plant(Watcher, "begin", anew)


def forgets_waits() -> None:
    """A fold does not tell that something is waited for."""
    open_waits = TurnFold._open_waits

    def silent(self: TurnFold, waits: tuple[WaitView, ...]) -> None:
        open_waits(self, waits)
        self.facts = [fact for fact in self.facts if type(fact) is not WaitOpened]

    _plant(TurnFold, "_open_waits", silent)


def misses_waits() -> None:
    """A process that looks for changes stops looking once it has heard of a wait."""
    sessions = Changes.__dict__["sessions"].fget
    has_heard = False

    def deaf(self: Changes) -> tuple[str, ...]:
        nonlocal has_heard
        found: tuple[str, ...] = () if has_heard else sessions(self)
        has_heard = has_heard or any(change.kind == "opened" for change in self.changes)
        return found

    _plant(Changes, "sessions", property(deaf))


def hands_out_old_cursors() -> None:
    """A fact comes with the place of the fact before it."""
    hand_out = Watcher._hand_out

    def late(self: Watcher, ready: _Ready) -> Event:
        event = hand_out(self, _Ready(ready.event))
        if ready.place is not None:
            self.place, self._head = ready.place, ready.head
        return event

    _plant(Watcher, "_hand_out", late)


def shows_at_once() -> None:
    """The feed shows facts before they are on disk."""

    def hold(self: TurnFeed, event: Event, *, until: int) -> None:
        self.show(event)

    def tell(self: TurnFeed, events: list[Event], *, until: int) -> None:
        for event in events:
            self.show(event)

    _plant(TurnFeed, "hold", hold)
    _plant(TurnFeed, "tell", tell)


MUTANTS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (starts_now, forgets_waits, misses_waits, hands_out_old_cursors, shows_at_once)
}


def _plant(place: object, name: str, fault: object) -> None:
    assert hasattr(place, name), f"{place} has no {name} to break"
    setattr(place, name, fault)
