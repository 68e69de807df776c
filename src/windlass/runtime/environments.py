"""Environments: prompt, tools and view of an iteration, where plugins, providers or found tools may change them.

Law 1. What an iteration was offered is taken from the journal, if it is there. Nothing is asked for that, no provider
    either: providers are asked when the turn is live and needs their tools.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.errors import WindlassError
from windlass.journal import EnvironmentBuilt, SyncEnvironmentCommand
from windlass.journal.redaction import cleaned
from windlass.kernel import WHOLE, HistoryView, Message, SyncEnvironment, ToolSpec
from windlass.kernel.responses import Environment, EnvironmentSynced, Failure
from windlass.kernel.value import EMPTY_DICT
from windlass.runtime.around_turn import written_prompt
from windlass.runtime.background_tools import with_background_tools
from windlass.runtime.hooks import Hooks
from windlass.runtime.program import Program
from windlass.runtime.turn import Keyed, Turn
from windlass.runtime.turn_signals import PluginFault
from windlass.runtime.turn_start import GivenPrompt, is_deepest, prompt_of, tools_of, without_agents
from windlass.tools import Toolbox
from windlass.tools.toolbox import FINDER, found_in


class Environments:
    """Performs the environment effects of one turn."""

    def __init__(self, turn: Turn, hooks: Hooks | None) -> None:
        assert turn.started is not None  # noqa: S101 - it was written before anything
        self._turn = turn
        self._hooks = hooks
        self._given = GivenPrompt.of(turn.started, turn.request)
        self._view = turn.started.view or WHOLE
        # Prompt, tools and view that hold now. With providers a turn begins with tools that they have not told yet.
        self._now: tuple[str, tuple[ToolSpec, ...], HistoryView] | None = None
        if not turn.program.providers:
            self._now = prompt_of(turn.started), tools_of(turn.program, turn.started), self._view

    async def sync(self, effect: SyncEnvironment) -> EnvironmentSynced:
        """Build the environment anew; what is as it was is not written down."""
        turn, hooks = self._turn, self._hooks
        if turn.recovery is not None:
            known = turn.recovery.answer_to(self._keyed(effect), EnvironmentBuilt)
            if known is not None:
                if hooks is not None:
                    hooks.states.apply(known.patches)
                self._use(known.result)
                return EnvironmentSynced(id=effect.id, result=known.result)
            if turn.was_passed(effect.id):
                return EnvironmentSynced(id=effect.id)
        turn.go_live()
        failure = None if turn.provided is None else await turn.provided.look_up(turn)
        built = failure or await self._build(effect)
        patches = EMPTY_DICT if hooks is None else hooks.place.take()
        if built is not None or patches:
            moment = cleaned(EnvironmentBuilt(result=built, patches=patches))
            built = moment.result
            self._use(built)
            turn.record(self._keyed(effect), moment)
        return EnvironmentSynced(id=effect.id, result=built)

    def _keyed(self, effect: SyncEnvironment) -> Keyed:
        command = SyncEnvironmentCommand(update_config=effect.update_config)
        return self._turn.keyed(command, str(effect.id))

    def _use(self, built: Environment | Failure | None) -> None:
        if isinstance(built, Environment):
            turn = self._turn
            turn.system_prompt, turn.offered = built.system_prompt, built.tools
            self._now = built.system_prompt, built.tools, built.view

    async def _build(self, effect: SyncEnvironment) -> Environment | Failure | None:
        turn, hooks = self._turn, self._hooks
        toolbox, prompt, view = turn.toolbox, turn.system_prompt, self._view
        turn.offered = toolbox.specs
        if toolbox.deferred:
            turn.offered = toolbox.offered(found_in(turn.messages_so_far()))
        if toolbox.agents and is_deepest(turn.request, turn.limits.max_depth):
            turn.offered = without_agents(toolbox, turn.offered)
        if hooks is not None or self._given.pieces or turn.program.prompter is not None:
            place = str(effect.id)
            try:
                # The first iteration's prompt was made when the turn began.
                if effect.update_config or turn.program.providers:
                    prompt = await written_prompt(turn, hooks, place, self._given)
                if hooks is not None:
                    view = await hooked_view(hooks, place, view)
            except PluginFault as fault:
                if turn.over is not None:
                    raise
                return Failure(message=str(fault), code="plugin_failed")
            turn.system_prompt = prompt
        if (prompt, turn.offered, view) == self._now:
            return None
        return Environment(system_prompt=prompt, tools=turn.offered, view=view)


class ProvidedTools:
    """The tools that providers bring to one turn: asked for anew in each iteration."""

    __slots__ = ("_is_due", "_looking")

    def __init__(self) -> None:
        self._is_due = True
        self._looking = asyncio.Lock()

    async def look_up(self, turn: Turn) -> Failure | None:
        """Ask the providers what tools there are now, and put them beside the agent's own."""
        self._is_due = False
        found = await tools_now(turn.program, turn.request.context)
        if isinstance(found, Failure):
            return found
        turn.toolbox = found
        return None

    async def find(self, turn: Turn) -> None:
        """Have the tools here for a call that is to run: the journal has their specs, not their bodies.

        Calls that run side by side all ask for it. A provider that fails brings no tools.
        """
        async with self._looking:
            if self._is_due:
                await self.look_up(turn)


async def tools_now(program: Program, context: Mapping[str, Any]) -> Toolbox | Failure:
    """Return the tools of an agent with those that its providers have now."""
    tools = [tool for tool in program.toolbox if tool.spec.name != FINDER]
    try:
        for provider in program.providers:
            found = provider.tools(context)
            tools += await found if inspect.isawaitable(found) else found
        return Toolbox(with_background_tools(tools))
    except WindlassError as error:
        return Failure(message=str(error), code=error.code)
    except Exception as error:  # noqa: BLE001 - a provider is foreign code
        name = type(error).__name__
        return Failure(message=f"a tool provider raised {name}", code="tool_provider")


async def hooked_view(hooks: Hooks, place: str, given: HistoryView = WHOLE) -> HistoryView:
    """Return what of the history the model is shown in the iteration that begins; `given` is what the turn began with."""
    views: list[HistoryView] = [] if given is WHOLE else [given]
    asked = hooks.start("view", place)
    while (said := await asked.next()) is not None:
        views.append(said)
    if len(views) < 2:
        return views[0] if views else WHOLE
    return merged(views, hooks.turn.history_now())


def merged(views: Sequence[HistoryView], messages: Sequence[Message]) -> HistoryView:
    """Return the view that hides what any of these hides."""
    places = {message.id: at for at, message in enumerate(messages)}

    def latest(edges: Sequence[str | None]) -> str | None:
        known = [edge for edge in edges if edge is not None]
        return max(known, key=lambda edge: places.get(edge, -1), default=None)

    def is_kept(message_id: str) -> bool:
        hiding = [view for view in views if message_id not in view.keep and view.drop_before]
        at = places.get(message_id, -1)
        return all(places.get(view.drop_before or "", -1) <= at for view in hiding)

    replaced = {one.id: one for view in views for one in view.replace}
    return HistoryView(
        drop_before=latest([view.drop_before for view in views]),
        clear_before=latest([view.clear_before for view in views]),
        drop=tuple(dict.fromkeys(one for view in views for one in view.drop)),
        replace=tuple(replaced.values()),
        placeholder=next((view.placeholder for view in views if view.placeholder), ""),
        words_before=latest([view.words_before for view in views]),
        keep=tuple(dict.fromkeys(one for view in views for one in view.keep if is_kept(one))),
    )
