"""What an effect asks the world to do: one class per kind, named by its tag.

A command is what is compared on replay, so it holds everything that decides what would happen and
nothing else. A request to a model names its messages and its tools by digest: the messages are in the
session already, and a request that repeated them would make a turn cost its history.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from windlass.errors import InvalidInput
from windlass.guards.ids import check_id
from windlass.journal.keys import EffectKind
from windlass.kernel import canonical
from windlass.kernel.chain import Chain
from windlass.kernel.effects import CheckpointKind
from windlass.kernel.model_call import AUTO, PROVIDER_CHOICE, Generation, ModelRequest, ToolChoice
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import EMPTY_DICT, Json, JsonValue, Value, check_instance, use_default

Contract: TypeAlias = Literal["pure", "idempotent", "keyed", "once", "reconcile"]
ListMode: TypeAlias = Literal["live", "all"]
ONCE: Contract = "once"
LIVE: ListMode = "live"
# Every store keeps times in 64 bits; this is three hundred thousand years.
_MAX_DURATION_MS = 2**53


class RequestSpec(JsonValue, kw_only=True):
    """A model request as the journal keeps it: messages and tools by digest."""

    json_fields: ClassVar[tuple[str, ...]] = ("output",)

    model: str
    messages: str
    message_count: int
    tools: str | None = None
    tool_choice: ToolChoice = AUTO
    variant: str | None = None
    generation: Generation = PROVIDER_CHOICE
    session_id: str | None = None
    output: Json = None

    def __post_init__(self) -> None:
        """Freeze the output schema; let equal specs have equal bytes."""
        super().__post_init__()
        use_default(self, "tool_choice", AUTO)
        use_default(self, "generation", PROVIDER_CHOICE)

    @classmethod
    def of(cls, request: ModelRequest) -> RequestSpec:
        """Return the spec of a request. It costs what is new since the last one of that chain."""
        check_instance(request, ModelRequest, field="request")
        messages = Chain.of(request.messages)
        return cls(
            model=request.model,
            messages=messages.chain_digest(),
            message_count=messages.length,
            tools=_tools_digest(request.tools) if request.tools else None,
            tool_choice=request.tool_choice,
            variant=request.variant,
            generation=request.generation,
            session_id=request.session_id,
            output=request.output,
        )


class ModelCallCommand(Value, kw_only=True, tag="model_call"):
    """Ask the model."""

    request: RequestSpec

    @classmethod
    def of(cls, request: ModelRequest) -> ModelCallCommand:
        """Return the command that sends this request."""
        return cls(request=RequestSpec.of(request))


class ModelHooksCommand(Value, kw_only=True, tag="model_hooks"):
    """Run the hooks that see a reply; `reply` is the digest of the raw one."""

    reply: str


class DirectCallCommand(Value, kw_only=True, tag="direct_call"):
    """A one-shot model call by a tool, a plugin or the host; `usage_source` says who pays."""

    request: RequestSpec
    usage_source: str


class ToolCallCommand(JsonValue, kw_only=True, tag="tool_call"):
    """Run a tool with these, its effective, arguments."""

    json_fields: ClassVar[tuple[str, ...]] = ("args",)

    call_id: str
    name: str
    args: dict[str, Any] = EMPTY_DICT


class ToolHooksCommand(Value, kw_only=True, tag="tool_hooks"):
    """Run the hooks around a call; `subject` is the digest of what they are shown."""

    call_id: str
    name: str
    subject: str


class StartProcess(JsonValue, kw_only=True):
    """Start background work under an id that the caller chose."""

    json_fields: ClassVar[tuple[str, ...]] = ("args",)

    process_id: str
    name: str
    args: Json = None


class ListProcesses(Value, kw_only=True):
    """List the processes that a session sees."""

    session_id: str
    mode: ListMode = LIVE

    def __post_init__(self) -> None:
        """Let equal commands have equal bytes."""
        use_default(self, "mode", LIVE)


class TransferProcesses(Value, kw_only=True):
    """Let another session see these processes instead."""

    from_session: str
    to_session: str
    process_ids: tuple[str, ...]


class DeleteSessionProcesses(Value, kw_only=True):
    """Forget what a deleted session saw."""

    session_id: str


class AwaitProcess(Value, kw_only=True):
    """Wait for a process to end."""

    process_id: str


class CancelProcess(Value, kw_only=True):
    """Ask a process to stop."""

    process_id: str
    reason: str | None = None


class SignalProcess(JsonValue, kw_only=True):
    """Send a process a signal; `signal_id` makes it arrive once."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    process_id: str
    name: str
    signal_id: str
    value: Json = None


ProcessOperation: TypeAlias = (
    StartProcess
    | ListProcesses
    | TransferProcesses
    | DeleteSessionProcesses
    | AwaitProcess
    | CancelProcess
    | SignalProcess
)
# What makes two operations the same one: the same start may not run under two ids.
_IDENTITY: dict[type[Value], tuple[str, ...]] = {
    StartProcess: ("process_id",),
    ListProcesses: ("session_id", "mode"),
    TransferProcesses: ("from_session", "to_session", "process_ids"),
    DeleteSessionProcesses: ("session_id",),
    AwaitProcess: ("process_id",),
    CancelProcess: ("process_id",),
    SignalProcess: ("process_id", "name", "signal_id"),
}


class ProcessCommand(Value, kw_only=True, tag="process"):
    """Something to do with background processes."""

    operation: ProcessOperation

    def __post_init__(self) -> None:
        """Refuse ids that are none."""
        for field in ("process_id", "session_id", "from_session", "to_session", "signal_id"):
            if hasattr(self.operation, field):
                check_id(getattr(self.operation, field), field=field)
        for process_id in getattr(self.operation, "process_ids", ()):
            check_id(process_id, field="process_ids")

    def effect_id(self) -> str:
        """Return the id that this operation has wherever it is asked for."""
        kind = type(self.operation)
        identity = [getattr(self.operation, name) for name in _IDENTITY[kind]]
        operation = kind.__struct_config__.tag
        return f"process:{operation}:{canonical.digest(identity)[:40]}"


class RunCodeCommand(Value, kw_only=True, tag="run_code"):
    """Run a cell of code."""

    language: str
    code: str


class CheckpointCommand(Value, kw_only=True, tag="checkpoint"):
    """Ask what should enter the turn here."""

    checkpoint: CheckpointKind


class SyncEnvironmentCommand(Value, kw_only=True, tag="sync_environment"):
    """Build prompt and tools anew."""

    update_config: bool = False


class FinalizeCommand(Value, kw_only=True, tag="finalize"):
    """Run what follows the end of a turn, before its commit."""

    outcome: Outcome


class SleepCommand(Value, kw_only=True, tag="sleep"):
    """Wait for some time; the due time is fixed when it is first claimed."""

    duration_ms: int

    def __post_init__(self) -> None:
        """Refuse a sleep into the past."""
        if type(self.duration_ms) is not int or not 0 <= self.duration_ms <= _MAX_DURATION_MS:
            raise InvalidInput(
                "SleepCommand.duration_ms: wanted 0 or more milliseconds, up to 2^53",
                field="SleepCommand.duration_ms",
                wanted="0 or more milliseconds",
            )


class AwaitEventCommand(Value, kw_only=True, tag="await_event"):
    """Wait for the answer to the wait of this key."""

    wait_key: str


Command: TypeAlias = (
    ModelCallCommand
    | ModelHooksCommand
    | DirectCallCommand
    | ToolCallCommand
    | ToolHooksCommand
    | ProcessCommand
    | RunCodeCommand
    | CheckpointCommand
    | SyncEnvironmentCommand
    | FinalizeCommand
    | SleepCommand
    | AwaitEventCommand
)


def kind_of(command: Command) -> EffectKind:
    """Return the kind that a command is of: its tag."""
    return type(command).__struct_config__.tag  # type: ignore[return-value]  # tags are kinds


canonical.prepare(Command)


def command_of(body: bytes) -> Command:
    """Return the command that these canonical bytes are of."""
    command: Command = canonical.decode(body, Command)  # type: ignore[arg-type]  # a union is a type, too
    return command


# The tools of one agent are one object in every request of a turn; a handful are live at a time.
_TOOLS: dict[int, tuple[tuple[ToolSpec, ...], str]] = {}
_MAX_TOOLS = 64


def _tools_digest(tools: tuple[ToolSpec, ...]) -> str:
    known = _TOOLS.get(id(tools))
    if known is not None and known[0] is tools:
        return known[1]
    if len(_TOOLS) >= _MAX_TOOLS:
        del _TOOLS[next(iter(_TOOLS))]
    found = canonical.digest(tools)
    _TOOLS[id(tools)] = (tools, found)
    return found
