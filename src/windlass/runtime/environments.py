"""Environments: the tools of an iteration, when an agent's are looked up anew or found on the way."""

from __future__ import annotations

import inspect

from windlass.errors import WindlassError
from windlass.journal import EnvironmentBuilt, SyncEnvironmentCommand
from windlass.kernel.effects import SyncEnvironment
from windlass.kernel.responses import Environment, EnvironmentSynced, Failure
from windlass.kernel.tool_call import ToolSpec
from windlass.runtime.turn_in_hand import TurnInHand
from windlass.runtime.turn_start import tools_of
from windlass.tools import Toolbox
from windlass.tools.finder import FINDER, found_in


class Environments:
    """Performs the environment effects of one turn."""

    def __init__(self, hand: TurnInHand) -> None:
        self._hand = hand
        self._specs: tuple[ToolSpec, ...] | None = None

    async def sync(self, effect: SyncEnvironment) -> EnvironmentSynced:
        """Ask the providers for their tools; what is as it was is not written down."""
        hand = self._hand
        command = SyncEnvironmentCommand(update_config=effect.update_config)
        envelope = hand.envelope(command, str(effect.id))
        known = hand.answer_to(envelope, EnvironmentBuilt)
        if known is not None:
            if isinstance(known.result, Environment):
                self._specs = known.result.tools
            await self._look_up()
            return EnvironmentSynced(id=effect.id, result=known.result)
        if hand.was_passed(effect.id):
            return EnvironmentSynced(id=effect.id)
        hand.go_live()
        failure = await self._look_up()
        if failure is not None:
            hand.record(envelope, EnvironmentBuilt(result=failure))
            return EnvironmentSynced(id=effect.id, result=failure)
        specs = hand.toolbox.offered(found_in(hand.messages_so_far()))
        if self._specs is None and hand.started is not None and not hand.program.providers:
            # Without providers the turn began with all that it has.
            self._specs = tools_of(hand.program, hand.started)
        if specs == self._specs:
            return EnvironmentSynced(id=effect.id)
        self._specs = specs
        prompt = hand.started.instructions if hand.started is not None else ""
        built = Environment(system_prompt=prompt, tools=specs)
        hand.record(envelope, EnvironmentBuilt(result=built))
        return EnvironmentSynced(id=effect.id, result=built)

    async def _look_up(self) -> Failure | None:
        hand = self._hand
        if not hand.program.providers:
            return None
        tools = [tool for tool in hand.program.toolbox if tool.spec.name != FINDER]
        try:
            for provider in hand.program.providers:
                found = provider.tools(hand.request.context)
                tools += await found if inspect.isawaitable(found) else found
            hand.toolbox = Toolbox(tools)
        except WindlassError as error:
            return Failure(message=str(error), code=error.code)
        except Exception as error:  # noqa: BLE001 - a provider is foreign code
            name = type(error).__name__
            return Failure(message=f"a tool provider raised {name}", code="tool_provider")
        return None
