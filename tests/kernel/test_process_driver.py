"""The process driver: one function is the whole turn, and its end is the turn's."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel import strategies as world
from tests.kernel.builders import config, drain, only
from tests.kernel.restoring import Services, check
from windlass.kernel import (
    CodeFinished,
    CodeResult,
    CodeReturned,
    Error,
    Failure,
    Finish,
    FinishedValue,
    HandedOff,
    Outcome,
    RunCode,
    Stopped,
    TurnConfig,
    TurnMachine,
)
from windlass.kernel.process import PROCESS, ProcessDriver


def process() -> TurnConfig:
    return config(ProcessDriver("process:onboard"))


def begun() -> tuple[TurnMachine, RunCode]:
    machine = TurnMachine(process(), ())
    asked = drain(machine)[-1]
    assert isinstance(asked, RunCode)
    return machine, asked


def ended(result: CodeResult | Failure) -> tuple[Outcome | None, list[Error]]:
    machine, asked = begun()
    machine.respond(CodeReturned(id=asked.id, result=result))
    effects = drain(machine)
    assert machine.is_done
    assert len(only(CodeFinished, effects)) == 1
    return machine.outcome, only(Error, effects)


def test_the_function_is_the_first_effect_and_the_only_one() -> None:
    machine, asked = begun()

    assert asked == RunCode(id=1, language=PROCESS, code="process:onboard")
    assert tuple(machine.records) == ()


def test_what_it_returns_is_the_outcome() -> None:
    assert ended(CodeResult(value={"paid": 5}, finished=True)) == (
        FinishedValue(value={"paid": 5}),
        [],
    )
    assert ended(CodeResult(finished=True)) == (FinishedValue(value=None), [])


def test_one_that_did_not_finish_goes_on_with_the_value() -> None:
    assert ended(CodeResult(value={"page": 2})) == (
        HandedOff(target="process:onboard", task={"page": 2}),
        [],
    )


def test_what_it_raises_stops_the_turn() -> None:
    outcome, errors = ended(CodeResult(error="ValueError: no"))

    assert outcome == Stopped(reason="runtime_error", detail="ValueError: no")
    assert [(one.message, one.code) for one in errors] == [("ValueError: no", "process_failed")]


def test_a_host_that_failed_stops_it_too() -> None:
    outcome, errors = ended(Failure(message="gone"))

    assert outcome == Stopped(reason="runtime_error", detail="gone")
    assert [one.message for one in errors] == ["gone"]


def test_an_error_in_no_words_is_an_error() -> None:
    outcome, _ = ended(CodeResult(value=1, finished=True, error=""))

    assert outcome == Stopped(reason="runtime_error", detail="")


def test_a_reply_or_results_end_it_because_it_asked_for_none() -> None:
    driver = ProcessDriver("p")
    wanted = Stopped(reason="runtime_error", detail="A process asks no model and calls no tool.")

    assert driver.on_model() == [Finish(outcome=wanted)]
    assert driver.on_tools() == [Finish(outcome=wanted)]
    assert driver.close() == []


def test_ended_from_outside_it_asks_for_nothing_more() -> None:
    machine, _ = begun()
    machine.finish(Stopped(reason="cancelled", detail="by hand"))

    assert not any(isinstance(one, RunCode) for one in drain(machine))
    assert machine.outcome == Stopped(reason="cancelled", detail="by hand")


RESULTS = st.builds(Failure, message=world.words()) | st.builds(
    CodeResult,
    value=st.none() | st.integers() | st.lists(world.words()),
    error=st.none() | world.words(),
    finished=st.booleans(),
)


@settings(deadline=None)
@given(result=RESULTS, stop_at=st.sampled_from((1, 7)), in_failure=st.booleans())
def test_restored_anywhere_it_says_the_same(
    result: CodeResult | Failure, stop_at: int, *, in_failure: bool
) -> None:
    services = Services(cells=(result,), stop_at=stop_at, stop_in_failure=in_failure)

    assert check(lambda setting: TurnMachine(setting, ()), process, services) >= 2
