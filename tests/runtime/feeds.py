"""Feeds on a clock that is set by hand, short events, and reading what waits without waiting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windlass.kernel import (
    Event,
    Finished,
    InputAccepted,
    ModelFinished,
    ReasoningDelta,
    Retracted,
    TextDelta,
    ToolFinished,
    ToolOutcome,
    ToolProgress,
    TurnEnded,
)
from windlass.runtime.feed import SessionFeed
from windlass.runtime.reader import FeedReader


class SetByHand:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms

    async def sleep(self, seconds: float) -> None:
        self.at_ms += int(seconds * 1_000)


def feed_of(make: type[SessionFeed] = SessionFeed, **more: Any) -> SessionFeed:
    return make("s", **{"incarnation": "f1", "clock": SetByHand(), **more})


def text(words: str, about: str = "c1") -> TextDelta:
    return TextDelta(correlation_id=about, text=words)


def thought(words: str, about: str = "c1") -> ReasoningDelta:
    return ReasoningDelta(correlation_id=about, text=words)


def progress(data: object, about: str = "c1") -> ToolProgress:
    return ToolProgress(correlation_id=about, call_id=about, name="dig", data=data)


def fact(n: int) -> InputAccepted:
    """Return a fact that is about no call."""
    return InputAccepted(input_id=str(n))


def replied(words: str, about: str = "c1") -> ModelFinished:
    return ModelFinished(correlation_id=about, iteration=0, text=words)


def dug(about: str = "c1") -> ToolFinished:
    return ToolFinished(correlation_id=about, call_id=about, name="dig", outcome=ToolOutcome())


def ended() -> TurnEnded:
    return TurnEnded(outcome=Finished(text="done"))


async def waiting_for(reader: FeedReader) -> list[Event]:
    """Read what waits for a reader now, without its cursors' sake."""
    return [await anext(reader) for _ in range(len(reader._waiting))]


async def rest_of(reader: FeedReader) -> list[Event]:
    """Read until the reader ends."""
    return [event async for event in reader]


def told(events: Iterable[Event]) -> list[str]:
    """Return events in short: `c1:words`, `c1=data`, `#fact`, `-c1` for a retraction."""
    return [_told(event) for event in events]


def _told(event: Event) -> str:  # noqa: PLR0911 - a table
    match event:
        case TextDelta() | ReasoningDelta():
            return f"{event.correlation_id}:{event.text}"
        case ToolProgress():
            return f"{event.correlation_id}={event.data}"
        case InputAccepted():
            return f"#{event.input_id}"
        case Retracted():
            return "-" + ",".join(event.correlation_ids)
        case ModelFinished():
            return f"#{event.correlation_id}:{event.text}"
        case ToolFinished():
            return f"#{event.correlation_id}"
        case _:
            return type(event).__name__
