"""The workload: a turn in the middle of its work, at any length of history, with its answers ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from windlass.kernel import (
    Chain,
    CheckpointPassed,
    CompletedToolCall,
    Driver,
    Event,
    Message,
    ModelMessage,
    ModelReplied,
    ModelReply,
    ModelRequest,
    StandardDriver,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
    ToolsReturned,
    TurnConfig,
    TurnMachine,
    Usage,
)

# About what a short paragraph and a small JSON result have.
_WORDS = "The tide turns twice a day, and the windlass holds what the crew has won. " * 3
_ARGS = {"place": "harbor", "depth_m": 12, "unit": "m"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "place": {"type": "string"},
        "depth_m": {"type": "number"},
        "unit": {"type": "string", "enum": ["m", "ft"]},
    },
    "required": ["place"],
}
TOOLS = tuple(
    ToolSpec(name=name, description="Measure something about a place.", parameters=_SCHEMA)
    for name in ("sound", "weigh", "watch")
)


class Answers(NamedTuple):
    """All that one iteration with one tool call is told."""

    replied: ModelReplied
    returned: ToolsReturned
    passed: CheckpointPassed


def history(n_messages: int) -> list[Message]:
    """Return so many messages: exchanges with a tool call each, then a question."""
    fill = (n_messages - 1) % 4
    messages = [_user(f"fill{at}") for at in range(fill)]
    for at in range((n_messages - 1) // 4):
        call = ToolCall(call_id=f"old_{at}", name="sound", args=_ARGS)
        result = ToolResult(call_id=f"old_{at}", name="sound", content=(Text(text=_WORDS),))
        messages += [
            _user(f"q{at}"),
            Message(id=f"c{at}", role="assistant", parts=(call,)),
            Message(id=f"r{at}", role="user", parts=(result,)),
            Message(id=f"a{at}", role="assistant", parts=(Text(text=_WORDS),)),
        ]
    return [*messages, _user("question")]


def _user(message_id: str) -> Message:
    return Message(id=message_id, role="user", parts=(Text(text=_WORDS),))


def machine_at(
    messages: list[Message], driver: Driver | None = None, *, progress: bool = False
) -> TurnMachine:
    """Return a machine that waits for its first reply, with everything asked of it polled."""
    config = TurnConfig(
        driver=driver or StandardDriver(),
        model="bench/model",
        session_id="bench",
        turn_id="t1",
        system_prompt=_WORDS,
        tools=TOOLS,
        progress=progress,
    )
    machine = TurnMachine(config, messages)
    while machine.poll() is not None:
        pass
    return machine


def answers() -> Iterator[Answers]:
    """Yield what each iteration of a fresh machine is told; effect ids go 1, 2, 3 and on."""
    number = 0
    while True:
        effect = 3 * number
        call_id = f"call_{number}"
        call = ToolCall(call_id=call_id, name="sound", args=_ARGS)
        done = CompletedToolCall(
            call_id=call_id,
            name="sound",
            args=call.args,
            outcome=ToolOutcome(value={"depth_m": 11.5, "ground": "sand", "calls": number}),
            duration_ms=3,
        )
        reply = ModelReply(
            parts=(Text(text="Let me sound it."), call),
            usage=Usage(input_tokens=1_200, output_tokens=40),
            terminal="tool_use",
        )
        yield Answers(
            ModelReplied(id=effect + 1, result=reply, text_streamed=True),
            ToolsReturned(id=effect + 2, results=(done,)),
            CheckpointPassed(id=effect + 3),
        )
        number += 1


def run_iteration(machine: TurnMachine, told: Answers) -> None:
    """Take a machine from one model call to the next, as the runtime does: this is what is measured."""
    events: list[Event] = []
    advance = machine.advance
    for answer in told:
        machine.respond(answer)
        advance(events)


def poll_iteration(machine: TurnMachine, told: Answers) -> None:
    """Do the same with every effect polled."""
    poll = machine.poll
    for answer in told:
        machine.respond(answer)
        while poll() is not None:
            pass


def requests_from(n_messages: int) -> Iterator[ModelRequest]:
    """Yield requests that each have one message more than the one before."""
    sent = Chain([_sent(at) for at in range(n_messages)])
    number = n_messages
    while True:
        yield ModelRequest(model="bench/model", messages=sent, tools=TOOLS, session_id="bench")
        sent = sent.append(_sent(number))
        number += 1


def _sent(at: int) -> ModelMessage:
    role = "assistant" if at % 2 else "user"
    return ModelMessage(role=role, parts=(Text(text=f"{at}. {_WORDS}"),))  # type: ignore[arg-type]
