"""Compaction before the window is full: it watches how large requests get, and asks for a new frame in time.

The compaction itself is a turn of its own, which any worker drives. This plugin only says when.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from windlass.guards.text import is_clean
from windlass.kernel import ModelReply, Outcome, Stopped, summary
from windlass.kernel.tokens import tokens_of, tokens_of_tools
from windlass.plugins import options
from windlass.ports import Finale, Plugin, PluginTurn, Trouble

CONTINUE = "Continue where you stopped."

# After this many compactions that opened no frame, the next one waits until the history has grown.
_MAX_TRIES = 2
# How often in a row a turn that ran over the window is continued automatically.
_MAX_CONTINUED = 2
_OVERFLOW_SHARE = 0.95
# How a turn ends that ran over the window; one that ended otherwise is not continued.
_OVERFLOWN = ("provider_error", "incomplete")
# How many messages more are worth another try, at least.
_GROWN_MESSAGES = 4
_TIRED = "compaction: {tries} in a row opened no new frame ({why}); the next waits until the history has grown"
_NOT_RUN = "the last was cancelled or has not run yet"
_TOO_LONG = "the conversation does not fit the model's window"
_FAILED = "the model could not be asked: {code}"
_NOT_CONTINUED = "compaction: the window was full {times} times in a row; the work is not continued"


class Compaction(Plugin):
    """Asks for a new frame when requests have grown near the model's window.

    Of the old frame the new one has a summary and the last exchanges in words.

    A turn that ran over the window is compacted and continued.

    Args:
        window: How many tokens the model can read.
        at: The share of the window that may be full when a turn ends; 0.8 if nothing is said.
        keep: How many of the last exchanges the new frame has word for word; 1 if nothing is said.
        instructions: What the summary has to keep, in words for the model.
    """

    name = "compaction"
    version = "1"

    def __init__(
        self, *, window: int, at: float = 0.8, keep: int = 1, instructions: str = ""
    ) -> None:
        self._window = options.whole(window, field="Compaction.window", low=1)
        self._limit = math.ceil(options.share(at, field="Compaction.at") * self._window)
        self._keep = options.whole(keep, field="Compaction.keep")
        if not isinstance(instructions, str) or not is_clean(instructions):
            raise options.refused(instructions, "clean text", field="Compaction.instructions")
        self._instructions = instructions

    # ------------------------------------------------------------------ hooks

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> None:
        """Record a request that was near the window, or over it; and why a compaction opens no frame."""
        if _is_compaction(turn):
            _note_verdict(turn, reply)
            return
        if self._ran_over(reply):
            turn.patch(overflow=True)
            return
        tokens = reply.usage.prompt_tokens + reply.usage.output_tokens
        if tokens >= self._limit:
            turn.patch(tokens=tokens, overflow=None)
        elif turn.state:
            # What the model is shown has become less since, or another model has more room.
            turn.patch(tokens=None, overflow=None)

    async def on_error(self, turn: PluginTurn, trouble: Trouble) -> None:
        """Record a request that did not fit; and why a compaction opens no frame."""
        failure = trouble.failure
        if failure is None:
            return
        is_overflow = failure.terminal == "context_overflow"
        if _is_compaction(turn):
            failed = _FAILED.format(code=failure.code or failure.terminal)
            turn.remember(why=_TOO_LONG if is_overflow else failed)
        elif is_overflow:
            turn.patch(overflow=True)

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> Finale | None:
        """Ask for a new frame if the next request would be near the window."""
        reason = outcome.reason if isinstance(outcome, Stopped) else ""
        has_overflow = turn.state.get("overflow") is True and reason in _OVERFLOWN
        if not has_overflow and turn.memory.get("continued"):
            turn.remember(continued=None)
        if reason == "cancelled" or not turn.messages:
            return None  # a cancelled turn asks for no further work
        if not has_overflow and self._tokens(turn) < self._limit:
            return None
        tries = _tries_so_far(turn)
        if tries < _MAX_TRIES:
            frame = turn.messages[0].id
            turn.remember(frame=frame, tries=tries + 1, messages=len(turn.messages), why=None)
            return self._after_overflow(turn) if has_overflow else self._finale(turn)
        if tries > _MAX_TRIES:
            return None
        turn.remember(tries=tries + 1)  # so that it is told once
        why = turn.memory.get("why", _NOT_RUN)
        return Finale(issues=[_TIRED.format(tries=tries, why=why)])

    # ------------------------------------------------------------------ inside

    def _after_overflow(self, turn: PluginTurn) -> Finale:
        times = turn.memory.get("continued", 0) + 1
        if times > _MAX_CONTINUED:
            return self._finale(turn, issues=[_NOT_CONTINUED.format(times=times)])
        turn.remember(continued=times)
        return self._finale(turn, messages=[CONTINUE])

    def _finale(
        self, turn: PluginTurn, *, messages: Sequence[str] = (), issues: Sequence[str] = ()
    ) -> Finale:
        wanted = {
            "frame": turn.messages[0].id,
            "instructions": self._instructions,
            "keep": self._keep,
            "window": self._window,
        }
        return Finale(compact=wanted, messages=messages, issues=issues)

    def _ran_over(self, reply: ModelReply) -> bool:
        if reply.terminal == "context_overflow":
            return True
        # Some providers say so when the prompt left no room for a single token.
        is_full = reply.usage.prompt_tokens >= _OVERFLOW_SHARE * self._window
        return is_full and reply.terminal == "output_limit" and not reply.usage.output_tokens

    def _tokens(self, turn: PluginTurn) -> int:
        """Return the size of the last request with its reply: as it was counted, or else about."""
        noted = turn.state.get("tokens")
        if noted is not None:
            return int(noted)
        if any(line.usage.prompt_tokens for line in turn.usage):
            return 0  # the provider counted it, and it was not near the window
        return sum(map(tokens_of, turn.messages)) + tokens_of_tools(turn.tools)


def _is_compaction(turn: PluginTurn) -> bool:
    """Whether the turn only summarizes: no other has nothing said when its model is asked."""
    return not turn.turn_messages


def _note_verdict(turn: PluginTurn, reply: ModelReply) -> None:
    """Remember why an answer opens no frame, if it opens none."""
    if reply.terminal == "context_overflow":
        turn.remember(why=_TOO_LONG)
        return
    found = summary.read_summary(reply, summary.size_of(turn.messages))
    if isinstance(found, Stopped):
        turn.remember(why=found.detail[:1].lower() + found.detail[1:].rstrip("."))


def _tries_so_far(turn: PluginTurn) -> int:
    """Return how often a new frame was asked for and did not come, since the history has last grown."""
    before = turn.memory
    if before.get("frame") != turn.messages[0].id:
        return 0
    then: int = before.get("messages", 0)
    tries: int = before.get("tries", 0)
    has_grown = len(turn.messages) - then >= max(_GROWN_MESSAGES, then // 4)
    return 0 if tries >= _MAX_TRIES and has_grown else tries
