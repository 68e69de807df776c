"""The clerk: a model that does what a turn's plan says, reads on by chance, and sums up when it is asked to."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable

from tests.plugins.long_sessions.gauges import Instructions
from tests.plugins.long_sessions.judge import Judge, place_of
from tests.plugins.long_sessions.ledger import Ledger
from tests.plugins.long_sessions.plans import Asked, TurnPlan, words
from tests.scenarios.summing import is_wish
from windlass.kernel import ModelReply, ModelRequest, Text, ToolCall, ToolResult, Usage
from windlass.plugins import Plugin, PluginTurn
from windlass.testing import FunctionModel

WINDOW = 12_000
_READ = re.compile(r'read_output\((call_id|ref)="([^"]+)"(?:, start=(\d+))?\)')
READS = 0.35


class Clerk:
    """One process's model. After its process is killed it never answers again."""

    def __init__(self, ledger: Ledger, judge: Judge, fuse: Callable[[], bool]) -> None:
        self._ledger = ledger
        self._judge = judge
        self._fuse = fuse
        self.is_dead = False
        self.model = FunctionModel(self._answer, name="clerk")

    async def _answer(self, request: ModelRequest) -> ModelReply:
        # They would be kept for ever otherwise, and so would all that they hold.
        self.model.requests.clear()
        await self.live_or_hang()
        with Instructions.pause():
            reply = self._judged(request)
        if self._fuse():
            self.is_dead = True
            await self.live_or_hang()
        self._ledger.brought_bytes += len(reply.text)
        return reply

    def _judged(self, request: ModelRequest) -> ModelReply:
        session_id = request.session_id or ""
        turn_id = self._ledger.running[session_id]
        if is_wish(request):
            tokens, number = self._judge.look_at_wish(request, turn_id)
            self._ledger.summaries[session_id] = number
            reply = self._sum_up(number, session_id)
        else:
            tokens = self._judge.look_at_turn(request, turn_id)
            reply = self._go_on(request, self._ledger.plans[turn_id])
        return ModelReply(
            text=reply.text, parts=reply.parts, terminal=reply.terminal, usage=_usage(tokens, reply)
        )

    async def live_or_hang(self) -> None:
        """Go on, or never again."""
        if self.is_dead:
            await asyncio.Event().wait()

    def _sum_up(self, number: int, session_id: str) -> ModelReply:
        chance = random.Random(f"{self._ledger.seed}:{session_id}:{number}")
        text = f"Summary {number} of {session_id}. {words(chance, 600)}"
        return ModelReply(text=f"<summary>{text}</summary>")

    def _go_on(self, request: ModelRequest, plan: TurnPlan) -> ModelReply:
        start = max(place_of(request, plan.text), 0)
        step = sum(message.role == "assistant" for message in request.messages[start:])
        chance = random.Random(f"{self._ledger.seed}:{plan.n}:{step}")
        asked = plan.steps[step] if step < len(plan.steps) else ()
        if step < len(plan.reads) and plan.reads[step] < READS:
            asked = (*asked, *self._reading(request, chance))
        if not asked:
            return ModelReply(text=plan.answer)
        return ModelReply(
            text="Looking." if chance.random() < 0.3 else "",
            parts=tuple(
                ToolCall(
                    call_id=f"call_{at}" if plan.repeats_ids else f"c{plan.n}-{step}-{at}",
                    name=call.name,
                    args=dict(call.args),
                )
                for at, call in enumerate(asked)
            ),
            terminal="tool_use",
        )

    def _reading(self, request: ModelRequest, chance: random.Random) -> list[Asked]:
        found = [
            (key, name, start)
            for message in request.messages
            for part in message.parts
            if isinstance(part, ToolResult)
            for each in part.content
            if isinstance(each, Text)
            for key, name, start in _READ.findall(each.text)
        ]
        if not found:
            return []
        key, name, start = chance.choice(found)
        if chance.random() < 0.05:
            name = "nobody-knows-this"
        args: dict[str, int | str] = {key: name, "start": int(start or 1)}
        if chance.random() < 0.5:
            args["lines"] = chance.randint(1, 500)
        return [Asked("read_output", args)]


def _usage(tokens: int, reply: ModelReply) -> Usage:
    """Say how much was read, a part of it from a cache."""
    cached = tokens // 3
    return Usage(
        input_tokens=tokens - cached,
        cached_input_tokens=cached,
        output_tokens=1 + len(reply.text) // 4,
    )


class Watch(Plugin):
    """Says which turn asks."""

    name = "watch"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> None:
        """Note the turn."""
        self._ledger.running[turn.session_id] = turn.turn_id
