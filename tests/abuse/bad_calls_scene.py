"""A runtime to be abused: one agent, a few tools, a model that says what it is told, a session with one good turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Self

from tests.limits import HANGS_S
from windlass import Agent, Runtime, Session, ToolContext, TurnHandle, TurnResult, tool
from windlass.kernel import Message, ModelReply, ModelRequest, Text, ToolCall, ToolResult
from windlass.kernel.outcomes import Finished
from windlass.testing import FunctionModel, call, say

StoreKind = Literal["memory", "sqlite"]
Parked = Literal["", "deferred", "approval"]
# Whatever the types say should not be there.
Junk = Any


class Scene:
    """What a row of the table acts on. `gift` is what `give` returns, `deed` what `do` does."""

    def __init__(self, folder: Path, store: StoreKind) -> None:
        self.folder = folder
        self.store = store
        self.ran: list[object] = []
        self.gift: object = None
        self.deed: Callable[[ToolContext[Any]], Awaitable[object]] = _nothing
        self.sync_deed: Callable[[], object] = int
        self.model = FunctionModel(self._answer)
        self.key = ""
        self._waiting: dict[str, tuple[str, str]] = {}
        self._replies: list[ModelReply] = []
        self.tools = self._tools()
        self.rt = self.runtime()
        self.session: Session[str] = self.rt.session("s")

    def runtime(self, **settings: Any) -> Runtime[str]:
        """Return a runtime of the scene's agent on the scene's store, or what `settings` say."""
        settings = {"store": self.address, "durability": "process"} | settings
        tools = settings.pop("tools", self.tools)
        return Runtime(Agent("a", model=self.model, tools=tools), **settings)

    @property
    def address(self) -> str:
        return "memory:" if self.store == "memory" else f"sqlite:///{self.folder / 'a.db'}"

    async def __aenter__(self) -> Self:
        await self.rt.__aenter__()
        assert (await self.run("hello")).outcome == Finished(text="fine")
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.rt.__aexit__(None, None, None)

    # ------------------------------------------------------------------ the model and its tools

    def _answer(self, _request: ModelRequest) -> ModelReply:
        return self._replies.pop(0) if self._replies else say("fine")

    def says(self, *replies: ModelReply) -> None:
        """Let the model say this next, and then that it is fine."""
        self._replies = list(replies)

    def _tools(self) -> list[Any]:
        @tool
        def add(a: int, b: int) -> int:
            self.ran.append((a, b))
            return a + b

        @tool(approval="ask")
        def pay(cents: int, memo: Any = None) -> str:  # noqa: ANN401 - anything
            self.ran.append((cents, memo))
            return f"paid {cents}"

        @tool
        async def later(ctx: ToolContext[Any]) -> object:
            return await ctx.defer()

        @tool
        def give() -> object:
            return self.gift

        @tool
        async def do(ctx: ToolContext[Any]) -> object:
            return await self.deed(ctx)

        @tool
        def do_sync() -> object:
            return self.sync_deed()

        return [add, pay, later, give, do, do_sync]

    # ------------------------------------------------------------------ acting

    async def run(self, given: Junk = "hi", **options: Junk) -> TurnResult[Any]:
        return await self.session.run(given, **options)

    async def submit(self, given: Junk = "hi", **options: Junk) -> TurnHandle[Any]:
        return await self.session.submit(given, **options)

    async def park(self, kind: Parked) -> None:
        """Let a turn of another session wait, once; `key` is what it waits for.

        The one that waits for a result is turn `w` of session `w`, the other of `v`.
        """
        if kind not in self._waiting:
            self.says(call("later") if kind == "deferred" else call("pay", cents=1))
            name = "w" if kind == "deferred" else "v"
            parked = await self.rt.session(name).run("wait", turn_id="w")
            assert [wait.kind for wait in parked.waits] == [kind]
            self._waiting[kind] = (name, parked.waits[0].key)
        self.key = self._waiting[kind][1]

    async def told(self, reply: ModelReply) -> ToolResult:
        """Let the model say this; return what it is told of its last call, once the turn has finished."""
        self.says(reply)
        result = await self.run("go")
        assert result.outcome == Finished(text="fine")
        return results_in(result.messages)[-1]

    async def told_of(self, raw: str) -> ToolResult:
        """Let the model call `add` with arguments that it wrote like this; the body does not run."""
        asked = ToolCall(call_id="c", name="add", raw=raw)
        told = await self.told(ModelReply(parts=(asked,), terminal="tool_use"))
        assert self.ran == []
        return told

    # ------------------------------------------------------------------ looking

    async def kept(self) -> object:
        """Return all that is stored, but for who holds which lease."""
        store = self.rt._services.store
        found: list[object] = [await store.list_waits()]
        for one in await self.rt.sessions():
            view = await store.load_session(one.session_id)
            turns = {page.turn_id for page in view.pages} | {*view.queued}
            turns |= {view.active} if view.active is not None else set()
            loaded = [await store.load_turn(one.session_id, turn) for turn in sorted(turns)]
            states = [
                (turn.turn_id, turn.state, turn.cancel) for turn in loaded if turn is not None
            ]
            inbox = await store.inbox(one.session_id)
            found.append((one, view.head, view.pages, view.usage, states, inbox))
        return found, self.files()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*"))

    async def works(self) -> None:
        """See that the session goes on, and that what waited can still be answered."""
        self.says()
        result = await self.run("and now?")
        assert result.outcome == Finished(text="fine")
        assert texts_in(result.messages) == ["and now?", "fine"]
        still_open = {wait.key for wait in await self.rt.waits()}
        for kind, (name, key) in self._waiting.items():
            if key in still_open:
                answered = (
                    self.rt.approve(key) if kind == "approval" else self.rt.resolve(key, "here")
                )
                assert (await answered).status == "accepted"
            ended = await self.rt.turn(name, "w").result(timeout=HANGS_S)
            assert ended.outcome == Finished(text="fine")

    async def until_idle(self) -> None:
        """Wait until nothing waits in the session's inbox."""
        async with asyncio.timeout(HANGS_S):
            while (inbox := await self.session.inbox()).items or inbox.queued_turns:  # noqa: ASYNC110 - the store's
                await asyncio.sleep(0.02)


async def _nothing(_ctx: ToolContext[Any]) -> object:
    return None


def texts_in(messages: tuple[Message, ...]) -> list[str]:
    """Return the words in messages, without results."""
    return [part.text for message in messages for part in message.parts if isinstance(part, Text)]


def results_in(messages: tuple[Message, ...]) -> list[ToolResult]:
    """Return the results in messages."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


def calls_in(messages: tuple[Message, ...]) -> list[ToolCall]:
    """Return the calls in messages."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolCall)]


def said(result: ToolResult) -> str:
    """Return the words of a result."""
    return "\n".join(part.text for part in result.content if isinstance(part, Text))
