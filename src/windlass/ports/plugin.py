"""The plugin: hooks into a turn. `HOOKS` says of each where it runs, where that is recorded and what it may answer.

Law 1. A hook runs at least once until its outcome is recorded, and never again after.
Law 2. Runtime's plugins come before the agent's, each in the order in which they were given.
Law 3. A plugin keeps nothing about a turn on itself: state lives in the turn, as patches of recorded outcomes.
Law 4. A hook that raises changes nothing. What guards (`before_tool`, `after_tool`, `present_result`) then fails
    closed; what builds the turn ends it with an error that names plugin and hook; the rest is noted as an issue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.errors import ProviderError
from windlass.journal import Contract
from windlass.kernel import HistoryView, Json, ModelFailure, ModelReply, ModelRequest, Outcome
from windlass.kernel.effects import CheckpointKind
from windlass.kernel.messages import Part, ResultPart
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.ports.directives import (
    Abort,
    Continue,
    Delivery,
    ErrorDirective,
    Finale,
    Hold,
    Proceed,
    Refuse,
    ReplaceArgs,
    Retry,
    Said,
    Send,
    ShortCircuit,
    Stop,
    ToolDirective,
    Withhold,
)
from windlass.ports.model import CallChunk, ReasoningChunk, TextChunk
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask, Deny, Risk
from windlass.ports.prompt import Contribution

if TYPE_CHECKING:
    from windlass.ports.tool import Tool, ToolProvider

Chunk: TypeAlias = TextChunk | ReasoningChunk | CallChunk


class AskedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model asked for, before it runs: the `ordinal`-th of `of` in its reply."""

    call_id: str
    name: str
    args: dict[str, Any]
    effect: Contract = "once"
    risk: Risk = "low"
    ordinal: int = 0
    of: int = 1


class AtCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the turn is: `results` are the calls that ended since the last one, `outcome` how it is about to end."""

    kind: CheckpointKind
    results: tuple[CompletedToolCall, ...] = ()
    outcome: Outcome | None = None
    reply: ModelReply | None = None


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What failed: a call of a tool, as `call`, or of a model, as `error` (may pass) or `failure` (will not).

    `attempt` counts from 1: the calls of this model for the same request.
    """

    kind: Literal["tool", "model"]
    call: CompletedToolCall | None = None
    model: str = ""
    error: ProviderError | None = None
    failure: ModelFailure | None = None
    attempt: int = 1


class CommittedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is in the history now."""

    agent: str
    session_id: str
    turn_id: str
    outcome: Outcome


class Plugin:
    """Base of all plugins: override the hooks that you need. Those that are not overridden cost nothing.

    `name` tells it from others in one runtime, and is how its state is found again after a restart; `version` is
    noted with each turn. Every hook but `on_stream`, `tools` and `allot` is a coroutine.

    Args:
        agent: Of `on_session_open`: the name of the session's agent.
        session_id: Of `on_session_open`: the session that this process has just opened.
        turn: The turn as this plugin sees it: its facts, the plugin's own state, and a few things to ask for.
        parts: Of `on_input`: what the user gave, before it enters the history.
        request: Of `before_model`: what is about to be sent.
        chunk: Of `on_stream`: some words, thoughts or arguments, before they are shown.
        reply: Of `after_model`: what the model answered, before it is used.
        call: A tool call: before it runs, or with its result.
        trouble: Of `on_error`: what failed, and how often.
        at: Of `at_checkpoint`: where the turn is, and what it did since the last one.
        outcome: Of `after_turn`: how the turn is about to end.
        ended: Of `after_commit`: the turn that is in the history now.
        n: Of `allot`: how many children are about to begin.
    """

    name: str = ""
    version: str = ""

    def tools(self) -> Sequence[Tool | ToolProvider]:
        """Return the tools that come with the plugin."""
        return ()

    # ------------------------------------------------------------------ the turn begins

    async def on_session_open(self, agent: str, session_id: str) -> None:
        """A worker has loaded the session. Best effort; may repeat."""

    async def on_input(
        self, turn: PluginTurn, parts: tuple[Part, ...]
    ) -> Sequence[Part] | Refuse | None:
        """See what a person said, also in the middle of a turn; return it changed, or refuse it."""

    async def before_turn(self, turn: PluginTurn) -> Sequence[Said] | Abort | None:
        """Return messages that come before the input, or end the turn."""

    async def prompt(self, turn: PluginTurn) -> Sequence[Contribution] | None:
        """Return what the system prompt is to say, for the iteration that begins."""

    async def view(self, turn: PluginTurn) -> HistoryView | None:
        """Return what of the history the model is shown, for the iteration that begins."""

    # ------------------------------------------------------------------ the model

    async def before_model(
        self, turn: PluginTurn, request: ModelRequest
    ) -> ModelRequest | Send | Hold | Stop | None:
        """See the request; return what is sent instead. Messages added here are seen once and never stored."""

    def on_stream(self, turn: PluginTurn, chunk: Chunk) -> Chunk | None:
        """See a piece of the reply as it is shown; return it changed. Empty text is not shown."""

    async def after_model(
        self, turn: PluginTurn, reply: ModelReply
    ) -> ModelReply | Withhold | Stop | None:
        """See the reply, which is recorded already; return what the turn continues with, or withhold it."""

    # ------------------------------------------------------------------ tools

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> ToolDirective | None:
        """Say whether a call may run, and with what."""

    async def after_tool(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> ToolOutcome | Deny | None:
        """See a result, which is recorded already; return what the turn has of it, or withhold it."""

    async def present_result(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> Sequence[ResultPart] | None:
        """Return what the model sees of a result. One plugin at most may have this hook."""

    async def on_error(self, turn: PluginTurn, trouble: Trouble) -> ErrorDirective | None:
        """Say how to continue after a failed call. The first plugin that answers decides; `Stop` beats all."""

    def allot(self, turn: PluginTurn, n: int) -> Json:
        """Return what a child may use, one of `n` that are about to begin; None: this plugin keeps no account of it.

        The child's plugin of this name finds it as `turn.allotted`, and this turn's as one of `turn.allotments` until
        the child has ended.
        """

    # ------------------------------------------------------------------ between and after

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Delivery | Stop | None:
        """Return what enters the turn: after work, and before it would end."""

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> Finale | None:
        """See how the turn ends, before it is committed."""

    async def after_commit(self, ended: CommittedTurn) -> None:
        """The turn is in the history. Best effort; may repeat."""


class Hook(NamedTuple):
    """A hook: the effect it runs in, what records its outcome ("": nothing does), and the types it may answer with.

    `each` is the type of the elements, if it may answer with a list. `looks_at` says what the hook sees before it is
    shown: a turn with such a hook records of each reply, or of each result, that it was looked at.
    """

    runs_in: str
    recorded_in: str
    answers: tuple[type, ...] = ()
    each: object = None
    looks_at: Literal["", "model", "tools"] = ""


HOOKS: Final[dict[str, Hook]] = {
    "on_session_open": Hook("beside the turn, may repeat", ""),
    "on_input": Hook("turn start", "the start record", (Refuse,), each=Part),
    "before_turn": Hook("turn start", "the start record", (Abort,), each=Said),
    "prompt": Hook(
        "turn start, sync_environment", "the start record; the environment, if it changed", each=Contribution
    ),
    "view": Hook("sync_environment", "the environment, if it changed", (HistoryView,)),
    "before_model": Hook("model_call", "the reply", (ModelRequest, Send, Hold, Stop)),
    "on_stream": Hook("model_call, previews only", "", (TextChunk, ReasoningChunk, CallChunk)),
    "after_model": Hook("model_hooks", "the reply as looked at", (ModelReply, Withhold, Stop), looks_at="model"),
    "before_tool": Hook(
        "tool_hooks, decide", "the decision, if there was one", (Proceed, ReplaceArgs, ShortCircuit, Deny, Ask)
    ),
    "after_tool": Hook(
        "tool_hooks, presented", "the result as looked at", (ToolOutcome, Deny), looks_at="tools"
    ),
    "present_result": Hook(
        "tool_hooks, presented", "the result as looked at", each=ResultPart, looks_at="tools"
    ),
    "on_error": Hook(
        "the failing effect", "what that effect records", (Stop, Retry, Continue), looks_at="tools"
    ),
    "at_checkpoint": Hook("checkpoint", "what entered, if anything did", (Delivery, Stop)),
    "after_turn": Hook("finalize", "what follows the turn", (Finale,)),
    "after_commit": Hook("beside the turn, may repeat", ""),
}  # fmt: skip
