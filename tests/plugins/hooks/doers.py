"""Plugins that do one thing to a turn each, once in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.plugins.hooks.ledger import AGAIN, Acting
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text
from windlass.kernel.history_view import HistoryView, MessageReplaced
from windlass.kernel.messages import Part, ResultPart, ToolResult
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.ports.directives import (
    Abort,
    Continue,
    Delivery,
    Finale,
    Refuse,
    ReplaceArgs,
    Retry,
    ShortCircuit,
    Stop,
)
from windlass.ports.plugin import AskedCall, AtCheckpoint, Trouble
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask, Deny
from windlass.ports.prompt import Contribution
from windlass.testing import say

# ---------------------------------------------------------------------- the turn begins


class Cleans(Acting):
    async def on_input(self, turn: PluginTurn, parts: tuple[Part, ...]) -> Sequence[Part]:
        await self.act(turn)
        return [Text(text="Cleaned.")]


class Refuses(Acting):
    async def on_input(self, turn: PluginTurn, parts: tuple[Part, ...]) -> Refuse:
        await self.act(turn)
        return Refuse("Not that.")


class Reminds(Acting):
    async def before_turn(self, turn: PluginTurn) -> Sequence[str]:
        await self.act(turn)
        return ["Think of the milk."]


class Aborts(Acting):
    async def before_turn(self, turn: PluginTurn) -> Abort:
        await self.act(turn)
        return Abort("Not today.")


class Prompts(Acting):
    """Says something in one iteration: the first is that of the turn's start."""

    at = 0

    async def prompt(self, turn: PluginTurn) -> Sequence[Contribution] | None:
        if turn.iteration != self.at:
            return [Contribution("Be brief.", slot="intro")] if self.at < turn.iteration else None
        await self.act(turn)
        return [Contribution("Be brief.", slot="intro")]


class PromptsLater(Prompts):
    at = 1


class Views(Acting):
    async def view(self, turn: PluginTurn) -> HistoryView | None:
        if turn.iteration != 1:
            return None
        await self.act(turn)
        last = turn.messages[-1]
        result = ToolResult(call_id="call_0_0", name="act", content=(Text(text="did it"),))
        return HistoryView(replace=(MessageReplaced(id=last.id, parts=(result,)),))


# ---------------------------------------------------------------------- the model


class Whispers(Acting):
    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> ModelRequest | None:
        if turn.iteration != 1:
            return None
        await self.act(turn)
        whisper = ModelMessage(role="user", parts=(Text(text="Psst."),))
        return msgspec.structs.replace(request, messages=(*request.messages, whisper))


class Redirects(Acting):
    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> ModelRequest | None:
        if turn.iteration != 1:
            return None
        await self.act(turn)
        return msgspec.structs.replace(request, model="spare")


class StopsBefore(Acting):
    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> Stop | None:
        if turn.iteration == 0:
            return None
        await self.act(turn)
        return Stop("That will do.")


class Louder(Acting):
    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply | None:
        if "acts" in turn.state:
            return None
        await self.act(turn)
        parts = (Text(text="Hm!"), *(part for part in reply.parts if not isinstance(part, Text)))
        return ModelReply(parts=parts, terminal=reply.terminal)


class DropsCalls(Acting):
    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply | None:
        await self.act(turn)
        return say("No calls.")


class StopsAfter(Acting):
    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> Stop:
        await self.act(turn)
        return Stop("That will do.")


# ---------------------------------------------------------------------- tools


class Before(Acting):
    """Answers before a tool."""

    answer: Any = None

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> Any:  # noqa: ANN401 - a directive
        if "acts" in turn.state:
            return None
        await self.act(turn)
        return self.answer


class Replaces(Before):
    answer = ReplaceArgs({"x": 2})


class ShortCircuits(Before):
    answer = ShortCircuit("from the cache")


class Denies(Before):
    answer = Deny(reason="No.")


class Asks(Before):
    answer = Ask(title="Really?")


class After(Acting):
    """Answers after a tool."""

    answer: Any = None

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> Any:  # noqa: ANN401 - an answer
        if "acts" in turn.state:
            return None
        await self.act(turn)
        return self.answer


class Edits(After):
    answer = ToolOutcome(value="edited")


class Withholds(After):
    answer = Deny(reason="secret")


class Presents(Acting):
    async def present_result(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> Sequence[ResultPart] | None:
        if "acts" in turn.state:
            return None
        await self.act(turn)
        return [Text(text="in short")]


class Troubled(Acting):
    """Answers what failed, once for each failure."""

    answer: Any = None

    async def on_error(self, turn: PluginTurn, trouble: Trouble) -> Any:  # noqa: ANN401 - a directive
        await self.act(turn)
        return self.answer


class GivesUp(Troubled):
    answer = Stop("Enough.")


class Advises(Troubled):
    answer = Retry("Take another number.")


class GoesOn(Troubled):
    answer = Continue()


class AsksAgain(Troubled):
    answer = Retry(AGAIN)


class AsksAnother(Troubled):
    answer = Retry(model="spare")


# ---------------------------------------------------------------------- between and after


class Enters(Acting):
    """Lets something in after the work, or before the end."""

    at = "after_work"
    answer: Any = Delivery(messages=["By the way."])

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Any:  # noqa: ANN401 - a directive
        if at.kind != self.at or "acts" in turn.state:
            return None
        await self.act(turn)
        return self.answer


class EntersUnseen(Enters):
    answer = Delivery(transient=["Between us."])


class StopsThere(Enters):
    answer = Stop("That will do.")


class GoesBack(Enters):
    at = "before_completion"


class Follows(Acting):
    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> Finale | None:
        if "acts" in turn.memory:
            return None
        await self.act(turn)
        return Finale(messages=["And then?"], issues=["worth a look"])
