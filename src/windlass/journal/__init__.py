"""The journal: an outcome is recorded once and answered for ever.

Law 1. Nothing here does I/O, reads a clock or draws a random number.
Law 2. What a key stands for is compared by digest before anything runs under it.
Law 3. What was recorded is never asked of the world again.
"""

from windlass.journal import bodies
from windlass.journal.claim import (
    HOW,
    HOW_BY_CONTRACT,
    Answer,
    Busy,
    Decision,
    How,
    JournalRow,
    Mismatch,
    Run,
    Stale,
    TakeOver,
    decide_claim,
    how_to_resume,
)
from windlass.journal.commands import (
    AwaitEventCommand,
    CheckpointCommand,
    Command,
    Contract,
    DirectCallCommand,
    EffectSubject,
    Envelope,
    FinalizeCommand,
    Invocation,
    ModelCallCommand,
    ModelHooksCommand,
    ProcessCommand,
    ProcessOperation,
    RequestSpec,
    RunCodeCommand,
    SleepCommand,
    SyncEnvironmentCommand,
    ToolCallCommand,
    ToolHooksCommand,
    as_written,
    effect_digest,
    kind_of,
    read_command,
)
from windlass.journal.diff import (
    Difference,
    diff,
)
from windlass.journal.entries import (
    Attempt,
    Claimed,
    DriveBegan,
    DriveEnded,
    Emitted,
    Entry,
    PluginVersion,
    Recorded,
    Released,
    ToolContract,
    Traced,
    TurnStarted,
    digest_of,
)
from windlass.journal.keys import (
    KINDS,
    MOMENTS,
    DerivedKind,
    EffectKind,
    KeyParts,
    Moment,
    Scope,
    call_key,
    derived_session_id,
    idempotency_key,
    key_place,
    parse_key,
    replay_key,
    wait_key,
    without_moment,
)
from windlass.journal.moments import (
    MOMENT_OF,
    CallAsked,
    CallDecided,
    CallPresented,
    CallReturned,
    CheckpointGiven,
    CodeRan,
    DirectAnswered,
    EnvironmentBuilt,
    EventAwaited,
    ModelAnswered,
    ProcessAnswered,
    RecordedMoment,
    ReplyHooked,
    Slept,
    TurnFinalized,
    Verdict,
    check_moment,
    usage_of,
)
from windlass.journal.pages import (
    DecisionRemembered,
    ForkedFrom,
    FrameOpened,
    HistoryPage,
    JournalPage,
    NodeBody,
    OutcomeUnknown,
    PluginRemembered,
    check_link,
    check_place,
    check_position,
    encode_page,
    lengthened,
    link_page,
    node_id,
    shortened,
    strand_seed,
)
from windlass.journal.turn_journal import (
    Plan,
    TurnJournal,
    count_recorded,
)
from windlass.journal.usage import (
    UsageLine,
)

__all__ = [
    "HOW", "HOW_BY_CONTRACT", "KINDS", "MOMENTS", "MOMENT_OF", "Answer", "Attempt", "AwaitEventCommand", "Busy",
    "CallAsked", "CallDecided", "CallPresented", "CallReturned", "CheckpointCommand", "CheckpointGiven", "Claimed",
    "CodeRan", "Command", "Contract", "Decision", "DecisionRemembered", "DerivedKind", "Difference",
    "DirectAnswered", "DirectCallCommand", "DriveBegan", "DriveEnded", "EffectKind", "EffectSubject", "Emitted", "Entry",
    "Envelope", "EnvironmentBuilt", "EventAwaited", "FinalizeCommand", "ForkedFrom", "FrameOpened", "HistoryPage", "How", "Invocation",
    "JournalPage", "JournalRow", "KeyParts", "Mismatch", "ModelAnswered", "ModelCallCommand", "ModelHooksCommand",
    "Moment", "NodeBody", "OutcomeUnknown", "Plan", "PluginRemembered", "PluginVersion", "ProcessAnswered",
    "ProcessCommand", "ProcessOperation", "Recorded", "RecordedMoment", "Released", "ReplyHooked", "RequestSpec",
    "Run", "RunCodeCommand", "Scope", "SleepCommand", "Slept", "Stale", "SyncEnvironmentCommand", "TakeOver",
    "ToolCallCommand", "ToolContract", "ToolHooksCommand", "Traced", "TurnFinalized", "TurnJournal", "TurnStarted",
    "UsageLine", "Verdict", "as_written", "bodies", "call_key", "check_link", "check_moment", "check_place",
    "check_position", "count_recorded", "decide_claim", "derived_session_id", "diff", "digest_of", "effect_digest",
    "encode_page", "how_to_resume", "idempotency_key", "key_place", "kind_of", "lengthened", "link_page", "node_id", "parse_key",
    "read_command", "replay_key", "shortened", "strand_seed", "usage_of", "wait_key", "without_moment",
]  # fmt: skip
