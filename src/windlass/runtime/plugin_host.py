"""What stands behind a plugin's turn: the turn in hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from windlass.errors import CallerError, ConfigError
from windlass.guards import check_limit
from windlass.journal import UsageLine
from windlass.kernel import events
from windlass.kernel.messages import Attachment, Message
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import EMPTY_DICT, Json
from windlass.runtime.plugin_states import PluginStates
from windlass.runtime.turn import Turn


class Asks(Protocol):
    """Whoever buys replies for plugins."""

    async def direct(self, request: ModelRequest, place: str, source: str) -> ModelReply: ...


class TurnHost:
    """Shows a turn to its plugins."""

    def __init__(self, hand: Turn, states: PluginStates) -> None:
        self._hand = hand
        self._states = states
        self.session_id = hand.session_id
        self.turn_id = hand.turn_id
        self.agent = hand.program.name
        self.models: Asks | None = None
        # What people answered to the holds of the call at hand, by plugin.
        self.held: dict[str, dict[str, Json]] = {}

    # ------------------------------------------------------------------ what is

    @property
    def model(self) -> str:
        """The model that the turn began with, or is about to."""
        hand = self._hand
        if hand.started is not None:
            return hand.started.model
        wanted: str = hand.request.overrides.get("model", hand.program.model.name)
        return wanted

    @property
    def context(self) -> Mapping[str, Json]:
        """What the caller gave."""
        return self._hand.request.context

    @property
    def deps(self) -> Any:  # noqa: ANN401 - the user's own
        """What tools are given."""
        return self._hand.deps

    @property
    def iteration(self) -> int:
        """How many iterations came before."""
        return self._hand.iteration

    @property
    def max_iterations(self) -> int | None:
        """How many there may be."""
        return self._hand.limits.max_iterations

    @property
    def now_ms(self) -> int:
        """The clock."""
        return self._hand.services.clock.now_ms()

    @property
    def started_ms(self) -> int:
        """When the turn began."""
        started = self._hand.started
        return self.now_ms if started is None else started.started_ms

    @property
    def recovered(self) -> bool:
        """Whether an earlier worker is gone."""
        return self._hand.is_recovered

    @property
    def messages(self) -> Sequence[Message]:
        """The frame's history with what the turn added."""
        return self._hand.history_now()

    @property
    def turn_messages(self) -> Sequence[Message]:
        """What the turn added."""
        return self._hand.messages_so_far()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What is on offer."""
        return self._hand.offered

    @property
    def system_prompt(self) -> str:
        """The prompt in force."""
        return self._hand.system_prompt

    @property
    def usage(self) -> tuple[UsageLine, ...]:
        """What the turn used."""
        return self._hand.spent.lines()

    @property
    def reserved(self) -> tuple[UsageLine, ...]:
        """What is reserved for calls under way."""
        return tuple(self._hand.spent.reserved.values())

    @property
    def session_usage(self) -> tuple[UsageLine, ...]:
        """What the session used before."""
        return self._hand.memory.usage

    # ------------------------------------------------------------------ state

    def state(self, plugin: str) -> Mapping[str, Any]:
        """Return a plugin's state."""
        return self._states.state(plugin)

    def memory(self, plugin: str) -> Mapping[str, Any]:
        """Return a plugin's memory."""
        return self._states.memory(plugin)

    def answers(self, plugin: str) -> Mapping[str, Json]:
        """Return what people answered to a plugin."""
        return self.held.get(plugin, EMPTY_DICT)

    # ------------------------------------------------------------------ what may be asked for

    def emit(self, plugin: str, name: str, data: Json) -> None:
        """Show something."""
        # A preview that cannot be shown is no reason for a hook to fail.
        with suppress(CallerError):
            self._hand.tell(events.PluginEvent(plugin=plugin, name=name, data=data))

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment:
        """Keep bytes."""
        check_limit("attachment_bytes", len(data), field="data")
        hand = self._hand
        ref = await hand.services.store.put_blob(data, now_ms=hand.services.clock.now_ms())
        hand.blobs.append(ref)
        return Attachment(ref=ref, media_type=media_type, name=name, n_bytes=len(data))

    async def read(self, ref: str) -> bytes:
        """Return kept bytes."""
        return await self._hand.services.store.get_blob(ref)

    async def complete(self, plugin: str, place: str, request: ModelRequest) -> ModelReply:
        """Ask a model, once for each request of a hook."""
        if self.models is None:
            raise ConfigError("complete: no model can be asked here", field="complete")
        return await self.models.direct(request, place, f"plugin:{plugin}")
