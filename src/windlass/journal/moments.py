"""What the journal keeps of an effect: one class per thing that can be recorded.

A moment is the raw outcome, recorded before anything is derived from it: a reply before its hooks run, a
tool's result before hooks present it. What hooks made of it is a moment of its own. `issues` are what hooks
reported for the reader of the result.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from windlass.errors import InvalidInput
from windlass.guards.text import check_text
from windlass.journal.commands import RequestSpec
from windlass.journal.keys import EffectKind, Moment, key_place
from windlass.kernel import Error, Message, Outcome, ToolOutcome
from windlass.kernel.model_call import NO_USAGE, ModelFailure, ModelReply, Usage
from windlass.kernel.responses import CheckpointDelivery, CodeResult, Environment, Failure
from windlass.kernel.value import EMPTY_DICT, Json, JsonValue, Value, use_default

Verdict: TypeAlias = Literal["allow", "deny", "ask", "short_circuit"]
ALLOW: Verdict = "allow"


class ModelAnswered(JsonValue, kw_only=True):
    """A model's raw reply or failure; `sent` is what it was asked, if hooks changed the request."""

    json_fields: ClassVar[tuple[str, ...]] = ("patches",)

    result: ModelReply | ModelFailure
    text_streamed: bool = False
    sent: RequestSpec | None = None
    patches: dict[str, Any] = EMPTY_DICT
    issues: tuple[Error, ...] = ()

    def __post_init__(self) -> None:
        """Freeze the patches, if there are any."""
        if self.patches is not EMPTY_DICT:
            super().__post_init__()


class ReplyHooked(JsonValue, kw_only=True):
    """What the hooks made of a reply they looked at; None: it is as it was. `patches` is by plugin."""

    json_fields: ClassVar[tuple[str, ...]] = ("patches",)

    reply: ModelReply | None = None
    patches: dict[str, Any] = EMPTY_DICT


class DirectAnswered(JsonValue, kw_only=True):
    """The reply to a one-shot call; `sent` and `patches` as with `ModelAnswered`."""

    json_fields: ClassVar[tuple[str, ...]] = ("patches",)

    result: ModelReply | ModelFailure
    sent: RequestSpec | None = None
    patches: dict[str, Any] = EMPTY_DICT


class CallDecided(JsonValue, kw_only=True):
    """What hooks and policy decided on a call, and the arguments it is to run with.

    `risk` and `action_key` belong to the verdict `ask`, of which `reason` is the title.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("args", "patches")

    verdict: Verdict = ALLOW
    args: dict[str, Any] = EMPTY_DICT
    reason: str = ""
    policy_version: str = ""
    outcome: ToolOutcome | None = None
    patches: dict[str, Any] = EMPTY_DICT
    risk: str = ""
    action_key: str | None = None
    issues: tuple[Error, ...] = ()

    def __post_init__(self) -> None:
        """Freeze what is plain; an outcome belongs to a call that is not run."""
        super().__post_init__()
        use_default(self, "verdict", ALLOW)
        if (self.outcome is not None) != (self.verdict == "short_circuit"):
            found = f"{'one' if self.outcome else 'none'} with the verdict {self.verdict}"
            wanted = "an outcome with the verdict short_circuit and with no other"
            raise InvalidInput.at("CallDecided.outcome", found, wanted)


class CallReturned(Value, kw_only=True):
    """What a tool's body gave, as it gave it.

    `ran_as`: of a call that may have acted, the digest of the arguments that it ran with, if they are not as they were given.
    """

    outcome: ToolOutcome
    duration_ms: int = 0
    ran_as: str = ""


class CallPresented(JsonValue, kw_only=True):
    """What hooks made of a result they looked at; None: it is as it was. `ends`: the turn ends with it."""

    json_fields: ClassVar[tuple[str, ...]] = ("patches",)

    outcome: ToolOutcome | None = None
    patches: dict[str, Any] = EMPTY_DICT
    ends: Outcome | None = None
    issues: tuple[Error, ...] = ()


class CallAsked(JsonValue, kw_only=True):
    """The question that a tool's body returned instead of a result; `schema` is of the answer it wants."""

    json_fields: ClassVar[tuple[str, ...]] = ("schema", "state")

    title: str
    schema: Json = None
    state: Json = None


GIVEN_UP = "given_up"
"""The status of an operation whose function cancelled the task that waited for it."""


class ProcessAnswered(JsonValue, kw_only=True):
    """What a process operation gave; `status` and `by` are those of the answer, if it waited for one."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    value: Json = None
    failure: Failure | None = None
    status: str = ""
    by: str | None = None


class CodeRan(JsonValue, kw_only=True):
    """What a cell gave."""

    json_fields: ClassVar[tuple[str, ...]] = ("patches",)

    result: CodeResult | Failure
    patches: dict[str, Any] = EMPTY_DICT


class CheckpointGiven(JsonValue, kw_only=True):
    """What entered at a checkpoint, and the inbox items that it came from."""

    json_fields: ClassVar[tuple[str, ...]] = ("patches",)

    delivery: CheckpointDelivery | Failure
    taken: tuple[str, ...] = ()
    patches: dict[str, Any] = EMPTY_DICT
    issues: tuple[Error, ...] = ()


class EnvironmentBuilt(JsonValue, kw_only=True):
    """The prompt and tools of the iterations that follow; None: as they were."""

    json_fields: ClassVar[tuple[str, ...]] = ("patches",)

    result: Environment | Failure | None = None
    patches: dict[str, Any] = EMPTY_DICT


class TurnFinalized(JsonValue, kw_only=True):
    """What the hooks at the end of a turn gave; `compact`: a new frame is to be opened, with these options."""

    json_fields: ClassVar[tuple[str, ...]] = ("compact", "patches")

    messages: tuple[Message, ...] = ()
    issues: tuple[str, ...] = ()
    patches: dict[str, Any] = EMPTY_DICT
    compact: Json = None


class Slept(Value, kw_only=True):
    """A sleep that is over, and when it was due."""

    due_ms: int


class EventAwaited(JsonValue, kw_only=True):
    """How a wait ended."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    status: Literal["answered", "rejected", "expired", "superseded", "cancelled"]
    value: Json = None
    by: str | None = None

    def __post_init__(self) -> None:
        """Freeze the answer."""
        super().__post_init__()
        if self.by is not None:
            check_text(self.by, field="EventAwaited.by")


RecordedMoment: TypeAlias = (
    ModelAnswered
    | ReplyHooked
    | DirectAnswered
    | CallDecided
    | CallReturned
    | CallPresented
    | CallAsked
    | ProcessAnswered
    | CodeRan
    | CheckpointGiven
    | EnvironmentBuilt
    | TurnFinalized
    | Slept
    | EventAwaited
)

# What may be recorded under a key, by its kind and its moment.
MOMENT_OF: dict[tuple[EffectKind, Moment | None], type[Value]] = {
    ("model_call", None): ModelAnswered,
    ("model_hooks", None): ReplyHooked,
    ("direct_call", None): DirectAnswered,
    ("tool_call", "decide"): CallDecided,
    ("tool_call", "result"): CallReturned,
    ("tool_call", "presented"): CallPresented,
    ("tool_call", "asked"): CallAsked,
    ("tool_hooks", "decide"): CallDecided,
    ("tool_hooks", "presented"): CallPresented,
    ("process", None): ProcessAnswered,
    ("run_code", None): CodeRan,
    ("checkpoint", None): CheckpointGiven,
    ("sync_environment", None): EnvironmentBuilt,
    ("finalize", None): TurnFinalized,
    ("sleep", None): Slept,
    ("await_event", None): EventAwaited,
}


def check_moment(key: str, moment: RecordedMoment) -> None:
    """Refuse a moment that cannot be recorded under this key.

    Raises:
        InvalidInput: naming what the key wants.
    """
    kind, at = key_place(key)
    wanted = MOMENT_OF.get((kind, at))
    if wanted is None or type(moment) is not wanted:
        name = "nothing" if wanted is None else wanted.__name__
        place = kind if at is None else f"{kind}, {at}"
        found = type(moment).__name__
        raise InvalidInput(
            f"outcome: found {found}, wanted {name} for {place}",
            field="outcome",
            found=found,
            wanted=name,
        )


def usage_of(moment: RecordedMoment) -> Usage:
    """Return what was used up by what is recorded here; failures use nothing that we know of."""
    if isinstance(moment, (ModelAnswered, DirectAnswered)):
        return moment.result.usage if isinstance(moment.result, ModelReply) else NO_USAGE
    return NO_USAGE
