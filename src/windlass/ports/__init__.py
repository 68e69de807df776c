"""Ports: one Protocol per file, with the values it speaks."""

from windlass.ports.clock import Clock
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
from windlass.ports.engine import Engine, Work
from windlass.ports.inbox import InboxItem, InboxReceipt, ItemKind, ItemState, NewItem, When
from windlass.ports.model import (
    READ_BLOB,
    AttemptFailed,
    CallChunk,
    EmitModelEvent,
    Model,
    ModelEvent,
    ReasoningChunk,
    TextChunk,
)
from windlass.ports.plugin import AskedCall, AtCheckpoint, CommittedTurn, Plugin, Trouble
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import (
    Allow,
    Approve,
    Ask,
    Deny,
    PolicyCall,
    PolicySession,
    Risk,
    Ruling,
    ToolPolicy,
)
from windlass.ports.price import Price
from windlass.ports.probe import Phase, PhaseProbe
from windlass.ports.prompt import Contribution, Prompter
from windlass.ports.store import Store
from windlass.ports.ticket import Ticket
from windlass.ports.tool import (
    Done,
    NotDone,
    Pending,
    Reconciled,
    Tool,
    ToolContext,
    ToolFor,
    ToolHost,
    ToolProvider,
    Unknown,
)
from windlass.ports.turn_info import TurnInfo
from windlass.ports.unit import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    CommitReceipt,
    Errand,
    ErrandReceipt,
    ImportedSession,
    ImportedTurn,
    Lease,
    MoveSession,
    NewTurn,
    PostItem,
    SessionKind,
    Start,
    TurnCommit,
    TurnReceipt,
    TurnRequest,
    TurnState,
    Unit,
    UnitReceipt,
    lock_order,
    sessions_of,
    target_of,
)
from windlass.ports.upload import Attachment, Upload
from windlass.ports.views import (
    CancelReceipt,
    Change,
    ChangeKind,
    Changes,
    ClaimedTurn,
    DeleteReport,
    Due,
    DueCancel,
    DueInbox,
    DueTurn,
    DueWait,
    InboxView,
    SessionSummary,
    SessionView,
    TurnSummary,
    TurnView,
    VacuumReport,
    WithdrawReceipt,
    WorkerView,
)
from windlass.ports.waits import Wait, WaitAnswer, WaitKind, WaitReceipt, WaitState, WaitView

__all__ = [
    "READ_BLOB", "Abort", "AcceptTurn", "Allow", "AnswerWait", "Approve", "Ask", "AskedCall", "AtCheckpoint", "Attachment",
    "AttemptFailed", "CallChunk", "CancelReceipt", "CancelTurn", "Change", "ChangeKind", "Changes", "ClaimedTurn", "Clock",
    "CommitReceipt", "CommittedTurn", "Continue", "Contribution", "DeleteReport", "Delivery", "Deny", "Done",
    "Due", "DueCancel", "DueInbox", "DueTurn", "DueWait", "EmitModelEvent", "Engine", "Errand", "ErrandReceipt", "Finale",
    "Hold", "ImportedSession", "ImportedTurn", "InboxItem", "InboxReceipt", "InboxView", "ItemKind", "ItemState", "Lease", "Model", "ModelEvent",
    "MoveSession", "NewItem", "NewTurn", "NotDone", "Pending", "Phase", "PhaseProbe", "Plugin", "PluginTurn", "PolicyCall",
    "PolicySession", "PostItem", "Price", "Proceed", "Prompter", "ReasoningChunk", "Reconciled", "Refuse", "ReplaceArgs",
    "Retry", "Risk", "Ruling", "Send", "SessionKind", "SessionSummary", "SessionView", "ShortCircuit", "Start",
    "Stop", "Store", "TextChunk", "Ticket", "Tool", "ToolContext", "ToolFor", "ToolHost", "ToolPolicy", "ToolProvider",
    "Trouble", "TurnCommit", "TurnInfo", "TurnReceipt", "TurnRequest", "TurnState", "TurnSummary", "TurnView",
    "Unit", "UnitReceipt", "Unknown", "Upload", "VacuumReport", "Wait", "WaitAnswer", "WaitKind", "WaitReceipt",
    "WaitState", "WaitView", "When", "WithdrawReceipt", "Withhold", "Work", "WorkerView", "lock_order", "sessions_of",
    "target_of",
]  # fmt: skip
