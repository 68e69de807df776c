"""The agent of the errand soak: its tools act on other sessions, with the unit that records their result.

Whatever a tool sends bears a word of that run of its body, and so does the result. An errand that landed without its result,
or a result without its errands, leaves two words that differ.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.durability.errands import plan
from tests.durability.soak.ledger import Ledger
from tests.inside_calls import CHILD_TURN, InsideCall, send_with_end, tree_of
from windlass import Agent, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, Text, ToolCall, Usage
from windlass.plugins import Plugin, PluginTurn
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    MoveSession,
    NewItem,
    NewTurn,
    PostItem,
    TurnRequest,
    WaitAnswer,
)
from windlass.ports.inbox import ItemKind, When
from windlass.ports.tool import Pending
from windlass.testing import FunctionModel


def yard(ledger: Ledger, patience_s: float) -> Agent[None, str]:
    """Return the agent; `patience_s` is how long `stop` waits for a tree to grow."""

    async def answer(request: ModelRequest) -> ModelReply:
        ledger.write("model")
        await asyncio.sleep(0.001)
        return _reply(request)

    tools = [*_senders(ledger), *_parents(ledger, patience_s), *_idlers(patience_s)]
    model = FunctionModel(answer, name="answers")
    return Agent(plan.AGENT, model=model, tools=tools, plugins=[TellAtEnd(ledger)])


class TellAtEnd(Plugin):
    """Answers the parent's wait with the commit of a turn that is to do so, and keeps the word beside the history."""

    name = "tell_at_end"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def after_turn(self, turn: PluginTurn, outcome: object) -> None:
        """Answer."""
        if turn.context.get("at_end"):
            word = self._ledger.mint()
            turn.remember(told=word)
            answer = WaitAnswer(value=word, now_ms=turn.now_ms)
            send_with_end(turn, AnswerWait(key=str(turn.context["answers"]), answer=answer))


def _reply(request: ModelRequest) -> ModelReply:
    """Ask for the next word of the last task; when all are done, say so, whatever came meanwhile."""
    said = replies = 0
    words: list[str] = []
    for message in request.messages:
        if message.role == "assistant":
            said, replies = said + 1, replies + 1
        for part in message.parts:
            if type(part) is Text and part.text.startswith("Do "):
                words, replies = plan.words_of(part.text), 0
    usage = Usage(input_tokens=1, output_tokens=1)
    if replies >= len(words):
        return ModelReply(text=f"did {len(words)}", usage=usage)
    calls = tuple(_call(word, f"{said}_{at}") for at, word in enumerate(words[replies].split("+")))
    return ModelReply(parts=calls, usage=usage, terminal="tool_use")


def _call(word: str, place: str) -> ToolCall:
    name, _, of = word.partition(":")
    return ToolCall(call_id=f"{name}_{place}", name=name, args={"of": of})


def item_id_of(session_id: str, call_id: str) -> str:
    """Return the id of the item that a call posts."""
    return f"{session_id}.{call_id}"


def news(item_id: str, word: str) -> str:
    """Return the words of an item."""
    return f"News {item_id} {word}"


def _item(
    ctx: ToolContext[None], word: str, kind: ItemKind = "wake", when: When = "now"
) -> NewItem:
    item_id = item_id_of(ctx.session_id, ctx.call_id)
    text = news(item_id, word)
    content: Any = {"event_type": "news", "text": text}
    if kind == "input":
        content = {"parts": [{"type": "text", "text": text}]}
    return NewItem(item_id=item_id, kind=kind, when=when, content=content)


def _run(ledger: Ledger, ctx: ToolContext[None]) -> tuple[InsideCall, str]:
    """Write a run of a body down; return where it runs and its word."""
    word = ledger.mint()
    ledger.write("tool", ctx.session_id, ctx.call_id, word=word)
    return InsideCall(ctx), word


def _senders(ledger: Ledger) -> list[Any]:
    def post_to(ctx: ToolContext[None], target: str, **how: Any) -> str:
        inside, word = _run(ledger, ctx)
        inside.send(PostItem(session_id=target, item=_item(ctx, word, **how), now_ms=inside.now_ms))
        return word

    @tool(effect="keyed")
    async def post(ctx: ToolContext[None], of: str) -> str:
        """Wake a session."""
        return post_to(ctx, of)

    @tool(effect="keyed")
    async def later(ctx: ToolContext[None], of: str) -> str:
        """Post input for a session's next turn."""
        return post_to(ctx, of, kind="input", when="next_turn")

    @tool(effect="keyed")
    async def risk(ctx: ToolContext[None], of: str) -> str:
        """Wake a session that may be gone."""
        return post_to(ctx, of)

    @tool(effect="once")
    async def send(ctx: ToolContext[None], of: str) -> str:
        """Wake a session, and never twice: cut short, it sent nothing."""
        await asyncio.sleep(0.08)
        return post_to(ctx, of)

    @tool(effect="keyed")
    async def lose(ctx: ToolContext[None], of: str) -> str:
        """Send to what is gone."""
        inside, word = _run(ledger, ctx)
        inside.send(*_to_nowhere(inside, ctx, of))
        return word

    @tool(effect="keyed")
    async def tell(ctx: ToolContext[None], of: str) -> str:
        """Answer the parent's wait."""
        inside, word = _run(ledger, ctx)
        answer = WaitAnswer(value=word, now_ms=inside.now_ms)
        inside.send(AnswerWait(key=inside.request.context["answers"], answer=answer))
        return word

    @tool(effect="keyed")
    async def signal(ctx: ToolContext[None], of: str) -> str:
        """Send a signal."""
        inside, word = _run(ledger, ctx)
        content = {"name": plan.SIGNAL, "value": word}
        item_id = item_id_of(ctx.session_id, ctx.call_id)
        item = NewItem(item_id=item_id, kind="signal", when="asked", content=content)
        inside.send(PostItem(session_id=of, item=item, now_ms=inside.now_ms))
        return word

    @tool(effect="keyed")
    async def hear(ctx: ToolContext[None], of: str) -> Pending:
        """Wait for a signal."""
        inside, _ = _run(ledger, ctx)
        return await inside.wait_for_signal(plan.SIGNAL)

    return [post, later, risk, send, lose, tell, signal, hear]


def _to_nowhere(inside: InsideCall, ctx: ToolContext[None], gone: str) -> list[Errand]:
    """Return errands whose targets are gone or never were."""
    new = NewTurn(agent=plan.AGENT, request=TurnRequest(input=(Text(text="Do rest:1"),)))
    item, never = _item(ctx, "nobody"), f"{ctx.session_id}.never"
    answer = WaitAnswer(value="nobody", now_ms=inside.now_ms)
    found: list[Errand] = [
        PostItem(session_id=gone, item=item),
        PostItem(session_id=never, item=item),
        AcceptTurn(session_id=gone, turn_id=ctx.call_id, turn=new),
        AcceptTurn(session_id=gone, turn_id=ctx.call_id, turn=new, kind="child"),
        AnswerWait(key=f"w_{ctx.session_id}", answer=answer),
        CancelTurn(session_id=gone, turn_id=plan.TURN),
        CancelTurn(session_id=ctx.session_id, turn_id="never"),
        CancelTurn(session_id=never, turn_id="never"),
    ]
    assert len(found) == plan.N_LOST
    return found


def _parents(ledger: Ledger, patience_s: float) -> list[Any]:
    @tool(effect="keyed")
    async def spawn(ctx: ToolContext[None], of: str) -> str:
        """Start a child, and do not wait for it."""
        inside, word = _run(ledger, ctx)
        name, _, number = of.partition(":")
        asked = Text(text=f"{plan.child_task(name, int(number))} #{word}")
        new = NewTurn(agent=plan.AGENT, request=TurnRequest(input=(asked,)), now_ms=inside.now_ms)
        kid = inside.child(name)
        inside.send(AcceptTurn(session_id=kid, turn_id=CHILD_TURN, turn=new, kind="child"))
        return word

    @tool(effect="keyed")
    async def adopt(ctx: ToolContext[None], of: str) -> str:
        """Start a process, and give it to another session."""
        inside, word = _run(ledger, ctx)
        asked = Text(text=f"{plan.child_task(plan.ADOPTED, 0)} #{word}")
        new = NewTurn(agent=plan.AGENT, request=TurnRequest(input=(asked,)), now_ms=inside.now_ms)
        made = inside.child(plan.ADOPTED)
        started = AcceptTurn(session_id=made, turn_id=CHILD_TURN, turn=new, kind="process")
        inside.send(started, MoveSession(session_id=made, to=of))
        return word

    @tool(effect="keyed")
    async def ask(ctx: ToolContext[None], of: str) -> Pending:
        """Start a child, and wait for its answer."""
        inside, _ = _run(ledger, ctx)
        name, _, number = of.partition(":")
        asked = Text(text=plan.child_task(name, int(number)))
        request = TurnRequest(input=(asked,), context={"at_end": name in plan.AT_END})
        return await inside.wait_for_child(inside.child(name), plan.AGENT, request)

    @tool(effect="keyed")
    async def miss(ctx: ToolContext[None], of: str) -> Pending:
        """Wait for a child whose session is gone."""
        inside, _ = _run(ledger, ctx)
        request = TurnRequest(input=(Text(text="Do tell:"),))
        return await inside.wait_for_child(of, plan.AGENT, request)

    @tool(effect="keyed")
    async def stop(ctx: ToolContext[None], of: str) -> str:
        """Cancel a tree, once all of it is there."""
        inside = InsideCall(ctx)
        tree = tree_of(inside.store, of, plan.TURN, *plan.CANCELLED)
        try:
            async with asyncio.timeout(patience_s):
                while await inside.store.load_turn(*tree[-1]) is None:  # noqa: ASYNC110 - the store's
                    await asyncio.sleep(0.02)
        except TimeoutError:
            return "there is no such tree"
        inside, word = _run(ledger, ctx)
        inside.send(*(CancelTurn(session_id=s, turn_id=t, reason=word) for s, t in tree))
        return word

    return [spawn, adopt, ask, miss, stop]


def _idlers(patience_s: float) -> list[Any]:
    @tool(effect="keyed")
    async def rest(of: str) -> str:
        """Take a while."""
        await asyncio.sleep(int(of) / 100)
        return "rested"

    @tool(effect="keyed")
    async def hold(ctx: ToolContext[None], of: str) -> str | Pending:
        """Do not end before all patience with the tree is over."""
        if of == "parked":
            return await ctx.defer()
        await asyncio.sleep(2 * patience_s)
        return "never"

    return [rest, hold]
