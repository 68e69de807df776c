"""windlass runs LLM agents whose turns hold: kill the process, start it again, the turn goes on."""

from typing import TYPE_CHECKING, Any

from windlass import errors
from windlass.errors import WindlassError
from windlass.release import RELEASE

if TYPE_CHECKING:
    from windlass.api.agent import Agent
    from windlass.api.notices import Notice
    from windlass.api.runtime import Runtime
    from windlass.api.session import Session
    from windlass.api.turn_handle import TurnHandle
    from windlass.api.turn_result import TurnResult
    from windlass.errors import ToolDenied, ToolError, ToolUncertain
    from windlass.kernel.messages import Text
    from windlass.kernel.model_call import Generation
    from windlass.kernel.tool_call import EndTurn, FailTurn, HandOff
    from windlass.ports.plugin import Plugin
    from windlass.ports.policy import Allow, Approve, Ask, Deny, ToolPolicy
    from windlass.ports.tool import Done, NotDone, Pending, ToolContext, Unknown
    from windlass.ports.turn_info import TurnInfo
    from windlass.ports.upload import Attachment
    from windlass.ports.waits import Wait
    from windlass.runtime.limits import Limits
    from windlass.tools import tool

__all__ = [
    "Agent",
    "Allow",
    "Approve",
    "Ask",
    "Attachment",
    "Deny",
    "Done",
    "EndTurn",
    "FailTurn",
    "Generation",
    "HandOff",
    "Limits",
    "NotDone",
    "Notice",
    "Pending",
    "Plugin",
    "Runtime",
    "Session",
    "Text",
    "ToolContext",
    "ToolDenied",
    "ToolError",
    "ToolPolicy",
    "ToolUncertain",
    "TurnHandle",
    "TurnInfo",
    "TurnResult",
    "Unknown",
    "Wait",
    "WindlassError",
    "__version__",
    "errors",
    "tool",
]

__version__ = RELEASE

# Each name is fetched when it is first asked for: who only wants an error class does not load a store.
_WHERE = {
    "Agent": "windlass.api.agent",
    "Allow": "windlass.ports.policy",
    "Approve": "windlass.ports.policy",
    "Ask": "windlass.ports.policy",
    "Attachment": "windlass.ports.upload",
    "Deny": "windlass.ports.policy",
    "Done": "windlass.ports.tool",
    "EndTurn": "windlass.kernel.tool_call",
    "FailTurn": "windlass.kernel.tool_call",
    "Generation": "windlass.kernel.model_call",
    "HandOff": "windlass.kernel.tool_call",
    "Limits": "windlass.runtime.limits",
    "NotDone": "windlass.ports.tool",
    "Notice": "windlass.api.notices",
    "Pending": "windlass.ports.tool",
    "Plugin": "windlass.ports.plugin",
    "Runtime": "windlass.api.runtime",
    "Session": "windlass.api.session",
    "Text": "windlass.kernel.messages",
    "ToolContext": "windlass.ports.tool",
    "ToolDenied": "windlass.errors",
    "ToolError": "windlass.errors",
    "ToolPolicy": "windlass.ports.policy",
    "ToolUncertain": "windlass.errors",
    "TurnHandle": "windlass.api.turn_handle",
    "TurnInfo": "windlass.ports.turn_info",
    "TurnResult": "windlass.api.turn_result",
    "Unknown": "windlass.ports.tool",
    "Wait": "windlass.ports.waits",
    "tool": "windlass.tools",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is public
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only who asks for a name needs it

    found = getattr(import_module(where), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
