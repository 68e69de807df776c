"""The lines of a turn's journal: how it began, what was claimed, what came back, who drove it.

Entries are not checked where they are built, for that is where a turn spends its time: `JournalPage` checks them
when it is read, and `Claimed.of` and `Recorded.of` check what they build.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from windlass.errors import InvalidInput
from windlass.journal.commands import Command, Contract, Envelope, body_of, effect_digest
from windlass.journal.keys import without_moment
from windlass.journal.moments import RecordedMoment, check_moment
from windlass.kernel import HistoryView, Message, Outcome, Part
from windlass.kernel.model_call import PROVIDER_CHOICE, Generation, Usage
from windlass.kernel.value import EMPTY_DICT, Json, JsonValue, Value, use_default

STANDARD = "standard"


class PluginVersion(Value, kw_only=True):
    """A plugin as a turn began with it."""

    name: str
    version: str = ""


class ToolContract(Value, kw_only=True):
    """What a crash may do to a tool, as a turn began with it."""

    tool: str
    effect: Contract = "once"
    version: str = ""

    def __post_init__(self) -> None:
        """Give equal contracts equal bytes."""
        use_default(self, "effect", "once")


class Traced(Value, kw_only=True):
    """The trace that a caller's span belongs to, and whether it is sampled."""

    trace_id: str
    parent_id: str
    sampled: bool = True


class TurnStarted(JsonValue, kw_only=True):
    """The start record: everything that a worker needs to drive this turn, whatever its own code says.

    `tools` is the canonical text of the tool specs, `instructions` the prompt: long texts are kept once per
    store however many turns have them. `input` is there when it is not what was accepted, `output` when an
    answer of a certain shape is asked for: its schema. `messages` come before the input, `prompt` is what plugins
    made of the instructions, `patches` are their state, `ends` is how the turn ends if a plugin did not let it begin.
    `looks` names the hooks that see what models and tools return: what they saw is recorded each time. `termination` is
    how the turn has to finish, if not any answer does. `pieces` are those of the prompt that agent and caller gave beside
    the instructions. `view` is what the agent sees of a session that was handed off to it.
    """

    json_fields: ClassVar[tuple[str, ...]] = (
        "context", "limits", "output", "patches", "pieces", "termination"
    )  # fmt: skip

    agent: str
    model: str
    input: tuple[Part, ...] | None = None
    instructions: str = ""
    tools: str = "[]"
    contracts: tuple[ToolContract, ...] = ()
    policy_version: str = ""
    limits: dict[str, Any] = EMPTY_DICT
    generation: Generation = PROVIDER_CHOICE
    driver: str = STANDARD
    driver_version: str = ""
    plugins: tuple[PluginVersion, ...] = ()
    context: dict[str, Any] = EMPTY_DICT
    history: int = 0
    started_ms: int = 0
    output: Json = None
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    patches: dict[str, Any] = EMPTY_DICT
    ends: Outcome | None = None
    accepted_ms: int = 0
    trace: Traced | None = None
    looks: tuple[str, ...] = ()
    termination: Json = None
    pieces: Json = None
    view: HistoryView | None = None

    def __post_init__(self) -> None:
        """Freeze what is plain; give equal records equal bytes."""
        super().__post_init__()
        use_default(self, "tools", "[]")
        use_default(self, "driver", STANDARD)
        use_default(self, "generation", PROVIDER_CHOICE)


class Claimed(Value, kw_only=True):
    """This is about to run. A tool's claim is its intent.

    The digest follows from key and command; it is there only where it does not. `consumes` is the approval that
    the call uses up, `reserved` what it may spend: if no outcome is ever recorded, that much counts as spent, by the
    model `reserved_for` if that is not the command's.
    """

    key: str
    digest: str = ""
    command: Command
    contract: Contract | None = None
    due_ms: int | None = None
    consumes: str | None = None
    reserved: Usage | None = None
    reserved_for: str = ""
    at_ms: int = 0

    @classmethod
    def of(cls, envelope: Envelope, **parts: Any) -> Claimed:
        """Return the claim of an envelope.

        Raises:
            InvalidInput: a tool's intent without its contract.
        """
        is_intent = envelope.kind == "tool_call" and envelope.key.endswith("/intent")
        if is_intent and parts.get("contract") is None:
            wanted = "the tool's effect contract: pure, idempotent, keyed, once or reconcile"
            raise InvalidInput.at("Claimed.contract", "none", wanted)
        return cls(key=envelope.key, command=envelope.command, **parts)


class Attempt(Value, kw_only=True):
    """A try that failed, of a call that was then tried again: when, how long, the error's code, which model."""

    began_ms: int
    took_ms: int
    code: str
    model: str


class Recorded(Value, kw_only=True):
    """This came back. `command` is there when nothing was claimed before; the digest, where it does not follow.

    When it began, how long it took, when the first of it arrived and which tries failed are about this record,
    not about the outcome: the same outcome with other times is the same outcome.
    """

    key: str
    digest: str = ""
    outcome: RecordedMoment
    command: Command | None = None
    usage_source: str = ""
    began_ms: int = 0
    took_ms: int = 0
    first_ms: int | None = None
    attempts: tuple[Attempt, ...] = ()

    @classmethod
    def of(
        cls,
        envelope: Envelope,
        outcome: RecordedMoment,
        *,
        claimed: bool = False,
        usage_source: str = "",
    ) -> Recorded:
        """Return the record of an envelope's outcome; `claimed` says that its claim is in the journal.

        Raises:
            InvalidInput: an outcome of another kind than the key's.
        """
        check_moment(envelope.key, outcome)
        command = None if claimed else envelope.command
        return cls(key=envelope.key, outcome=outcome, command=command, usage_source=usage_source)


class Released(Value, kw_only=True):
    """The attempt that is claimed under this key is known to have spent nothing: the provider said so."""

    key: str


class DriveBegan(Value, kw_only=True):
    """A worker began to drive the turn. `place` is its host and process, `build` a digest of its code."""

    worker: str
    at_ms: int
    place: str = ""
    build: str = ""


class DriveEnded(Value, kw_only=True):
    """The worker let go of the turn before its end. A drive without it, and without the turn's end, was lost."""

    at_ms: int
    why: Literal["parked", "left"]


class Emitted(JsonValue, kw_only=True):
    """Something that a process tells its observers, as a fact."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    key: str
    name: str
    value: Json = None


Entry: TypeAlias = TurnStarted | Claimed | Recorded | Released | DriveBegan | DriveEnded | Emitted


def digest_of(entry: Claimed | Recorded) -> str:
    """Return the digest that a replay compares; none for the record of a claim, which has the claim's."""
    if entry.digest or entry.command is None:
        return entry.digest
    return effect_digest(without_moment(entry.key), body_of(entry.command))
