"""How many iterations a turn may take, as pure policy.

The limit is reached when iteration ≥ offset + max. Work that a checkpoint brings at the limit gets one
grace iteration, announced to the model; the next overrun ends the turn.
"""

from __future__ import annotations

import msgspec

from windlass.kernel.model_call import ModelReply
from windlass.kernel.value import Value

MAX_ITERATIONS = 50
"""The limit of a turn that names none."""

_OVERFLOW_SHARE_PERCENT = 95
_OVERFLOW = "The prompt filled the context window; no token was left for a reply."


class LimitState(Value, kw_only=True):
    """Where a turn stands with its limit."""

    grace_given: bool = False

    def is_due(self, iteration: int, offset: int, max_iterations: int | None) -> bool:
        """Whether the model is to be told now that this is its last iteration."""
        if self.grace_given or max_iterations is None:
            return False
        return iteration >= offset + max_iterations


NO_GRACE = LimitState()


def is_context_overflow(reply: ModelReply, max_context_tokens: int | None) -> bool:
    """Whether a reply that was cut at once was really a prompt that filled the window.

    Some providers report `output_limit` when the prompt left no room for a single token.
    """
    if reply.terminal != "output_limit" or reply.usage.output_tokens or not max_context_tokens:
        return False
    return reply.usage.prompt_tokens * 100 >= max_context_tokens * _OVERFLOW_SHARE_PERCENT


def with_overflow_told(reply: ModelReply, max_context_tokens: int | None) -> ModelReply:
    """Return the reply, as a context overflow if it really was one."""
    if not is_context_overflow(reply, max_context_tokens):
        return reply
    return msgspec.structs.replace(reply, terminal="context_overflow", diagnostic=_OVERFLOW)
