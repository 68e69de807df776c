"""What a turn has used against what it may use."""

from __future__ import annotations

from windlass.kernel import effects
from windlass.kernel.effects import Effect
from windlass.kernel.outcomes import Outcome, Stopped
from windlass.runtime.turn import Turn


def over_limit(hand: Turn, effect: Effect) -> Outcome | None:
    """Return how the turn ends if what comes next is beyond its limits."""
    limits = hand.limits
    if limits.max_tool_calls is not None and isinstance(effect, effects.CallTools):
        wanted = hand.tool_calls + len(effect.calls)
        if wanted > limits.max_tool_calls:
            return _stopped(f"{wanted} tool calls, the limit is {limits.max_tool_calls}")
    if isinstance(effect, effects.CallTools):
        return None
    used = 0 if limits.max_tokens is None else _tokens(hand)
    if limits.max_tokens is not None and used >= limits.max_tokens:
        return _stopped(f"{used} tokens, the limit is {limits.max_tokens}")
    if limits.max_seconds is not None and hand.started is not None:
        gone_ms = hand.services.clock.now_ms() - hand.started.started_ms
        if gone_ms >= limits.max_seconds * 1000:
            return _stopped(f"{gone_ms / 1000:g} seconds, the limit is {limits.max_seconds:g}")
    return None


def _tokens(hand: Turn) -> int:
    lines = hand.spent.lines()
    return sum(line.usage.prompt_tokens + line.usage.output_tokens for line in lines)


def _stopped(detail: str) -> Outcome:
    return Stopped(reason="limit", detail=f"The turn used {detail}.")
