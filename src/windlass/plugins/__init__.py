"""Plugins: what to derive one from, what its hooks may answer, and those that come with windlass."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from windlass.journal.patch import add, append
from windlass.kernel.history_view import HistoryView, MessageReplaced
from windlass.ports.directives import (
    Abort,
    Continue,
    Delivery,
    Finale,
    Hold,
    Proceed,
    Refuse,
    ReplaceArgs,
    Retry,
    Send,
    ShortCircuit,
    Stop,
    Withhold,
)
from windlass.ports.plugin import AskedCall, AtCheckpoint, CommittedTurn, Plugin, Trouble
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask, Deny
from windlass.ports.prompt import Contribution

if TYPE_CHECKING:
    from windlass.plugins.call_limit import CallLimit
    from windlass.plugins.compaction import Compaction
    from windlass.plugins.context_window import ContextWindow
    from windlass.plugins.loop_guard import LoopGuard
    from windlass.plugins.model_retry import ModelRetry
    from windlass.plugins.nudges import AutoContinue, ToolEnforcement, WrapUp
    from windlass.plugins.output_budget import OutputBudget
    from windlass.plugins.recovery import Recovery, ToolRecovery
    from windlass.plugins.redaction import Redaction
    from windlass.plugins.skills import Skill, Skills
    from windlass.plugins.spend_limits import Budget, Price, SpendLimits
    from windlass.plugins.turn_facts import TurnFacts

__all__ = [
    "Abort", "Ask", "AskedCall", "AtCheckpoint", "AutoContinue", "Budget", "CallLimit", "CommittedTurn",
    "Compaction", "ContextWindow", "Continue", "Contribution", "Delivery", "Deny", "Finale", "HistoryView", "Hold",
    "LoopGuard", "MessageReplaced", "ModelRetry", "OutputBudget", "Plugin", "PluginTurn", "Price", "Proceed",
    "Recovery", "Redaction", "Refuse", "ReplaceArgs", "Retry", "Send", "ShortCircuit", "Skill", "Skills", "SpendLimits",
    "Stop", "ToolEnforcement", "ToolRecovery", "Trouble", "TurnFacts", "Withhold", "WrapUp", "add", "append",
]  # fmt: skip

# Shipped plugins are imported when they are first used. By module: what it offers.
_SHIPPED = {
    "call_limit": ("CallLimit",),
    "compaction": ("Compaction",),
    "context_window": ("ContextWindow",),
    "loop_guard": ("LoopGuard",),
    "model_retry": ("ModelRetry",),
    "nudges": ("AutoContinue", "ToolEnforcement", "WrapUp"),
    "output_budget": ("OutputBudget",),
    "recovery": ("Recovery", "ToolRecovery"),
    "redaction": ("Redaction",),
    "skills": ("Skill", "Skills"),
    "spend_limits": ("Budget", "Price", "SpendLimits"),
    "turn_facts": ("TurnFacts",),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    for module, offered in _SHIPPED.items():
        if name in offered:
            found = globals()[name] = getattr(import_module(f"windlass.plugins.{module}"), name)
            return found
    raise AttributeError(f"module 'windlass.plugins' has no attribute {name!r}")
