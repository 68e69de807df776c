"""How a mode reads model replies: the Driver port, what a driver sees, and how a turn is set up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.errors import InvalidInput
from windlass.guards import check_id, check_text
from windlass.kernel.actions import Action
from windlass.kernel.chain import Chain
from windlass.kernel.history import has_call
from windlass.kernel.history_view import WHOLE, HistoryView
from windlass.kernel.ids import TurnIds
from windlass.kernel.iteration_limit import LimitState
from windlass.kernel.messages import Record
from windlass.kernel.model_call import PROVIDER_CHOICE, Generation, ModelReply, ModelRequest
from windlass.kernel.projector import ChatProjector, Projector, ProjectorView
from windlass.kernel.responses import CodeResult, Failure
from windlass.kernel.states import WaitingModel
from windlass.kernel.tool_call import (
    CompletedToolCall,
    PendingToolCall,
    ToolSpec,
    checked_tools,
)
from windlass.kernel.value import Json, check_instance

# The narrowest of the providers' rules: a call's id stands in every later request, to any of them.
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")

LIMIT_MESSAGE = (
    "This turn has used its {max_iterations} iterations. Do not call tools any more: "
    "answer now with what you have."
)


def check_count(found: object, *, field: str) -> None:
    """Refuse what is neither None nor a whole number of 0 or more."""
    if found is None or (type(found) is int and found >= 0):
        return
    shown = found if isinstance(found, int) else type(found).__name__
    raise InvalidInput.at(field, shown, "a whole number of 0 or more")


class TurnConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn runs; it never changes while the turn does.

    `autonomous` and `termination` are for the driver. `turn_limit_message` may name
    `{max_iterations}`. Without `progress` the machine makes no `Progress`, and `Done` carries
    every record of the turn.
    """

    driver: Driver
    projector: Projector = ChatProjector()
    model: str
    session_id: str
    turn_id: str
    system_prompt: str = ""
    tools: tuple[ToolSpec, ...] = ()
    view: HistoryView = WHOLE
    max_iterations: int | None = None
    max_context_tokens: int | None = None
    model_variant: str | None = None
    generation: Generation = PROVIDER_CHOICE
    autonomous: bool = False
    sync_environment: bool = False
    emit_trace: bool = False
    termination: Json = None
    turn_limit_message: str = LIMIT_MESSAGE
    progress: bool = True

    def __post_init__(self) -> None:
        """Refuse a turn that could not run."""
        check_id(self.session_id, field="TurnConfig.session_id")
        check_id(self.turn_id, field="TurnConfig.turn_id")
        check_text(self.model, field="TurnConfig.model")
        check_text(self.model_variant or "", field="TurnConfig.model_variant")
        check_text(self.system_prompt, field="TurnConfig.system_prompt")
        check_instance(self.generation, Generation, field="TurnConfig.generation")
        check_count(self.max_iterations, field="TurnConfig.max_iterations")
        check_count(self.max_context_tokens, field="TurnConfig.max_context_tokens")
        check_text(self.turn_limit_message, field="TurnConfig.turn_limit_message")
        msgspec.structs.force_setattr(
            self, "tools", checked_tools(self.tools, field="TurnConfig.tools")
        )
        if self.view is not WHOLE:
            check_instance(self.view, HistoryView, field="TurnConfig.view")
            if self.view == WHOLE:
                msgspec.structs.force_setattr(self, "view", WHOLE)

    @property
    def limit_text(self) -> str:
        """What the model is told when its limit is reached."""
        return self.turn_limit_message.replace("{max_iterations}", str(self.max_iterations))


class DriverView(ProjectorView, frozen=True, kw_only=True, gc=False):
    """What a driver sees of the turn: a value, so a driver can keep nothing and change nothing.

    It is what the turn's projector sees, and where the turn stands.
    """

    config: TurnConfig
    records: Chain[Record]
    iteration_offset: int
    limit: LimitState
    ids: TurnIds

    def request(self, use_tools: bool = True) -> ModelRequest:  # noqa: FBT001, FBT002 - public shape
        """Return the next request, as the turn's projector makes it."""
        view = self if use_tools else msgspec.structs.replace(self, use_tools=False)
        return self.config.projector.project(view)

    @property
    def max_iterations(self) -> int | None:
        """The limit, or None."""
        return self.config.max_iterations

    @property
    def termination(self) -> Json:
        """What the configuration hands through to the driver."""
        return self.config.termination

    @property
    def autonomous(self) -> bool:
        """What the configuration hands through to the driver."""
        return self.config.autonomous

    @property
    def force_exit(self) -> bool:
        """Whether the grace iteration is spent: the next overrun ends the turn."""
        return self.limit.grace_given

    @property
    def limit_due(self) -> bool:
        """Whether the model is to be told now that this is its last iteration."""
        return self.limit.is_due(self.iteration, self.iteration_offset, self.max_iterations)

    def message_id(self, purpose: str) -> str:
        """Mint the id of this iteration's message for `purpose`."""
        return f"m_{self.ids.prefix}.{self.iteration}.{purpose}"

    def call_id(self, given: str, taken: Sequence[str]) -> str:
        """Return the provider's call id, or mint one if not every provider takes it or it is in use."""
        position = len(taken)
        while not _CALL_ID.match(given) or given in taken or has_call(given, self.messages):
            given = self.ids.call(self.iteration, position)
            position += 1
        return given


class Driver(Protocol):
    """How a mode reads replies: pure functions from what happened to what is to be done.

    `handles` are the terminal reasons that the driver takes itself.
    """

    handles: frozenset[str]

    def prepare(self, view: DriverView) -> Sequence[Action]:
        """Begin an iteration: start something or finish."""
        ...

    def on_model(
        self,
        view: DriverView,
        waiting: WaitingModel,
        reply: ModelReply,
        text_streamed: bool,  # noqa: FBT001 - public shape
    ) -> Sequence[Action]:
        """Read a reply."""
        ...

    def on_tools(
        self, view: DriverView, completed: Sequence[CompletedToolCall]
    ) -> Sequence[Action]:
        """Read tool results, which stand in call order."""
        ...

    def on_code(
        self, view: DriverView, driver_state: Json, result: CodeResult | Failure
    ) -> Sequence[Action]:
        """Read what a cell did."""
        ...

    def close(
        self,
        view: DriverView,
        calls: Sequence[PendingToolCall],
        completed: Sequence[CompletedToolCall],
    ) -> Sequence[Action]:
        """Give every call its one result, since the turn ends while tools are out.

        Only what this appends and emits is applied.
        """
        ...
