"""Errands: what is refused where one is made, where it goes, and the order in which sessions are locked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.refusals import refused
from windlass.kernel import canonical
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    MoveSession,
    NewItem,
    NewTurn,
    PostItem,
    TurnRequest,
    Unit,
    WaitAnswer,
    lock_order,
    sessions_of,
    target_of,
)

NEW = NewTurn(agent="helper", request=TurnRequest())


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"session_id": "a/b"}, "AcceptTurn.session_id"),
        ({"turn_id": ""}, "AcceptTurn.turn_id"),
        ({"kind": "zombie"}, "AcceptTurn.kind"),
        ({"most": -1}, "AcceptTurn.most"),
        ({"most": True}, "AcceptTurn.most"),
        ({"most": 1.0}, "AcceptTurn.most"),
        ({"label": 7}, "AcceptTurn.label"),
        ({"label": "a\x00"}, "AcceptTurn.label"),
        ({"parent": "a/b"}, "AcceptTurn.parent"),
    ],
)
def test_a_turn_to_be_accepted_has_a_place_a_kind_and_a_count(
    fields: dict[str, Any], field: str
) -> None:
    good: dict[str, Any] = {"session_id": "c1", "turn_id": "t1", "turn": NEW}
    for most in (None, 0, 3):
        AcceptTurn(**good, most=most)

    assert refused(lambda: AcceptTurn(**good | fields)).field == field


def test_a_kind_given_by_hand_changes_no_byte() -> None:
    told = AcceptTurn(session_id="c1", turn_id="t1", turn=NEW)
    same = AcceptTurn(session_id="c1", turn_id="t1", turn=NEW, kind="".join(["ch", "at"]))  # type: ignore[arg-type]  # a kind

    assert canonical.encode(same) == canonical.encode(told)


@pytest.mark.parametrize(
    ("errand", "target"),
    [
        (AcceptTurn(session_id="c1", turn_id="t1", turn=NEW), "c1"),
        (PostItem(session_id="s2", item=NewItem(item_id="i1")), "s2"),
        (CancelTurn(session_id="s3", turn_id="t1"), "s3"),
        (MoveSession(session_id="p1", to="s2"), "p1"),
        (AnswerWait(key="w1", answer=WaitAnswer()), "s4"),
        (AnswerWait(key="w9", answer=WaitAnswer()), None),
    ],
)
def test_an_errand_goes_to_the_session_that_it_names_or_that_its_wait_is_of(
    errand: Errand, target: str | None
) -> None:
    assert target_of(errand, {"w1": "s4"}.get) == target


@pytest.mark.parametrize("fields", [{"session_id": "a/b"}, {"to": ""}])
def test_a_move_has_two_places(fields: dict[str, Any]) -> None:
    good = {"session_id": "p1", "to": "s1"}

    assert (
        refused(lambda: MoveSession(**good | fields)).field == f"MoveSession.{next(iter(fields))}"
    )


def test_what_is_above_an_errands_target_is_locked_with_it() -> None:
    new = {"session_id": "c1", "turn_id": "t1", "turn": NEW}
    told: list[tuple[Errand, tuple[str, ...]]] = [
        (AcceptTurn(**new), ("c1",)),  # type: ignore[arg-type]  # fields of it
        (AcceptTurn(**new, parent="s2"), ("c1", "s2")),  # type: ignore[arg-type]  # fields of it
        (MoveSession(session_id="p1", to="s2"), ("p1", "s2")),
        (AnswerWait(key="w1", answer=WaitAnswer()), ("s4",)),
        (AnswerWait(key="w9", answer=WaitAnswer()), ()),
    ]

    assert [sessions_of(errand, {"w1": "s4"}.get) for errand, _ in told] == [one for _, one in told]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"when": "now"}, "NewItem.when"),
        ({"when": "next_turn"}, "NewItem.when"),
        ({"kind": "wake"}, "NewItem.when"),
        ({"kind": "input"}, "NewItem.when"),
        ({"content": None}, "NewItem.content"),
        ({"content": {"value": 1}}, "NewItem.content"),
        ({"content": {"name": ""}}, "NewItem.content"),
        ({"content": {"name": "go", "more": 1}}, "NewItem.content"),
        ({"content": {"name": 7}}, "NewItem.content.name"),
        ({"content": {"name": "g\x00"}}, "NewItem.content.name"),
        ({"content": {"name": "go", "by": 7}}, "NewItem.content.by"),
    ],
)
def test_a_signal_is_asked_for_by_a_name_and_nothing_else_is(
    fields: dict[str, Any], field: str
) -> None:
    good: dict[str, Any] = {
        "item_id": "k1",
        "kind": "signal",
        "when": "asked",
        "content": {"name": "go"},
    }
    NewItem(**good)
    NewItem(**good | {"content": {"name": "go", "value": [1], "by": "eva"}})

    assert refused(lambda: NewItem(**good | fields)).field == field


def test_sessions_are_locked_once_each_whoever_names_them_in_which_order() -> None:
    assert lock_order(["s10", "a", "s2", "a", "Z"]) == ("Z", "a", "s10", "s2")
    assert lock_order(reversed(["s10", "a", "s2", "a", "Z"])) == ("Z", "a", "s10", "s2")
    assert lock_order(()) == ()


def test_a_unit_with_errands_is_the_owners() -> None:
    errand = CancelTurn(session_id="s3", turn_id="t1")

    assert not Unit(session_id="s1", turn_id="t1").is_fenced
    assert Unit(session_id="s1", turn_id="t1", errands=(errand,)).is_fenced
