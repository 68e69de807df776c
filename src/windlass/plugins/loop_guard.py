"""Loop guard: a model that does the same again and again, or says nothing at all.

Law 1. The guard judges the turn's own history, so a crash cannot lose what it has seen.
Law 2. Reasoning is never an answer, and the guard invents no words for the model: a reply without words leaves no
    message, and the turn goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from windlass.journal.patch import add, append
from windlass.kernel import Message, PluginOrigin, Reasoning, ToolCall, ToolResult, canonical
from windlass.kernel.model_call import KnownTerminal, ModelReply
from windlass.plugins import options
from windlass.plugins.wording import filled, has_room, nudge
from windlass.ports import AtCheckpoint, Delivery, Plugin, PluginTurn, Stop

T = TypeVar("T")
Then: TypeAlias = Literal["nudge", "stop"]
Silence: TypeAlias = Literal["empty", "reasoning_only"]

LOOPING = (
    "You called {tools} {times} times in a row with the same arguments and got the same result each time. "
    "Calling it again changes nothing, and ends the turn. Do something else, or answer with what you have."
)
SILENT: dict[Silence, str] = {
    "empty": "Your last reply was empty. Call a tool, or answer in words.",
    "reasoning_only": "You thought, but said nothing. Call a tool, or answer in words.",
}
# A loop may go through several calls: A, B, A, B.
_MAX_CALLS_IN_LOOP = 4
_MAX_LOOPS = 8
# Replies that ended for another reason than silence.
_NOT_SILENT = frozenset(get_args(KnownTerminal)) - {"stop", "tool_use", "output_limit"}


class LoopGuard(Plugin):
    """Breaks loops: first with a nudge, then by ending the turn.

    Args:
        repeats: How often in a row the same calls with the same results make a loop (of up to four calls); 0 for never.
        empty: How many empty replies of a turn are met with a nudge, before the turn ends as it would have.
        reasoning_only: The same for replies that hold nothing but reasoning.
        then: What a loop leads to: `"nudge"`, and the end when it goes on; or `"stop"` at once.
        ignore: Tools that may be asked again and again, such as one that looks whether something is ready.
    """

    name = "loop_guard"
    version = "1"

    def __init__(
        self,
        *,
        repeats: int = 3,
        empty: int = 2,
        reasoning_only: int = 2,
        then: Then = "nudge",
        ignore: Collection[str] = (),
    ) -> None:
        self._repeats = options.whole(repeats, field="LoopGuard.repeats")
        if self._repeats == 1:
            # One call is not a loop.
            options.whole(repeats, field="LoopGuard.repeats", low=2)
        self._strikes: dict[Silence, int] = {
            "empty": options.whole(empty, field="LoopGuard.empty"),
            "reasoning_only": options.whole(reasoning_only, field="LoopGuard.reasoning_only"),
        }
        self._stops = options.choice(then, ("nudge", "stop"), field="LoopGuard.then") == "stop"
        self._ignored = options.tool_names(ignore, field="LoopGuard.ignore")

    # ------------------------------------------------------------------ silence

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply | None:
        """Keep a turn going that would end with an empty reply.

        Marked as cut off before its first word, the reply leads to a checkpoint and leaves no message.
        """
        silence = _silence(reply)
        if silence is None or reply.terminal == "output_limit" or not self._forgives(turn, silence):
            return None
        told = f"loop_guard: {silence} reply"
        return msgspec.structs.replace(reply, terminal="output_limit", diagnostic=told)

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Delivery | Stop | None:
        """Look for a loop after work, for silence before the end."""
        if at.kind == "after_work":
            return self._look_for_loop(turn)
        silence = None if at.reply is None else _silence(at.reply)
        if silence is None or not self._forgives(turn, silence):
            return None
        turn.patch(**{silence: add(1)})
        return nudge(SILENT[silence])

    def _forgives(self, turn: PluginTurn, silence: Silence) -> bool:
        return turn.state.get(silence, 0) < self._strikes[silence] and has_room(turn)

    # ------------------------------------------------------------------ loops

    def _look_for_loop(self, turn: PluginTurn) -> Delivery | Stop | None:
        if not self._repeats:
            return None
        calls: list[tuple[ToolCall, ToolResult]] = []
        for call, result in _calls_back(turn.turn_messages):
            if call.name in self._ignored or len(calls) == self._repeats * _MAX_CALLS_IN_LOOP:
                break
            calls.append((call, result))
        # Results may be long: they are looked at only where the calls repeat at all.
        if not _repeated([(call.name, call.args) for call, _ in calls], self._repeats):
            return None
        loop = _repeated([_done(call, result) for call, result in calls], self._repeats)
        if not loop:
            return None
        tools = " and ".join(sorted({one.tool for one in loop}))
        known = _loop_key(loop)
        if self._stops or known in turn.state.get("told", ()):
            return Stop(f"the same calls with the same results, again and again: {tools}")
        turn.patch(told=append(known, keep=_MAX_LOOPS))
        return nudge(filled(LOOPING, tools=tools, times=self._repeats))


class _Done(NamedTuple):
    """A call and its result; equal digests mean the same call with the same result."""

    tool: str
    digest: str


def _silence(reply: ModelReply) -> Silence | None:
    if reply.terminal in _NOT_SILENT or reply.text.strip():
        return None
    if any(isinstance(part, ToolCall) for part in reply.parts):
        return None
    thought = any(isinstance(part, Reasoning) for part in reply.parts)
    return "reasoning_only" if thought else "empty"


def _calls_back(messages: Sequence[Message]) -> Iterator[tuple[ToolCall, ToolResult]]:
    """Return the calls since the last input with their results, the last one first."""
    results: dict[str, ToolResult] = {}
    for message in reversed(messages):
        if message.role == "assistant":
            for part in reversed(message.parts):
                if isinstance(part, ToolCall) and part.call_id in results:
                    yield part, results.pop(part.call_id)
            continue
        found = {part.call_id: part for part in message.parts if isinstance(part, ToolResult)}
        results.update(found)
        is_said = message.role != "system" and not isinstance(message.origin, PluginOrigin)
        if is_said and not found:
            return  # new input came in: calls from before it may be repeated


def _done(call: ToolCall, result: ToolResult) -> _Done:
    seen = msgspec.structs.replace(result, call_id="")
    return _Done(call.name, canonical.digest([call.name, call.args, seen]))


def _repeated(done: Sequence[T], repeats: int) -> Sequence[T]:
    """Return the shortest row of calls that the latest calls repeat this often; nothing if there is none."""
    for length in range(1, _MAX_CALLS_IN_LOOP + 1):
        row = done[:length]
        if len(done) >= length * repeats and list(done[: length * repeats]) == [*row] * repeats:
            return row
    return ()


def _loop_key(loop: Sequence[_Done]) -> str:
    """Return a name for a loop that is the same wherever in it the turn is."""
    digests = [one.digest for one in loop]
    turned = [digests[at:] + digests[:at] for at in range(len(digests))]
    return canonical.digest(min(turned))[:16]
