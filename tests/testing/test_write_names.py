"""What a crash point calls a unit that acts on other sessions."""

from __future__ import annotations

import pytest

from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    NewItem,
    NewTurn,
    PostItem,
    TurnRequest,
    Unit,
    WaitAnswer,
)
from windlass.testing.crashing.crashing_store import WRITES, WriteNames

NEW = NewTurn(agent="helper", request=TurnRequest())


@pytest.mark.parametrize(
    ("errand", "name"),
    [
        (AcceptTurn(session_id="c", turn_id="t", turn=NEW), "a turn for another session"),
        (PostItem(session_id="s", item=NewItem(item_id="i")), "an item for another session"),
        (AnswerWait(key="w", answer=WaitAnswer()), "an answer for another turn"),
        (CancelTurn(session_id="s", turn_id="t"), "a cancel for another turn"),
    ],
)
def test_a_unit_is_named_after_its_errands_as_well(errand: Errand, name: str) -> None:
    unit = Unit(session_id="s1", turn_id="t1", parks=True, errands=(errand, errand))

    assert WriteNames().of(unit) == f"the turn parks, {name}, {name}"


def test_errands_of_no_unit_are_a_write_at_which_a_process_may_die() -> None:
    assert WRITES["run_errands"] == "errands are run"
