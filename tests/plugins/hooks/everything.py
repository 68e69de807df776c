"""A plugin that has every hook and uses it, and a turn in which each of them matters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.plugins.hooks.ledger import AGAIN, Acting, Ledger
from tests.plugins.hooks.playing import Played, played
from windlass import Agent, Runtime, tool
from windlass.errors import Unavailable
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text
from windlass.kernel.history_view import HistoryView, MessageReplaced
from windlass.kernel.messages import Part, ResultPart
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.models.scripted import placed
from windlass.ports.directives import Delivery, Finale, ReplaceArgs, Retry, ShortCircuit
from windlass.ports.model import TextChunk
from windlass.ports.plugin import AskedCall, AtCheckpoint, Chunk, CommittedTurn, Plugin, Trouble
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask
from windlass.ports.prompt import Contribution
from windlass.ports.tool import Tool
from windlass.testing import FunctionModel, Scenario, call, calls, say

REPLIES = (
    calls(("act", {"x": 1}), ("pay", {"cents": 7}), ("look", {"at": "the sky"})),
    call("act", x=13),
    say("Done."),
    say("No more."),
)
SAID = [
    "user: Think of the milk.",
    "user: Go, please.",
    "assistant: Hm. | act(x=1) | pay(cents=7) | look(at=the sky)",
    "user: ok: *did 2* | ok: *paid 7* | ok: *blue*",
    "user: By the way.",
    "assistant: Hm. | act(x=13)",
    "user: error: *Bad luck.*\n*Take another number.*",
    "assistant: Hm. Done.",
    "user: And then, please?",
    "assistant: Hm. No more.",
]


class Everything(Acting):
    """Has all hooks; what it knows of the turn is in the turn."""

    name = "everything"

    async def on_session_open(self, agent: str, session_id: str) -> None:
        self.ledger.acts.append("on_session_open")

    async def on_input(self, turn: PluginTurn, parts: tuple[Part, ...]) -> Sequence[Part]:
        await self.act(turn, "on_input")
        said = "".join(part.text for part in parts if isinstance(part, Text))
        return [Text(text=f"{said[:-1]}, please{said[-1]}")]

    async def before_turn(self, turn: PluginTurn) -> Sequence[str] | None:
        await self.act(turn, "before_turn")
        return None if "milk" in turn.memory else self._reminded(turn)

    def _reminded(self, turn: PluginTurn) -> Sequence[str]:
        turn.remember(milk=True)
        return ["Think of the milk."]

    async def prompt(self, turn: PluginTurn) -> Sequence[Contribution]:
        await self.act(turn, "prompt")
        return [Contribution(f"Iteration {turn.iteration}.")]

    async def view(self, turn: PluginTurn) -> HistoryView:
        await self.act(turn, "view")
        first = turn.messages[0]
        return HistoryView(replace=(MessageReplaced(id=first.id, parts=(Text(text="Milk!"),)),))

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> ModelRequest:
        await self.act(turn, "before_model")
        asked = ModelMessage(role="user", parts=(Text(text=f"Psst {turn.iteration}."),))
        return msgspec.structs.replace(request, messages=(*request.messages, asked))

    def on_stream(self, turn: PluginTurn, chunk: Chunk) -> Chunk:
        return TextChunk(text=chunk.text.upper())

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply:
        await self.act(turn, "after_model")
        parts = tuple(part for part in reply.parts if not isinstance(part, Text))
        hm = Text(text=f"Hm. {reply.text}".strip())
        return ModelReply(parts=(hm, *parts), terminal=reply.terminal)

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> Any:  # noqa: ANN401 - a directive
        await self.act(turn, "before_tool")
        if call.name == "pay":
            return Ask(title="Pay?")
        if call.name == "look":
            return ShortCircuit("blue")
        return ReplaceArgs({"x": 2}) if call.args == {"x": 1} else None

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> ToolOutcome | None:
        await self.act(turn, "after_tool")
        outcome = call.outcome
        if outcome.status not in ("ok", "error"):
            return None
        return msgspec.structs.replace(outcome, value=f"*{outcome.value}*")

    async def present_result(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> Sequence[ResultPart] | None:
        await self.act(turn, "present_result")
        parts = call.outcome.content
        if not parts:
            return None
        extra = [Text(text=f"*{part.text}*") for part in parts if isinstance(part, Text)]
        return [Text(text=str(call.outcome.value)), *extra]

    async def on_error(self, turn: PluginTurn, trouble: Trouble) -> Retry:
        await self.act(turn, f"on_error.{trouble.kind}")
        return Retry("Take another number." if trouble.kind == "tool" else AGAIN)

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Delivery | None:
        await self.act(turn, "at_checkpoint")
        if "at_checkpoint" in turn.memory:
            return None
        return Delivery(messages=["By the way."], transient=["Between us."])

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> Finale | None:
        await self.act(turn, "after_turn")
        turn.remember(state=dict(turn.state))
        if "state" in turn.memory:
            return None
        return Finale(messages=["And then?"], issues=["worth a look"])

    async def after_commit(self, ended: CommittedTurn) -> None:
        self.ledger.acts.append("after_commit")


def model_of(ledger: Ledger) -> FunctionModel:
    """Return a model that fails where nobody asks once more, at its second reply."""

    def answer(request: ModelRequest) -> ModelReply:
        ledger.requests.append(request)
        place = sum(message.role == "assistant" for message in request.messages)
        if place == 1 and AGAIN not in str(request.messages[-1]):
            raise Unavailable("The line is down.")
        return placed(REPLIES[place], place)

    return FunctionModel(answer, name="main")


def tools_of(ledger: Ledger) -> list[Tool]:
    """Return the tools: one that may act once, one that only looks."""

    @tool(effect="once")
    async def pay(cents: int) -> str:
        """Pay."""
        ledger.bodies.append("paid")
        return f"paid {cents}"

    @tool(effect="pure")
    async def look(at: str) -> str:
        """Look."""
        return "grey"

    return [ledger.tool(), pay, look]


def scenario(
    ledger: Ledger, make: Callable[[], Plugin], check: Callable[[Played], object] | None = None
) -> Scenario:
    """Return the program: a turn with every hook, and the one that it leaves behind."""

    async def run(rt: Runtime[Any]) -> Played | None:
        result = await rt.session("s").run("Go.", turn_id="t")
        return None if result.parked else await played(rt, turns=2)

    return Scenario(
        agents=lambda: Agent("a", model=model_of(ledger), tools=tools_of(ledger), plugins=[make()]),
        run=run,
        answer=lambda rt, wait: rt.approve(wait.key, by="eva"),
        check=check,
    )
