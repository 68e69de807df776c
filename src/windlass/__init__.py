"""windlass runs LLM agents whose turns hold: kill the process, start it again, the turn goes on."""

from typing import TYPE_CHECKING, Any

from windlass import errors
from windlass.errors import WindlassError
from windlass.release import RELEASE

if TYPE_CHECKING:
    from windlass.api.agent import Agent
    from windlass.api.batch import BatchItem
    from windlass.api.notices import Notice
    from windlass.api.process import Process, process
    from windlass.api.process_context import ProcessContext
    from windlass.api.process_handle import ProcessHandle
    from windlass.api.process_status import ProcessStatus
    from windlass.api.progress import BatchProgress
    from windlass.api.runtime import Runtime
    from windlass.api.schedule import Schedule, Tick, schedule
    from windlass.api.schedules import ScheduleView
    from windlass.api.session import Session
    from windlass.api.trigger import Source, on
    from windlass.api.triggers import Occurrence
    from windlass.api.turn_handle import TurnHandle
    from windlass.api.turn_result import TurnResult
    from windlass.errors import ToolDenied, ToolError, ToolUncertain
    from windlass.kernel import events
    from windlass.kernel.messages import (
        Citation,
        Message,
        Reasoning,
        ServerToolCall,
        Text,
        ToolCall,
        ToolResult,
    )
    from windlass.kernel.model_call import (
        Generation,
        ModelReply,
        ModelRequest,
        ServerTool,
        Usage,
        WebSearch,
    )
    from windlass.kernel.outcomes import Finished, FinishedByTool, FinishedValue, HandedOff, Stopped
    from windlass.kernel.tool_call import EndTurn, FailTurn, HandOff, ToolSpec
    from windlass.ports.children import Child, ChildView
    from windlass.ports.model import AttemptFailed, CallChunk, Model, ReasoningChunk, TextChunk
    from windlass.ports.plugin import Plugin
    from windlass.ports.policy import Allow, Approve, Ask, Deny, ToolPolicy
    from windlass.ports.tool import Again, Done, NotDone, Pending, ToolContext, Unknown
    from windlass.ports.trigger import EmitReceipt
    from windlass.ports.turn_info import TurnInfo
    from windlass.ports.upload import Attachment
    from windlass.ports.waits import Wait
    from windlass.runtime.limits import Limits
    from windlass.runtime.retention import Retention
    from windlass.tools import tool

__all__ = [
    "Again",
    "Agent",
    "Allow",
    "Approve",
    "Ask",
    "Attachment",
    "AttemptFailed",
    "BatchItem",
    "BatchProgress",
    "CallChunk",
    "Child",
    "ChildView",
    "Citation",
    "Deny",
    "Done",
    "EmitReceipt",
    "EndTurn",
    "FailTurn",
    "Finished",
    "FinishedByTool",
    "FinishedValue",
    "Generation",
    "HandOff",
    "HandedOff",
    "Limits",
    "Message",
    "Model",
    "ModelReply",
    "ModelRequest",
    "NotDone",
    "Notice",
    "Occurrence",
    "Pending",
    "Plugin",
    "Process",
    "ProcessContext",
    "ProcessHandle",
    "ProcessStatus",
    "Reasoning",
    "ReasoningChunk",
    "Retention",
    "Runtime",
    "Schedule",
    "ScheduleView",
    "ServerTool",
    "ServerToolCall",
    "Session",
    "Source",
    "Stopped",
    "Text",
    "TextChunk",
    "Tick",
    "ToolCall",
    "ToolContext",
    "ToolDenied",
    "ToolError",
    "ToolPolicy",
    "ToolResult",
    "ToolSpec",
    "ToolUncertain",
    "TurnHandle",
    "TurnInfo",
    "TurnResult",
    "Unknown",
    "Usage",
    "Wait",
    "WebSearch",
    "WindlassError",
    "__version__",
    "errors",
    "events",
    "on",
    "process",
    "schedule",
    "tool",
]

__version__ = RELEASE

# Each name is fetched when it is first asked for: who only wants an error class does not load a store.
_WHERE = {
    "Again": "windlass.ports.tool",
    "Agent": "windlass.api.agent",
    "Allow": "windlass.ports.policy",
    "Approve": "windlass.ports.policy",
    "Ask": "windlass.ports.policy",
    "Attachment": "windlass.ports.upload",
    "AttemptFailed": "windlass.ports.model",
    "BatchItem": "windlass.api.batch",
    "BatchProgress": "windlass.api.progress",
    "CallChunk": "windlass.ports.model",
    "Child": "windlass.ports.children",
    "ChildView": "windlass.ports.children",
    "Citation": "windlass.kernel.messages",
    "Deny": "windlass.ports.policy",
    "Done": "windlass.ports.tool",
    "EmitReceipt": "windlass.ports.trigger",
    "EndTurn": "windlass.kernel.tool_call",
    "FailTurn": "windlass.kernel.tool_call",
    "Finished": "windlass.kernel.outcomes",
    "FinishedByTool": "windlass.kernel.outcomes",
    "FinishedValue": "windlass.kernel.outcomes",
    "Generation": "windlass.kernel.model_call",
    "HandOff": "windlass.kernel.tool_call",
    "HandedOff": "windlass.kernel.outcomes",
    "Limits": "windlass.runtime.limits",
    "Message": "windlass.kernel.messages",
    "Model": "windlass.ports.model",
    "ModelReply": "windlass.kernel.model_call",
    "ModelRequest": "windlass.kernel.model_call",
    "NotDone": "windlass.ports.tool",
    "Notice": "windlass.api.notices",
    "Occurrence": "windlass.api.triggers",
    "Pending": "windlass.ports.tool",
    "Plugin": "windlass.ports.plugin",
    "Process": "windlass.api.process",
    "ProcessContext": "windlass.api.process_context",
    "ProcessHandle": "windlass.api.process_handle",
    "ProcessStatus": "windlass.api.process_status",
    "Reasoning": "windlass.kernel.messages",
    "ReasoningChunk": "windlass.ports.model",
    "Retention": "windlass.runtime.retention",
    "Runtime": "windlass.api.runtime",
    "Schedule": "windlass.api.schedule",
    "ScheduleView": "windlass.api.schedules",
    "ServerTool": "windlass.kernel.model_call",
    "ServerToolCall": "windlass.kernel.messages",
    "Session": "windlass.api.session",
    "Source": "windlass.api.trigger",
    "Stopped": "windlass.kernel.outcomes",
    "Text": "windlass.kernel.messages",
    "TextChunk": "windlass.ports.model",
    "Tick": "windlass.api.schedule",
    "ToolCall": "windlass.kernel.messages",
    "ToolContext": "windlass.ports.tool",
    "ToolDenied": "windlass.errors",
    "ToolError": "windlass.errors",
    "ToolPolicy": "windlass.ports.policy",
    "ToolResult": "windlass.kernel.messages",
    "ToolSpec": "windlass.kernel.tool_call",
    "ToolUncertain": "windlass.errors",
    "TurnHandle": "windlass.api.turn_handle",
    "TurnInfo": "windlass.ports.turn_info",
    "TurnResult": "windlass.api.turn_result",
    "Unknown": "windlass.ports.tool",
    "Usage": "windlass.kernel.model_call",
    "Wait": "windlass.ports.waits",
    "WebSearch": "windlass.kernel.model_call",
    "events": "windlass.kernel.events",
    "on": "windlass.api.trigger",
    "process": "windlass.api.process",
    "schedule": "windlass.api.schedule",
    "tool": "windlass.tools",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is public
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only who asks for a name needs it

    found = import_module(where) if name == "events" else getattr(import_module(where), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
