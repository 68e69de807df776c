"""A program in which everybody says a secret at every opportunity: people, models, tools, plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.limits import HANGS_S
from tests.scenarios.stage import until
from windlass import Agent, Runtime, ToolContext, tool
from windlass.errors import InvalidInput, Unavailable
from windlass.guards import Secret, register_secret
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text
from windlass.kernel.history_view import HistoryView, MessageReplaced
from windlass.kernel.messages import Part, Reasoning, ResultPart
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.ports import Wait
from windlass.ports.directives import Delivery, Finale, ReplaceArgs, Retry, ShortCircuit
from windlass.ports.plugin import AskedCall, AtCheckpoint, Plugin, Trouble
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask
from windlass.ports.prompt import Contribution
from windlass.ports.tool import Tool
from windlass.testing import FunctionModel, Scenario, calls

KEY = "sk-canary-4711-aZ"
NAME = "API_KEY"
REPLIES = (
    calls(("look", {"at": KEY}), ("pay", {"to": KEY}), ("guess", {"at": KEY}), ("wait", {})),
    calls(("look", {"at": f"{KEY}!"}), ("fail", {"with_": KEY})),
)


class Blabbing(Plugin):
    """Says the secret in all that it may answer, and keeps it."""

    name = "blabbing"

    async def on_input(self, turn: PluginTurn, parts: tuple[Part, ...]) -> Sequence[Part]:
        turn.patch(heard=KEY)
        return [*parts, Text(text=f"on_input {KEY}")]

    async def before_turn(self, turn: PluginTurn) -> Sequence[str]:
        turn.remember(**{KEY: [KEY]})
        return [f"before_turn {KEY}"]

    async def prompt(self, turn: PluginTurn) -> Sequence[Contribution]:
        return [Contribution(f"prompt {KEY} {turn.iteration} {sorted(turn.state.items())}")]

    async def view(self, turn: PluginTurn) -> HistoryView:
        words = (Text(text=f"view {KEY}"),)
        return HistoryView(replace=(MessageReplaced(id=turn.messages[0].id, parts=words),))

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply:
        turn.emit("reply", KEY)
        said = Text(text=f"{reply.text} after_model {KEY}")
        parts = tuple(part for part in reply.parts if not isinstance(part, Text))
        return ModelReply(parts=(said, *parts), terminal=reply.terminal)

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> Any:  # noqa: ANN401 - a directive
        if call.name == "pay":
            return Ask(title=f"Pay {KEY}?")
        if call.name == "guess":
            return ShortCircuit(f"guessed {KEY}")
        return ReplaceArgs({"at": f"{KEY}?"}) if call.args == {"at": f"[{NAME}]!"} else None

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> ToolOutcome:
        return msgspec.structs.replace(call.outcome, value=f"{call.outcome.value} after_tool {KEY}")

    async def present_result(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> Sequence[ResultPart]:
        return [Text(text=f"{call.outcome.value} shown {KEY}")]

    async def on_error(self, turn: PluginTurn, trouble: Trouble) -> Retry:
        return Retry(f"on_error {KEY}")

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Delivery | None:
        if at.kind != "after_work":
            return None
        return Delivery(messages=[f"at_checkpoint {KEY}"], transient=[f"in passing {KEY}"])

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> Finale | None:
        if turn.turn_id != "t":
            return None
        return Finale(messages=[f"after_turn {KEY}"], issues=[f"issue {KEY}"])


def model() -> FunctionModel:
    """Return a model that says the secret, and fails once with it on the way."""
    has_failed = False

    async def answer(request: ModelRequest) -> ModelReply:
        nonlocal has_failed
        if len(request.messages) == 1:
            return ModelReply(text=f"direct {KEY}")
        replies = [one for one in request.messages if one.role == "assistant"]
        if len(replies) == 1 and not has_failed:
            has_failed = True
            raise Unavailable(f"no {KEY} here")
        if len(replies) >= len(REPLIES):
            thought = Reasoning(text=f"thinking {KEY}", replay={"signed": KEY})
            return ModelReply(parts=(thought, Text(text=f"said {KEY[:5]}"), Text(text=KEY[5:])))
        return REPLIES[len(replies)]

    return FunctionModel(answer)


@tool(effect="idempotent", output_limit=500)
async def look(ctx: ToolContext[None], at: str) -> dict[str, Any]:
    """Look at something."""
    ctx.progress({"at": KEY})
    request = ModelRequest(
        model="function",
        messages=(ModelMessage(role="user", parts=(Text(text=f"What is {at}?"),)),),
    )
    said = (await ctx.complete(request)).text
    refused = False
    try:
        await ctx.attach(f"a file with {KEY}".encode())
    except InvalidInput:
        refused = True
    return {KEY: said, "at": [at, KEY], "refused": refused, "long": f"{KEY} " * 100}


@tool(effect="idempotent")
async def pay(ctx: ToolContext[None], to: str) -> list[Any]:
    """Pay."""
    return [f"paid {to} with {KEY}", await ctx.attach(b"a receipt", name=f"{KEY}.txt")]


@tool(effect="pure")
async def guess(at: str) -> str:
    """Guess."""
    return at


@tool(effect="once")
async def wait(ctx: ToolContext[None]) -> object:
    """Wait for a result from outside."""
    return await ctx.defer()


@tool(effect="pure")
async def fail(with_: str) -> str:
    """Fail."""
    raise ValueError(f"{with_} is not {KEY}" + "." * 3_960 + KEY)


async def answer(rt: Runtime[Any], wait: Wait) -> None:
    """Answer a wait, with the secret."""
    if wait.kind == "approval":
        await rt.approve(wait.key, edit={"to": f"eve {KEY}"}, by=f"ann {KEY}")
    else:
        await rt.resolve(wait.key, {"delivered": KEY}, by=KEY)


async def everything(rt: Runtime[Any], *turn_ids: str) -> str:
    """Return all that can be read of the session `s`."""
    store = rt._services.store
    turns = [await store.load_turn("s", turn_id) for turn_id in turn_ids]
    return f"{await store.load_session('s')} {await store.inbox('s')} {await rt.waits()} {turns}"


async def _is_followed(rt: Runtime[Any]) -> bool:
    return (await rt._services.store.load_session("s")).head == 2


async def run(rt: Runtime[Any]) -> str:
    """Run the program until its follow-up has ended; return all that was shown, and all that is kept."""
    seen = list[object]()
    session = rt.session("s")
    result = await session.run(f"Go {KEY}", turn_id="t", context={"k": KEY}, on_event=seen.append)
    if not result.waits:
        await until(lambda: _is_followed(rt), within_s=HANGS_S)
    seen += [result.issues, result.messages, result.outcome, result.tool_calls]
    return f"{seen} {await everything(rt, 't')}"


def scenario() -> Scenario:
    """Return the program as a scenario; the secret is registered in each of its processes."""

    def agents() -> Agent[None, str]:
        register_secret(Secret(KEY, name=NAME))
        tools: list[Tool] = [look, pay, guess, wait, fail]
        return Agent(
            "blab", model=model(), instructions=f"Keep {KEY}.", tools=tools, plugins=[Blabbing()]
        )

    return Scenario(
        agents=agents, run=run, answer=answer, check=lambda shown: KEY not in str(shown)
    )
