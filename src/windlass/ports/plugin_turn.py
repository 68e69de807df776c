"""What a hook is told of the turn it runs in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.journal import UsageLine
from windlass.kernel.messages import Attachment, Message
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import Json


class PluginTurn(ABC):
    """The turn as one plugin sees it: its facts, the plugin's own state, and a few things to ask for.

    `state` is empty when a turn begins and gone when it ends; `memory` lasts as long as the session. Neither is ever
    kept on the plugin itself. `patch` and `remember` change them: the change is part of what is recorded of this hook,
    so it is there after a crash exactly if the hook is not run again. A hook that raises has changed nothing.
    """

    __slots__ = ()

    # ------------------------------------------------------------------ facts

    @property
    @abstractmethod
    def session_id(self) -> str:
        """The session."""

    @property
    @abstractmethod
    def turn_id(self) -> str:
        """The turn."""

    @property
    @abstractmethod
    def agent(self) -> str:
        """The agent's name."""

    @property
    @abstractmethod
    def model(self) -> str:
        """The model that the turn began with, or is about to begin with."""

    @property
    @abstractmethod
    def context(self) -> Mapping[str, Json]:
        """What the caller gave with the turn."""

    @property
    @abstractmethod
    def deps(self) -> Any:  # noqa: ANN401 - the user's own
        """What tools are given."""

    @property
    @abstractmethod
    def iteration(self) -> int:
        """How many iterations came before."""

    @property
    @abstractmethod
    def max_iterations(self) -> int | None:
        """How many there may be."""

    @property
    @abstractmethod
    def now_ms(self) -> int:
        """The runtime's clock."""

    @property
    @abstractmethod
    def started_ms(self) -> int:
        """When the turn began."""

    @property
    @abstractmethod
    def recovered(self) -> bool:
        """Whether an earlier worker of this turn is gone."""

    @property
    @abstractmethod
    def messages(self) -> Sequence[Message]:
        """The history of this frame, with what the turn added so far."""

    @property
    @abstractmethod
    def turn_messages(self) -> Sequence[Message]:
        """What the turn added so far, its input first."""

    @property
    @abstractmethod
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the model is offered now."""

    @property
    @abstractmethod
    def system_prompt(self) -> str:
        """The prompt in force; in `view`, that of the iteration that begins."""

    @property
    @abstractmethod
    def usage(self) -> tuple[UsageLine, ...]:
        """What the turn used so far, reservations that were lost included."""

    @property
    @abstractmethod
    def reserved(self) -> tuple[UsageLine, ...]:
        """What is reserved for calls under way."""

    @property
    @abstractmethod
    def session_usage(self) -> tuple[UsageLine, ...]:
        """What the session's committed turns used."""

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
