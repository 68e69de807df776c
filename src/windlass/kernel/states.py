"""The states of a turn, and the table of what may follow what.

Each waiting state holds exactly what re-emits its effect, so a restored machine asks again with the
same id and an equal payload. Anything that is not in TRANSITIONS is a bug and is refused; the
diagram in docs/architecture/turn.md is drawn from the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import ClassVar, TypeAlias, get_args

from windlass.errors import InvalidInput
from windlass.kernel.chain import as_chain
from windlass.kernel.effects import (
    Asked,
    CallModel,
    CallTools,
    CheckpointKind,
    RunCheckpoint,
    RunCode,
    SyncEnvironment,
)
from windlass.kernel.model_call import ModelRequest
from windlass.kernel.outcomes import Outcome
from windlass.kernel.responses import (
    CheckpointPassed,
    CodeReturned,
    EnvironmentSynced,
    ModelReplied,
    ToolsReturned,
)
from windlass.kernel.tool_call import CompletedToolCall, PendingToolCall
from windlass.kernel.value import Json, JsonValue, Value, check_instance

_COMPLETED = frozenset({CompletedToolCall})
_call_id = attrgetter("call_id")


class Preparing(Value, kw_only=True):
    """Nothing was asked yet."""

    name: ClassVar[str] = "preparing"
    answer: ClassVar[type | None] = None


class WaitingEnvironment(Value, kw_only=True):
    """Waits for prompt and tools."""

    name: ClassVar[str] = "waiting_environment"
    answer: ClassVar[type | None] = EnvironmentSynced

    effect_id: int
    update_config: bool

    def effect(self) -> Asked:
        return SyncEnvironment(id=self.effect_id, update_config=self.update_config)


class PrepareIteration(Value, kw_only=True):
    """The driver is to be asked how to begin the iteration."""

    name: ClassVar[str] = "prepare_iteration"
    answer: ClassVar[type | None] = None


class WaitingModel(JsonValue, kw_only=True):
    """Waits for a model's reply."""

    name: ClassVar[str] = "waiting_model"
    answer: ClassVar[type | None] = ModelReplied
    json_fields: ClassVar[tuple[str, ...]] = ("driver_state",)

    request: ModelRequest
    driver_state: Json = None
    effect_id: int = 0

    def __post_init__(self) -> None:
        """Freeze the driver's state, if it keeps any."""
        if self.driver_state is not None:
            super().__post_init__()

    def effect(self) -> Asked:
        return CallModel(id=self.effect_id, request=self.request)


class WaitingTools(Value, kw_only=True):
    """Waits for tool results."""

    name: ClassVar[str] = "waiting_tools"
    answer: ClassVar[type | None] = ToolsReturned

    effect_id: int
    calls: tuple[PendingToolCall, ...]

    def effect(self) -> Asked:
        return CallTools(id=self.effect_id, calls=self.calls)

    def places_of(self, completed: Sequence[CompletedToolCall]) -> dict[int, CompletedToolCall]:
        """Return the results that belong to these calls, by the place of their call."""
        by_id = {result.call_id: result for result in completed}
        ids = [call.call_id for call in self.calls]
        return {at: by_id[call_id] for at, call_id in enumerate(ids) if call_id in by_id}

    def in_call_order(self, results: Sequence[CompletedToolCall]) -> tuple[CompletedToolCall, ...]:
        """Return a response's results as the calls stand.

        Raises:
            InvalidInput: they are not one for each call.
        """
        wanted = [*map(_call_id, self.calls)]
        if (
            type(results) is tuple
            and _COMPLETED.issuperset(map(type, results))
            and [*map(_call_id, results)] == wanted
        ):
            return results
        for at, result in enumerate(as_chain(results, field="results")):
            check_instance(result, CompletedToolCall, field=f"results[{at}]")
        found = [result.call_id for result in results]
        if sorted(found) != sorted(wanted):
            raise InvalidInput(
                f"results: found results for {', '.join(found) or 'no call'}, "
                f"wanted one each for {', '.join(wanted)}",
                field="results",
                found=found,
                wanted=wanted,
            )
        by_id = {result.call_id: result for result in results}
        return tuple([by_id[call_id] for call_id in wanted])


class WaitingCode(JsonValue, kw_only=True):
    """Waits for a cell."""

    name: ClassVar[str] = "waiting_code"
    answer: ClassVar[type | None] = CodeReturned
    json_fields: ClassVar[tuple[str, ...]] = ("driver_state",)

    effect_id: int
    language: str
    code: str
    driver_state: Json = None

    def effect(self) -> Asked:
        return RunCode(id=self.effect_id, language=self.language, code=self.code)


class WaitingCheckpoint(Value, kw_only=True):
    """Waits for what came in meanwhile."""

    name: ClassVar[str] = "waiting_checkpoint"
    answer: ClassVar[type | None] = CheckpointPassed

    effect_id: int
    kind: CheckpointKind
    then: Outcome | None = None

    def effect(self) -> Asked:
        return RunCheckpoint(id=self.effect_id, kind=self.kind)


class Ended(Value, kw_only=True):
    """The turn is over."""

    name: ClassVar[str] = "finished"
    answer: ClassVar[type | None] = None

    outcome: Outcome


Waiting: TypeAlias = (
    WaitingEnvironment | WaitingModel | WaitingTools | WaitingCode | WaitingCheckpoint
)
State: TypeAlias = Preparing | PrepareIteration | Waiting | Ended

_DRIVER_CHOICES = (
    "prepare_iteration",
    "waiting_model",
    "waiting_tools",
    "waiting_code",
    "waiting_checkpoint",
    "finished",
)

TRANSITIONS: MappingProxyType[str, MappingProxyType[str, tuple[str, ...]]] = MappingProxyType(
    {
        state: MappingProxyType(row)
        for state, row in {
            "preparing": {
                "poll": ("waiting_environment", "prepare_iteration", "finished"),
                "stop": ("finished",),
            },
            "waiting_environment": {
                "environment_synced": ("prepare_iteration", "finished"),
                "stop": ("finished",),
            },
            "prepare_iteration": {
                "poll": ("waiting_environment", *_DRIVER_CHOICES[1:]),
                "stop": ("finished",),
            },
            "waiting_model": {
                "model_replied": _DRIVER_CHOICES,
                "stop": ("finished",),
            },
            "waiting_tools": {
                "tools_returned": _DRIVER_CHOICES,
                "stop": ("finished",),
            },
            "waiting_code": {
                "code_returned": _DRIVER_CHOICES,
                "stop": ("finished",),
            },
            "waiting_checkpoint": {
                "checkpoint_passed": ("prepare_iteration", "finished"),
                "stop": ("finished",),
            },
            "finished": {},
        }.items()
    }
)
"""state → input → states it may lead to. `stop` is `finish` or `fail` from outside."""

ANSWERS: dict[type, tuple[type, str]] = {
    WaitingEnvironment: (EnvironmentSynced, "environment_synced"),
    WaitingModel: (ModelReplied, "model_replied"),
    WaitingTools: (ToolsReturned, "tools_returned"),
    WaitingCode: (CodeReturned, "code_returned"),
    WaitingCheckpoint: (CheckpointPassed, "checkpoint_passed"),
}
"""waiting state → the response that answers it, and that input's name in the table."""

_BY_NAME: dict[str, type] = {state.name: state for state in get_args(State)}
NEXT: dict[tuple[type, str], frozenset[type]] = {
    (_BY_NAME[state], cause): frozenset(_BY_NAME[name] for name in following)
    for state, row in TRANSITIONS.items()
    for cause, following in row.items()
}
"""The table by types, for the machine to ask."""
