"""The hooks of one turn: asked in order, and their changes collected for the outcome that records them.

Law 1. A hook sees what its plugin's earlier hooks changed. Only the hooks around a call see the state from before its
    batch.
Law 2. What hooks changed is handed out once, with `take`, to be recorded with the outcome they ran in.
Law 3. What a hook raises is a `PluginFault` that names plugin and hook; nothing that it changed is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from traceback import format_tb
from typing import Any, Protocol

from windlass.errors import CallerError, ConfigError, InvalidInput
from windlass.journal import DirectAnswered
from windlass.kernel import events
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.kernel.outcomes import Stopped, StopReason
from windlass.kernel.value import EMPTY_DICT
from windlass.ports.directives import Retry, Stop
from windlass.ports.plugin import Plugin, Trouble
from windlass.runtime.answers import read_answer, refs_in
from windlass.runtime.body import is_kept
from windlass.runtime.hooked_turn import (
    BoundHook,
    Changes,
    Held,
    HookedTurn,
    Patches,
    Place,
    PluginStates,
    checked,
    merge_changes,
)
from windlass.runtime.plugin_set import PluginSet, name_of
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import CancelTurn, ParkTurn, PluginFault, StopTurn

_log = logging.getLogger("windlass")
_PASS_THROUGH = (ParkTurn, StopTurn, CancelTurn, GeneratorExit, KeyboardInterrupt, SystemExit)


class DirectModels(Protocol):
    """What answers the model calls that plugins make themselves."""

    async def direct(self, request: ModelRequest, place: str, source: str) -> ModelReply: ...


class Hooks:
    """Asks the plugins of one turn."""

    def __init__(self, turn: Turn, plugins: PluginSet) -> None:
        self.turn = turn
        self.plugins = plugins
        self.states = PluginStates(turn.memory.plugin_memories)
        # What answers the model calls of plugins, while the turn is driven.
        self.models: DirectModels | None = None
        # What people answered to the holds of the current model call, by plugin.
        self.held: Held = {}
        self._place = Place(self.states)
        self._spare: list[Place] = []
        self._taken: Changes = {}
        self._issues: list[events.Error] = []
        # What was changed around the calls that tools and plugins made themselves, by effect.
        self._direct: dict[str, list[Patches]] = {}
        for row in turn.journal.rows() if plugins and turn.journal is not None else ():
            if isinstance(row.outcome, DirectAnswered):
                self.changed_aside(row.key.split("/")[5], row.outcome.patches)

    def use(self, names: tuple[str, ...]) -> None:
        """Drive with the plugins that the turn began with, and no others."""
        if names != self.plugins.names:
            self.plugins = self.plugins.only(names)
            self._place, self._spare = Place(self.states), []

    def close(self) -> None:
        """Let go of what refers back to this, so that the turn is freed without the garbage collector."""
        self.models = None
        for place in (self._place, *self._spare):
            place.turns.clear()
            place.bound.clear()

    def having(self, hook: str, place: Place | None = None) -> tuple[BoundHook, ...]:
        """Return this hook of each plugin that has it, in order."""
        place = place or self._place
        found = place.bound.get(hook)
        if found is None:
            bound = [self._bind(hook, plugin, place) for plugin in self.plugins.having(hook)]
            found = place.bound[hook] = tuple(bound)
        return found

    def _bind(self, hook: str, plugin: Plugin, place: Place) -> BoundHook:
        name = name_of(plugin)
        turn = place.turns.get(name)
        if turn is None:
            turn = place.turns[name] = HookedTurn(self.turn, name, place, self.held, self._complete)
        return BoundHook(turn, partial(getattr(plugin, hook), turn))

    def records_looks(self, at: str) -> bool:
        """Whether this turn records what plugins looked at, even if they changed nothing."""
        started = self.turn.started
        return started is not None and at in started.looks

    def place_aside(self) -> Place:
        """Return a place for hooks that run side by side with others, until `end_aside`."""
        if not self._spare:
            return Place(self.states, {})
        place = self._spare.pop()
        place.aside, place.states = {}, self.states
        return place

    def end_aside(self, place: Place) -> None:
        """Use a place again: the hooks that ran there have ended."""
        if not place.changed:
            self._spare.append(place)

    async def _complete(self, request: ModelRequest, place: str, source: str) -> ModelReply:
        if self.models is None:
            raise ConfigError("complete: no model can be asked here", field="complete")
        return await self.models.direct(request, place, source)

    # ------------------------------------------------------------------ asking

    async def ask_from(
        self, bound: Sequence[BoundHook], at: int, hook: str, where: str, *given: object
    ) -> tuple[int, Any]:
        """Run a hook, plugin by plugin from number `at` on, until one answers.

        Return its number and the answer, or the end and None. One coroutine for all of them, because most are silent.

        Raises:
            PluginFault: one of them failed.
        """
        place = bound[at].turn.place
        place.where, place.hook = where, hook
        changed = place.changed
        try:
            for turn, call in bound[at:]:
                said = await call(*given)
                if said is not None and (said := self.read(turn, hook, said)) is not None:
                    await self._check_refs(turn, hook, said, given)
                    if changed:
                        self._keep(turn, hook)
                    return bound.index((turn, call)), said
                if changed:
                    self._keep(turn, hook)
        except (*_PASS_THROUGH, PluginFault):
            raise
        except BaseException as error:
            turn.take_changes()
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            if self.turn.lane.refusal is not None:
                raise self.turn.lane.refusal from None
            # Foreign code: what it raises ends this turn, not its worker. If a budget refused a call that the plugin
            # made, the turn ends as the budget says.
            fault = PluginFault(turn.name, hook, error, ends=self.turn.over)
            # Where it was raised is for its author; the message may hold anything.
            _log.error("%s:\n%s", fault, "".join(format_tb(error.__traceback__)))
            raise fault from error
        return len(bound), None

    async def ask(self, bound: BoundHook, hook: str, where: str, *given: object) -> Any:  # noqa: ANN401 - as the hook answers
        """Run the hook of one plugin."""
        _, said = await self.ask_from((bound,), 0, hook, where, *given)
        return said

    async def ask_on_error(
        self, trouble: Trouble, where: str, note: Callable[[str], None], place: Place | None = None
    ) -> tuple[Stop | Retry | None, str]:
        """Return how to continue after a failed call, and which plugin says so: `Stop` beats the first `Retry`.

        A plugin that fails decides nothing; `note` gets the reason.
        """
        found: tuple[Stop | Retry | None, str] = (None, "")
        for bound in self.having("on_error", place):
            try:
                said = await self.ask(bound, "on_error", where, trouble)
            except PluginFault as fault:
                note(str(fault))
                continue
            if isinstance(said, Stop):
                return said, bound.name
            if isinstance(said, Retry) and found[0] is None:
                found = said, bound.name
        return found

    def read(self, turn: HookedTurn, hook: str, said: object) -> Any:  # noqa: ANN401 - as the hook answers
        """Return what a hook answered.

        Raises:
            PluginFault: it may not answer that.
        """
        try:
            return read_answer(hook, said)
        except CallerError as error:
            turn.take_changes()
            raise PluginFault(turn.name, hook, _unusable(error), is_ours=True) from error

    async def _check_refs(
        self, turn: HookedTurn, hook: str, said: object, given: tuple[object, ...]
    ) -> None:
        """Refuse an answer that refers to bytes which the store does not keep.

        Raises:
            PluginFault: it does.
        """
        refs = refs_in(said)
        for ref in refs and refs - refs_in(given):
            if not await is_kept(ref, self.turn):
                turn.take_changes()
                error = InvalidInput(f"gave an attachment that is not kept here, in {hook}")
                raise PluginFault(turn.name, hook, error, is_ours=True)

    # ------------------------------------------------------------------ what they changed

    def _keep(self, turn: HookedTurn, hook: str) -> None:
        """Keep what a hook changed: its plugin's next hook in this place sees it."""
        changes = turn.take_changes()
        if not changes:
            return
        try:
            kept = checked(changes, plugin=f"{turn.name}.{hook}")
        except CallerError as error:
            raise PluginFault(turn.name, hook, _unusable(error), is_ours=True) from error
        self.see({turn.name: kept}, turn.place)
        into = self._taken if turn.place.aside is None else turn.place.aside
        merge_changes(into, turn.name, kept)

    def see(self, patches: Patches, place: Place | None = None) -> None:
        """Show changes to the hooks that run from now on; those of a place aside to its own hooks alone."""
        if place is not None and place.aside is not None and place.states is self.states:
            place.states = self.states.copy()
        (place or self._place).states.apply(patches)

    def changed_aside(self, place: str, patches: Patches) -> None:
        """Note what was changed around a call that a tool or a plugin made; it holds from the effect's end on."""
        if patches:
            self._direct.setdefault(place.partition(".")[0], []).append(patches)

    def settle(self, effect_id: int) -> None:
        """Apply what was changed aside in an effect, now that the effect has ended."""
        if self._direct:
            for patches in self._direct.pop(str(effect_id), ()):
                self.states.apply(patches)

    def take(self) -> dict[str, Any]:
        """Return what hooks changed since the last time, for the outcome that is about to be recorded."""
        if not self._taken:
            return EMPTY_DICT
        taken, self._taken = self._taken, {}
        return taken

    def note(self, message: str, code: str = "plugin_failed") -> None:
        """Note an issue that is recorded with the outcome in which it arose."""
        self._issues.append(self.turn.note_issue(message, code))

    def take_issues(self) -> tuple[events.Error, ...]:
        """Return what was noted since the last time, for the outcome that is about to be recorded."""
        if not self._issues:
            return ()
        issues, self._issues = self._issues, []
        return tuple(issues)

    def take_up(self, patches: Patches, issues: tuple[events.Error, ...] = ()) -> None:
        """Apply what a recorded outcome brought."""
        self.states.apply(patches)
        for issue in issues:
            self.turn.note(issue)

    def stopped(self, stop: Stop, default: StopReason, plugin: str) -> Stopped:
        """Return the outcome that a plugin's `Stop` means."""
        detail = stop.detail or f"The plugin {plugin} ended the turn."
        return Stopped(reason=stop.reason or default, detail=detail)


def _unusable(error: CallerError) -> InvalidInput:
    return InvalidInput(f"gave something that cannot be used: {error}")
