"""The ledger of a test: what was asked for, what was seen, and what was wrong with it."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.plugins.long_sessions.plans import TurnPlan


class Ledger:
    """Everything that a test knows besides what the store knows. It outlives the runtimes."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.plans: dict[str, TurnPlan] = {}
        # Which turn of a session asks the model now, and what it was told on the way.
        self.running: dict[str, str] = {}
        self.steered: dict[str, str] = {}
        # How many summaries each session has.
        self.summaries: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        # What the turns brought themselves: words and values, and files.
        self.brought_bytes = 0
        self.brought_files = 0
        self.faults: list[str] = []
        self.entered: dict[int, asyncio.Event] = {}
        self.gates: dict[int, asyncio.Event] = {}
        self.signed: Counter[int] = Counter()

    def hold(self, n: int) -> tuple[asyncio.Event, asyncio.Event]:
        """Return what is set when the held call of a turn has begun, and what lets it end."""
        return (
            self.entered.setdefault(n, asyncio.Event()),
            self.gates.setdefault(n, asyncio.Event()),
        )

    def fault(self, turn_id: str, what: str) -> None:
        """Note that something was wrong."""
        self.faults.append(f"{self.seed}, {turn_id}: {what}")

    def expect(self, holds: bool, turn_id: str, what: str) -> None:
        """Note a fault unless something holds."""
        if not holds:
            self.fault(turn_id, what)
