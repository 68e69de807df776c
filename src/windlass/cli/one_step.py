"""One step of a turn in a process of its own: bytes in, one effect done, bytes out.

Law 1. The bytes in the folder are all that is handed on. They change at once or not at all: written
    beside, synced, renamed.
Law 2. It tells its parent on standard output and asks it on standard input; without a parent it ends.

Usage: python -m windlass.cli.one_step FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from windlass.cli import trip
from windlass.kernel import (
    CallModel,
    CallTools,
    CheckpointPassed,
    Effect,
    ModelReplied,
    Response,
    RunCheckpoint,
    ToolCall,
    ToolsReturned,
    TurnMachine,
    TurnSnapshot,
    Value,
    canonical,
)

SNAPSHOT = "turn.json"


class Note(Value, kw_only=True):
    """What a step tells its parent, one to a line."""

    stage: Literal["asked", "in_tool", "answered"]
    text: str
    effect_id: int
    effect_digest: str = ""
    n_bytes: int = 0
    is_done: bool = False
    answer: str = ""


def load(folder: Path) -> TurnMachine:
    """Return the machine that the last step left, or a new one."""
    path = folder / SNAPSHOT
    if not path.exists():
        return TurnMachine(trip.CONFIG, trip.INPUT)
    return TurnMachine.restore(trip.CONFIG, canonical.decode(path.read_bytes(), TurnSnapshot))


def save(machine: TurnMachine, folder: Path) -> int:
    """Replace the kept bytes; return how many there are. A crash leaves the old or the new ones."""
    data = canonical.encode(machine.snapshot())
    beside = folder / f"{SNAPSHOT}.new"
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / SNAPSHOT)
    # The rename itself is only durable once its folder is.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return len(data)


def next_asked(machine: TurnMachine) -> CallModel | CallTools | RunCheckpoint:
    """Return the effect that wants an answer; what is only told goes by unseen."""
    asked: Effect | None = None
    while (effect := machine.poll()) is not None:
        asked = effect
    if not isinstance(asked, CallModel | CallTools | RunCheckpoint):
        raise SystemExit("one_step: the turn has ended already")
    return asked


def do(effect: CallModel | CallTools | RunCheckpoint, folder: Path) -> tuple[Response, str]:
    """Do what is asked; return the response and a few words on it."""
    match effect:
        case CallModel():
            reply = trip.reply_to(effect.request, folder)
            calls = [_as_code(part) for part in reply.parts if isinstance(part, ToolCall)]
            words = ", ".join(calls) or "words, and no more calls"
            return ModelReplied(id=effect.id, result=reply), words
        case CallTools():
            (call,) = effect.calls
            done = trip.run_tool(call, folder, lambda: _wait_for_desk(effect.id, call.name))
            words = canonical.encode(done.outcome.value).decode()
            return ToolsReturned(id=effect.id, results=(done,)), words
        case RunCheckpoint():
            return CheckpointPassed(id=effect.id), "nothing came in"


def describe(effect: CallModel | CallTools | RunCheckpoint) -> str:
    """Return an effect in a few words."""
    match effect:
        case CallModel(request=request):
            return f"call the model ({len(request.messages)} messages)"
        case CallTools(calls=calls):
            return f"call tool {calls[0].name}"
        case RunCheckpoint(kind=kind):
            return f"checkpoint {kind}"


def _as_code(call: ToolCall) -> str:
    return f"{call.name}({', '.join(map(repr, call.args.values()))})"


def _tell(note: Note) -> None:
    try:
        os.write(sys.stdout.fileno(), canonical.encode(note) + b"\n")
    except BrokenPipeError:
        raise SystemExit(1) from None


def _wait_for_desk(effect_id: int, tool: str) -> None:
    _tell(Note(stage="in_tool", text=tool, effect_id=effect_id))
    if not sys.stdin.readline():
        raise SystemExit(1)


def main() -> int:
    """Take one step."""
    if len(sys.argv) != 2:
        print("usage: python -m windlass.cli.one_step FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    machine = load(folder)
    effect = next_asked(machine)
    asked = Note(
        stage="asked",
        text=describe(effect),
        effect_id=effect.id,
        effect_digest=canonical.digest(effect),
    )
    _tell(asked)
    response, words = do(effect, folder)
    machine.respond(response)
    n_bytes = save(machine, folder)
    outcome = machine.outcome
    _tell(
        Note(
            stage="answered",
            text=words,
            effect_id=effect.id,
            n_bytes=n_bytes,
            is_done=machine.is_done,
            answer=getattr(outcome, "text", ""),
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
