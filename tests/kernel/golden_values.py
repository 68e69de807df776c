"""One hand-built value of every class of the kernel, for the golden files.

Law 1. What stands here is never changed: its bytes are what journals out there hold.
Law 2. A new field gets a new value under a new name, beside the old one: `Message.pinned`.

`ClassName` sets every field, also those with a default; `ClassName.least` sets none of these.

Length: one value for each class, and one for each field that came later.
"""

from __future__ import annotations

import msgspec

from windlass.kernel import (
    Append,
    Attachment,
    CallModel,
    CallTools,
    CancelModel,
    CheckpointDelivery,
    CheckpointPassed,
    ChildEvent,
    ChildUsage,
    Citation,
    Code,
    CodeFinished,
    CodeOutput,
    CodeResult,
    CodeReturned,
    CodeStarted,
    CompletedToolCall,
    ConversationRecord,
    Done,
    DriverRecord,
    Emit,
    EmitEvent,
    EndTurn,
    Environment,
    EnvironmentSynced,
    Error,
    ErrorText,
    FailTurn,
    Failure,
    FailureLogged,
    Finish,
    Finished,
    FinishedByTool,
    FinishedValue,
    Generation,
    HandedOff,
    HandOff,
    InjectedMessage,
    InputAccepted,
    InputOrigin,
    LimitState,
    Log,
    Message,
    ModelFailure,
    ModelFinished,
    ModelMessage,
    ModelReplied,
    ModelReply,
    ModelRequest,
    ModelStarted,
    NextIteration,
    PendingToolCall,
    PluginEvent,
    PluginOrigin,
    ProcessEvent,
    ProcessOrigin,
    Progress,
    Reasoning,
    ReasoningDelta,
    Recovered,
    ReplyLogged,
    RequestLogged,
    Retracted,
    Retrying,
    RunCheckpoint,
    RunCode,
    ScheduleFinal,
    ServerTool,
    ServerToolCall,
    StartCheckpoint,
    StartCode,
    StartModel,
    StartTools,
    Stopped,
    SyncEnvironment,
    Text,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolInputDelta,
    ToolOutcome,
    ToolProgress,
    ToolResult,
    ToolSpec,
    ToolsReturned,
    ToolStarted,
    TurnCause,
    TurnEnded,
    Usage,
    UsageReported,
    Value,
    WaitOpened,
    WaitResolved,
    WebSearch,
)
from windlass.kernel.projector import SentPrefix

text = Text(text='Grüße, "null", \\u0000, 🚢\n')
call = ToolCall(
    call_id="call_1", name="add", args={"b": 2, "a": [1, 2.5, None, True]}, raw='{"b":', replay="r"
)
result = ToolResult(call_id="call_1", name="add", content=(text,), status="denied")
plugin = PluginOrigin(plugin="clock", transient=True)
process = ProcessOrigin(process_id="p-1", event_type="done", sequence=7, wake_id="w-1")
message = Message(
    id="m-1",
    role="assistant",
    parts=(text, call),
    origin=InputOrigin(turn_id="t-1", input_id="i-1"),
    incomplete=True,
    prune="summarized",
)
asked = Message(id="m-0", role="user", parts=(Text(text="hi"),))
record = ConversationRecord(message=message)
cause = TurnCause(id="w-1", event_type="done", origin=process, text="it is done")
usage = Usage(
    input_tokens=1,
    output_tokens=2,
    cached_input_tokens=3,
    cache_write_tokens=4,
    reasoning_tokens=5,
)
generation = Generation(
    max_output_tokens=100, temperature=0.5, top_p=1.0, seed=-7, stop=("END", "STOP")
)
spec = ToolSpec(name="add", description="Adds.", parameters={"type": "object", "n": 2**70})
request = ModelRequest(
    model="m-large",
    messages=(
        ModelMessage(role="system", parts=(Text(text="Be brief."),)),
        ModelMessage(role="user", parts=(Text(text="hi"),)),
    ),
    tools=(spec,),
    tool_choice="required",
    variant="deep",
    generation=generation,
    session_id="s-1",
    output={"type": "string"},
)
least_request = ModelRequest(model="m-large", messages=())
reply = ModelReply(
    text="Hello.",
    parts=(Reasoning(text="Hm.", replay={"sig": "x"}), Text(text="Hello."), call),
    usage=usage,
    terminal="tool_use",
    diagnostic="fine",
    provider_usage={"total": 15},
    request_body="{}",
)
failure = ModelFailure(
    message="busy",
    retryable=True,
    code="429",
    terminal="cancelled",
    raw="<html>",
    request_body="{}",
)
outcome = ToolOutcome(
    status="timeout",
    value={"sum": 3},
    content=(Attachment(ref="blob-1"),),
    shown=(Text(text="3"),),
    control=HandOff(target="other", task=["x"]),
)
pending = PendingToolCall(call_id="call_1", name="add", args={"a": 1}, replay=[1])
completed = CompletedToolCall(
    call_id="call_1", name="add", args={"a": 1}, outcome=outcome, duration_ms=12, replay=[1]
)
environment = Environment(system_prompt="Be kind.", tools=(spec,))
injected = InjectedMessage(role="user", parts=(Text(text="more"),), origin=plugin)
delivery = CheckpointDelivery(messages=(injected,), transient_messages=(injected,), causes=(cause,))
code_result = CodeResult(
    output="1\n", value={"n": 1}, error="E", tool_calls=(completed,), finished=True, duration_ms=3
)
stopped = Stopped(reason="max_iterations", detail="enough")

PARTS: dict[str, Value] = {
    "Text": text,
    "Citation": Citation(url="https://a.example", title="A", quote="so", start=0, end=5),
    "Citation.least": Citation(),
    "Text.said": Text(
        text="Hello.",
        phase="final_answer",
        citations=(Citation(url="https://a.example"),),
        replay={"index": "x"},
    ),
    "ServerToolCall": ServerToolCall(name="web_search", text="weather", replay={"id": "x"}),
    "ServerToolCall.least": ServerToolCall(name="web_search"),
    "Reasoning": Reasoning(text="Hm.", replay={"sig": "x"}),
    "Reasoning.least": Reasoning(),
    "ToolCall": call,
    "ToolCall.least": ToolCall(call_id="call_1", name="add"),
    "ToolResult": result,
    "ToolResult.least": ToolResult(call_id="call_1", name="add"),
    "Attachment": Attachment(ref="blob-1", media_type="image/png", name="a.png", n_bytes=2**53 + 1),
    "Attachment.least": Attachment(ref="blob-1"),
    "Code": Code(language="python", source="print(1)\n"),
    "CodeOutput": CodeOutput(text="1\n", error="boom"),
    "CodeOutput.least": CodeOutput(),
    "ErrorText": ErrorText(text="It broke."),
}

MESSAGES: dict[str, Value] = {
    "Message": message,
    "Message.least": asked,
    "PluginOrigin": plugin,
    "PluginOrigin.least": PluginOrigin(plugin="clock"),
    "ProcessOrigin": process,
    "ProcessOrigin.least": ProcessOrigin(process_id="p-1", event_type="done", sequence=0),
    "InputOrigin": InputOrigin(turn_id="t-1", input_id="i-1"),
    "InputOrigin.least": InputOrigin(turn_id="t-1"),
    "ConversationRecord": record,
    "DriverRecord": DriverRecord(data={"strikes": 1, "at": {"z": None, "a": -0.0}}),
    "DriverRecord.least": DriverRecord(),
    "TurnCause": cause,
}

MODEL_CALLS: dict[str, Value] = {
    "Usage": usage,
    "Usage.least": Usage(),
    "Generation": generation,
    "Generation.least": Generation(),
    "ModelMessage": ModelMessage(role="user", parts=(result, text)),
    "ModelRequest": request,
    "ModelRequest.least": least_request,
    "ModelReply": reply,
    "ModelReply.least": ModelReply(),
    "ModelFailure": failure,
    "ModelFailure.least": ModelFailure(message="busy"),
    "SentPrefix": SentPrefix(first="0" * 64, count=65, digest="1" * 64, rendering=7),
    "SentPrefix.least": SentPrefix(first="0" * 64, count=65, digest="1" * 64),
    "Generation.variant": Generation(variant="high"),
    "WebSearch": WebSearch(max_uses=2, allowed_domains=("a.example",)),
    "WebSearch.blocked": WebSearch(blocked_domains=("b.example",)),
    "WebSearch.least": WebSearch(),
    "ServerTool": ServerTool(provider="openai", spec={"type": "code_interpreter"}),
    "Generation.server_tools": Generation(
        server_tools=(WebSearch(), ServerTool(provider="openai", spec={"type": "x"}))
    ),
}

TOOL_CALLS: dict[str, Value] = {
    "ToolSpec": spec,
    "ToolSpec.least": ToolSpec(name="add"),
    "EndTurn": EndTurn(value=3),
    "EndTurn.least": EndTurn(),
    "FailTurn": FailTurn(value="no"),
    "FailTurn.least": FailTurn(),
    "HandOff": HandOff(target="other", task=["x"]),
    "HandOff.least": HandOff(target="other"),
    "ToolOutcome": outcome,
    "ToolOutcome.least": ToolOutcome(),
    "PendingToolCall": pending,
    "PendingToolCall.least": PendingToolCall(call_id="call_1", name="add"),
    "CompletedToolCall": completed,
    "CompletedToolCall.least": CompletedToolCall(
        call_id="call_1", name="add", outcome=ToolOutcome()
    ),
}

OUTCOMES: dict[str, Value] = {
    "Finished": Finished(text="Hello."),
    "Finished.least": Finished(),
    "FinishedValue": FinishedValue(value=[1]),
    "FinishedValue.least": FinishedValue(),
    "FinishedByTool": FinishedByTool(tool="add", value=3),
    "FinishedByTool.least": FinishedByTool(tool="add"),
    "HandedOff": HandedOff(target="other", task=["x"]),
    "HandedOff.least": HandedOff(target="other"),
    "Stopped": stopped,
    "Stopped.least": Stopped(reason="refused"),
    "Stopped.unfinished": Stopped(reason="unfinished", detail="no"),
}

EVENTS: dict[str, Value] = {
    "ModelStarted": ModelStarted(
        id="e-1", correlation_id="c-1", iteration=1, message_count=2, tools=("add",)
    ),
    "ModelStarted.least": ModelStarted(iteration=1, message_count=2),
    "ModelFinished": ModelFinished(id="e-1", correlation_id="c-1", iteration=1, text="hi"),
    "ModelFinished.calls": ModelFinished(
        id="e-1",
        correlation_id="c-1",
        iteration=1,
        text="hi",
        calls=(PendingToolCall(call_id="c1", name="add", args={"a": 1}),),
    ),
    "UsageReported": UsageReported(
        id="e-1", correlation_id="c-1", iteration=1, usage=usage, cumulative=usage + usage
    ),
    "ModelFinished.told": ModelFinished(
        iteration=1,
        text="hi",
        commentary="I look.",
        citations=(Citation(url="https://a.example", title="A"),),
        server_tools=("web_search: weather",),
    ),
    "TextDelta.phase": TextDelta(text="he", phase="commentary"),
    "ToolInputDelta": ToolInputDelta(
        id="e-1", correlation_id="c-1", call_id="c", name="look", text='{"a'
    ),
    "TextDelta": TextDelta(id="e-1", correlation_id="c-1", text="he"),
    "ReasoningDelta": ReasoningDelta(id="e-1", correlation_id="c-1", text="hm"),
    "ToolStarted": ToolStarted(
        id="e-1", correlation_id="c-1", call_id="call_1", name="add", args={"a": 1}
    ),
    "ToolProgress": ToolProgress(
        id="e-1", correlation_id="c-1", call_id="call_1", name="add", data=[0.5]
    ),
    "ToolFinished": ToolFinished(
        id="e-1",
        correlation_id="c-1",
        call_id="call_1",
        name="add",
        args={"a": 1},
        outcome=outcome,
        duration_ms=12,
    ),
    "CodeStarted": CodeStarted(id="e-1", correlation_id="c-1", language="python", code="1"),
    "CodeFinished": CodeFinished(
        id="e-1", correlation_id="c-1", language="python", output="1", error="E", duration_ms=3
    ),
    "Error": Error(id="e-1", correlation_id="c-1", message="no", code="x", terminal="cancelled"),
    "Error.least": Error(message="no"),
    "TurnEnded": TurnEnded(id="e-1", correlation_id="c-1", outcome=stopped),
    "Retrying": Retrying(id="e-1", correlation_id="c-1", attempt=2, reason="busy", wait_ms=500),
    "Retracted": Retracted(id="e-1", correlation_id="c-1", correlation_ids=("c-0",)),
    "WaitOpened": WaitOpened(
        id="e-1",
        correlation_id="c-1",
        key="k",
        kind="approval",
        title="May I?",
        call_id="call_1",
        expires_ms=2**40,
    ),
    "WaitResolved": WaitResolved(
        id="e-1", correlation_id="c-1", key="k", kind="approval", status="granted", by="ana"
    ),
    "InputAccepted": InputAccepted(
        id="e-1", correlation_id="c-1", input_id="i-1", message_ids=("m-1",)
    ),
    "ChildUsage": ChildUsage(
        id="e-1",
        correlation_id="c-1",
        session_id="s-2",
        source="agent",
        model="m-large",
        usage=usage,
        cumulative=usage,
    ),
    "ProcessEvent": ProcessEvent(id="e-1", correlation_id="c-1", name="paid", value={"cents": 5}),
    "ProcessEvent.least": ProcessEvent(name="paid"),
    "ChildEvent": ChildEvent(
        id="e-1",
        correlation_id="c-1",
        session_id="s-2",
        turn_id="t",
        event=TextDelta(text="Hello"),
        path=("lead", "researcher"),
        call_id="call_1",
    ),
    "ChildEvent.least": ChildEvent(session_id="s-2", turn_id="t", event=TextDelta(text="")),
    "PluginEvent": PluginEvent(
        id="e-1", correlation_id="c-1", plugin="clock", name="tick", data={"n": 1}
    ),
    "Recovered": Recovered(id="e-1", correlation_id="c-1", view=(message,)),
}
# As a live reader gets them: what is stored has no cursor.
EVENTS |= {
    f"{name}.delivered": msgspec.structs.replace(event, cursor="f-1.7")
    for name, event in EVENTS.items()
    if not name.endswith(".least")
}

EFFECTS: dict[str, Value] = {
    "SyncEnvironment": SyncEnvironment(id=1, update_config=True),
    "CallModel": CallModel(id=2, request=request),
    "CallTools": CallTools(id=3, calls=(pending,)),
    "RunCode": RunCode(id=4, language="python", code="1"),
    "RunCheckpoint": RunCheckpoint(id=5, kind="after_work"),
    "CancelModel": CancelModel(id=2),
    "Emit": Emit(event=TextDelta(text="he")),
    "RequestLogged": RequestLogged(iteration=1, request=request),
    "ReplyLogged": ReplyLogged(iteration=1, reply=reply),
    "FailureLogged": FailureLogged(iteration=1, failure=failure),
    "Log": Log(entry=RequestLogged(iteration=1, request=least_request)),
    "Progress": Progress(messages=(asked, message), new_records=(record,), iteration=2),
    "Progress.least": Progress(messages=()),
    "Done": Done(
        messages=(asked, message), new_records=(record,), iteration=2, outcome=Finished(text="x")
    ),
    "Done.least": Done(messages=()),
}

RESPONSES: dict[str, Value] = {
    "Failure": Failure(message="down", code="dns"),
    "Failure.least": Failure(message="down"),
    "Environment": environment,
    "Environment.least": Environment(),
    "InjectedMessage": injected,
    "InjectedMessage.least": InjectedMessage(role="system", parts=()),
    "CheckpointDelivery": delivery,
    "CheckpointDelivery.least": CheckpointDelivery(),
    "CodeResult": code_result,
    "CodeResult.least": CodeResult(),
    "EnvironmentSynced": EnvironmentSynced(id=1, result=environment),
    "EnvironmentSynced.least": EnvironmentSynced(id=1),
    "ModelReplied": ModelReplied(id=2, result=reply, text_streamed=True),
    "ModelReplied.least": ModelReplied(id=2, result=ModelFailure(message="busy")),
    "ToolsReturned": ToolsReturned(id=3, results=(completed,)),
    "CodeReturned": CodeReturned(id=4, result=code_result),
    "CheckpointPassed": CheckpointPassed(id=5, delivery=delivery),
    "CheckpointPassed.least": CheckpointPassed(id=5),
}

ACTIONS: dict[str, Value] = {
    "EmitEvent": EmitEvent(event=TextDelta(text="he")),
    "Append": Append(records=(record, DriverRecord(data=1))),
    "StartModel": StartModel(request=request, driver_state={"step": 1}),
    "StartModel.least": StartModel(request=least_request),
    "StartTools": StartTools(calls=(pending,)),
    "StartCode": StartCode(language="python", code="1", driver_state={"step": 1}),
    "StartCheckpoint": StartCheckpoint(kind="before_completion", then=stopped),
    "StartCheckpoint.least": StartCheckpoint(kind="after_work"),
    "NextIteration": NextIteration(),
    "ScheduleFinal": ScheduleFinal(message=asked),
    "Finish": Finish(outcome=stopped),
}

LIMITS: dict[str, Value] = {
    "LimitState": LimitState(grace_given=True),
    "LimitState.least": LimitState(),
}
