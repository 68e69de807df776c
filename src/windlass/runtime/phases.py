"""Phases of a turn, told to whoever measures or traces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from windlass.ports.probe import Phase, PhaseProbe

_log = logging.getLogger("windlass")
_UNSEEN: AbstractContextManager[None] = nullcontext()


def phase_of(
    probe: PhaseProbe | None, phase: Phase, place: tuple[str, str]
) -> AbstractContextManager[None]:
    """Be in a phase of the turn at `place`, its session and id. What a probe raises is its own."""
    return _UNSEEN if probe is None else _seen(probe, phase, place)


@contextmanager
def _seen(probe: PhaseProbe, phase: Phase, place: tuple[str, str]) -> Iterator[None]:
    _tell(probe.begin, phase, place)
    try:
        yield
    finally:
        _tell(probe.end, phase, place)


def _tell(tell: Callable[[Phase, str, str], None], phase: Phase, place: tuple[str, str]) -> None:
    try:
        tell(phase, *place)
    except Exception:  # noqa: BLE001 - a probe only looks
        _log.exception("a probe failed")
