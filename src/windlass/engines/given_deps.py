"""Deps that came with a turn: kept in this process for as long as it drives the turn, and nowhere else."""

from __future__ import annotations

from windlass.errors import ConfigError
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.starting import NONE_GIVEN


class GivenDeps:
    """What callers gave along, by session and turn."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._by_turn: dict[tuple[str, str], object] = {}

    def give(self, session_id: str, turn_id: str, deps: object) -> None:
        """Keep what came with a turn, if something did."""
        if deps is not NONE_GIVEN:
            self._by_turn[session_id, turn_id] = deps

    def has(self, session_id: str, turn_id: str) -> bool:
        """Whether something came with this turn."""
        return (session_id, turn_id) in self._by_turn

    def of(self, session_id: str, turn_id: str) -> object:
        """Return what came with a turn."""
        return self._by_turn.get((session_id, turn_id), NONE_GIVEN)

    def forget(self, session_id: str, turn_id: str) -> None:
        """Let go of what came with a turn that has ended."""
        self._by_turn.pop((session_id, turn_id), None)

    def check(self, program: Program | None, session_id: str, turn_id: str) -> None:
        """Refuse to begin a turn whose tools would have nothing to work with.

        Raises:
            ConfigError: its agent needs deps, and neither factory nor caller gives any.
        """
        if program is None or not program.needs_deps or self._services.deps is not None:
            return
        if not self.has(session_id, turn_id):
            raise ConfigError(
                f"deps: {program.name} needs deps; give Runtime(deps=...) or run(..., deps=...)",
                field="deps",
            )
