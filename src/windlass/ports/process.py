"""How to start and find a process: its declaration, its id, and the turn that begins it.

A process is a session of kind `process`. The caller chooses its id, which is the session's label; the session's id derives
from it. Its first turn is `run`; after each `continue_as` the next turn follows: `run-2`, `run-3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from windlass.guards.ids import check_id
from windlass.journal import derived_session_id
from windlass.journal.redaction import cleaned
from windlass.kernel.value import Json, Value, freeze
from windlass.ports.unit import AcceptTurn, NewTurn, TurnRequest

PROGRAM = "process:"
"""The prefix of the names of programs that are processes."""
FIRST_TURN = "run"
TOLD = "told"
"""The name of the signal that carries reports about an `external` process."""


class ProcessSpec(Protocol):
    """The declaration of a process. `windlass.process` makes one."""

    @property
    def name(self) -> str: ...

    @property
    def is_external(self) -> bool:
        """Whether it runs elsewhere, and this store keeps only its events."""
        ...

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return arguments as they are stored.

        Raises:
            ArgsInvalid: naming the argument, what was found and what was wanted.
        """
        ...

    def check_signal(self, name: str, payload: object) -> Json:
        """Return the payload of a signal as it is stored.

        Raises:
            InvalidInput: the process takes no signal of this name, or the payload does not fit.
        """
        ...


AnyProcess: TypeAlias = ProcessSpec | str
"""A process by its declaration, or by its name if the declaration is elsewhere."""


class ProcessRef(Value, kw_only=True):
    """A process that was started: its id, and its session.

    Attributes:
        id: The id of the process: `rt.processes.get(id)` reaches it.
        session_id: The session of the process; it derives from the id.
    """

    id: str
    session_id: str


def process_ref(secret: bytes, process_id: str) -> ProcessRef:
    """Return the session of the process with this id, in the store with this secret."""
    check_id(process_id, field="id")
    session_id = derived_session_id(secret, "process", process_id)
    return ProcessRef(id=process_id, session_id=session_id)


def process_name(process: AnyProcess) -> str:
    """Return the name of a process.

    Raises:
        InvalidInput: it is neither a process nor the name of one.
    """
    name = process if isinstance(process, str) else process.name
    return check_id(name, field="process")


def beginning(
    ref: ProcessRef, process: AnyProcess, args: Mapping[str, Any], *, now_ms: int
) -> AcceptTurn:
    """Return the errand that starts a process: the same errand for the same id and arguments, in every program.

    Raises:
        ArgsInvalid: the process does not take these arguments. If only its name is known, it fails when it runs.
    """
    given = freeze(dict(args), field="args") if isinstance(process, str) else process.check(args)
    request = TurnRequest(overrides={"args": given, "process_id": ref.id})
    turn = NewTurn(
        agent=f"{PROGRAM}{process_name(process)}", request=cleaned(request), now_ms=now_ms
    )
    return AcceptTurn(
        session_id=ref.session_id, turn_id=FIRST_TURN, turn=turn, kind="process", label=ref.id
    )


def turn_number(turn_id: str) -> int:
    """Return the number of a turn within its process, from 1."""
    _, _, number = turn_id.rpartition("-")
    return int(number) if number.isdigit() else 1
