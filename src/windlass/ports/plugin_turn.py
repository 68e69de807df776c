"""What a hook is told of the turn it runs in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from windlass.journal import UsageLine
from windlass.kernel.messages import Attachment, Message
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import Json


class PluginHost(Protocol):
    """What stands behind a plugin's turn: the turn itself."""

    @property
    def session_id(self) -> str: ...
    @property
    def turn_id(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def context(self) -> Mapping[str, Json]: ...
    @property
    def deps(self) -> Any: ...  # noqa: ANN401 - the user's own
    @property
    def iteration(self) -> int: ...
    @property
    def max_iterations(self) -> int | None: ...
    @property
    def now_ms(self) -> int: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def recovered(self) -> bool: ...
    @property
    def messages(self) -> Sequence[Message]: ...
    @property
    def turn_messages(self) -> Sequence[Message]: ...
    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...
    @property
    def system_prompt(self) -> str: ...
    @property
    def usage(self) -> tuple[UsageLine, ...]: ...
    @property
    def reserved(self) -> tuple[UsageLine, ...]: ...
    @property
    def session_usage(self) -> tuple[UsageLine, ...]: ...

    def state(self, plugin: str) -> Mapping[str, Any]: ...
    def memory(self, plugin: str) -> Mapping[str, Any]: ...
    def answers(self, plugin: str) -> Mapping[str, Json]: ...
    def emit(self, plugin: str, name: str, data: Json) -> None: ...
    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment: ...
    async def read(self, ref: str) -> bytes: ...
    async def complete(self, plugin: str, place: str, request: ModelRequest) -> ModelReply: ...


class PluginTurn:
    """The turn as one plugin sees it: what is, its own state, and a few things it may ask for.

    `state` is empty when a turn begins and gone when it ends; `memory` lasts as long as the session. Neither is ever
    kept on the plugin itself. `patch` and `remember` change them: the change is part of what is recorded of this hook,
    so it is there after a crash exactly if the hook is not run again. A hook that raises has changed nothing.
    """

    __slots__ = ("_changes", "_host", "_memory", "_plugin", "_state")

    def __init__(self, host: PluginHost, plugin: str) -> None:
        self._host = host
        self._plugin = plugin
        self._changes: dict[str, list[Mapping[str, Any]]] = {}
        # Around a call: as it was when its batch began, with the call's own changes.
        self._state: Mapping[str, Any] | None = None
        self._memory: Mapping[str, Any] | None = None

    # ------------------------------------------------------------------ what is

    @property
    def session_id(self) -> str:
        """The session."""
        return self._host.session_id

    @property
    def turn_id(self) -> str:
        """The turn."""
        return self._host.turn_id

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self._host.agent

    @property
    def model(self) -> str:
        """The model that the turn began with."""
        return self._host.model

    @property
    def context(self) -> Mapping[str, Json]:
        """What the caller gave with the turn."""
        return self._host.context

    @property
    def deps(self) -> Any:  # noqa: ANN401 - the user's own
        """What tools are given."""
        return self._host.deps

    @property
    def iteration(self) -> int:
        """How many iterations came before."""
        return self._host.iteration

    @property
    def max_iterations(self) -> int | None:
        """How many there may be."""
        return self._host.max_iterations

    @property
    def now_ms(self) -> int:
        """The runtime's clock."""
        return self._host.now_ms

    @property
    def started_ms(self) -> int:
        """When the turn began."""
        return self._host.started_ms

    @property
    def recovered(self) -> bool:
        """Whether an earlier worker of this turn is gone."""
        return self._host.recovered

    @property
    def messages(self) -> Sequence[Message]:
        """The history of this frame, with what the turn added so far."""
        return self._host.messages

    @property
    def turn_messages(self) -> Sequence[Message]:
        """What the turn added so far, its input first."""
        return self._host.turn_messages

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What is on offer now."""
        return self._host.tools

    @property
    def system_prompt(self) -> str:
        """The prompt in force; in `view`, that of the iteration that begins."""
        return self._host.system_prompt

    @property
    def usage(self) -> tuple[UsageLine, ...]:
        """What the turn used so far, reservations that were lost included."""
        return self._host.usage

    @property
    def reserved(self) -> tuple[UsageLine, ...]:
        """What is reserved for calls under way."""
        return self._host.reserved

    @property
    def session_usage(self) -> tuple[UsageLine, ...]:
        """What the session's committed turns used."""
        return self._host.session_usage

    # ------------------------------------------------------------------ state

    @property
    def state(self) -> Mapping[str, Any]:
        """The plugin's state in this turn."""
        return self._host.state(self._plugin) if self._state is None else self._state

    @property
    def memory(self) -> Mapping[str, Any]:
        """What the plugin keeps for the session."""
        return self._host.memory(self._plugin) if self._memory is None else self._memory

    @property
    def answers(self) -> Mapping[str, Json]:
        """What people answered to this plugin's `Hold`s of the call at hand, by their keys."""
        return self._host.answers(self._plugin)

    def patch(self, **changes: Json) -> None:
        """Change the state: dicts merge, None removes, `add(n)` adds, `append(x)` appends."""
        self._changes.setdefault("state", []).append(changes)

    def remember(self, **changes: Json) -> None:
        """Change the memory, in the same way."""
        self._changes.setdefault("memory", []).append(changes)

    # ------------------------------------------------------------------ what may be asked for

    def emit(self, name: str, data: Json = None) -> None:
        """Show something to whoever watches. A preview: nothing is stored."""
        self._host.emit(self._plugin, name, data)

    async def attach(
        self, data: bytes, *, media_type: str = "application/octet-stream", name: str | None = None
    ) -> Attachment:
        """Keep bytes and return what refers to them."""
        return await self._host.attach(data, media_type, name)

    async def read(self, ref: str) -> bytes:
        """Return the bytes that an attachment refers to."""
        return await self._host.read(ref)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask a model. Recorded: a hook that runs again after a crash does not buy it again."""
        return await self._host.complete(self._plugin, self._place(), request)

    def _place(self) -> str:
        """Return where the hook runs that asks."""
        return ""
