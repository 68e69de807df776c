"""Commands: one class per kind; a process operation has one id wherever it is asked for."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, get_args

import pytest

from tests.journal.builders import COMMANDS, OPERATIONS, SPEC
from tests.kernel.refusals import refused
from windlass.journal import (
    KINDS,
    ModelCallCommand,
    ProcessCommand,
    ProcessOperation,
    RequestSpec,
    SleepCommand,
    ToolCallCommand,
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
IDENTITIES: dict[str, str] = {
    "start": '["p"]',
    "list": '["s"]',
    "transfer": '["s"]',
    "delete_session": '["s"]',
    "await": '["p"]',
    "cancel": '["p"]',
    "signal": '["p","go"]',
    "wake": '["s"]',
    "version": '["p"]',
    "trigger": '["p"]',
    "read": '["p"]',
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_id_of_an_operation_derives_from_its_identity(name: str) -> None:
    digest = sha256(IDENTITIES[name].encode()).hexdigest()[:40]
    assert OPERATIONS[name].effect_id() == f"process:{name}:{digest}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_id_of_an_operation_fits_a_key(name: str) -> None:
    effect_id = OPERATIONS[name].effect_id()
    key = replay_key(Scope(session_id="s"), "process", effect_id)
    assert parse_key(key).effect_id == effect_id


def process(operation: ProcessOperation, process_id: str = "p", **more: Any) -> ProcessCommand:
    return ProcessCommand(operation=operation, process_id=process_id, **more)


SAME: list[tuple[ProcessCommand, ProcessCommand]] = [
    (
        process("start", name="sweep", args={"depth": 1}),
        process("start", name="mop", args={"depth": 2}),
    ),
    (process("cancel"), process("cancel", args="enough")),
    (process("signal", name="go", args=1), process("signal", name="go", args=2)),
]
OTHER: list[tuple[ProcessCommand, ProcessCommand]] = [
    (process("start", name="n"), process("start", "q", name="n")),
    (process("start", name="n"), process("await")),
    (process("await"), process("cancel")),
    (process("list", "s"), process("list", "r")),
    (process("list", "s"), process("delete_session", "s")),
    (process("transfer", "s", args=["r"]), process("transfer", "r", args=["s"])),
    (process("signal", name="go"), process("signal", "q", name="go")),
    (process("signal", name="go"), process("signal", name="stop")),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_what_is_asked_twice_with_other_words_is_one_operation(
    left: ProcessCommand, right: ProcessCommand
) -> None:
    assert left != right
    assert left.effect_id() == right.effect_id()


@pytest.mark.parametrize(("left", "right"), OTHER)
def test_another_operation_has_another_id(left: ProcessCommand, right: ProcessCommand) -> None:
    assert left.effect_id() != right.effect_id()


@pytest.mark.parametrize("operation", get_args(ProcessOperation))
@pytest.mark.parametrize("bad", ["", "a b", "/", "x" * 129, "ü", "\n"])
def test_an_operation_on_what_is_no_id_is_refused(operation: ProcessOperation, bad: str) -> None:
    error = refused(lambda: process(operation, bad))
    assert error.field == "ProcessCommand.process_id"


# --- sleeps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("duration_ms", [-1, 0.5, True, "5", None])
def test_a_sleep_lasts_whole_milliseconds_from_zero_up(duration_ms: Json) -> None:
    error = refused(lambda: SleepCommand(duration_ms=duration_ms))
    assert error.field == "SleepCommand.duration_ms"


def test_a_sleep_may_last_no_time() -> None:
    written = canonical.encode(SleepCommand(duration_ms=0))
    assert written == b'{"duration_ms":0,"type":"sleep"}'
