"""One hand-built value of every class of the journal, for the golden files.

Law 1. What stands here is never changed: its bytes are what journals out there hold.
Law 2. A new field gets a new value under a new name, beside the old one: `Claimed.urgent`.

`ClassName` sets every field, also those with a default; `ClassName.least` sets none of these.

Length: one list of values, which only grows.
"""

from __future__ import annotations

from tests.kernel import golden_values as built
from windlass.journal import (
    Answer,
    Attempt,
    AwaitEventCommand,
    Busy,
    CallAsked,
    CallDecided,
    CallPresented,
    CallReturned,
    CheckpointCommand,
    CheckpointGiven,
    Claimed,
    CodeRan,
    DecisionRemembered,
    Difference,
    DirectAnswered,
    DirectCallCommand,
    DriveBegan,
    DriveEnded,
    EffectSubject,
    Emitted,
    Envelope,
    EnvironmentBuilt,
    EventAwaited,
    FinalizeCommand,
    ForkedFrom,
    FrameOpened,
    HistoryPage,
    Invocation,
    JournalPage,
    JournalRow,
    KeyParts,
    Mismatch,
    ModelAnswered,
    ModelCallCommand,
    ModelHooksCommand,
    OutcomeUnknown,
    PluginRemembered,
    PluginVersion,
    ProcessAnswered,
    ProcessCommand,
    Recorded,
    Released,
    ReplyHooked,
    RequestSpec,
    Run,
    RunCodeCommand,
    Scope,
    SleepCommand,
    Slept,
    Stale,
    SyncEnvironmentCommand,
    TakeOver,
    ToolCallCommand,
    ToolContract,
    ToolHooksCommand,
    Traced,
    TurnFinalized,
    TurnStarted,
    UsageLine,
)
from windlass.kernel import (
    DriverRecord,
    Failure,
    Finished,
    HistoryView,
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
intent_key = "s-1/t-1/2/3/tool_call/e-1/0/intent"
result_key = "s-1/t-1/2/3/tool_call/e-1/0/result"
invocation = Invocation(scope=scope, subject=subject, replay_key=intent_key)
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
timed_claim = Claimed(key=intent_key, command=tool_call, contract="once", at_ms=1_700_000_000_001)
attempt = Attempt(began_ms=1_700_000_000_002, took_ms=40, code="throttled", model="m-large")
timed_record = Recorded(
    key="s-1/t-1/2/3/model_call/e-1",
    outcome=ModelAnswered(result=built.reply),
    command=ModelCallCommand(request=spec),
    began_ms=1_700_000_000_002,
    took_ms=900,
    first_ms=300,
    attempts=(attempt,),
)
drive_began = DriveBegan(worker="w-1", at_ms=1_700_000_000_000, place="host:4711", build="9" * 64)
drive_ended = DriveEnded(at_ms=1_700_000_000_900, why="parked")
usage_line = UsageLine(source="turn", model="m-large", calls=3, lost=1, usage=built.usage)

KEYS: dict[str, Value] = {
    "Scope": scope,
    "Scope.least": Scope(session_id="s-1"),
    "KeyParts": KeyParts(
        scope=scope, kind="tool_call", effect_id="e-1", call_ordinal=0, moment="presented"
    ),
    "KeyParts.asked": KeyParts(
        scope=scope, kind="tool_call", effect_id="e-1", call_ordinal=0, moment="asked", question=1
    ),
    "KeyParts.least": KeyParts(scope=Scope(session_id="s-1"), kind="sleep", effect_id="e-1"),
}

ENVELOPES: dict[str, Value] = {
    "EffectSubject": subject,
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
    "ProcessCommand": ProcessCommand(
        operation="signal", process_id="p-1", name="go", args={"depth": [2]}
    ),
    "ProcessCommand.least": ProcessCommand(operation="await", process_id="p-1"),
    "RequestSpec.base": RequestSpec(
        model="m-large", messages="0" * 64, message_count=2, base="6" * 64
    ),
    "RunCodeCommand": RunCodeCommand(language="python", code="print(1)\n"),
    "CheckpointCommand": CheckpointCommand(checkpoint="before_completion"),
    "SyncEnvironmentCommand": SyncEnvironmentCommand(update_config=True),
    "SyncEnvironmentCommand.least": SyncEnvironmentCommand(),
    "FinalizeCommand": FinalizeCommand(outcome=built.stopped),
    "SleepCommand": SleepCommand(duration_ms=60_000),
    "SleepCommand.until": SleepCommand(duration_ms=0, until_ms=1_700_000_000_000),
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
    "ProcessAnswered.waited": ProcessAnswered(value=5, status="answered", by="ana"),
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
    "CallAsked": CallAsked(title="How much?", schema={"type": "integer"}, state=[1]),
    "CallAsked.least": CallAsked(title="How much?"),
    "TurnFinalized.compact": TurnFinalized(compact={"keep": 2}),
    "ReplyHooked.as_it_was": ReplyHooked(),
    "CallPresented.as_it_was": CallPresented(),
    "CallReturned.unknown": CallReturned(
        outcome=ToolOutcome(status="unknown", value="It is not known."), ran_as="3a" * 32
    ),
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
    "Traced": Traced(trace_id="7" * 32, parent_id="8" * 16, sampled=False),
    "Traced.least": Traced(trace_id="7" * 32, parent_id="8" * 16),
    "TurnStarted.traced": TurnStarted(
        agent="helper",
        model="m-large",
        accepted_ms=1_699_999_999_990,
        trace=Traced(trace_id="7" * 32, parent_id="8" * 16),
        looks=("after_model", "after_tools"),
    ),
    "Claimed.timed": timed_claim,
    "Attempt": attempt,
    "Recorded.timed": timed_record,
    "DriveBegan": drive_began,
    "DriveBegan.least": DriveBegan(worker="w-1", at_ms=1_700_000_000_000),
    "DriveEnded": drive_ended,
    "Emitted": Emitted(key="s-1/t-1/2/3/process/e-1", name="onboarded", value={"mail": "a"}),
    "Emitted.least": Emitted(key="s-1/t-1/2/3/process/e-1", name="onboarded"),
    "TurnStarted.looks": TurnStarted(agent="helper", model="m-large", looks=("model", "tools")),
    "TurnStarted.pieces": TurnStarted(
        agent="helper",
        model="m-large",
        pieces=[{"text": "Be brief.", "slot": "context", "gate": ["look"], "layer": "turn"}],
    ),
    "TurnStarted.termination": TurnStarted(agent="helper", model="m-large", termination=["submit"]),
    "TurnStarted.view": TurnStarted(
        agent="helper", model="m-large", view=HistoryView(words_before="m-3", keep=("m-1",))
    ),
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

forked_from = ForkedFrom(session_id="s-1", turn_id="t-1", iterations=2)
PAGES: dict[str, Value] = {
    "UsageLine": usage_line,
    "UsageLine.least": UsageLine(source="turn", model="m-large"),
    "FrameOpened": FrameOpened(frame_id="f-1", reason="compacted", detail={"kept": 3}),
    "FrameOpened.least": FrameOpened(frame_id="f-1"),
    "JournalPage": JournalPage(format=1, generation=4, entries=(started, claimed, recorded)),
    "JournalPage.least": JournalPage(format=1, generation=0, entries=()),
    "JournalPage.two": JournalPage(
        format=2,
        generation=4,
        entries=(drive_began, started, timed_record, timed_claim, drive_ended),
    ),
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
    "ForkedFrom": forked_from,
    "HistoryPage.forked": HistoryPage(
        format=1, turn_id="t-1", nodes=(built.record,), outcome=built.stopped, forked=forked_from
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
