"""How a turn is set up: what is refused before it runs, and what a driver sees of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kernel.builders import (
    ADD,
    Chooses,
    ask,
    config,
    config_for,
    drain,
    machine,
    machine_in,
    user,
)
from windlass.errors import InvalidInput, LimitExceeded
from windlass.kernel import (
    Chain,
    DriverView,
    Finish,
    Finished,
    Json,
    ToolSpec,
    TurnMachine,
    TurnSnapshot,
)

NAME_RULE = "a letter or _, then up to 63 of A-Z a-z 0-9 _ -"


@pytest.mark.parametrize("field", ["max_iterations", "max_context_tokens"])
@pytest.mark.parametrize("count", [None, 0, 1, 10**9])
def test_a_count_of_zero_or_more_or_none_is_taken(field: str, count: int | None) -> None:
    given: dict[str, Any] = {field: count}

    assert getattr(config(**given), field) == count


@pytest.mark.parametrize("field", ["max_iterations", "max_context_tokens"])
@pytest.mark.parametrize(
    ("count", "found"), [(-1, -1), (True, True), (1.5, "float"), ("3", "str")], ids=str
)
def test_any_other_count_is_refused(field: str, count: object, found: object) -> None:
    given: dict[str, Any] = {field: count}

    with pytest.raises(InvalidInput) as refused:
        config(**given)
    error = refused.value
    assert str(error) == f"TurnConfig.{field}: found {found}, wanted a whole number of 0 or more"
    assert (error.field, error.found) == (f"TurnConfig.{field}", found)
    assert error.wanted == "a whole number of 0 or more"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session_id", "no id"),
        ("session_id", ""),
        ("turn_id", "a/b"),
        ("turn_id", 7),
        ("model", "\x00"),
        ("model", None),
        ("system_prompt", "\ud800"),
        ("system_prompt", None),
        ("turn_limit_message", "\x00"),
    ],
    ids=ascii,
)
def test_a_turn_that_could_not_run_is_refused_by_its_field(field: str, value: object) -> None:
    given: dict[str, Any] = {field: value}

    with pytest.raises(InvalidInput) as refused:
        config(**given)
    assert refused.value.field == f"TurnConfig.{field}"


# --- tools -------------------------------------------------------------------------------------


def test_any_iterable_of_tools_is_taken() -> None:
    assert config(tools=[ADD]).tools == (ADD,)
    assert config(tools=iter([ADD])).tools == (ADD,)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        config(tools=(ADD, ToolSpec(name="look"), ADD))
    assert refused.value.field == "TurnConfig.tools"
    assert refused.value.wanted == "each name once"


def test_512_tools_are_taken_and_one_more_is_refused() -> None:
    tools = tuple(ToolSpec(name=f"t{n}") for n in range(513))
    assert len(config(tools=tools[:512]).tools) == 512

    with pytest.raises(LimitExceeded) as refused:
        config(tools=tools)
    assert (refused.value.field, refused.value.found, refused.value.wanted) == (
        "TurnConfig.tools",
        513,
        512,
    )


@pytest.mark.parametrize("name", ["a", "A", "_", "a-b_9", "x" * 64])
def test_a_name_that_every_provider_takes_is_taken(name: str) -> None:
    assert ToolSpec(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", "9a", "-a", "a b", "a.b", "a\n", "é", "x" * 65, "\x00", 7, None], ids=ascii
)
def test_a_name_that_some_provider_refuses_is_refused(name: Json) -> None:
    with pytest.raises(InvalidInput) as refused:
        ToolSpec(name=name)
    assert (refused.value.field, refused.value.wanted) == ("ToolSpec.name", NAME_RULE)


def test_an_unclean_description_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        ToolSpec(name="t", description="\x00")
    assert refused.value.field == "ToolSpec.description"


# --- what a driver sees ------------------------------------------------------------------------


def test_a_driver_sees_how_its_turn_was_set_up() -> None:
    seen: list[DriverView] = []

    def prepare(view: DriverView) -> list[Finish]:
        seen.append(view)
        return [Finish(outcome=Finished())]

    turn = TurnMachine(
        config(
            Chooses(prepare=prepare),
            autonomous=True,
            termination={"schema": [1]},
            max_iterations=7,
        ),
        [user("hi")],
        iteration_offset=3,
    )
    drain(turn)

    (view,) = seen
    assert (view.autonomous, view.termination) == (True, {"schema": [1]})
    assert (view.iteration, view.iteration_offset, view.max_iterations) == (3, 3, 7)
    assert (list(view.messages), list(view.records), view.causes) == ([user("hi")], [], ())
    assert (view.limit_due, view.force_exit) == (False, False)
    assert view.message_id("reply") == "m_3633887835d74bdc.3.reply"


def test_by_default_a_turn_is_neither_autonomous_nor_limited() -> None:
    plain = config()

    assert (plain.autonomous, plain.termination, plain.max_iterations) == (False, None, None)
    assert (plain.sync_environment, plain.emit_trace) == (False, False)
    assert (plain.system_prompt, plain.tools) == ("", ())


# --- snapshots that do not fit -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session_id", "s2"),
        ("turn_id", "t2"),
        ("iteration", -1),
        ("iteration_offset", 1),
        ("iteration_offset", -1),
        ("next_effect", 1),
        ("next_effect", 0),
        ("next_message", -1),
        ("next_event", -1),
        ("told_records", -1),
        ("told_records", 9),
    ],
)
def test_a_snapshot_that_does_not_fit_its_turn_is_refused_by_its_field(
    field: str, value: object
) -> None:
    snapshot = machine_in("waiting_model").snapshot()
    given: dict[str, Any] = {field: value}

    with pytest.raises(InvalidInput) as refused:
        TurnMachine.restore(config_for("waiting_model"), msgspec.structs.replace(snapshot, **given))
    named = "iteration" if field == "iteration_offset" else field
    assert str(refused.value) == f"snapshot.{named}: found a value that does not fit this turn"
    assert (refused.value.field, refused.value.wanted) == (
        f"snapshot.{named}",
        "a snapshot of this turn, as it was taken",
    )


def test_a_snapshot_names_its_turn_and_its_format() -> None:
    snapshot = machine().snapshot()

    assert (snapshot.format, snapshot.session_id, snapshot.turn_id) == (1, "s1", "t1")
    assert snapshot.format == TurnSnapshot.FORMAT


def test_a_snapshot_shares_the_history_and_does_not_follow_it() -> None:
    turn = machine_in("waiting_checkpoint")
    snapshot = turn.snapshot()

    assert isinstance(snapshot.messages, Chain)
    assert snapshot.messages is turn.messages
    turn.finish(Finished())
    assert snapshot.state.name == "waiting_checkpoint"


def test_an_offset_below_zero_is_refused() -> None:
    with pytest.raises(InvalidInput):
        TurnMachine(config(), [user("hi")], iteration_offset=-1)


def test_a_machine_takes_any_iterable_of_messages_and_records() -> None:
    turn = TurnMachine(config(), iter([user("hi")]), records=iter(()))

    assert ask(turn).request.messages[0].role == "user"
