"""What a hook is told of the turn it runs in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.journal import UsageLine
from windlass.kernel import Attachment, Json, Message, ModelReply, ModelRequest, ToolSpec


class PluginTurn(ABC):
    """The turn as one plugin sees it: its facts, the plugin's own state, and a few things to ask for.

    `state` is empty when a turn begins and gone when it ends; `memory` lasts as long as the session. Neither is ever
    kept on the plugin itself. `patch` and `remember` change them: the change is part of what is recorded of this hook,
    so it is there after a crash exactly if the hook is not run again. A hook that raises has changed nothing.

    The facts, which a hook reads and never sets:

    session_id: the session.
    turn_id: the turn.
    agent: the agent's name.
    model: the model that the turn began with, or is about to begin with.
    context: what the caller gave with the turn.
    deps: what tools are given.
    iteration: how many iterations came before.
    max_iterations: how many there may be.
    now_ms: the runtime's clock.
    started_ms: when the turn began.
    recovered: whether an earlier worker of this turn is gone.
    messages: the history of this frame, with what the turn added so far.
    turn_messages: what the turn added so far, its input first.
    tools: the tools that the model is offered now.
    system_prompt: the prompt in force; in `view`, that of the iteration that begins.
    usage: what the turn used so far, reservations that were lost included.
    reserved: what is reserved for calls under way.
    session_usage: what the session's committed turns used.
    allotted: what the turn above lets this one use, as this plugin's `allot` said there; None at the top of a tree.
    allotments: what this plugin's `allot` gave to children that are still at work.
    """

    __slots__ = ()

    session_id: str
    turn_id: str
    agent: str
    model: str
    context: Mapping[str, Json]
    deps: Any
    iteration: int
    max_iterations: int | None
    now_ms: int
    started_ms: int
    recovered: bool
    messages: Sequence[Message]
    turn_messages: Sequence[Message]
    tools: tuple[ToolSpec, ...]
    system_prompt: str
    usage: tuple[UsageLine, ...]
    reserved: tuple[UsageLine, ...]
    session_usage: tuple[UsageLine, ...]

    # ------------------------------------------------------------------ the tree

    @property
    def allotted(self) -> Json:
        """What the turn above lets this one use; None at the top of a tree."""
        return None

    @property
    def allotments(self) -> tuple[Json, ...]:
        """What this turn lets children use that are still at work."""
        return ()

    # ------------------------------------------------------------------ state

    @property
    @abstractmethod
    def state(self) -> Mapping[str, Any]:
        """The plugin's state in this turn."""

    @property
    @abstractmethod
    def memory(self) -> Mapping[str, Any]:
        """What the plugin keeps for the session."""

    @property
    @abstractmethod
    def answers(self) -> Mapping[str, Json]:
        """What people answered to this plugin's `Hold`s of the current model call, by their keys."""

    @abstractmethod
    def patch(self, **changes: Json) -> None:
        """Change the state: dicts merge, None removes, `add(n)` adds, `append(x)` appends."""

    @abstractmethod
    def remember(self, **changes: Json) -> None:
        """Change the memory, in the same way."""

    # ------------------------------------------------------------------ actions

    @abstractmethod
    def emit(self, name: str, data: Json = None) -> None:
        """Show an event to observers. A preview: nothing is stored."""

    @abstractmethod
    async def attach(
        self, data: bytes, *, media_type: str = "application/octet-stream", name: str | None = None
    ) -> Attachment:
        """Keep bytes and return what refers to them."""

    @abstractmethod
    async def read(self, ref: str) -> bytes:
        """Return the bytes that an attachment refers to."""

    @abstractmethod
    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask a model. The reply is recorded: a hook that runs again after a crash gets it without another call."""
