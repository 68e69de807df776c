"""What a worker keeps of a session that it owns, so that the next turn need not read it again.

It holds while the session's generation is the worker's own. Nothing has to be asked before it is used: a unit of
an older generation is refused, and the memory is then thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from windlass.errors import ArgsInvalid
from windlass.journal import DecisionRemembered, OutcomeUnknown, PluginRemembered, UsageLine
from windlass.journal.pages import FrameOpened, NodeBody
from windlass.journal.usage import sum_usage
from windlass.kernel import Chain, ConversationRecord, Message, ToolCall, ToolResult, canonical
from windlass.kernel.history import trust_history
from windlass.kernel.outcomes import HandedOff
from windlass.kernel.projector import SentPrefix, take_prefix
from windlass.kernel.value import Json
from windlass.ports import SessionView, TurnCommit
from windlass.ports.tool import Tool
from windlass.ports.unit import CHAT
from windlass.tools.arguments import effective_args

_PREFIX_EVERY = 64
"""About how many messages a reader of a session may have to hash."""


def call_digest(name: str, args: Json) -> str:
    """Return what makes two calls equal: the tool and its arguments."""
    return canonical.digest([name, args])


def effective_digest(tool: Tool | None, name: str, args: dict[str, Any]) -> str:
    """Return the digest of a call with its effective arguments, if those are not the ones that were given; else nothing."""
    effective = args
    if tool is not None:
        with suppress(ArgsInvalid):  # it is another tool by now
            effective = effective_args(tool, args)
    found = call_digest(name, effective)
    return "" if found == call_digest(name, args) else found


class SessionMemory:
    """A session as its worker knows it: history as messages, and what earlier turns decided."""

    __slots__ = (
        "_prefix", "_prefix_at", "agent", "generation", "handed_at", "head", "is_announced", "is_idle", "is_open", "is_owned",
        "messages", "plugin_memories", "remembered", "session_id", "unknown_calls", "usage",
    )  # fmt: skip

    def __init__(self, session_id: str, *, agent: str, generation: int = 0, head: int = 0) -> None:
        self.session_id = session_id
        self.agent = agent
        self.generation = generation
        self.head = head
        # Whether this worker has it, so that its next turn starts under the same generation.
        self.is_owned = False
        self.is_idle = False
        # Whether callers may begin turns in it; else only errands do.
        self.is_open = True
        self.messages: Chain[Message] = Chain()
        # How many messages there were when the session was handed off to its agent; 0: it was not, in this frame.
        self.handed_at = 0
        # How many messages had been said when their digest was stored last; and that, until it was used.
        self._prefix_at = 0
        self._prefix: SentPrefix | None = None
        # Actions that were allowed for the rest of the session, and by whom.
        self.remembered: dict[str, str | None] = {}
        self.unknown_calls: set[str] = set()
        # What plugins keep, by name, and what all turns so far used.
        self.plugin_memories: dict[str, Mapping[str, Any]] = {}
        self.usage: tuple[UsageLine, ...] = ()
        # Whether plugins were told that the session is here.
        self.is_announced = False

    @classmethod
    def of(cls, view: SessionView) -> SessionMemory:
        """Return the memory of a session as the store shows it, with its last frame at least."""
        memory = cls(view.session_id, agent=view.agent, generation=view.generation, head=view.head)
        memory.usage = view.usage
        memory.is_open = view.kind == CHAT
        said: list[Message] = []
        for page in view.pages:
            memory._take(page.nodes, said)
            if page.prefix is not None:
                memory._prefix, memory._prefix_at = page.prefix, len(said)
            if isinstance(page.outcome, HandedOff):
                memory.handed_at = len(said)
        memory.messages = Chain(said)
        # Each turn began with a check of all before it, and the store has compared the links.
        trust_history(memory.messages)
        return memory

    def next_generation(self) -> int:
        """Return the generation under which this worker may begin a turn."""
        return self.generation if self.is_owned else self.generation + 1

    def use_prefix(self, system_prompt: str) -> None:
        """Let requests with this prompt begin with the digest that was stored, instead of one message after the other."""
        prefix, self._prefix = self._prefix, None
        if prefix is not None:
            take_prefix(self.messages.prefix(self._prefix_at), system_prompt, prefix)

    def is_prefix_due(self, messages: Chain[Message], nodes: tuple[NodeBody, ...]) -> bool:
        """Whether a turn that adds these nodes should store the digest of its messages, for later readers."""
        if messages.length < self._prefix_at + _PREFIX_EVERY:
            return False
        # Not with messages among them that are not stored.
        said = sum(type(node) is ConversationRecord for node in nodes)
        return messages.length == self.messages.length + said

    def nodes(self) -> Iterator[NodeBody]:
        """Return what is remembered beside the messages, to be told again where a frame opens."""
        for plugin, memory in sorted(self.plugin_memories.items()):
            yield PluginRemembered(plugin=plugin, memory=dict(memory))
        for action, by in self.remembered.items():
            yield DecisionRemembered(session_id=self.session_id, action_key=action, by=by)
        for call in sorted(self.unknown_calls):
            yield OutcomeUnknown(call=call)

    def committed(
        self, messages: Chain[Message], commit: TurnCommit, *, is_plain: bool = False
    ) -> None:
        """Take in the turn that was just committed; `messages` is the history as the turn saw it.

        `is_plain`: all that it adds are messages, and every call in them has a known outcome.
        """
        nodes = commit.nodes
        self.usage = sum_usage((*self.usage, *commit.usage))
        self.head += 1
        if commit.prefix is not None:
            self._prefix_at = messages.length
        if is_plain and messages.length == self.messages.length + len(nodes):
            self.messages = messages
        else:
            self._add(messages, nodes)
        if commit.agent is not None:
            self.agent, self.handed_at = commit.agent, self.messages.length

    def _add(self, messages: Chain[Message], nodes: tuple[NodeBody, ...]) -> None:
        said: list[Message] = []
        self._take(nodes, said)
        if any(type(node) is FrameOpened for node in nodes):
            self.messages = Chain(said)
        elif messages.length == self.messages.length + len(said):
            # The turn's own chain knows its digests and projections, and nothing is copied.
            self.messages = messages
        else:
            self.messages += said

    def _take(self, nodes: Iterable[NodeBody], said: list[Message]) -> None:
        """Take in what a turn added; its messages go behind those that were `said` in the frame so far."""
        for node in nodes:
            if type(node) is ConversationRecord:
                message = node.message
                said.append(message)
                for part in message.parts:
                    if type(part) is ToolResult and part.status == "unknown":
                        self._note_unknown(part.call_id, said)
            elif type(node) is FrameOpened:
                said.clear()
                self._prefix, self._prefix_at, self.handed_at = None, 0, 0
            elif type(node) is OutcomeUnknown:
                self.unknown_calls.add(node.call)
            elif type(node) is DecisionRemembered and node.session_id == self.session_id:
                # A fork shares the nodes; what was decided in the other session stays there.
                self.remembered[node.action_key] = node.by
            elif type(node) is PluginRemembered:
                self.plugin_memories[node.plugin] = node.memory

    def _note_unknown(self, call_id: str, said: Sequence[Message]) -> None:
        """Note a call that may have acted: the last message is its result, the one before it asked."""
        for part in said[-2].parts:
            if type(part) is ToolCall and part.call_id == call_id:
                self.unknown_calls.add(call_digest(part.name, part.args))
