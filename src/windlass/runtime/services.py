"""What all turns of one worker share."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import msgspec

from windlass.ports import Store, Wait
from windlass.ports.clock import Clock
from windlass.ports.probe import Phase, PhaseProbe
from windlass.runtime.feeds import Feeds
from windlass.runtime.task_set import TaskSet

_log = logging.getLogger("windlass")

Approver = Callable[[Wait], bool | Awaitable[bool]]
"""Answers approvals in this process, at once: True allows."""


_UNSEEN: AbstractContextManager[None] = nullcontext()


@contextmanager
def _seen(probe: PhaseProbe, phase: Phase, session_id: str, turn_id: str) -> Iterator[None]:
    _tell(probe.begin, phase, session_id, turn_id)
    try:
        yield
    finally:
        _tell(probe.end, phase, session_id, turn_id)


def _tell(
    tell: Callable[[Phase, str, str], None], phase: Phase, session_id: str, turn_id: str
) -> None:
    try:
        tell(phase, session_id, turn_id)
    except Exception:  # noqa: BLE001 - a probe only looks
        _log.exception("a probe failed")


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
    probe: PhaseProbe | None = None
    # Where this worker runs, for the journal: host and process.
    place: str = ""
    # How many turns are being driven here.
    driving: int = 0
    # What plugins do beside the turns.
    aside: TaskSet = msgspec.field(default_factory=lambda: TaskSet(_log_failure))

    def is_alone(self) -> bool:
        """Whether no more than one turn is being driven here."""
        return self.driving <= 1

    def phase(self, phase: Phase, session_id: str, turn_id: str) -> AbstractContextManager[None]:
        """Be in a phase of a turn, and tell the probe, if there is one."""
        if self.probe is None:
            return _UNSEEN
        return _seen(self.probe, phase, session_id, turn_id)

    def until_ms(self) -> int:
        """Return until when a lease taken now holds."""
        return self.clock.now_ms() + self.lease_ms
