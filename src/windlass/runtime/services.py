"""What all turns of one worker share."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from windlass.ports import Store, Wait
from windlass.ports.clock import Clock
from windlass.runtime.feeds import Feeds
from windlass.runtime.task_set import TaskSet

_log = logging.getLogger("windlass")

Approver = Callable[[Wait], bool | Awaitable[bool]]
"""Answers approvals in this process, at once: True allows."""


def _log_failure(error: BaseException) -> None:
    _log.error("a plugin failed beside its turn: %s", type(error).__name__)


class Services(msgspec.Struct, kw_only=True):
    """The store, the clock and what else a turn reaches out to."""

    store: Store
    clock: Clock
    feeds: Feeds
    worker_id: str = ""
    lease_ms: int = 15_000
    deps: Callable[..., Any] | None = None
    approve: Approver | None = None
    on_mismatch: Literal["park", "accept"] = "park"
    # Where this worker runs, for the journal: host and process.
    place: str = ""
    # How many turns are being driven here.
    driving: int = 0
    # What plugins do beside the turns.
    aside: TaskSet = msgspec.field(default_factory=lambda: TaskSet(_log_failure))

    def is_alone(self) -> bool:
        """Whether no more than one turn is being driven here."""
        return self.driving <= 1

    def until_ms(self) -> int:
        """Return until when a lease taken now holds."""
        return self.clock.now_ms() + self.lease_ms
