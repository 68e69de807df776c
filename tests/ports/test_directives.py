"""What hooks and policies answer, as it is written in one line."""

from __future__ import annotations

import pytest

from windlass.ports.directives import Abort, Refuse, ReplaceArgs, Retry, ShortCircuit, Stop
from windlass.ports.policy import Ask, Deny


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (Deny("No."), Deny(reason="No.")),
        (Ask("Pay?", "high", "pay"), Ask(title="Pay?", risk="high", action_key="pay")),
        (Refuse("No."), Refuse(reason="No.")),
        (Abort("No."), Abort(reason="No.")),
        (ReplaceArgs({"x": 1}), ReplaceArgs(args={"x": 1})),
        (ShortCircuit(5), ShortCircuit(result=5)),
        (Stop("Enough."), Stop(detail="Enough.")),
        (Retry("Again."), Retry(prompt="Again.")),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_answer_may_be_written_without_naming_what_it_says(short: object, long: object) -> None:
    assert short == long
