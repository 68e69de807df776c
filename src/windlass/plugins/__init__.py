"""Plugins: what to derive one from, what its hooks may answer, and those that come with windlass."""

from importlib import import_module
from typing import Any

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
)
from windlass.ports.plugin import AskedCall, AtCheckpoint, CommittedTurn, Plugin, Trouble
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask, Deny
from windlass.ports.prompt import Contribution

__all__ = [
    "Abort",
    "Ask",
    "AskedCall",
    "AtCheckpoint",
    "CommittedTurn",
    "Continue",
    "Contribution",
    "Delivery",
    "Deny",
    "Finale",
    "HistoryView",
    "Hold",
    "MessageReplaced",
    "Plugin",
    "PluginTurn",
    "Proceed",
    "Refuse",
    "ReplaceArgs",
    "Retry",
    "Send",
    "ShortCircuit",
    "Stop",
    "Trouble",
    "add",
    "append",
]

# Shipped plugins are fetched when they are first asked for.
_WHERE: dict[str, str] = {}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is public
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'windlass.plugins' has no attribute {name!r}")
    found = getattr(import_module(where), name)
    globals()[name] = found
    return found
