"""Drive a bare machine from its first effect to its last: scripted replies, answers to its effects, and all that it said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, assert_never

import msgspec

from windlass.kernel import (
    CallModel,
    CallTools,
    CancelModel,
    CheckpointDelivery,
    CheckpointPassed,
    CodeResult,
    CodeReturned,
    CompletedToolCall,
    Done,
    Effect,
    Emit,
    Environment,
    EnvironmentSynced,
    Event,
    Failure,
    Json,
    Log,
    ModelFailure,
    ModelReplied,
    ModelReply,
    ModelRequest,
    Outcome,
    PendingToolCall,
    Progress,
    Response,
    RunCheckpoint,
    RunCode,
    SyncEnvironment,
    ToolCall,
    ToolOutcome,
    ToolsReturned,
    TurnConfig,
    TurnMachine,
    TurnSnapshot,
    Usage,
    canonical,
)
from windlass.models.scripted import placed, unplaced_id

_NO_USAGE = Usage()


def say(text: str, *, usage: Usage = _NO_USAGE, terminal: str = "stop") -> ModelReply:
    """Return a reply of words."""
    return ModelReply(text=text, usage=usage, terminal=terminal)


def call(name: str, /, **args: Json) -> ModelReply:
    """Return a reply with one tool call: `call("add", a=1, b=2)`."""
    return calls((name, args))


def calls(*wanted: tuple[str, dict[str, Any]]) -> ModelReply:
    """Return a reply with several calls: `calls(("add", {"a": 1}), ("add", {"a": 2}))`.

    Their ids derive from the reply's place, once a script or a model gives it one.
    """
    parts = tuple(
        ToolCall(call_id=unplaced_id(at), name=name, args=args)
        for at, (name, args) in enumerate(wanted)
    )
    return ModelReply(parts=parts, terminal="tool_use")


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
            case CancelModel() | Emit() | Log() | Progress() | Done():
                return None
            case _:
                assert_never(effect)

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


K = TypeVar("K")

# A machine that has not ended by then is not going to.
_MAX_EFFECTS = 100_000


class Driven(msgspec.Struct, kw_only=True):
    """A machine and what it said so far."""

    machine: TurnMachine
    effects: list[Effect] = []

    @property
    def outcome(self) -> Outcome | None:
        """How the turn ended, once it has."""
        return self.machine.outcome

    @property
    def events(self) -> list[Event]:
        """The events, in order."""
        return [effect.event for effect in self.effects if isinstance(effect, Emit)]

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests to the model, in order."""
        return [effect.request for effect in self.effects if isinstance(effect, CallModel)]

    def all(self, kind: type[K]) -> list[K]:
        """Return the effects of one kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]


def drive(
    machine: TurnMachine,
    answers: Answers,
    *,
    until: Callable[[Effect], bool] | None = None,
    restart_with: TurnConfig | None = None,
) -> Driven:
    """Answer effects until the turn ends, or until one for which `until` is true (not answered).

    With `restart_with`, the machine is thrown away after every single effect and goes on as another
    one, restored from the canonical bytes of its snapshot: nothing may depend on the process.
    """
    driven = Driven(machine=machine)
    for _ in range(_MAX_EFFECTS):
        effect = driven.machine.poll()
        if effect is None:
            return driven
        driven.effects.append(effect)
        if until is not None and until(effect):
            return driven
        response = answers.to(effect)
        if restart_with is not None and response is None:
            driven.machine = _restarted(driven.machine, restart_with)
        elif response is not None:
            driven.machine.respond(response)
    raise AssertionError(f"The machine has not ended after {_MAX_EFFECTS:,} effects.")


def _restarted(machine: TurnMachine, config: TurnConfig) -> TurnMachine:
    kept = canonical.encode(machine.snapshot())
    return TurnMachine.restore(config, canonical.decode(kept, TurnSnapshot))
