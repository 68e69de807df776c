"""An answer that holds another kind of value is refused by its field, and changes nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from tests.kernel.builders import ask, config_for, machine_in, snapshot_bytes
from windlass.errors import InvalidInput
from windlass.kernel import (
    CheckpointPassed,
    CodeReturned,
    EnvironmentSynced,
    ModelReplied,
    ToolsReturned,
    TurnMachine,
)

# Whatever the types say should not be there.
Junk: TypeAlias = Any

WRONG: Junk = "something else"

REFUSED: list[Any] = [
    ("waiting_environment", EnvironmentSynced, "result", "Environment"),
    ("waiting_model", ModelReplied, "result", "ModelFailure"),
    ("waiting_code", CodeReturned, "result", "CodeResult"),
    ("waiting_checkpoint", CheckpointPassed, "delivery", "Failure"),
]


def effect_id(machine: TurnMachine) -> int:
    waiting: Any = machine.snapshot().state
    assert isinstance(waiting.effect_id, int)
    return waiting.effect_id


@pytest.mark.parametrize(("state", "response", "field", "wanted"), REFUSED)
def test_it_is_refused_by_its_field(state: str, response: Junk, field: str, wanted: str) -> None:
    machine = machine_in(state)
    before = snapshot_bytes(machine)

    with pytest.raises(InvalidInput) as caught:
        machine.respond(response(id=effect_id(machine), **{field: WRONG}))

    assert (caught.value.field, caught.value.found, caught.value.wanted) == (field, "str", wanted)
    assert snapshot_bytes(machine) == before


@pytest.mark.parametrize(
    ("results", "field"), [(5, "results"), (("x",), "results[0]")], ids=["a-number", "text"]
)
def test_results_of_another_kind_are_refused_by_their_place(results: Junk, field: str) -> None:
    machine = machine_in("waiting_tools")
    before = snapshot_bytes(machine)

    with pytest.raises(InvalidInput) as caught:
        machine.respond(ToolsReturned(id=effect_id(machine), results=results))

    assert caught.value.field == field
    assert snapshot_bytes(machine) == before


def test_what_is_no_snapshot_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput) as caught:
        TurnMachine.restore(config_for("waiting_model"), WRONG)

    assert (caught.value.field, caught.value.wanted) == ("snapshot", "TurnSnapshot")


def test_a_machine_still_takes_the_right_answer_after_a_wrong_one() -> None:
    machine = machine_in("waiting_environment")
    asked = effect_id(machine)
    with pytest.raises(InvalidInput):
        machine.respond(EnvironmentSynced(id=asked, result=WRONG))

    machine.respond(EnvironmentSynced(id=asked))

    assert type(ask(machine)).__name__ == "CallModel"
