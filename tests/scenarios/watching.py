"""Looking at events: which came, and what a screen would show of them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.kernel import events
from windlass.kernel.events import Event


def names(seen: Sequence[Event]) -> list[str]:
    """Return the kinds of events."""
    return [type(event).__name__ for event in seen]


def shown_text(seen: Sequence[Event]) -> str:
    """Return what a screen shows at the end: deltas, without those that were taken back."""
    shown: list[tuple[str, str]] = []
    for event in seen:
        if isinstance(event, events.TextDelta):
            shown.append((event.correlation_id, event.text))
        elif isinstance(event, events.Retracted):
            shown = [one for one in shown if one[0] not in event.correlation_ids]
    return "".join(text for _, text in shown)
