"""THE MACHINE: one turn of an agent as a pure state machine.

Law 1. Nothing in this package does I/O, reads a clock, draws a random number or awaits.
Law 2. Same inputs, same bytes: under every hash seed, on every machine, first run or replay.

    machine = TurnMachine(config, messages)
    while (effect := machine.poll()) is not None:
        ...                       # show it, or do it and machine.respond(...)
"""

from windlass.kernel import actions, canonical, effects, events, outcomes, responses
from windlass.kernel.actions import (
    Action,
    Append,
    DriverFault,
    EmitEvent,
    Finish,
    NextIteration,
    ScheduleFinal,
    StartCheckpoint,
    StartCode,
    StartModel,
    StartTools,
)
from windlass.kernel.chain import Chain
from windlass.kernel.driver import Driver, DriverView, TurnConfig
from windlass.kernel.effects import (
    CallModel,
    CallTools,
    CancelModel,
    Done,
    Effect,
    Emit,
    FailureLogged,
    Log,
    Progress,
    ReplyLogged,
    RequestLogged,
    RunCheckpoint,
    RunCode,
    SyncEnvironment,
)
from windlass.kernel.events import (
    ChildEvent,
    ChildUsage,
    CodeFinished,
    CodeStarted,
    Error,
    Event,
    InputAccepted,
    ModelFinished,
    ModelStarted,
    PluginEvent,
    ProcessEvent,
    ReasoningDelta,
    Recovered,
    Retracted,
    Retrying,
    TextDelta,
    ToolFinished,
    ToolInputDelta,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    UsageReported,
    WaitOpened,
    WaitResolved,
)
from windlass.kernel.history import check_history
from windlass.kernel.history_view import WHOLE, HistoryView, MessageReplaced
from windlass.kernel.ids import TurnIds
from windlass.kernel.iteration_limit import LimitState
from windlass.kernel.machine import TurnMachine
from windlass.kernel.messages import (
    Attachment,
    Citation,
    Code,
    CodeOutput,
    ConversationRecord,
    DriverRecord,
    ErrorText,
    InputOrigin,
    Message,
    Origin,
    Part,
    PluginOrigin,
    ProcessOrigin,
    Reasoning,
    Record,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    TurnCause,
)
from windlass.kernel.model_call import (
    Generation,
    ModelFailure,
    ModelMessage,
    ModelReply,
    ModelRequest,
    ServerTool,
    Usage,
    WebSearch,
)
from windlass.kernel.outcomes import (
    Finished,
    FinishedByTool,
    FinishedValue,
    HandedOff,
    Outcome,
    Stopped,
)
from windlass.kernel.projector import ChatProjector, Projector, ProjectorView
from windlass.kernel.responses import (
    CheckpointDelivery,
    CheckpointPassed,
    CodeResult,
    CodeReturned,
    Environment,
    EnvironmentSynced,
    Failure,
    InjectedMessage,
    ModelReplied,
    Response,
    ToolsReturned,
)
from windlass.kernel.snapshot import TurnSnapshot
from windlass.kernel.standard import StandardDriver
from windlass.kernel.states import TRANSITIONS, WaitingModel
from windlass.kernel.tool_call import (
    CompletedToolCall,
    EndTurn,
    FailTurn,
    HandOff,
    PendingToolCall,
    ToolOutcome,
    ToolSpec,
)
from windlass.kernel.value import Json, Value, freeze, thaw

__all__ = [
    "TRANSITIONS", "WHOLE", "Action", "Append", "Attachment", "CallModel", "CallTools", "CancelModel", "Chain",
    "ChatProjector", "CheckpointDelivery", "CheckpointPassed", "ChildEvent", "ChildUsage", "Citation", "Code", "CodeFinished", "CodeOutput",
    "CodeResult", "CodeReturned", "CodeStarted", "CompletedToolCall", "ConversationRecord", "Done", "Driver",
    "DriverFault", "DriverRecord", "DriverView", "Effect", "Emit", "EmitEvent", "EndTurn", "Environment",
    "EnvironmentSynced", "Error", "ErrorText", "Event", "FailTurn", "Failure", "FailureLogged", "Finish",
    "Finished", "FinishedByTool", "FinishedValue", "Generation", "HandOff", "HandedOff", "HistoryView",
    "InjectedMessage", "InputAccepted", "InputOrigin", "Json", "LimitState", "Log", "Message", "MessageReplaced",
    "ModelFailure", "ModelFinished", "ModelMessage", "ModelReplied", "ModelReply", "ModelRequest", "ModelStarted",
    "NextIteration", "Origin", "Outcome", "Part", "PendingToolCall", "PluginEvent", "PluginOrigin",
    "ProcessEvent", "ProcessOrigin", "Progress", "Projector", "ProjectorView", "Reasoning", "ReasoningDelta", "Record",
    "Recovered", "ReplyLogged", "RequestLogged", "Response", "Retracted", "Retrying", "RunCheckpoint", "RunCode",
    "ScheduleFinal", "ServerTool", "ServerToolCall", "StandardDriver", "StartCheckpoint", "StartCode", "StartModel", "StartTools", "Stopped",
    "SyncEnvironment", "Text", "TextDelta", "ToolCall", "ToolFinished", "ToolInputDelta", "ToolOutcome", "ToolProgress",
    "ToolResult", "ToolSpec", "ToolStarted", "ToolsReturned", "TurnCause", "TurnConfig", "TurnEnded", "TurnIds",
    "TurnMachine", "TurnSnapshot", "Usage", "UsageReported", "Value", "WaitOpened", "WaitResolved", "WaitingModel", "WebSearch",
    "actions", "canonical", "check_history", "effects", "events", "freeze", "outcomes", "responses", "thaw",
]  # fmt: skip
