"""What keeps a turn from being driven here. A wait says so, and a person decides."""

from __future__ import annotations

import msgspec

from windlass.journal import TurnStarted
from windlass.kernel.value import Json
from windlass.ports import WaitKind
from windlass.runtime.compaction_driver import is_compaction
from windlass.runtime.deps_scope import NONE_GIVEN
from windlass.runtime.job import Job
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import ParkTurn
from windlass.runtime.turn_start import DRIVERS, plugin_names

MAX_TAKEOVERS = 3


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the way."""

    kind: WaitKind
    about: str
    title: str
    detail: Json = None

    def open(self, hand: Turn) -> None:
        """Let the turn wait for somebody to remove it; it is another one for the next worker."""
        hand.open_wait(
            self.kind,
            about=self.about,
            digest=str(hand.generation),
            title=self.title,
            detail=self.detail,
        )


def obstacle_of(hand: Turn, job: Job) -> Obstacle | None:
    """Return what keeps a turn from being begun: it brings workers down, or it lacks deps."""
    if hand.is_cancelled:
        return None
    faults, name = job.faults
    if job.takeovers > MAX_TAKEOVERS or faults >= MAX_TAKEOVERS:
        last = f"; the last with {name}" if name else ""
        return Obstacle(
            kind="poison",
            about=f"poison/{job.turn_id}",
            title=f"{max(faults, job.takeovers)} drives of this turn failed{last}",
            detail={"takeovers": job.takeovers, "fault": name},
        )
    if _lacks_deps(hand, job):
        return Obstacle(
            kind="deps",
            about=f"deps/{job.turn_id}",
            title=f"{hand.program.name} needs deps; run the turn again with them",
        )
    return None


def _lacks_deps(hand: Turn, job: Job) -> bool:
    if not hand.program.needs_deps or hand.services.deps is not None:
        return False
    # Whoever only sums up works with nothing.
    is_work = not is_compaction(job.request)
    return is_work and job.deps is NONE_GIVEN and job.view is not None


def check_drivable(hand: Turn, started: TurnStarted) -> None:
    """Leave a turn alone that needs other code.

    Raises:
        ParkTurn: a person decides.
    """
    obstacle = _other_code(hand, started)
    if obstacle is not None:
        obstacle.open(hand)
        raise ParkTurn


def _other_code(hand: Turn, started: TurnStarted) -> Obstacle | None:
    if started.driver not in DRIVERS:
        return Obstacle(
            kind="mismatch",
            about=f"driver/{started.driver}",
            title=f"The turn began with the driver {started.driver}, which is not here",
            detail={"driver": started.driver},
        )
    missing = [one for one in plugin_names(started) if one not in hand.program.plugins.names]
    if missing and not hand.is_cancelled:
        return Obstacle(
            kind="mismatch",
            about=f"plugins/{'/'.join(missing)}",
            title=f"The turn began with the plugin {missing[0]}, which is not here",
            detail={"plugins": missing},
        )
    return None
