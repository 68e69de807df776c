"""Journal entries as a worker would write them: tool calls and model replies of one turn."""

from __future__ import annotations

from windlass import journal
from windlass.journal import Claimed, Recorded, Scope, ToolCallCommand, replay_key
from windlass.kernel import ModelReply, ToolOutcome, Usage, canonical
from windlass.testing.conformance.scene import Driven


def _scope(turn: Driven) -> Scope:
    return Scope(session_id=turn.session_id, turn_id=turn.turn_id, turn_index=1, iteration=1)


def intent(
    turn: Driven, call: int = 0, *, tool: str = "pay", consumes: str | None = None
) -> Claimed:
    """Return the claim of a call: it is about to run."""
    command = ToolCallCommand(call_id=f"c{call}", name=tool, args={"call": call})
    key = replay_key(_scope(turn), "tool_call", "tools", call_ordinal=call, moment="intent")
    return Claimed(key=key, command=command, contract="once", consumes=consumes)


def result(turn: Driven, call: int = 0, *, value: str = "paid", tool: str = "pay") -> Recorded:
    """Return the record of what a call gave."""
    command = ToolCallCommand(call_id=f"c{call}", name=tool, args={"call": call})
    key = replay_key(_scope(turn), "tool_call", "tools", call_ordinal=call, moment="result")
    outcome = journal.CallReturned(outcome=ToolOutcome(value=value))
    digest = journal.effect_digest(journal.without_moment(key), canonical.encode(command))
    return Recorded(key=key, digest=digest, outcome=outcome)


def reply(turn: Driven, at: int = 0, *, text: str = "well", tokens: int = 10) -> Recorded:
    """Return the record of a model's reply, which nothing claimed."""
    spec = journal.RequestSpec(model="scripted", messages="ab" * 32, message_count=1)
    command = journal.ModelCallCommand(request=spec)
    said = ModelReply(text=text, usage=Usage(output_tokens=tokens))
    key = replay_key(_scope(turn), "model_call", f"model-{at}")
    return Recorded(key=key, outcome=journal.ModelAnswered(result=said), command=command)
