"""One command of every kind, one moment of every class, and envelopes around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.journal import (
    AwaitEventCommand,
    CallAsked,
    CallDecided,
    CallPresented,
    CallReturned,
    CheckpointCommand,
    CheckpointGiven,
    Claimed,
    CodeRan,
    Command,
    DirectAnswered,
    DirectCallCommand,
    Entry,
    Envelope,
    EnvironmentBuilt,
    EventAwaited,
    FinalizeCommand,
    Invocation,
    ModelAnswered,
    ModelCallCommand,
    ModelHooksCommand,
    Moment,
    ProcessAnswered,
    ProcessCommand,
    Recorded,
    RecordedMoment,
    ReplyHooked,
    RequestSpec,
    RunCodeCommand,
    Scope,
    SleepCommand,
    Slept,
    SyncEnvironmentCommand,
    ToolCallCommand,
    ToolHooksCommand,
    TurnFinalized,
    TurnJournal,
    kind_of,
)
from windlass.kernel import (
    CheckpointDelivery,
    CodeResult,
    Finished,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Text,
    ToolOutcome,
    Usage,
)

SCOPE = Scope(session_id="s", turn_id="t", turn_index=0, iteration=1)
SPEC = RequestSpec(model="m", messages="ab" * 32, message_count=1)

# By name: a command of every kind, and for processes of every operation.
OPERATIONS: dict[str, ProcessCommand] = {
    "start": ProcessCommand(operation="start", process_id="p", name="sweep"),
    "list": ProcessCommand(operation="list", process_id="s"),
    "transfer": ProcessCommand(operation="transfer", process_id="s", args=["r", "p"]),
    "delete_session": ProcessCommand(operation="delete_session", process_id="s"),
    "await": ProcessCommand(operation="await", process_id="p"),
    "cancel": ProcessCommand(operation="cancel", process_id="p"),
    "signal": ProcessCommand(operation="signal", process_id="p", name="go"),
    "wake": ProcessCommand(operation="wake", process_id="s", name="paid", args={"text": "5"}),
    "version": ProcessCommand(operation="version", process_id="p", name="v2"),
    "trigger": ProcessCommand(operation="trigger", process_id="p", name="mail", args={"key": "k"}),
    "read": ProcessCommand(operation="read", process_id="p", name="now"),
}
COMMANDS: dict[str, Command] = {
    "model_call": ModelCallCommand(request=SPEC),
    "model_hooks": ModelHooksCommand(reply="cd" * 32),
    "direct_call": DirectCallCommand(request=SPEC, usage_source="titles"),
    "tool_call": ToolCallCommand(call_id="c", name="add", args={"a": 1}),
    "tool_hooks": ToolHooksCommand(call_id="c", name="add", subject="ef" * 32),
    "process": OPERATIONS["start"],
    "run_code": RunCodeCommand(language="python", code="1"),
    "checkpoint": CheckpointCommand(checkpoint="after_work"),
    "sync_environment": SyncEnvironmentCommand(),
    "finalize": FinalizeCommand(outcome=Finished(text="bye")),
    "sleep": SleepCommand(duration_ms=1_000),
    "await_event": AwaitEventCommand(wait_key="w_1"),
}

REPLY = ModelReply(text="hi", usage=Usage(input_tokens=3, output_tokens=2))
# By class: something that can be recorded.
RECORDS: dict[type[RecordedMoment], RecordedMoment] = {
    ModelAnswered: ModelAnswered(result=REPLY),
    ReplyHooked: ReplyHooked(reply=REPLY),
    DirectAnswered: DirectAnswered(result=REPLY),
    CallDecided: CallDecided(args={"a": 1}),
    CallReturned: CallReturned(outcome=ToolOutcome(value=1)),
    CallPresented: CallPresented(outcome=ToolOutcome(value=1)),
    CallAsked: CallAsked(title="How much?"),
    ProcessAnswered: ProcessAnswered(value=["p"]),
    CodeRan: CodeRan(result=CodeResult(output="1\n")),
    CheckpointGiven: CheckpointGiven(delivery=CheckpointDelivery()),
    EnvironmentBuilt: EnvironmentBuilt(),
    TurnFinalized: TurnFinalized(),
    Slept: Slept(due_ms=5),
    EventAwaited: EventAwaited(status="answered", value=True),
}


def envelope(command: Command, effect_id: str = "e", moment: Moment | None = None) -> Envelope:
    """Return an envelope; one with a moment is of the first call of its effect."""
    ordinal = None if moment is None else 0
    invocation = Invocation.effect(
        SCOPE, kind_of(command), effect_id, call_ordinal=ordinal, moment=moment
    )
    return Envelope(invocation=invocation, command=command)


def claim(
    command: Command, effect_id: str = "e", moment: Moment | None = None, **fields: Any
) -> Claimed:
    """Return the claim of a command; a tool's intent is `once` unless told otherwise."""
    if moment == "intent":
        fields.setdefault("contract", "once")
    enveloped = envelope(command, effect_id, moment)
    return Claimed(key=enveloped.key, command=command, **fields)


def said(text: str) -> ModelMessage:
    return ModelMessage(role="user", parts=(Text(text=text),))


def request(*texts: str, **fields: Any) -> ModelRequest:
    return ModelRequest(model="m", messages=tuple(map(said, texts)), **fields)


# --- journals ---------------------------------------------------------------------------------


def record(
    command: Command,
    outcome: RecordedMoment,
    effect_id: str = "e",
    moment: Moment | None = None,
    *,
    claimed: bool = False,
    usage_source: str = "",
) -> Recorded:
    """Return the record of an outcome; `claimed` says that its claim is in the journal."""
    whole = envelope(command, effect_id, moment)
    return Recorded(
        key=whole.key,
        digest=whole.digest() if claimed else "",
        outcome=outcome,
        command=None if claimed else command,
        usage_source=usage_source,
    )


def journal(*units: Sequence[Entry] | Entry, generation: int = 1) -> TurnJournal:
    """Return a journal that absorbed these units one by one."""
    folded = TurnJournal()
    for unit in units:
        take(folded, unit, generation)
    return folded


def take(folded: TurnJournal, unit: Sequence[Entry] | Entry, generation: int = 1) -> None:
    entries = unit if isinstance(unit, Sequence) else [unit]
    folded.absorb(folded.plan(entries, generation=generation))
