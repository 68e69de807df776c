"""The probe: told when a turn enters and leaves a phase. For tests, traces and profiles."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

Phase: TypeAlias = Literal["context", "hooks", "prompt", "effects", "finalize", "commit"]


class PhaseProbe(Protocol):
    """Sees the phases of every turn. What it raises is its own: turns do not depend on it."""

    def begin(self, phase: Phase, session_id: str, turn_id: str) -> None: ...

    def end(self, phase: Phase, session_id: str, turn_id: str) -> None: ...
