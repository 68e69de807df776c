"""The lines of a turn's journal: how it began, what was claimed, what came back."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from windlass.errors import InvalidInput
from windlass.journal.commands import Command, Contract
from windlass.journal.envelope import Envelope
from windlass.journal.moments import RecordedMoment, check_moment
from windlass.kernel.messages import Message, Part
from windlass.kernel.model_call import PROVIDER_CHOICE, Generation, Usage
from windlass.kernel.outcomes import Outcome
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
        """Let equal contracts have equal bytes."""
        use_default(self, "effect", "once")


class TurnStarted(JsonValue, kw_only=True):
    """The start record: everything that a worker needs to drive this turn, whatever its own code says.

    `tools` is the canonical text of the tool specs, `instructions` the prompt: long texts are kept once per
    store however many turns have them. `input` is there when it is not what was accepted, `output` when an
    answer of a certain shape is asked for: its schema. `messages` come before the input, `prompt` is what plugins
    made of the instructions, `patches` are their state, `ends` is how the turn ends if a plugin did not let it begin.
    `looks` says what plugins look at before it is shown: each reply ("model") or each result ("tools") of such a turn is
    recorded as looked at, also when it stays as it was.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("context", "limits", "output", "patches")

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
    looks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Freeze what is plain; let equal records have equal bytes."""
        super().__post_init__()
        use_default(self, "tools", "[]")
        use_default(self, "driver", STANDARD)
        use_default(self, "generation", PROVIDER_CHOICE)


class Claimed(Value, kw_only=True):
    """This is about to run. A tool's claim is its intent.

    `consumes` is the approval that it uses up, `reserved` what it may spend: if no outcome is ever
    recorded, that much counts as spent, by the model `reserved_for` if that is not the command's.
    """

    key: str
    digest: str
    command: Command
    contract: Contract | None = None
    due_ms: int | None = None
    consumes: str | None = None
    reserved: Usage | None = None
    reserved_for: str = ""

    @classmethod
    def of(
        cls,
        envelope: Envelope,
        *,
        contract: Contract | None = None,
        due_ms: int | None = None,
        consumes: str | None = None,
        reserved: Usage | None = None,
        reserved_for: str = "",
    ) -> Claimed:
        """Return the claim of an envelope.

        Raises:
            InvalidInput: a tool's intent without its contract.
        """
        if envelope.kind == "tool_call" and envelope.key.endswith("/intent") and contract is None:
            raise InvalidInput(
                "Claimed.contract: found none, wanted the tool's effect contract",
                field="Claimed.contract",
                wanted="pure, idempotent, keyed, once or reconcile",
            )
        return cls(
            key=envelope.key,
            digest=envelope.digest(),
            command=envelope.command,
            contract=contract,
            due_ms=due_ms,
            consumes=consumes,
            reserved=reserved,
            reserved_for=reserved_for,
        )


class Recorded(Value, kw_only=True):
    """This came back. `command` is there when nothing was claimed before."""

    key: str
    digest: str
    outcome: RecordedMoment
    command: Command | None = None
    usage_source: str = ""

    def __post_init__(self) -> None:
        """Refuse an outcome of another kind than the key's."""
        check_moment(self.key, self.outcome)

    @classmethod
    def of(
        cls,
        envelope: Envelope,
        outcome: RecordedMoment,
        *,
        claimed: bool = False,
        usage_source: str = "",
    ) -> Recorded:
        """Return the record of an envelope's outcome; `claimed` says that its claim is in the journal."""
        return cls(
            key=envelope.key,
            digest=envelope.digest(),
            outcome=outcome,
            command=None if claimed else envelope.command,
            usage_source=usage_source,
        )


class Released(Value, kw_only=True):
    """The attempt that is claimed under this key is known to have spent nothing: the provider said so."""

    key: str


Entry: TypeAlias = TurnStarted | Claimed | Recorded | Released
