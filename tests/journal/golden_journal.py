"""One hand-built value of every class of the journal, for the golden files.

Law 1. What stands here is never changed: its bytes are what journals out there hold.
Law 2. A new field gets a new value under a new name, beside the old one: `Claimed.urgent`.

`ClassName` sets every field, also those with a default; `ClassName.least` sets none of these.
"""

from __future__ import annotations

from tests.kernel import golden_values as built
from windlass.journal import (
    Answer,
    AwaitEventCommand,
    AwaitProcess,
    Busy,
    CallDecided,
    CallPresented,
    CallReturned,
    CancelProcess,
    CheckpointCommand,
    CheckpointGiven,
    Claimed,
    CodeRan,
    DecisionRemembered,
    DeleteSessionProcesses,
    Difference,
    DirectAnswered,
    DirectCallCommand,
    EffectRef,
    EffectSubject,
    Envelope,
    EnvironmentBuilt,
    EventAwaited,
    FinalizeCommand,
    FrameOpened,
    HistoryPage,
    Invocation,
    JournalPage,
    JournalRow,
    KeyParts,
    ListProcesses,
    Mismatch,
    ModelAnswered,
    ModelCallCommand,
    ModelHooksCommand,
    NodeRef,
    NodeSubject,
    OutcomeUnknown,
    PluginRemembered,
    PluginVersion,
    ProcessAnswered,
    ProcessCommand,
    ProcessEventRef,
    ProcessEventSubject,
    ProcessRef,
    ProcessSubject,
    Recorded,
    Released,
    ReplyHooked,
    RequestSpec,
    Run,
    RunCodeCommand,
    Scope,
    SignalProcess,
    SleepCommand,
    Slept,
    Stale,
    StartProcess,
    SyncEnvironmentCommand,
    TakeOver,
    ToolCallCommand,
    ToolContract,
    ToolHooksCommand,
    TransferProcesses,
    TriggerRef,
    TriggerSubject,
    TurnFinalized,
    TurnStarted,
    UsageLine,
)
from windlass.kernel import (
    DriverRecord,
    Failure,
    Finished,
    ModelFailure,
    ToolOutcome,
    Value,
    events,
)
from windlass.kernel.projector import SentPrefix

scope = Scope(session_id="s-1", turn_id="t-1", turn_index=2, iteration=3)
spec = RequestSpec(
    model="m-large",
    messages="0" * 64,
    message_count=2,
    tools="1" * 64,
    tool_choice="required",
    variant="deep",
    generation=built.generation,
    session_id="s-1",
    output={"type": "string"},
)
tool_call = ToolCallCommand(call_id="call_1", name="add", args={"b": 2, "a": [1, 2.5, None, "ü"]})
subject = EffectSubject(effect_id="e-1", kind="tool_call")
cause = EffectRef(session_id="s-1", turn_id="t-1", effect_id="e-0")
intent_key = "s-1/t-1/2/3/tool_call/e-1/0/intent"
result_key = "s-1/t-1/2/3/tool_call/e-1/0/result"
invocation = Invocation(scope=scope, subject=subject, caused_by=cause, replay_key=intent_key)
difference = Difference(path="$.name", change="changed", recorded="add", found="sub")
issue = events.Error(message="the plugin clock raised ValueError in view", code="plugin_failed")
returned = CallReturned(outcome=built.outcome, duration_ms=12)
started = TurnStarted(
    agent="helper",
    model="m-large",
    input=(built.text,),
    instructions="Be brief.",
    tools='[{"name":"add","type":"tool_spec"}]',
    contracts=(ToolContract(tool="add", effect="keyed", version="2"),),
    policy_version="p-1",
    limits={"max_iterations": 8},
    generation=built.generation,
    driver="planner",
    driver_version="3",
    plugins=(PluginVersion(name="clock", version="1.0"),),
    context={"tenant": "acme"},
    history=41,
    started_ms=1_700_000_000_000,
)
claimed = Claimed(
    key=intent_key,
    digest="2" * 64,
    command=tool_call,
    contract="reconcile",
    due_ms=1_700_000_000_000,
    consumes="w_1",
    reserved=built.usage,
)
recorded = Recorded(
    key=result_key, digest="2" * 64, outcome=returned, command=tool_call, usage_source="turn"
)
usage_line = UsageLine(source="turn", model="m-large", calls=3, lost=1, usage=built.usage)

KEYS: dict[str, Value] = {
    "Scope": scope,
    "Scope.least": Scope(session_id="s-1"),
    "KeyParts": KeyParts(
        scope=scope, kind="tool_call", effect_id="e-1", call_ordinal=0, moment="presented"
    ),
    "KeyParts.least": KeyParts(scope=Scope(session_id="s-1"), kind="sleep", effect_id="e-1"),
}

ENVELOPES: dict[str, Value] = {
    "EffectSubject": subject,
    "ProcessSubject": ProcessSubject(process_id="p-1"),
    "ProcessEventSubject": ProcessEventSubject(process_id="p-1", sequence=7, event_type="done"),
    "TriggerSubject": TriggerSubject(occurrence_id="o-1"),
    "NodeSubject": NodeSubject(node_id="n-1"),
    "EffectRef": cause,
    "EffectRef.least": EffectRef(session_id="s-1", effect_id="e-0"),
    "ProcessRef": ProcessRef(process_id="p-1"),
    "ProcessEventRef": ProcessEventRef(process_id="p-1", sequence=7),
    "TriggerRef": TriggerRef(occurrence_id="o-1"),
    "NodeRef": NodeRef(session_id="s-1", node_id="n-1"),
    "Invocation": invocation,
    "Invocation.least": Invocation(scope=scope, subject=subject),
    "Envelope": Envelope(invocation=invocation, command=tool_call),
}

COMMANDS: dict[str, Value] = {
    "RequestSpec": spec,
    "RequestSpec.least": RequestSpec(model="m-large", messages="0" * 64, message_count=0),
    "ModelCallCommand": ModelCallCommand(request=spec),
    "ModelHooksCommand": ModelHooksCommand(reply="3" * 64),
    "DirectCallCommand": DirectCallCommand(request=spec, usage_source="titles"),
    "ToolCallCommand": tool_call,
    "ToolCallCommand.least": ToolCallCommand(call_id="call_1", name="add"),
    "ToolHooksCommand": ToolHooksCommand(call_id="call_1", name="add", subject="4" * 64),
    "StartProcess": StartProcess(process_id="p-1", name="sweep", args={"depth": 2}),
    "StartProcess.least": StartProcess(process_id="p-1", name="sweep"),
    "ListProcesses": ListProcesses(session_id="s-1", mode="all"),
    "ListProcesses.least": ListProcesses(session_id="s-1"),
    "TransferProcesses": TransferProcesses(
        from_session="s-1", to_session="s-2", process_ids=("p-1", "p-2")
    ),
    "DeleteSessionProcesses": DeleteSessionProcesses(session_id="s-1"),
    "AwaitProcess": AwaitProcess(process_id="p-1"),
    "CancelProcess": CancelProcess(process_id="p-1", reason="enough"),
    "CancelProcess.least": CancelProcess(process_id="p-1"),
    "SignalProcess": SignalProcess(process_id="p-1", name="go", signal_id="g-1", value=[1]),
    "SignalProcess.least": SignalProcess(process_id="p-1", name="go", signal_id="g-1"),
    "ProcessCommand": ProcessCommand(operation=AwaitProcess(process_id="p-1")),
    "RunCodeCommand": RunCodeCommand(language="python", code="print(1)\n"),
    "CheckpointCommand": CheckpointCommand(checkpoint="before_completion"),
    "SyncEnvironmentCommand": SyncEnvironmentCommand(update_config=True),
    "SyncEnvironmentCommand.least": SyncEnvironmentCommand(),
    "FinalizeCommand": FinalizeCommand(outcome=built.stopped),
    "SleepCommand": SleepCommand(duration_ms=60_000),
    "AwaitEventCommand": AwaitEventCommand(wait_key="w_1"),
}

MOMENTS: dict[str, Value] = {
    "ModelAnswered": ModelAnswered(result=built.reply, text_streamed=True),
    "ModelAnswered.least": ModelAnswered(result=ModelFailure(message="busy")),
    "ReplyHooked": ReplyHooked(reply=built.reply, patches={"clock": {"n": 1}}),
    "ReplyHooked.least": ReplyHooked(reply=built.reply),
    "DirectAnswered": DirectAnswered(result=built.reply),
    "CallDecided": CallDecided(
        verdict="short_circuit",
        args={"a": 1},
        reason="known",
        policy_version="p-1",
        outcome=built.outcome,
        patches={"clock": 1},
    ),
    "CallDecided.least": CallDecided(),
    "CallReturned": returned,
    "CallReturned.least": CallReturned(outcome=ToolOutcome()),
    "CallPresented": CallPresented(outcome=built.outcome, patches={"clock": 1}),
    "CallPresented.least": CallPresented(outcome=ToolOutcome()),
    "ProcessAnswered": ProcessAnswered(value={"id": "p-1"}, failure=Failure(message="gone")),
    "ProcessAnswered.least": ProcessAnswered(),
    "CodeRan": CodeRan(result=built.code_result, patches={"clock": 1}),
    "CodeRan.least": CodeRan(result=Failure(message="no sandbox")),
    "CheckpointGiven": CheckpointGiven(
        delivery=built.delivery, taken=("i-1", "i-2"), patches={"clock": 1}
    ),
    "CheckpointGiven.least": CheckpointGiven(delivery=Failure(message="down")),
    "EnvironmentBuilt": EnvironmentBuilt(result=built.environment, patches={"clock": 1}),
    "EnvironmentBuilt.least": EnvironmentBuilt(),
    "TurnFinalized": TurnFinalized(
        messages=(built.message,), issues=("clock: late",), patches={"clock": 1}
    ),
    "TurnFinalized.least": TurnFinalized(),
    "Slept": Slept(due_ms=1_700_000_000_000),
    "EventAwaited": EventAwaited(status="answered", value={"ok": True}, by="ana"),
    "EventAwaited.least": EventAwaited(status="expired"),
    "ModelAnswered.hooked": ModelAnswered(
        result=built.reply, sent=spec, patches={"clock": {"state": [{"n": 1}]}}, issues=(issue,)
    ),
    "DirectAnswered.hooked": DirectAnswered(
        result=built.reply, sent=spec, patches={"clock": {"memory": [{"n": None}]}}
    ),
    "CallDecided.ask": CallDecided(
        verdict="ask",
        args={"a": 1},
        reason="Really?",
        risk="high",
        action_key="add",
        patches={"clock": {"state": [{"n": {"$add": 1}}]}},
        issues=(issue,),
    ),
    "CallPresented.ends": CallPresented(outcome=built.outcome, ends=built.stopped, issues=(issue,)),
    "CheckpointGiven.issues": CheckpointGiven(delivery=built.delivery, issues=(issue,)),
    "TurnFinalized.compact": TurnFinalized(compact={"keep": 2}),
    "ReplyHooked.as_it_was": ReplyHooked(),
    "CallPresented.as_it_was": CallPresented(),
}

ENTRIES: dict[str, Value] = {
    "PluginVersion": PluginVersion(name="clock", version="1.0"),
    "PluginVersion.least": PluginVersion(name="clock"),
    "ToolContract": ToolContract(tool="add", effect="keyed", version="2"),
    "ToolContract.least": ToolContract(tool="add"),
    "TurnStarted": started,
    "TurnStarted.least": TurnStarted(agent="helper", model="m-large"),
    "Claimed": claimed,
    "Claimed.least": Claimed(
        key="s-1///0/sleep/e-1", digest="2" * 64, command=SleepCommand(duration_ms=0)
    ),
    "Recorded": recorded,
    "Recorded.least": Recorded(
        key="s-1///0/sleep/e-1", digest="2" * 64, outcome=Slept(due_ms=1_700_000_000_000)
    ),
    "TurnStarted.structured": TurnStarted(
        agent="helper", model="m-large", driver="structured", output={"type": "integer"}
    ),
    "TurnStarted.hooked": TurnStarted(
        agent="helper",
        model="m-large",
        plugins=(PluginVersion(name="clock", version="1.0"),),
        messages=(built.message,),
        prompt="Be brief.\n\n## Guidance\n\nSay the time.",
        patches={"clock": {"state": [{"n": 1}]}},
        ends=built.stopped,
    ),
    "Claimed.reserved": Claimed(
        key="s-1/t-1/2/3/model_call/e-1",
        digest="2" * 64,
        command=ModelCallCommand(request=spec),
        reserved=built.usage,
        reserved_for="m-small",
    ),
    "Released": Released(key="s-1/t-1/2/3/model_call/e-1"),
    "TurnStarted.looks": TurnStarted(agent="helper", model="m-large", looks=("model", "tools")),
}

CLAIMS: dict[str, Value] = {
    "JournalRow": JournalRow(
        key=result_key,
        digest="2" * 64,
        generation=4,
        command=tool_call,
        contract="once",
        due_ms=1_700_000_000_000,
        reserved=built.usage,
        outcome=returned,
        usage_source="turn",
    ),
    "JournalRow.least": JournalRow(key=result_key, digest="2" * 64, generation=4),
    "Run": Run(),
    "Answer": Answer(outcome=returned),
    "Mismatch": Mismatch(recorded="2" * 64, found="5" * 64, diff=(difference,)),
    "Mismatch.least": Mismatch(recorded="2" * 64, found="5" * 64),
    "Busy": Busy(),
    "Stale": Stale(generation=5),
    "TakeOver": TakeOver(how="first_due", due_ms=1_700_000_000_000),
    "TakeOver.least": TakeOver(how="again"),
    "Difference": difference,
    "Difference.least": Difference(path="$", change="added"),
    "JournalRow.lost": JournalRow(
        key=result_key, digest="2" * 64, generation=4, lost=(built.usage, built.usage)
    ),
    "JournalRow.reserved": JournalRow(
        key=result_key,
        digest="2" * 64,
        generation=4,
        reserved=built.usage,
        reserved_for="m-small",
        lost=(built.usage,),
        lost_for=("m-large",),
    ),
}

PAGES: dict[str, Value] = {
    "UsageLine": usage_line,
    "UsageLine.least": UsageLine(source="turn", model="m-large"),
    "FrameOpened": FrameOpened(frame_id="f-1", reason="compacted", detail={"kept": 3}),
    "FrameOpened.least": FrameOpened(frame_id="f-1"),
    "JournalPage": JournalPage(format=1, generation=4, entries=(started, claimed, recorded)),
    "JournalPage.least": JournalPage(format=1, generation=0, entries=()),
    "HistoryPage": HistoryPage(
        format=1,
        turn_id="t-1",
        nodes=(
            FrameOpened(frame_id="f-1", reason="compacted"),
            built.record,
            DriverRecord(data={"strikes": 1}),
        ),
        outcome=built.stopped,
        usage=(usage_line,),
        events=(built.EVENTS["TurnEnded"],),  # type: ignore[arg-type]  # an event
        committed_ms=1_700_000_000_000,
    ),
    "HistoryPage.least": HistoryPage(format=1, turn_id="t-1", nodes=(), outcome=Finished()),
    "DecisionRemembered": DecisionRemembered(session_id="s-1", action_key="refund", by="eva"),
    "DecisionRemembered.least": DecisionRemembered(session_id="s-1", action_key="refund"),
    "OutcomeUnknown": OutcomeUnknown(call="c" * 64),
    "PluginRemembered": PluginRemembered(plugin="clock", memory={"n": 1, "seen": ["a"]}),
    "PluginRemembered.least": PluginRemembered(plugin="clock"),
    "FrameOpened.carries": FrameOpened(frame_id="f-1", reason="compaction", carries=True),
    "HistoryPage.prefix": HistoryPage(
        format=1,
        turn_id="t-1",
        nodes=(),
        outcome=built.stopped,
        prefix=SentPrefix(first="0" * 64, count=65, digest="1" * 64),
    ),
}

# File name → what is in it.
GOLDEN: dict[str, dict[str, Value]] = {
    "keys": KEYS,
    "envelopes": ENVELOPES,
    "commands": COMMANDS,
    "moments": MOMENTS,
    "entries": ENTRIES,
    "claims": CLAIMS,
    "pages": PAGES,
}

VALUES: dict[str, Value] = {
    name: value for group in GOLDEN.values() for name, value in group.items()
}
