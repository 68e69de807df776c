"""Commands: one class per kind; a process operation has one id wherever it is asked for."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tests.journal.builders import COMMANDS, OPERATIONS, SPEC
from tests.kernel.refusals import refused
from windlass.journal import (
    KINDS,
    AwaitProcess,
    CancelProcess,
    DeleteSessionProcesses,
    ListProcesses,
    ModelCallCommand,
    ProcessCommand,
    ProcessOperation,
    RequestSpec,
    SignalProcess,
    SleepCommand,
    StartProcess,
    ToolCallCommand,
    TransferProcesses,
    kind_of,
    parse_key,
    replay_key,
)
from windlass.journal.keys import Scope
from windlass.kernel import Json, canonical


def test_every_kind_has_a_command_and_every_command_its_kind() -> None:
    assert tuple(COMMANDS) == KINDS
    assert [kind_of(command) for command in COMMANDS.values()] == list(KINDS)


def test_the_arguments_of_a_command_are_a_frozen_copy() -> None:
    args: dict[str, Any] = {"a": [1]}
    command = ToolCallCommand(call_id="c", name="add", args=args)
    args["a"].append(2)
    assert command.args == {"a": [1]}
    with pytest.raises(TypeError):
        command.args["b"] = 1


def test_a_command_asks_for_the_request_that_it_was_made_of() -> None:
    assert ModelCallCommand(request=SPEC).request.message_count == 1
    assert RequestSpec(model="m", messages="ab" * 32, message_count=1, tool_choice="auto") == SPEC


# --- process operations --------------------------------------------------------------------------

# By operation: what it is spelled like where it gets its id.
IDENTITIES: dict[str, tuple[str, str]] = {
    "start": ("start_process", '["p"]'),
    "list": ("list_processes", '["s","live"]'),
    "transfer": ("transfer_processes", '["s","r",["p"]]'),
    "delete_session": ("delete_session_processes", '["s"]'),
    "await": ("await_process", '["p"]'),
    "cancel": ("cancel_process", '["p"]'),
    "signal": ("signal_process", '["p","go","g"]'),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_id_of_an_operation_derives_from_its_identity(name: str) -> None:
    tag, identity = IDENTITIES[name]
    digest = sha256(identity.encode()).hexdigest()[:40]
    assert ProcessCommand(operation=OPERATIONS[name]).effect_id() == f"process:{tag}:{digest}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_id_of_an_operation_fits_a_key(name: str) -> None:
    effect_id = ProcessCommand(operation=OPERATIONS[name]).effect_id()
    key = replay_key(Scope(session_id="s"), "process", effect_id)
    assert parse_key(key).effect_id == effect_id


SAME: list[tuple[ProcessOperation, ProcessOperation]] = [
    (
        StartProcess(process_id="p", name="sweep", args={"depth": 1}),
        StartProcess(process_id="p", name="mop", args={"depth": 2}),
    ),
    (CancelProcess(process_id="p"), CancelProcess(process_id="p", reason="enough")),
    (
        SignalProcess(process_id="p", name="go", signal_id="g", value=1),
        SignalProcess(process_id="p", name="go", signal_id="g", value=2),
    ),
]
OTHER: list[tuple[ProcessOperation, ProcessOperation]] = [
    (StartProcess(process_id="p", name="n"), StartProcess(process_id="q", name="n")),
    (StartProcess(process_id="p", name="n"), AwaitProcess(process_id="p")),
    (AwaitProcess(process_id="p"), CancelProcess(process_id="p")),
    (ListProcesses(session_id="s"), ListProcesses(session_id="s", mode="all")),
    (ListProcesses(session_id="s"), ListProcesses(session_id="r")),
    (ListProcesses(session_id="s"), DeleteSessionProcesses(session_id="s")),
    (
        TransferProcesses(from_session="s", to_session="r", process_ids=("p", "q")),
        TransferProcesses(from_session="s", to_session="r", process_ids=("p",)),
    ),
    (
        TransferProcesses(from_session="s", to_session="r", process_ids=("p",)),
        TransferProcesses(from_session="r", to_session="s", process_ids=("p",)),
    ),
    (
        SignalProcess(process_id="p", name="go", signal_id="g"),
        SignalProcess(process_id="p", name="go", signal_id="h"),
    ),
    (
        SignalProcess(process_id="p", name="go", signal_id="g"),
        SignalProcess(process_id="p", name="stop", signal_id="g"),
    ),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_what_is_asked_twice_with_other_words_is_one_operation(
    left: ProcessOperation, right: ProcessOperation
) -> None:
    assert left != right
    assert ProcessCommand(operation=left).effect_id() == ProcessCommand(operation=right).effect_id()


@pytest.mark.parametrize(("left", "right"), OTHER)
def test_another_operation_has_another_id(left: ProcessOperation, right: ProcessOperation) -> None:
    assert ProcessCommand(operation=left).effect_id() != ProcessCommand(operation=right).effect_id()


NO_IDS: list[tuple[ProcessOperation, str]] = [
    (StartProcess(process_id="", name="n"), "process_id"),
    (ListProcesses(session_id="a b"), "session_id"),
    (TransferProcesses(from_session="/", to_session="r", process_ids=()), "from_session"),
    (TransferProcesses(from_session="s", to_session="", process_ids=()), "to_session"),
    (DeleteSessionProcesses(session_id=""), "session_id"),
    (AwaitProcess(process_id="x" * 129), "process_id"),
    (CancelProcess(process_id="ü"), "process_id"),
    (SignalProcess(process_id="p", name="go", signal_id="\n"), "signal_id"),
]


@pytest.mark.parametrize(("operation", "field"), NO_IDS)
def test_an_operation_on_what_is_no_id_is_refused(operation: ProcessOperation, field: str) -> None:
    assert refused(lambda: ProcessCommand(operation=operation)).field == field


@pytest.mark.parametrize("bad", ["", "a/b", "x" * 129], ids=["empty", "a slash", "long"])
def test_a_transfer_of_what_is_no_id_is_refused(bad: str) -> None:
    moved = TransferProcesses(from_session="s", to_session="r", process_ids=("p", bad))
    error = refused(lambda: ProcessCommand(operation=moved))
    assert "process_ids" in str(error)


# --- sleeps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("duration_ms", [-1, 0.5, True, "5", None])
def test_a_sleep_lasts_whole_milliseconds_from_zero_up(duration_ms: Json) -> None:
    error = refused(lambda: SleepCommand(duration_ms=duration_ms))
    assert error.field == "SleepCommand.duration_ms"


def test_a_sleep_may_last_no_time() -> None:
    written = canonical.encode(SleepCommand(duration_ms=0))
    assert written == b'{"duration_ms":0,"type":"sleep"}'
