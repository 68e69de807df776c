"""Drive a bare machine from its first effect to its last: scripted replies, answers to its effects, and all that it said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, assert_never

import msgspec

from windlass import kernel
from windlass.kernel import CancelModel, Done, Emit, Log, Progress
from windlass.models.scripted import placed, unplaced_id

_NO_USAGE = kernel.Usage()


def say(text: str, *, usage: kernel.Usage = _NO_USAGE, terminal: str = "stop") -> kernel.ModelReply:
    """Return a reply of words.

    Args:
        text: The words of the reply.
        usage: What the call is said to have used; zeros without.
        terminal: Why the reply ends: `stop`, `output_limit`, `content_filter` and others.
    """
    return kernel.ModelReply(text=text, usage=usage, terminal=terminal)


def call(name: str, /, **args: kernel.Json) -> kernel.ModelReply:
    """Return a reply with one tool call: `call("add", a=1, b=2)`.

    Args:
        name: Which tool to call.
        **args: The arguments of the call, as JSON.
    """
    return calls((name, args))


def calls(*wanted: tuple[str, dict[str, Any]]) -> kernel.ModelReply:
    """Return a reply with several calls: `calls(("add", {"a": 1}), ("add", {"a": 2}))`.

    Their ids derive from the reply's place, once a script or a model gives it one.

    Args:
        *wanted: Pairs of a tool's name and the arguments of its call.
    """
    parts = tuple(
        kernel.ToolCall(call_id=unplaced_id(at), name=name, args=args)
        for at, (name, args) in enumerate(wanted)
    )
    return kernel.ModelReply(parts=parts, terminal="tool_use")


ModelAnswer: TypeAlias = kernel.ModelReply | kernel.ModelFailure
ModelScript: TypeAlias = Iterable[ModelAnswer] | Callable[[kernel.ModelRequest], ModelAnswer]
Tools: TypeAlias = Mapping[str, Callable[..., Any]]


class Answers:
    """Answers each effect in turn; every list is played once, in order.

    `model` is a list of replies or a function of the request. `tools` are functions by name, called
    with the call's arguments; one may return a plain value or a `ToolOutcome`. What is left out
    answers with nothing: an empty checkpoint, an unchanged environment.

    Attributes:
        model: Replies to play in order, or a function of the request.
        tools: Functions by tool name; each gets the arguments of the call.
        checkpoints: What to say at each checkpoint; without them nothing enters.
        environments: What each environment becomes; without them it stays as it is.
        code: What each cell of code gives, in order.
        text_streamed: Whether words are shown as previews before the reply.
    """

    def __init__(
        self,
        *,
        model: ModelScript = (),
        tools: Tools | None = None,
        checkpoints: Iterable[kernel.CheckpointDelivery | kernel.Failure] = (),
        environments: Iterable[kernel.Environment | kernel.Failure | None] = (),
        code: Iterable[kernel.CodeResult | kernel.Failure] = (),
        text_streamed: bool = False,
    ) -> None:
        self._reply = model if callable(model) else _play(model, "model replies")
        self._tools = tools or {}
        self._checkpoints = iter(checkpoints)
        self._environments = iter(environments)
        self._code = iter(code)
        self._text_streamed = text_streamed

    def to(self, effect: kernel.Effect) -> kernel.Response | None:
        """Return the response to `effect`; None if it asks for none.

        Args:
            effect: What the machine asked for.
        """
        match effect:
            case kernel.CallModel():
                reply, streamed = self._reply(effect.request), self._text_streamed
                return kernel.ModelReplied(id=effect.id, result=reply, text_streamed=streamed)
            case kernel.CallTools():
                results = tuple(map(self._run, effect.calls))
                return kernel.ToolsReturned(id=effect.id, results=results)
            case kernel.RunCheckpoint():
                delivery = next(self._checkpoints, kernel.CheckpointDelivery())
                return kernel.CheckpointPassed(id=effect.id, delivery=delivery)
            case kernel.SyncEnvironment():
                return kernel.EnvironmentSynced(id=effect.id, result=next(self._environments, None))
            case kernel.RunCode():
                result = next(self._code, kernel.CodeResult())
                return kernel.CodeReturned(id=effect.id, result=result)
            case CancelModel() | Emit() | Log() | Progress() | Done():
                return None
            case _:
                assert_never(effect)

    def _run(self, call: kernel.PendingToolCall) -> kernel.CompletedToolCall:
        tool = self._tools.get(call.name)
        if tool is None:
            said = f"There is no tool called {call.name}."
            outcome = kernel.ToolOutcome(status="error", value=said)
        else:
            value = tool(**call.args)
            is_outcome = isinstance(value, kernel.ToolOutcome)
            outcome = value if is_outcome else kernel.ToolOutcome(value=value)
        return kernel.CompletedToolCall(
            call_id=call.call_id, name=call.name, args=call.args, outcome=outcome
        )


def _play(script: Iterable[ModelAnswer], what: str) -> Callable[[kernel.ModelRequest], ModelAnswer]:
    lines = enumerate(script)

    def play(_request: kernel.ModelRequest) -> ModelAnswer:
        try:
            position, line = next(lines)
        except StopIteration:
            raise AssertionError(f"The script has no more {what}.") from None
        return placed(line, position) if isinstance(line, kernel.ModelReply) else line

    return play


K = TypeVar("K")

# A machine that has not ended by then is not going to.
_MAX_EFFECTS = 100_000


class Driven(msgspec.Struct, kw_only=True):
    """A machine and what it said so far.

    Attributes:
        machine: The machine, as it stands at the end.
        effects: All that it asked for, in order.
    """

    machine: kernel.TurnMachine
    effects: list[kernel.Effect] = []

    @property
    def outcome(self) -> kernel.Outcome | None:
        """How the turn ended, once it has."""
        return self.machine.outcome

    @property
    def events(self) -> list[kernel.Event]:
        """The events, in order."""
        return [effect.event for effect in self.effects if isinstance(effect, Emit)]

    @property
    def requests(self) -> list[kernel.ModelRequest]:
        """The requests to the model, in order."""
        return [effect.request for effect in self.effects if isinstance(effect, kernel.CallModel)]

    def all(self, kind: type[K]) -> list[K]:
        """Return the effects of one kind.

        Args:
            kind: The class of the effects, or events, to return.
        """
        return [effect for effect in self.effects if isinstance(effect, kind)]


def drive(
    machine: kernel.TurnMachine,
    answers: Answers,
    *,
    until: Callable[[kernel.Effect], bool] | None = None,
    restart_with: kernel.TurnConfig | None = None,
) -> Driven:
    """Answer effects until the turn ends, or until one for which `until` is true (not answered).

    With `restart_with`, the machine is thrown away after every single effect and goes on as another
    one, restored from the canonical bytes of its snapshot: nothing may depend on the process.

    Args:
        machine: The machine to drive, new or in the middle of a turn.
        answers: What answers its effects.
        until: Stop before answering an effect for which this is true.
        restart_with: Restore the machine from its snapshot after every effect, with this configuration.
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


def _restarted(machine: kernel.TurnMachine, config: kernel.TurnConfig) -> kernel.TurnMachine:
    kept = kernel.canonical.encode(machine.snapshot())
    return kernel.TurnMachine.restore(config, kernel.canonical.decode(kept, kernel.TurnSnapshot))
