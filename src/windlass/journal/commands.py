"""What an effect asks the world to do: one class per kind, named by its tag.

A command is what is compared on replay, so it holds everything that decides what would happen and
nothing else. A request to a model names its messages and its tools by digest: the messages are in the
session already, and a request that repeated them would make a turn cost its history.

An envelope is a command with its place. It refuses what could not be found again in the journal, for those
who build one; a turn under way names its calls itself and hashes the bytes that it writes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, ClassVar, Literal, TypeAlias, cast

import msgspec

from windlass.errors import InvalidInput
from windlass.guards.ids import check_id, is_id
from windlass.journal.keys import EffectKind, Moment, Scope, replay_key, without_moment
from windlass.kernel import Chain, Outcome, ToolSpec, canonical
from windlass.kernel.effects import CheckpointKind
from windlass.kernel.model_call import AUTO, PROVIDER_CHOICE, Generation, ModelRequest, ToolChoice
from windlass.kernel.value import (
    EMPTY_DICT,
    FrozenDict,
    Json,
    JsonValue,
    Value,
    check_instance,
    use_default,
)

Contract: TypeAlias = Literal["pure", "idempotent", "keyed", "once", "reconcile"]
ProcessOperation: TypeAlias = Literal[
    "start",
    "list",
    "transfer",
    "delete_session",
    "await",
    "cancel",
    "signal",
    "wake",
    "version",
    "trigger",
    "read",
]
# Every store keeps times in 64 bits; this is three hundred thousand years.
_MAX_DURATION_MS = 2**53


class RequestSpec(JsonValue, kw_only=True):
    """A model request as the journal keeps it: messages and tools by digest.

    `base` is the digest of the messages from before this turn, where that is worth knowing.
    """

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
    base: str | None = None

    def __post_init__(self) -> None:
        """Freeze the output schema; give equal specs equal bytes."""
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

    def __post_init__(self) -> None:
        """Freeze the arguments, unless they come from a value and are frozen already."""
        if type(self.args) is not FrozenDict:
            super().__post_init__()


class ToolHooksCommand(Value, kw_only=True, tag="tool_hooks"):
    """Run the hooks around a call; `subject` is the digest of what they are shown."""

    call_id: str
    name: str
    subject: str


class ProcessCommand(JsonValue, kw_only=True, tag="process"):
    """Do something with background processes.

    `process_id` is the process, or for `list`, `transfer` and `delete_session` the session whose processes are
    meant. `name` is what is started or signalled, `args` what goes with it.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("args",)

    operation: ProcessOperation
    process_id: str
    name: str = ""
    args: Json = None

    def __post_init__(self) -> None:
        """Freeze the arguments; refuse an id that is none."""
        super().__post_init__()
        check_id(self.process_id, field="ProcessCommand.process_id")

    def effect_id(self) -> str:
        """Return the id that this operation has wherever it is asked for: what goes with it is no part of it."""
        named = [self.process_id, self.name] if self.operation == "signal" else [self.process_id]
        return f"process:{self.operation}:{canonical.digest(named)[:40]}"


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
    """Wait for some time; the due time is fixed when it is first claimed. Or wait until a time, `until_ms`."""

    duration_ms: int
    until_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse a sleep into the past."""
        for name in ("duration_ms", "until_ms"):
            found = getattr(self, name)
            if found is None and name == "until_ms":
                continue
            if type(found) is not int or not 0 <= found <= _MAX_DURATION_MS:
                wanted = "0 or more milliseconds, up to 2^53"
                raise InvalidInput.at(f"SleepCommand.{name}", type(found).__name__, wanted)


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


def as_written(body: bytes) -> Command:
    """Return what stands for a command in an entry that is about to be written: its canonical bytes.

    So it is encoded once, for its digest and for the page. Only an encoder can read what is returned.
    """
    return cast("Command", msgspec.Raw(body))


def read_command(command: Command | None) -> Command | None:
    """Return a command that is about to be written as others read it."""
    written: object = command
    if not isinstance(written, msgspec.Raw):
        return command
    return canonical.read(bytes(written), Command)  # type: ignore[arg-type]  # a union of classes


def body_of(command: Command) -> bytes:
    """Return the canonical bytes of a command, also of one that is about to be written."""
    written: object = command
    return bytes(written) if isinstance(written, msgspec.Raw) else canonical.encode(command)


def effect_digest(key: str, body: bytes) -> str:
    """Return the digest that a replay compares: of the key of the whole call and the bytes of the command.

    All moments of a call that ask for the same thing have the same digest.
    """
    return sha256(b"%b\0%b" % (key.encode(), body)).hexdigest()


# ------------------------------------------------------------------ envelopes


class EffectSubject(Value, kw_only=True):
    """An effect of a turn or a process."""

    effect_id: str
    kind: EffectKind


class Invocation(Value, kw_only=True):
    """Which effect asks, where, and under which key it is recorded."""

    scope: Scope
    subject: EffectSubject
    replay_key: str = ""

    @classmethod
    def effect(
        cls,
        scope: Scope,
        kind: EffectKind,
        effect_id: str,
        *,
        call_ordinal: int | None = None,
        moment: Moment | None = None,
    ) -> Invocation:
        """Return the invocation of an effect under the key that its place gives it."""
        key = replay_key(scope, kind, effect_id, call_ordinal=call_ordinal, moment=moment)
        subject = EffectSubject(effect_id=effect_id, kind=kind)
        return cls(scope=scope, subject=subject, replay_key=key)


class Envelope(Value, kw_only=True):
    """An invocation and its command: checked, so that what it asks for can be found again in the journal."""

    invocation: Invocation
    command: Command

    def __post_init__(self) -> None:
        """Refuse what could not be recorded and found again."""
        check_instance(self.invocation, Invocation, field="Envelope.invocation")
        subject = self.invocation.subject
        at = "Envelope.invocation.subject"
        if not isinstance(subject, EffectSubject):
            raise InvalidInput.at(at, f"a {type(subject).__name__}", "an effect")
        if not is_id(subject.effect_id):
            raise InvalidInput.at(f"{at}.effect_id", "no id", "the effect's id")
        if not isinstance(self.command, Command):
            kind = type(self.command).__name__
            raise InvalidInput.at("Envelope.command", f"a {kind}", "a command")
        if subject.kind != kind_of(self.command):
            wanted = f"{kind_of(self.command)}, the command's"
            raise InvalidInput.at(f"{at}.kind", str(subject.kind), wanted)
        if not self.invocation.replay_key:
            raise InvalidInput.at("Envelope.invocation.replay_key", "an empty key", "a replay key")

    @property
    def kind(self) -> EffectKind:
        """What kind of effect this is."""
        return kind_of(self.command)

    @property
    def key(self) -> str:
        """The key it is recorded under."""
        return self.invocation.replay_key

    def digest(self) -> str:
        """Return the digest that a replay compares; all moments of a call have the same."""
        return effect_digest(without_moment(self.key), canonical.encode(self.command))


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
