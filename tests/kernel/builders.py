"""Histories, drivers and machines in every state, for the kernel's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from windlass.kernel import (
    Action,
    CallTools,
    CheckpointDelivery,
    CheckpointPassed,
    CodeResult,
    CodeReturned,
    CompletedToolCall,
    ConversationRecord,
    Driver,
    DriverView,
    Effect,
    Emit,
    EnvironmentSynced,
    Event,
    Failure,
    Finish,
    Finished,
    InjectedMessage,
    Json,
    Message,
    ModelFailure,
    ModelMessage,
    ModelReplied,
    ModelReply,
    PendingToolCall,
    Record,
    Response,
    StandardDriver,
    StartCode,
    StartModel,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
    ToolsReturned,
    TurnConfig,
    TurnMachine,
    TurnSnapshot,
    WaitingModel,
    canonical,
)
from windlass.kernel.messages import ToolStatus

K = TypeVar("K")

SESSION = "s1"
TURN = "t1"
# printf s1/t1 | sha256sum | cut -c-16
PREFIX = "3633887835d74bdc"

ADD = ToolSpec(name="add", description="Add two numbers.", parameters={"type": "object"})

Choice = Sequence[Action] | Callable[..., Any]


class Chooses:
    """A driver that does what it was told beforehand: a fixed batch, or a function of the view.

    Told nothing, it calls the model and ends with what comes back.
    """

    def __init__(
        self,
        *,
        handles: frozenset[str] = frozenset(),
        prepare: Choice | None = None,
        on_model: Choice | None = None,
        on_tools: Choice | None = None,
        on_code: Choice | None = None,
        close: Choice = (),
    ) -> None:
        self.handles = handles
        self._prepare = prepare
        self._on_model = on_model
        self._on_tools = on_tools
        self._on_code = on_code
        self._close = close

    def prepare(self, view: DriverView) -> Sequence[Action]:
        return _choose(self._prepare, [StartModel(request=view.request())], view)

    def on_model(
        self, view: DriverView, waiting: WaitingModel, reply: ModelReply, text_streamed: bool
    ) -> Sequence[Action]:
        done: list[Action] = [Finish(outcome=Finished(text=reply.text))]
        return _choose(self._on_model, done, view, waiting, reply, text_streamed)

    def on_tools(
        self, view: DriverView, completed: Sequence[CompletedToolCall]
    ) -> Sequence[Action]:
        return _choose(self._on_tools, [Finish(outcome=Finished())], view, completed)

    def on_code(
        self, view: DriverView, driver_state: Json, result: CodeResult | Failure
    ) -> Sequence[Action]:
        return _choose(self._on_code, [Finish(outcome=Finished())], view, driver_state, result)

    def close(
        self,
        view: DriverView,
        calls: Sequence[PendingToolCall],
        completed: Sequence[CompletedToolCall],
    ) -> Sequence[Action]:
        return _choose(self._close, [], view, calls, completed)


def _choose(choice: Choice | None, otherwise: list[Action], *seen: Any) -> Sequence[Action]:
    if choice is None:
        return otherwise
    if callable(choice):
        chosen: Sequence[Action] = choice(*seen)
        return chosen
    return choice


def config(driver: Driver | None = None, **changes: Any) -> TurnConfig:
    settings = {"model": "m", "session_id": SESSION, "turn_id": TURN, **changes}
    return TurnConfig(driver=driver or StandardDriver(), **settings)


def machine(driver: Driver | None = None, **changes: Any) -> TurnMachine:
    """Return a machine for the one question "hi"."""
    return TurnMachine(config(driver, **changes), [user("hi")])


# --- messages --------------------------------------------------------------------------------


def user(text: str, id: str = "u1") -> Message:
    return Message(id=id, role="user", parts=(Text(text=text),))


def assistant(text: str, id: str = "a1", *, incomplete: bool = False) -> Message:
    return Message(id=id, role="assistant", parts=(Text(text=text),), incomplete=incomplete)


def asks(*calls: ToolCall, id: str = "a1") -> Message:
    return Message(id=id, role="assistant", parts=calls)


def answers(*results: ToolResult, id: str = "r1") -> Message:
    return Message(id=id, role="user", parts=results)


def result(call_id: str, text: str, *, name: str = "add", status: ToolStatus = "ok") -> ToolResult:
    return ToolResult(call_id=call_id, name=name, content=(Text(text=text),), status=status)


def kept(*messages: Message) -> tuple[Record, ...]:
    return tuple(ConversationRecord(message=message) for message in messages)


def injected(text: str, role: str = "user") -> InjectedMessage:
    return InjectedMessage(role=role, parts=(Text(text=text),))


def delivery(*texts: str) -> CheckpointDelivery:
    return CheckpointDelivery(messages=tuple(injected(text) for text in texts))


# --- calls -----------------------------------------------------------------------------------


def call(call_id: str, name: str = "add", **args: Any) -> ToolCall:
    return ToolCall(call_id=call_id, name=name, args=args)


def raw_call(call_id: str, raw: str, name: str = "add") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, raw=raw)


def reply(*parts: Any, **fields: Any) -> ModelReply:
    fields.setdefault("terminal", "tool_use")
    return ModelReply(parts=parts, **fields)


def completed(
    call_id: str, value: Json = None, name: str = "add", **fields: Any
) -> CompletedToolCall:
    outcome = value if isinstance(value, ToolOutcome) else ToolOutcome(value=value)
    return CompletedToolCall(call_id=call_id, name=name, outcome=outcome, **fields)


# --- driving ---------------------------------------------------------------------------------


def drain(machine: TurnMachine) -> list[Effect]:
    """Poll until there is nothing more to say or to ask."""
    effects = []
    while (effect := machine.poll()) is not None:
        effects.append(effect)
    return effects


def ask(machine: TurnMachine) -> Any:  # noqa: ANN401 - whichever effect the test waits for
    """Poll to None and return the last effect: the one that waits, or Done."""
    return drain(machine)[-1]


def reply_to(
    machine: TurnMachine, result: ModelReply | ModelFailure, *, text_streamed: bool = False
) -> list[Effect]:
    """Answer the model call that `machine` asks for, and say what it says then."""
    asked = ask(machine)
    machine.respond(ModelReplied(id=asked.id, result=result, text_streamed=text_streamed))
    return drain(machine)


def kinds(effects: Sequence[Effect]) -> list[str]:
    """Name effects by their class, events by the class of the event."""
    return [
        type(effect.event if isinstance(effect, Emit) else effect).__name__ for effect in effects
    ]


def only(kind: type[K], effects: Sequence[Effect]) -> list[K]:
    """Return the events of one kind."""
    return [event for event in events_of(effects) if isinstance(event, kind)]


def words(messages: Iterable[Message | ModelMessage]) -> list[str]:
    """Return what each message begins with: its words, or nothing if it begins otherwise."""
    firsts = [message.parts[0] for message in messages]
    return [part.text if isinstance(part, Text) else "" for part in firsts]


def calls_in(message: Message) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]


def results_in(message: Message) -> list[ToolResult]:
    return [part for part in message.parts if isinstance(part, ToolResult)]


def shown_in(result: ToolResult) -> str:
    """Return all the words of a result."""
    return "".join(part.text for part in result.content if isinstance(part, Text))


def messages_in(records: Iterable[Record]) -> list[Message]:
    return [record.message for record in records if isinstance(record, ConversationRecord)]


def events_of(effects: Sequence[Effect]) -> list[Event]:
    return [effect.event for effect in effects if isinstance(effect, Emit)]


def snapshot_bytes(machine: TurnMachine) -> bytes:
    return canonical.encode(machine.snapshot())


def restored(machine: TurnMachine, config: TurnConfig) -> TurnMachine:
    """Return the machine that another process would make of this one's bytes."""
    snapshot = canonical.decode(snapshot_bytes(machine), TurnSnapshot)
    return TurnMachine.restore(config, snapshot)


# --- a machine in every state ----------------------------------------------------------------

TWO_CALLS = reply(call("c1", a=1), raw_call("bad", '{"a": '), call("c2", a=2))
CELL = StartCode(language="python", code="1 + 1", driver_state={"cell": 1})
WAITING = (
    "waiting_environment",
    "waiting_model",
    "waiting_tools",
    "waiting_code",
    "waiting_checkpoint",
)
STATES = ("preparing", "prepare_iteration", *WAITING, "finished")


def config_for(state: str) -> TurnConfig:
    if state in ("waiting_environment", "prepare_iteration"):
        return config(sync_environment=True)
    if state == "waiting_code":
        return config(Chooses(prepare=[CELL]))
    return config(system_prompt="Be brief.", tools=(ADD,))


def machine_in(state: str) -> TurnMachine:
    """Return a machine that stands in `state`, with everything said that it has to say."""
    machine = TurnMachine(config_for(state), [user("hi")])
    if state == "preparing":
        return machine
    asked = ask(machine)
    if state == "prepare_iteration":
        machine.respond(EnvironmentSynced(id=asked.id))
        return machine
    if state == "waiting_tools":
        machine.respond(ModelReplied(id=asked.id, result=TWO_CALLS))
        ask(machine)
    if state == "waiting_checkpoint":
        machine.respond(ModelReplied(id=asked.id, result=ModelReply(text="hello")))
        ask(machine)
    if state == "finished":
        machine.finish(Finished(text="bye"))
        ask(machine)
    assert machine.state == state
    return machine


def every_response(id: int) -> list[Response]:
    """Return an answer of every kind to the effect with this id."""
    return [
        EnvironmentSynced(id=id),
        ModelReplied(id=id, result=ModelReply(text="late")),
        ToolsReturned(id=id, results=(completed("c1", 1), completed("c2", 2))),
        CodeReturned(id=id, result=CodeResult(output="late")),
        CheckpointPassed(id=id, delivery=delivery("late")),
    ]


ANSWERED_BY = {
    "waiting_environment": "EnvironmentSynced",
    "waiting_model": "ModelReplied",
    "waiting_tools": "ToolsReturned",
    "waiting_code": "CodeReturned",
    "waiting_checkpoint": "CheckpointPassed",
}


def run_tools(asked: CallTools, **values: Any) -> ToolsReturned:
    """Answer each call with the value given under its id."""
    return ToolsReturned(
        id=asked.id,
        results=tuple(
            completed(call.call_id, values[call.call_id], call.name, args=call.args)
            for call in asked.calls
        ),
    )
