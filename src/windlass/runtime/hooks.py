"""The hooks of one turn: asked in order, their changes collected for whoever records the outcome.

Law 1. A hook sees what the hooks before it changed. Only the hooks around a call see the state from before its batch.
Law 2. What hooks changed is handed out once, with `take`, to be recorded with the outcome they ran in.
Law 3. What a hook raises is a `PluginFault` that names plugin and hook; nothing that it changed is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from traceback import format_tb
from typing import Any

from windlass.errors import CallerError, InvalidInput
from windlass.journal import DirectAnswered
from windlass.kernel.events import Error
from windlass.kernel.outcomes import Stopped, StopReason
from windlass.kernel.value import EMPTY_DICT
from windlass.ports.directives import Stop
from windlass.ports.plugin import Plugin
from windlass.runtime.answer_refs import refs_in
from windlass.runtime.body import is_kept
from windlass.runtime.hook_answers import read_answer
from windlass.runtime.hosted_turn import HostedTurn, Place
from windlass.runtime.plugin_host import TurnHost
from windlass.runtime.plugin_set import PluginSet, name_of
from windlass.runtime.plugin_states import Changes, Patches, PluginStates, merge_changes
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import CancelTurn, ParkTurn, PluginFault, StopTurn

_log = logging.getLogger("windlass")
_PASS_THROUGH = (ParkTurn, StopTurn, CancelTurn, GeneratorExit, KeyboardInterrupt, SystemExit)


class Hooks:
    """Asks the plugins of one turn."""

    def __init__(self, hand: Turn, plugins: PluginSet) -> None:
        self.hand = hand
        self.plugins = plugins
        self.states = PluginStates(hand.memory.plugin_memories)
        self.host = TurnHost(hand, self.states)
        self._turns: dict[str, HostedTurn] = {}
        self._by_hook: dict[str, tuple[HostedTurn, ...]] = {}
        self._taken: Changes = {}
        self._issues: list[Error] = []
        # What was changed around the calls that tools and plugins made themselves, by effect.
        self._direct: dict[str, list[Patches]] = {}
        for row in hand.journal.rows() if plugins and hand.journal is not None else ():
            if isinstance(row.outcome, DirectAnswered):
                self.changed_aside(row.key.split("/")[5], row.outcome.patches)

    def use(self, names: tuple[str, ...]) -> None:
        """Drive with the plugins that the turn began with, and no others."""
        if names != self.plugins.names:
            self.plugins = self.plugins.only(names)
            self._by_hook.clear()

    def having(self, hook: str) -> tuple[HostedTurn, ...]:
        """Return the turn as each plugin with this hook sees it, in order."""
        found = self._by_hook.get(hook)
        if found is None:
            plugins = self.plugins.having(hook)
            found = tuple([self._turn_of(plugin) for plugin in plugins]) if plugins else ()
            self._by_hook[hook] = found
        return found

    def _turn_of(self, plugin: Plugin) -> HostedTurn:
        name = name_of(plugin)
        turn = self._turns.get(name)
        if turn is None:
            turn = self._turns[name] = HostedTurn(self.host, plugin, name)
        return turn

    def apart(self, turn: HostedTurn, aside: Changes) -> HostedTurn:
        """Return a turn of its own for the same plugin: for what happens side by side.

        What its hooks change is collected in `aside`, and is seen by its own hooks alone.
        """
        own = HostedTurn(self.host, turn.plugin, turn.name)
        own.set_apart(self.states, aside)
        return own

    # ------------------------------------------------------------------ asking

    async def ask_from(
        self, turns: Sequence[HostedTurn], at: int, hook: str, where: str, *given: object
    ) -> tuple[int, Any]:
        """Run a hook, plugin by plugin from place `at` on, until one says something.

        Return its place and what it said, or the end and None. One call for all of them, because most say nothing.

        Raises:
            PluginFault: one of them failed.
        """
        place = Place(where, hook)
        try:
            for at, turn in enumerate(turns[at:], at):  # noqa: B020, PLR1704 - from there on
                turn.place = place
                said = await getattr(turn.plugin, hook)(turn, *given)
                if said is not None and (said := self.read(turn, hook, said)) is not None:
                    await self._check_refs(turn, hook, said, given)
                    if turn.has_changes:
                        self._keep(turn, hook)
                    return at, said
                if turn.has_changes:
                    self._keep(turn, hook)
        except (*_PASS_THROUGH, PluginFault):
            raise
        except BaseException as error:
            turns[at].drop_changes()
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            if self.hand.lane.refusal is not None:
                raise self.hand.lane.refusal from None
            # Foreign code: whatever it raises concerns this turn, not its worker. What it was not let buy any more is
            # the end of a budget.
            fault = PluginFault(turns[at].name, hook, error, ends=self.hand.over)
            # Where it was raised is for its author; what it says may hold anything.
            _log.error("%s:\n%s", fault, "".join(format_tb(error.__traceback__)))
            raise fault from error
        return len(turns), None

    async def ask(self, turn: HostedTurn, hook: str, where: str, *given: object) -> Any:  # noqa: ANN401 - as the hook says
        """Run the hook of one plugin."""
        _, said = await self.ask_from((turn,), 0, hook, where, *given)
        return said

    def read(self, turn: HostedTurn, hook: str, said: object) -> Any:  # noqa: ANN401 - as the hook says
        """Return what a hook said.

        Raises:
            PluginFault: it may not say that.
        """
        try:
            return read_answer(hook, said)
        except CallerError as error:
            turn.drop_changes()
            raise PluginFault(turn.name, hook, _answered(error), is_ours=True) from error

    async def _check_refs(
        self, turn: HostedTurn, hook: str, said: object, given: tuple[object, ...]
    ) -> None:
        """Refuse an answer that refers to bytes which nobody keeps.

        Raises:
            PluginFault: it does.
        """
        refs = refs_in(said)
        for ref in refs and refs - refs_in(given):
            if not await is_kept(ref, self.hand):
                turn.drop_changes()
                error = InvalidInput(f"gave an attachment that is not kept here, in {hook}")
                raise PluginFault(turn.name, hook, error, is_ours=True)

    # ------------------------------------------------------------------ what they changed

    def _keep(self, turn: HostedTurn, hook: str) -> None:
        try:
            changes = turn.take_changes()
        except CallerError as error:
            raise PluginFault(turn.name, hook, _answered(error), is_ours=True) from error
        if turn.aside is None:
            self.states.apply({turn.name: changes})
            merge_changes(self._taken, turn.name, changes)
        else:
            merge_changes(turn.aside, turn.name, changes)

    def changed_aside(self, place: str, patches: Patches) -> None:
        """Note what was changed around a call that a tool or a plugin made; it holds from the effect's end on."""
        if patches:
            self._direct.setdefault(place.partition(".")[0], []).append(patches)

    def settle(self, effect_id: int) -> None:
        """Let what was changed aside in an effect hold, now that the effect has ended."""
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
        self._issues.append(self.hand.note_issue(message, code))

    def take_issues(self) -> tuple[Error, ...]:
        """Return what was noted since the last time, for the outcome that is about to be recorded."""
        if not self._issues:
            return ()
        issues, self._issues = self._issues, []
        return tuple(issues)

    def take_up(self, patches: Patches, issues: tuple[Error, ...] = ()) -> None:
        """Take in what a recorded outcome brought."""
        self.states.apply(patches)
        for issue in issues:
            self.hand.note(issue)

    def stopped(self, stop: Stop, default: StopReason, turn: HostedTurn) -> Stopped:
        """Return the outcome that a plugin's `Stop` means."""
        detail = stop.detail or f"The plugin {turn.name} ended the turn."
        return Stopped(reason=stop.reason or default, detail=detail)


def _answered(error: CallerError) -> InvalidInput:
    return InvalidInput(f"gave something that cannot be used: {error}")
