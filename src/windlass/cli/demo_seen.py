"""What the demo plays, and what there is to count when all is over."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Literal

import msgspec

from windlass.cli import trip
from windlass.kernel import Finished
from windlass.ports import TurnView

Role = Literal["start", "go-on", "approve"]


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is for."""

    role: Role
    title: str
    dies_in: str | None = None

    @property
    def exit_code(self) -> int:
        """How it has to end."""
        return 0 if self.dies_in is None else -signal.SIGKILL


ACTS = (
    Act(role="start", title="is asked, and starts the turn", dies_in="book"),
    Act(role="go-on", title="opens the file; nobody asks again", dies_in="notify"),
    Act(role="go-on", title="opens the file"),
    Act(role="approve", title="has no agent; eva says yes"),
    Act(role="go-on", title="opens the file"),
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to count when all is over: processes by id, and the lines of the world's files."""

    pids: Sequence[int]
    model: Sequence[str]
    tools: Sequence[str]
    keys: Sequence[str]
    bookings: int
    messages: int
    payers: Sequence[int]
    answer: str

    @classmethod
    def of(cls, world: trip.World, pids: Sequence[int], turn: TurnView) -> Seen:
        tools = world.read("tools")
        return cls(
            pids=pids,
            model=[digest for _pid, digest in world.read("model")],
            tools=[words[1] for words in tools],
            keys=[words[2] for words in tools if words[1] == "book"],
            bookings=len(world.read("hotel")),
            messages=len(world.read("messages")),
            payers=[int(pid) for pid, _cents in world.read("payments")],
            answer=turn.outcome.text if isinstance(turn.outcome, Finished) else "",
        )
