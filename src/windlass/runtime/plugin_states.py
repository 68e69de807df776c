"""What plugins know: their state in one turn and their memory of the session, changed by patches alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from windlass.guards.limits import check_limit
from windlass.journal import PluginRemembered
from windlass.journal.patch import patched, recorded
from windlass.kernel import canonical
from windlass.kernel.value import EMPTY_DICT, freeze

Patches: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By plugin, then `state` or `memory`: the changes in their order."""


Changes: TypeAlias = dict[str, dict[str, list[Any]]]
"""Patches that are still being collected."""


def merge_changes(into: Changes, plugin: str, changes: Mapping[str, Any]) -> None:
    """Add a plugin's changes to those that are collected."""
    kept = into.setdefault(plugin, {})
    for kind, patches in changes.items():
        kept.setdefault(kind, []).extend(patches)


class PluginStates:
    """The states of one turn's plugins."""

    __slots__ = ("_memories", "_remembered", "_states")

    def __init__(self, memories: Mapping[str, Mapping[str, Any]]) -> None:
        self._states: dict[str, Mapping[str, Any]] = {}
        self._memories = memories
        self._remembered: dict[str, Mapping[str, Any]] = {}

    def state(self, plugin: str) -> Mapping[str, Any]:
        """Return a plugin's state in this turn."""
        return self._states.get(plugin, EMPTY_DICT)

    def memory(self, plugin: str) -> Mapping[str, Any]:
        """Return what a plugin keeps for the session."""
        found = self._remembered.get(plugin)
        return self._memories.get(plugin, EMPTY_DICT) if found is None else found

    def apply(self, patches: Patches) -> None:
        """Take in what a recorded outcome brought."""
        for plugin, changes in patches.items():
            if "state" in changes:
                self._states[plugin] = folded(self.state(plugin), changes["state"])
            if "memory" in changes:
                self._remembered[plugin] = folded(self.memory(plugin), changes["memory"])

    def nodes(self) -> Iterator[PluginRemembered]:
        """Return what the turn leaves in plugins' memories, where it is not what was there."""
        for plugin in sorted(self._remembered):
            memory = self._remembered[plugin]
            if memory != self._memories.get(plugin, EMPTY_DICT):
                yield PluginRemembered(plugin=plugin, memory=dict(memory))


def folded(base: Mapping[str, Any], changes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what is there after changes, in their order."""
    for change in changes:
        base = patched(base, change)
    return base


def checked(changes: Mapping[str, Any], *, plugin: str) -> Mapping[str, Any]:
    """Return a plugin's changes as they are recorded.

    Raises:
        InvalidInput: they are not JSON.
        LimitExceeded: they are too large to be a state.
    """
    made = {kind: [recorded(change) for change in several] for kind, several in changes.items()}
    frozen: Mapping[str, Any] = freeze(made, field=f"{plugin}.patch")
    check_limit("schema_bytes", len(canonical.encode(frozen)), field=f"{plugin}.patch")
    return frozen
