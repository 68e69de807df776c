"""The hooks of one turn: asked in order, and their changes collected for the outcome that records them.

Law 1. A hook sees what its plugin's earlier hooks changed. Only the hooks around a call see the state from before its
    batch.
Law 2. What hooks changed is handed out once, with `Place.take`, to be recorded with the outcome they ran in.
Law 3. What a hook raises is a `PluginFault` that names plugin and hook; nothing that it changed is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import length_hint
from traceback import format_tb
from typing import Any, TypeAlias

from windlass.errors import CallerError, InvalidInput
from windlass.journal import DirectAnswered
from windlass.kernel import Json, events
from windlass.kernel.outcomes import Stopped, StopReason
from windlass.ports import Plugin, Retry, Stop, Trouble
from windlass.runtime.answers import read_answer, refs_in
from windlass.runtime.body import is_kept
from windlass.runtime.hooked_turn import Asker, HookedTurn, Patches, Place, PluginStates, checked
from windlass.runtime.plugin_set import PluginSet, name_of
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import CancelTurn, ParkTurn, PluginFault, StopTurn

Call: TypeAlias = Callable[..., Any]
"""A plugin's hook, ready to be called with what it is given beside the turn."""
_log = logging.getLogger("windlass")
_PASS_THROUGH = (
    PluginFault, ParkTurn, StopTurn, CancelTurn, GeneratorExit, KeyboardInterrupt, SystemExit
)  # fmt: skip


class Hooks(Asker):
    """Asks the plugins of one turn."""

    def __init__(self, turn: Turn, plugins: PluginSet) -> None:
        super().__init__(turn)
        self.plugins = plugins
        self.states = PluginStates(turn.memory.plugin_memories)
        # Where all hooks run but those of calls side by side.
        self.place = Place(self.states)
        self._spare: list[Place] = []
        # What was changed around the calls that tools and plugins made themselves, by effect.
        self._direct: dict[str, list[Patches]] = {}
        for row in turn.journal.rows() if plugins and turn.journal is not None else ():
            if isinstance(row.outcome, DirectAnswered):
                self.changed_aside(row.key.split("/")[5], row.outcome.patches)

    def use(self, names: tuple[str, ...]) -> None:
        """Drive with the plugins that the turn began with, and no others."""
        if names != self.plugins.names:
            self.plugins = self.plugins.only(names)
            self.place = Place(self.states)
            self._spare.clear()

    def close(self) -> None:
        """Let go of what refers back to this, so that the turn is freed without the garbage collector."""
        self.models = None
        for place in (self.place, *self._spare):
            place.turns.clear()
            place.rounds.clear()

    def start(self, hook: str, where: str, place: Place | None = None) -> Round:
        """Begin to ask the plugins that have this hook; `where` is the effect that it runs in."""
        if place is None:
            place = self.place
        asked: Round
        try:
            asked = place.rounds[hook]
        except KeyError:
            plugins = self.plugins.having(hook)
            asked = place.rounds[hook] = self.start_with(plugins, hook, where, place)
            return asked
        asked.where = where
        asked.rest = iter(asked.calls)
        place.round = asked
        return asked

    def start_with(self, plugins: Iterable[Plugin], hook: str, where: str, place: Place) -> Round:
        """Begin to ask some of the plugins that have this hook."""
        bound = []
        for plugin in plugins:
            name = name_of(plugin)
            turn = place.turns.get(name)
            if turn is None:
                turn = place.turns[name] = HookedTurn(self, name, place)
            bound.append((turn, partial(getattr(plugin, hook), turn)))
        return Round(self.turn, place, hook, where, bound)

    def place_aside(self) -> Place:
        """Return a place for hooks that run side by side with others, until `end_aside`."""
        if not self._spare:
            return Place(self.states, self.place)
        place = self._spare.pop()
        place.states = self.states
        return place

    def end_aside(self, place: Place) -> None:
        """Use a place again: the hooks that ran there have ended."""
        if not place.changed:
            self._spare.append(place)

    def allotted(self, n: int) -> dict[str, Json]:
        """Return what plugins let a child use that is one of `n` about to begin, by plugin."""
        found: dict[str, Json] = {}
        for plugin in self.plugins.plugins:
            if type(plugin).allot is not Plugin.allot:
                name = name_of(plugin)
                given = plugin.allot(HookedTurn(self, name, self.place), n)
                if given is not None:
                    found[name] = given
        return found

    def records_looks(self, at: str) -> bool:
        """Whether this turn records what plugins looked at, even if they changed nothing."""
        started = self.turn.started
        return started is not None and at in started.looks

    def changed_aside(self, place: str, patches: Patches) -> None:
        """Note what was changed around a call that a tool or a plugin made; it holds from the effect's end on."""
        if patches:
            self._direct.setdefault(place.partition(".")[0], []).append(patches)

    def settle(self, effect_id: int) -> None:
        """Apply what was changed aside in an effect, now that the effect has ended."""
        if self._direct:
            for patches in self._direct.pop(str(effect_id), ()):
                self.states.apply(patches)

    def note(self, message: str, code: str = "plugin_failed", place: Place | None = None) -> None:
        """Note an issue that is recorded with the outcome in which it arose."""
        place = place or self.place
        place.issues.append(self.turn.note_issue(message, code, place.about))

    def take_up(self, patches: Patches, issues: tuple[events.Error, ...] = ()) -> None:
        """Apply what a recorded outcome brought."""
        self.states.apply(patches)
        for issue in issues:
            self.turn.note(issue)


class Round:
    """One hook of all plugins that have it, at one place: asked in order, from one answer to the next."""

    __slots__ = ("_bound", "_place", "_turn", "about", "calls", "hook", "rest", "where")

    def __init__(
        self,
        turn: Turn,
        place: Place,
        hook: str,
        where: str,
        bound: Sequence[tuple[HookedTurn, Call]],
    ) -> None:
        self._turn = turn
        self._place = place
        self._bound = bound
        self.hook = hook
        self.where = where
        # The effect or the call that it is about, where that is not `where`: set each time by whoever starts it.
        self.about = ""
        self.calls = [call for _, call in bound]
        # Those that have not been asked yet.
        self.rest = iter(self.calls)
        place.round = self

    def __bool__(self) -> bool:
        return bool(self.calls)

    def __iter__(self) -> Iterator[tuple[HookedTurn, Call]]:
        return iter(self._bound)

    @property
    def _at(self) -> int:
        return len(self.calls) - length_hint(self.rest) - 1

    @property
    def plugin(self) -> str:
        """The name of the plugin that was asked last."""
        return self._bound[self._at][0].name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plugins that are asked, in their order."""
        return tuple(turn.name for turn, _ in self._bound)

    def step_back(self) -> None:
        """Ask the plugin that was asked last once more."""
        self.rest = iter(self.calls[self._at :])

    def earlier(self) -> Round:
        """Return a round of the plugins that were asked before the last one, in the same effect."""
        return Round(self._turn, self._place, self.hook, self.where, self._bound[: self._at])

    async def next(self, *given: object) -> Any:  # noqa: ANN401 - as the hook answers
        """Ask plugin by plugin until one answers, and return that; None: nobody is left who does.

        Raises:
            PluginFault: one of them failed; the next call asks those behind it.
        """
        changed = self._place.changed
        try:
            # One loop in one coroutine, because most are silent.
            for hook in self.rest:
                said = await hook(*given)
                if said is not None or changed:
                    said = await self._heard(said, given)
                    if said is not None:
                        return said
        except _PASS_THROUGH:
            raise
        except BaseException as error:
            turn = self._bound[self._at][0]
            turn.take_changes()
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            if self._turn.lane.refusal is not None:
                raise self._turn.lane.refusal from None
            # Foreign code: what it raises ends this turn, not its worker. If a budget refused a call that the plugin
            # made, the turn ends as the budget says.
            fault = PluginFault(turn.name, self.hook, error, ends=self._turn.over)
            # Where it was raised is for its author; the message may hold anything.
            _log.error("%s:\n%s", fault, "".join(format_tb(error.__traceback__)))
            raise fault from error
        return None

    async def next_or_note(self, note: Callable[[str], None], *given: object) -> Any:  # noqa: ANN401 - as the hook answers
        """Return the next answer; a plugin that fails gives none, and `note` gets the reason."""
        while True:
            try:
                return await self.next(*given)
            except PluginFault as fault:
                note(str(fault))

    async def _heard(self, said: object, given: tuple[object, ...]) -> Any:  # noqa: ANN401 - as the hook answers
        """Return an answer that the hook may give, and keep what it changed: its plugin's next hook here sees it."""
        turn, hook = self._bound[self._at][0], self.hook
        try:
            said = read_answer(hook, said)
            if said is not None:
                await self._check_refs(said, given)
            changes = turn.take_changes()
            if changes:
                self._place.keep(turn.name, checked(changes, plugin=f"{turn.name}.{hook}"))
        except CallerError as error:
            turn.take_changes()
            raise unusable(turn.name, hook, error) from error
        return said

    async def _check_refs(self, said: object, given: tuple[object, ...]) -> None:
        """Refuse an answer that refers to bytes which the store does not keep."""
        refs = refs_in(said)
        if refs:
            self._turn.has_files = True
            for ref in refs - refs_in(given):
                if not await is_kept(ref, self._turn):
                    raise InvalidInput(f"{self.hook}: an attachment that is not kept here")


def unusable(plugin: str, hook: str, error: CallerError) -> PluginFault:
    """Return the fault of a plugin whose hook gave something that it may not give."""
    why = InvalidInput(f"gave something that cannot be used: {error}")
    return PluginFault(plugin, hook, why, is_ours=True)


def stopped(stop: Stop, default: StopReason, plugin: str) -> Stopped:
    """Return the outcome that a plugin's `Stop` means."""
    detail = stop.detail or f"The plugin {plugin} ended the turn."
    return Stopped(reason=stop.reason or default, detail=detail)


async def after_error(
    asked: Round, trouble: Trouble, note: Callable[[str], None]
) -> tuple[Stop | Retry | None, str]:
    """Return how to continue after a failed call, and which plugin says so: `Stop` beats the first `Retry`."""
    found: tuple[Stop | Retry | None, str] = (None, "")
    while (said := await asked.next_or_note(note, trouble)) is not None:
        if isinstance(said, Stop):
            return said, asked.plugin
        if isinstance(said, Retry) and found[0] is None:
            found = said, asked.plugin
    return found
