"""A turn made by hand, for tests that call a plugin's hooks without a runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from windlass.journal import UsageLine
from windlass.journal.patch import patched, recorded
from windlass.kernel.messages import Attachment, Message
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import Json
from windlass.ports.plugin_turn import PluginTurn


class FakeHost:
    """What a test says a turn is. State lives here, as it does in a real turn."""

    def __init__(self) -> None:
        self.session_id = "s"
        self.turn_id = "t"
        self.agent = "a"
        self.model = "m"
        self.context: Mapping[str, Json] = {}
        self.deps: Any = None
        self.iteration = 0
        self.max_iterations: int | None = 50
        self.now_ms = 1_000_000
        self.started_ms = 1_000_000
        self.recovered = False
        self.messages: Sequence[Message] = ()
        self.turn_messages: Sequence[Message] = ()
        self.tools: tuple[ToolSpec, ...] = ()
        self.system_prompt = ""
        self.usage: tuple[UsageLine, ...] = ()
        self.reserved: tuple[UsageLine, ...] = ()
        self.session_usage: tuple[UsageLine, ...] = ()
        self.states: dict[str, dict[str, Any]] = {}
        self.memories: dict[str, dict[str, Any]] = {}
        self.answered: dict[str, Json] = {}
        self.emitted: list[tuple[str, str, Json]] = []
        self.blobs: dict[str, bytes] = {}
        self.replies: list[ModelReply] = []
        self.requests: list[ModelRequest] = []

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment:
        ref = sha256(data).hexdigest()
        self.blobs[ref] = data
        return Attachment(ref=ref, media_type=media_type, name=name, n_bytes=len(data))


class _Of:
    """An attribute of a turn that its host has under the same name."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, turn: FakeTurn, _owner: type) -> Any:  # noqa: ANN401 - as the host says
        return getattr(turn.host, self._name)


def _of_host() -> Any:  # noqa: ANN401 - as the host says
    return _Of()


class FakeTurn(PluginTurn):
    """A plugin's turn on a fake host; `settle` does what a runtime does once a hook's outcome is recorded."""

    session_id = _of_host()
    turn_id = _of_host()
    agent = _of_host()
    model = _of_host()
    context = _of_host()
    deps = _of_host()
    iteration = _of_host()
    max_iterations = _of_host()
    now_ms = _of_host()
    started_ms = _of_host()
    recovered = _of_host()
    messages = _of_host()
    turn_messages = _of_host()
    tools = _of_host()
    system_prompt = _of_host()
    usage = _of_host()
    reserved = _of_host()
    session_usage = _of_host()

    def __init__(self, plugin: str, host: FakeHost | None = None) -> None:
        self.host = host or FakeHost()
        self._plugin = plugin
        self._changes: dict[str, list[Mapping[str, Any]]] = {}

    @property
    def state(self) -> Mapping[str, Any]:
        return self.host.states.get(self._plugin, {})

    @property
    def memory(self) -> Mapping[str, Any]:
        return self.host.memories.get(self._plugin, {})

    @property
    def answers(self) -> Mapping[str, Json]:
        return self.host.answered

    def patch(self, **changes: Json) -> None:
        self._changes.setdefault("state", []).append(changes)

    def remember(self, **changes: Json) -> None:
        self._changes.setdefault("memory", []).append(changes)

    def emit(self, name: str, data: Json = None) -> None:
        self.host.emitted.append((self._plugin, name, data))

    async def attach(
        self, data: bytes, *, media_type: str = "application/octet-stream", name: str | None = None
    ) -> Attachment:
        return await self.host.attach(data, media_type, name)

    async def read(self, ref: str) -> bytes:
        return self.host.blobs[ref]

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.host.requests.append(request)
        return self.host.replies.pop(0)

    def settle(self) -> None:
        """Apply what the hook changed."""
        for kind, kept in (("state", self.host.states), ("memory", self.host.memories)):
            for change in self._changes.pop(kind, ()):
                kept[self._plugin] = patched(kept.get(self._plugin, {}), recorded(change))
