"""Answers to a machine's effects, from scripts and plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from windlass.kernel import (
    CallModel,
    CallTools,
    CheckpointDelivery,
    CheckpointPassed,
    CodeResult,
    CodeReturned,
    CompletedToolCall,
    Effect,
    Environment,
    EnvironmentSynced,
    Failure,
    ModelFailure,
    ModelReplied,
    ModelReply,
    ModelRequest,
    PendingToolCall,
    Response,
    RunCheckpoint,
    RunCode,
    SyncEnvironment,
    ToolOutcome,
    ToolsReturned,
)
from windlass.testing.replies import placed

ModelScript: TypeAlias = (
    Iterable[ModelReply | ModelFailure] | Callable[[ModelRequest], ModelReply | ModelFailure]
)
Tools: TypeAlias = Mapping[str, Callable[..., Any]]


class Answers:
    """Answers each effect in turn; every list is played once, in order.

    `model` is a list of replies or a function of the request. `tools` are functions by name, called
    with the call's arguments; one may return a plain value or a `ToolOutcome`. What is left out
    answers with nothing: an empty checkpoint, an unchanged environment.
    """

    def __init__(
        self,
        *,
        model: ModelScript = (),
        tools: Tools | None = None,
        checkpoints: Iterable[CheckpointDelivery | Failure] = (),
        environments: Iterable[Environment | Failure | None] = (),
        code: Iterable[CodeResult | Failure] = (),
        text_streamed: bool = False,
    ) -> None:
        self._reply = model if callable(model) else _play(model, "model replies")
        self._tools = tools or {}
        self._checkpoints = iter(checkpoints)
        self._environments = iter(environments)
        self._code = iter(code)
        self._text_streamed = text_streamed

    def to(self, effect: Effect) -> Response | None:
        """Return the response to `effect`; None if it asks for none."""
        match effect:
            case CallModel():
                reply = self._reply(effect.request)
                return ModelReplied(id=effect.id, result=reply, text_streamed=self._text_streamed)
            case CallTools():
                return ToolsReturned(id=effect.id, results=tuple(map(self._run, effect.calls)))
            case RunCheckpoint():
                delivery = next(self._checkpoints, CheckpointDelivery())
                return CheckpointPassed(id=effect.id, delivery=delivery)
            case SyncEnvironment():
                return EnvironmentSynced(id=effect.id, result=next(self._environments, None))
            case RunCode():
                return CodeReturned(id=effect.id, result=next(self._code, CodeResult()))
            case _:
                return None

    def _run(self, call: PendingToolCall) -> CompletedToolCall:
        tool = self._tools.get(call.name)
        if tool is None:
            outcome = ToolOutcome(status="error", value=f"There is no tool called {call.name}.")
        else:
            value = tool(**call.args)
            outcome = value if isinstance(value, ToolOutcome) else ToolOutcome(value=value)
        return CompletedToolCall(
            call_id=call.call_id, name=call.name, args=call.args, outcome=outcome
        )


def _play(
    script: Iterable[ModelReply | ModelFailure], what: str
) -> Callable[[ModelRequest], ModelReply | ModelFailure]:
    lines = enumerate(script)

    def play(_request: ModelRequest) -> ModelReply | ModelFailure:
        try:
            position, line = next(lines)
        except StopIteration:
            raise AssertionError(f"The script has no more {what}.") from None
        return placed(line, position) if isinstance(line, ModelReply) else line

    return play
