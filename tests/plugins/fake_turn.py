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

    def state(self, plugin: str) -> Mapping[str, Any]:
        return self.states.get(plugin, {})

    def memory(self, plugin: str) -> Mapping[str, Any]:
        return self.memories.get(plugin, {})

    def answers(self, _plugin: str) -> Mapping[str, Json]:
        return self.answered

    def emit(self, plugin: str, name: str, data: Json) -> None:
        self.emitted.append((plugin, name, data))

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment:
        ref = sha256(data).hexdigest()
        self.blobs[ref] = data
        return Attachment(ref=ref, media_type=media_type, name=name, n_bytes=len(data))

    async def read(self, ref: str) -> bytes:
        return self.blobs[ref]

    async def complete(self, _plugin: str, _place: str, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return self.replies.pop(0)


class FakeTurn(PluginTurn):
    """A plugin's turn on a fake host; `settle` does what a runtime does once a hook's outcome is recorded."""

    __slots__ = ("host",)

    def __init__(self, plugin: str, host: FakeHost | None = None) -> None:
        self.host = host or FakeHost()
        super().__init__(self.host, plugin)

    def settle(self) -> None:
        """Apply what the hook changed."""
        for kind, kept in (("state", self.host.states), ("memory", self.host.memories)):
            for change in self._changes.pop(kind, ()):
                kept[self._plugin] = patched(kept.get(self._plugin, {}), recorded(change))
