"""The hooks of one turn: asked in order, and their changes collected for the outcome that records them.

Law 1. A hook sees what its plugin's earlier hooks changed. Only the hooks around a call see the state from before its
    batch.
Law 2. What hooks changed is handed out once, with `take`, to be recorded with the outcome they ran in.
Law 3. What a hook raises is a `PluginFault` that names plugin and hook; nothing that it changed is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from traceback import format_tb
from typing import Any, NamedTuple, Protocol

from windlass.errors import CallerError, ConfigError, InvalidInput
from windlass.guards import check_limit
from windlass.journal import DirectAnswered, UsageLine
from windlass.kernel import events
from windlass.kernel.messages import Attachment, Message
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.kernel.outcomes import Stopped, StopReason
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import EMPTY_DICT, Json
from windlass.ports.directives import Stop
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.runtime.answers import read_answer, refs_in
from windlass.runtime.plugin_set import (
    Changes,
    Patches,
    PluginSet,
    PluginStates,
    checked,
    merge_changes,
    name_of,
)
from windlass.runtime.tool_bodies import is_kept
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import CancelTurn, ParkTurn, PluginFault, StopTurn

_log = logging.getLogger("windlass")
_PASS_THROUGH = (ParkTurn, StopTurn, CancelTurn, GeneratorExit, KeyboardInterrupt, SystemExit)


class DirectModels(Protocol):
    """What answers the model calls that plugins make themselves."""

    async def direct(self, request: ModelRequest, place: str, source: str) -> ModelReply: ...


class BoundHook(NamedTuple):
    """A plugin's hook, ready to be called with what it is given beside the turn."""

    turn: HookedTurn
    call: Callable[..., Any]

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.turn.name


class Place:
    """Where hooks run one after the other: in which effect, with which states, and what they change.

    With `aside` the changes are collected there instead, and are seen here alone: for what happens side by side.
    """

    __slots__ = ("aside", "bound", "changed", "hook", "states", "turns", "where")

    def __init__(self, states: PluginStates, aside: Changes | None = None) -> None:
        self.states = states
        self.aside = aside
        self.where = self.hook = ""
        self.turns: dict[str, HookedTurn] = {}
        self.bound: dict[str, tuple[BoundHook, ...]] = {}
        # The turns whose plugins changed something that is not kept yet.
        self.changed: list[HookedTurn] = []


class HookedTurn(PluginTurn):
    """The turn as one plugin's hooks see it at one place."""

    __slots__ = ("_changes", "_hooks", "_turn", "name", "place")

    def __init__(self, hooks: Hooks, name: str, place: Place) -> None:
        self._hooks = hooks
        self._turn = hooks.turn
        self._changes: dict[str, list[Mapping[str, Any]]] = {}
        self.name = name
        self.place = place

    @property
    def session_id(self) -> str:
        return self._turn.session_id

    @property
    def turn_id(self) -> str:
        return self._turn.turn_id

    @property
    def agent(self) -> str:
        return self._turn.program.name

    @property
    def model(self) -> str:
        turn = self._turn
        if turn.started is not None:
            return turn.started.model
        wanted: str = turn.request.overrides.get("model", turn.program.model.name)
        return wanted

    @property
    def context(self) -> Mapping[str, Json]:
        return self._turn.request.context

    @property
    def deps(self) -> Any:  # noqa: ANN401 - the user's own
        return self._turn.deps

    @property
    def iteration(self) -> int:
        return self._turn.iteration

    @property
    def max_iterations(self) -> int | None:
        return self._turn.limits.max_iterations

    @property
    def now_ms(self) -> int:
        return self._turn.services.clock.now_ms()

    @property
    def started_ms(self) -> int:
        started = self._turn.started
        return self.now_ms if started is None else started.started_ms

    @property
    def recovered(self) -> bool:
        return self._turn.is_recovered

    @property
    def messages(self) -> Sequence[Message]:
        return self._turn.history_now()

    @property
    def turn_messages(self) -> Sequence[Message]:
        return self._turn.messages_so_far()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self._turn.offered

    @property
    def system_prompt(self) -> str:
        return self._turn.system_prompt

    @property
    def usage(self) -> tuple[UsageLine, ...]:
        return self._turn.spent.lines()

    @property
    def reserved(self) -> tuple[UsageLine, ...]:
        return tuple(self._turn.spent.reserved.values())

    @property
    def session_usage(self) -> tuple[UsageLine, ...]:
        return self._turn.memory.usage

    @property
    def state(self) -> Mapping[str, Any]:
        return self.place.states.state(self.name)

    @property
    def memory(self) -> Mapping[str, Any]:
        return self.place.states.memory(self.name)

    @property
    def answers(self) -> Mapping[str, Json]:
        return self._hooks.held.get(self.name, EMPTY_DICT)

    def patch(self, **changes: Json) -> None:
        self._change("state", changes)

    def remember(self, **changes: Json) -> None:
        self._change("memory", changes)

    def _change(self, kind: str, changes: Mapping[str, Any]) -> None:
        if not self._changes:
            self.place.changed.append(self)
        self._changes.setdefault(kind, []).append(changes)

    def take_changes(self) -> dict[str, list[Mapping[str, Any]]]:
        """Return what a hook changed, and forget it."""
        if self._changes:
            self.place.changed.remove(self)
        changes, self._changes = self._changes, {}
        return changes

    def emit(self, name: str, data: Json = None) -> None:
        # A preview that cannot be shown does not make a hook fail.
        with suppress(CallerError):
            self._turn.tell(events.PluginEvent(plugin=self.name, name=name, data=data))

    async def attach(
        self, data: bytes, *, media_type: str = "application/octet-stream", name: str | None = None
    ) -> Attachment:
        check_limit("attachment_bytes", len(data), field="data")
        ref = await self._turn.services.store.put_blob(data, now_ms=self.now_ms)
        self._turn.blobs.append(ref)
        return Attachment(ref=ref, media_type=media_type, name=name, n_bytes=len(data))

    async def read(self, ref: str) -> bytes:
        return await self._turn.services.store.get_blob(ref)

    async def complete(self, request: ModelRequest) -> ModelReply:
        models = self._hooks.models
        if models is None:
            raise ConfigError("complete: no model can be asked here", field="complete")
        place = f"{self.place.where}.{self.name}.{self.place.hook}"
        return await models.direct(request, place, f"plugin:{self.name}")


class Hooks:
    """Asks the plugins of one turn."""

    def __init__(self, turn: Turn, plugins: PluginSet) -> None:
        self.turn = turn
        self.plugins = plugins
        self.states = PluginStates(turn.memory.plugin_memories)
        # What answers the model calls of plugins, while the turn is driven.
        self.models: DirectModels | None = None
        # What people answered to the holds of the current model call, by plugin.
        self.held: dict[str, dict[str, Json]] = {}
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
        self._place, self._spare = Place(self.states), []

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
            turn = place.turns[name] = HookedTurn(self, name, place)
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
                    return bound.index((turn, call)), said  # type: ignore[arg-type]  # a BoundHook is a tuple
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
