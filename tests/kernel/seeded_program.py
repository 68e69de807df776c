"""A fixed program of several turns; prints the SHA-256 of the canonical bytes of all it said.

Nothing in it is drawn and nothing is read, so only the interpreter could make two runs differ. It is
run as `python -m tests.kernel.seeded_program`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256

from tests.kernel.restoring import Services, play, restored, say
from windlass.kernel import (
    Action,
    CheckpointDelivery,
    CodeResult,
    DriverRecord,
    DriverView,
    EndTurn,
    Environment,
    Failure,
    Finish,
    FinishedValue,
    Generation,
    InjectedMessage,
    InputOrigin,
    Json,
    Message,
    ModelFailure,
    ModelReply,
    NextIteration,
    PluginOrigin,
    ProcessOrigin,
    Reasoning,
    StandardDriver,
    StartCheckpoint,
    StartCode,
    Text,
    ToolCall,
    ToolOutcome,
    ToolSpec,
    TurnCause,
    TurnConfig,
    TurnMachine,
    Usage,
    canonical,
)

TOOLS = tuple(
    ToolSpec(name=name, description=f"{name}.", parameters={"type": "object", "x": [name]})
    for name in ("add", "look_up", "send", "wait")
)
CAUSES = tuple(
    TurnCause(id=f"wake-{name}", event_type="done", origin=origin, text=f"{name} is done")
    for name, origin in (
        ("tango", ProcessOrigin(process_id="p", event_type="done", sequence=1)),
        ("alpha", PluginOrigin(plugin="q")),
        ("zulu", InputOrigin(turn_id="t0", input_id="i")),
    )
)


def calls(*names: str) -> ModelReply:
    parts = tuple(
        ToolCall(call_id=f"call_{name}", name=name, args={key: at for at, key in enumerate(names)})
        for name in names
    )
    usage = Usage(input_tokens=30, output_tokens=20, cached_input_tokens=5, reasoning_tokens=7)
    thought = Reasoning(text="hm", replay={"z": 1, "a": {"y": 2, "b": 3}})
    return ModelReply(parts=(thought, Text(text="so"), *parts), usage=usage, terminal="tool_use")


class CodeDriver(StandardDriver):
    """Writes three cells, then ends with a value."""

    def prepare(self, view: DriverView) -> list[Action]:
        state = {"cells": view.iteration, "seen": {"b": [1], "a": None}}
        return [StartCode(language="python", code=f"x = {view.iteration}", driver_state=state)]

    def on_code(
        self, view: DriverView, driver_state: Json, result: CodeResult | Failure
    ) -> list[Action]:
        if driver_state["cells"] == 2:
            return [Finish(outcome=FinishedValue(value=driver_state))]
        return [NextIteration(), StartCheckpoint(kind="after_work")]


NOTE = InjectedMessage(role="system", parts=(Text(text="mind the time"),))
DELIVERIES = (
    CheckpointDelivery(),
    CheckpointDelivery(messages=(NOTE,), transient_messages=(NOTE,), causes=CAUSES),
    CheckpointDelivery(causes=CAUSES[1:]),
)
ENVIRONMENTS = (None, Environment(system_prompt="Be brief.", tools=TOOLS[::-1]), None)
BUSY = Services(
    replies=(calls("send", "add", "look_up"), calls("wait", "unknown"), ModelReply(text="done")),
    outcomes=(
        ToolOutcome(value={"z": 1, "a": {"y": 2, "b": 3}}),
        ToolOutcome(status="denied", value="no"),
        ToolOutcome(status="timeout"),
    ),
    deliveries=DELIVERIES,
    environments=ENVIRONMENTS,
    cells=(CodeResult(output="1", value={"k": 1, "j": 2}), Failure(message="no memory")),
    stop_at=30,
)
ENDING = BUSY._replace(outcomes=(ToolOutcome(control=EndTurn(value={"b": 1, "a": 2})),))
FAILING = BUSY._replace(replies=(calls("add"), ModelFailure(message="down", code="503")))
STOPPED = BUSY._replace(stop_at=3, n_completed=1)


def turn(
    turn_id: str, world: Services, history: Sequence[Message], driver: StandardDriver
) -> Iterator[bytes]:
    """Play a turn, then once more from a snapshot in its middle."""

    def new_config() -> TurnConfig:
        return TurnConfig(
            driver=driver,
            model="m",
            session_id="s",
            turn_id=turn_id,
            system_prompt="You help.",
            tools=TOOLS,
            max_iterations=4,
            generation=Generation(temperature=0.5, stop=("END",)),
            sync_environment=True,
            emit_trace=True,
            termination={"b": 1, "a": 2},
        )

    records = (DriverRecord(data={"z": 1, "a": 2}),)
    machine = TurnMachine(
        new_config(), history, records=records, causes=CAUSES[:2], iteration_offset=1
    )
    played = play(machine, world)
    for batch in played.batches:
        yield from batch
    middle = played.positions[len(played.positions) // 2].snapshot
    yield middle
    for batch in say(restored(TurnMachine, new_config, middle), world):
        yield from batch
    yield canonical.digest(machine.snapshot()).encode()
    turns[turn_id] = tuple(machine.messages)


turns: dict[str, tuple[Message, ...]] = {}


def said() -> Iterator[bytes]:
    hello = Message(id="u1", role="user", parts=(Text(text="Grüße 🚢"),))
    yield from turn("t1", BUSY, (hello,), StandardDriver())
    yield from turn("t2", ENDING, turns["t1"], StandardDriver())
    yield from turn("t3", FAILING, turns["t2"], StandardDriver())
    yield from turn("t4", STOPPED, turns["t3"], StandardDriver())
    yield from turn("t5", BUSY, turns["t4"], CodeDriver())


def main() -> str:
    whole = sha256()
    n_said = 0
    for each in said():
        whole.update(len(each).to_bytes(8, "big") + each)
        n_said += 1
    return f"{n_said} {whole.hexdigest()}"


if __name__ == "__main__":
    sys.stdout.write(main() + "\n")
