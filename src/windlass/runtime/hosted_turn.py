"""A plugin's turn as the runtime holds it: where its hook runs, and what that hook changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.kernel.value import Json
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginHost, PluginTurn
from windlass.runtime.plugin_set import name_of
from windlass.runtime.plugin_states import Changes, PluginStates, checked, folded


class Place(msgspec.Struct, frozen=True, gc=False):
    """A hook, and the effect that it runs in."""

    where: str
    hook: str


NOWHERE = Place("", "")


class HostedTurn(PluginTurn):
    """One plugin's view of one turn, or of one call of it."""

    __slots__ = ("aside", "has_changes", "name", "place", "plugin")

    def __init__(self, host: PluginHost, plugin: Plugin, name: str = "") -> None:
        self.name = name or name_of(plugin)
        super().__init__(host, self.name)
        self.plugin = plugin
        # Which hook runs, and in which effect: the runtime says so before each.
        self.place = NOWHERE
        self.has_changes = False
        # Where its changes are collected, if it is kept apart from the turn's others.
        self.aside: Changes | None = None

    def patch(self, **changes: Json) -> None:
        """Change the state."""
        self.has_changes = True
        super().patch(**changes)

    def remember(self, **changes: Json) -> None:
        """Change the memory."""
        self.has_changes = True
        super().remember(**changes)

    def _place(self) -> str:
        return f"{self.place.where}.{self.name}.{self.place.hook}"

    def set_apart(self, states: PluginStates, aside: Changes) -> None:
        """See the state as it is now, whatever others do meanwhile: for the hooks around a call."""
        self._state = states.state(self.name)
        self._memory = states.memory(self.name)
        self.aside = aside

    def see(self, changes: Mapping[str, Any]) -> None:
        """See what an earlier hook of the same call changed, if this turn is kept apart."""
        if self._state is not None:
            self._state = folded(self._state, changes.get("state", ()))
        if self._memory is not None:
            self._memory = folded(self._memory, changes.get("memory", ()))

    def take_changes(self) -> Mapping[str, Any]:
        """Return what the hook changed, and forget it. Around a call, the call's next hook sees it.

        Raises:
            CallerError: it is nothing that can be kept.
        """
        changes, self._changes, self.has_changes = self._changes, {}, False
        kept = checked(changes, plugin=f"{self.name}.{self.place.hook}")
        self.see(kept)
        return kept

    def drop_changes(self) -> None:
        """Forget what a hook changed that failed."""
        self._changes, self.has_changes = {}, False
