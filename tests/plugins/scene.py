"""A scene: one turn with one plugin on a real runtime, whose worker may die while a model call is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.limits import HANGS_S
from tests.scenarios.readings import turn_view, words
from tests.scenarios.stage import Stage
from windlass import Agent, Runtime, TurnResult
from windlass.kernel import ModelReply, ModelRequest
from windlass.ports.plugin import Plugin
from windlass.testing import FunctionModel

HOOKS = ("before_turn", "before_tool", "after_tool", "after_model", "on_error", "at_checkpoint")
SILENT_NUDGES = ("Your last reply was empty.", "You thought, but said nothing.")


class Played(msgspec.Struct):
    """What a scene was: how it ended, what the model was asked, what the plugin said, by hook and in order."""

    result: TurnResult[Any]
    requests: list[ModelRequest]
    spoke: list[tuple[str, object]]

    @property
    def said(self) -> list[str]:
        """What the history has, message by message."""
        return [shown(message) for message in self.result.messages]

    def told_by(self, hook: str) -> list[object]:
        """What a hook said, where it said something."""
        return [answer for name, answer in self.spoke if name == hook and answer is not None]

    def asked(self, at: int) -> list[str]:
        """What the model was shown, message by message."""
        return [shown(message) for message in self.requests[at].messages]


def shown(message: Any) -> str:  # noqa: ANN401 - a message, as it is kept or as it is sent
    """Return a message in a line: its role, its words, and what tools it calls or answers."""
    found = [_part(part) for part in message.parts]
    return f"{message.role}: {' | '.join(found)}"


def _part(part: Any) -> str:  # noqa: ANN401 - any part
    if hasattr(part, "args"):
        return f"{part.name}({','.join(f'{k}={v}' for k, v in part.args.items())})"
    if hasattr(part, "content"):
        return f"{part.status}: {words(part.content)}"
    return str(part.text)


def watched(plugin: Plugin, spoke: list[tuple[str, object]]) -> Plugin:
    """Return a plugin that does the same, and notes what its hooks answer."""
    kind = type(plugin)
    made = type(kind.__name__, (kind,), {h: _noting(h, spoke) for h in HOOKS if _has(kind, h)})
    plugin.__class__ = made
    return plugin


def _has(kind: type[Plugin], hook: str) -> bool:
    return getattr(kind, hook) is not getattr(Plugin, hook)


def _noting(hook: str, spoke: list[tuple[str, object]]) -> Callable[..., Any]:
    async def run(self: Plugin, *given: Any) -> Any:  # noqa: ANN401 - as the hook says
        answer = await getattr(super(type(self), self), hook)(*given)
        spoke.append((hook, answer))
        return answer

    return run


class Script:
    """Replies by their place in the turn, which any process can tell from the request alone."""

    def __init__(self, replies: Sequence[ModelReply], *, hold_at: int | None = None) -> None:
        self._replies = tuple(replies)
        self._hold_at = hold_at
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()
        self.model = FunctionModel(self._answer, name="script")

    async def _answer(self, request: ModelRequest) -> ModelReply:
        lines = [shown(message) for message in request.messages]
        start = max(at for at, line in enumerate(lines) if line == "user: Go.")
        place = sum(
            line.startswith("assistant: ") or any(nudge in line for nudge in SILENT_NUDGES)
            for line in lines[start:]
        )
        if place == self._hold_at:
            self.reached.set()
            await self.gate.wait()
        return self._replies[place]


async def play(
    stage: Stage,
    make_plugin: Callable[[], Plugin],
    script: Sequence[ModelReply],
    *,
    kill_at: int | None = None,
    **agent: Any,
) -> Played:
    """Play one turn; with `kill_at` its worker dies while the model is asked for that reply, and another goes on."""
    spoke: list[tuple[str, object]] = []

    def made(playing: Script) -> Agent[Any, Any]:
        plugin = watched(make_plugin(), spoke)
        return Agent("a", model=playing.model, plugins=[plugin], **agent)

    first, second = Script(script, hold_at=kill_at), Script(script)
    async with stage.runtime(made(first)) as rt:
        await rt.session("s").submit("Go.", turn_id="t")
        if kill_at is None:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        else:
            async with asyncio.timeout(HANGS_S):
                await first.reached.wait()
            await _written(rt)
            stage.kill(rt)
            result = await _go_on(stage, made(second))
            spoke = [*spoke]  # the dead one lives on here, and what it still says comes too late
            first.gate.set()
    return Played(result, [*first.model.requests, *second.model.requests], spoke)


async def _written(runtime: Runtime[Any]) -> None:
    """Wait until all that the turn has to write is in the store: it goes there once the loop has nothing else to do."""
    n_pages = -1
    while (found := len((await turn_view(runtime, "s", "t")).pages)) != n_pages:
        n_pages = found
        for _ in range(100):
            await asyncio.sleep(0)


async def _go_on(stage: Stage, agent: Agent[Any, Any]) -> TurnResult[Any]:
    async with stage.runtime(agent) as rt:
        return await rt.turn("s", "t").result(timeout=HANGS_S)
