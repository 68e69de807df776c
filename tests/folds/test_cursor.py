"""Cursors: what is written is read; what was not written, or for another session, is refused."""

from __future__ import annotations

import pytest

from tests.folds.rows import calls, ended, entered, page, reply, result, started, view, wait
from tests.folds.told import DONE, end, fact, used
from windlass.errors import InvalidInput
from windlass.folds import (
    BEGINNING,
    Cursor,
    Place,
    facts_behind,
    facts_of,
    place_of,
    read_cursor,
    write_cursor,
)
from windlass.kernel import TextDelta

# The digits are what `printf s | sha256sum` begins with.
MARK = "043a718774c572bd"[:8]
LONGEST = "x" * 128

# ---------------------------------------------------------------------- writing and reading


@pytest.mark.parametrize(
    ("live", "place", "text"),
    [
        ("f1.17", Place("t", "12"), f"{MARK}/f1.17/t/12"),
        ("", Place("t", "wait1.over"), f"{MARK}//t/wait1.over"),
        ("f.1.0", Place("t", ""), f"{MARK}/f.1.0/t/"),
        ("", BEGINNING, f"{MARK}///"),
        ("f1.0", Place("t", "4.item-1"), f"{MARK}/f1.0/t/4.item-1"),
        ("f1.0", Place("t", "end"), f"{MARK}/f1.0/t/end"),
    ],
)
def test_a_cursor_is_text_that_says_the_same_when_it_is_read(
    live: str, place: Place, text: str
) -> None:
    assert write_cursor("s", live, place) == text
    assert read_cursor(text, "s") == Cursor(live, place)


def test_the_longest_cursor_can_be_read() -> None:
    place = Place(LONGEST, f"{10**18 - 1}.{LONGEST}")
    text = write_cursor("s", f"{LONGEST}.{10**18 - 1}", place)

    assert read_cursor(text, "s").place == place


def test_a_cursor_of_another_session_is_refused() -> None:
    text = write_cursor("other", "f1.1", Place("t", "1"))

    with pytest.raises(InvalidInput, match="one of another session"):
        read_cursor(text, "s")


HOSTILE = {
    "bytes": b"x",
    "none": None,
    "a number": 7,
    "nothing": "",
    "one part": MARK,
    "three parts": f"{MARK}//t",
    "five parts": f"{MARK}//t/1/",
    "a million digits": f"{MARK}//t/{'9' * 10**6}",
    "too long": f"{MARK}//{'t' * 600}/",
    "a feed without position": f"{MARK}/f1/t/1",
    "a position alone": f"{MARK}/.1/t/1",
    "a position that is none": f"{MARK}/f1.x/t/1",
    "a position of another spelling": f"{MARK}/f1.01/t/1",
    "a position in other digits": f"{MARK}/f1.\u0661/t/1",
    "a feed that is no id": f"{MARK}/f 1.1/t/1",
    "a turn that is no id": f"{MARK}//t\n/1",
    "a turn that is too long": f"{MARK}//{'t' * 129}/1",
    "a fact without a turn": f"{MARK}///1",
    "a fact that cannot be one": f"{MARK}//t/first",
    "a fact of another spelling": f"{MARK}//t/01",
    "a fact in other digits": f"{MARK}//t/\u0661",
    "a fact with a newline": f"{MARK}//t/1\n",
    "a wait that is none": f"{MARK}//t/wait",
    "a wait that is half over": f"{MARK}//t/wait1.ove",
    "an item that is no id": f"{MARK}//t/4.a b",
    "an item without an id": f"{MARK}//t/4.",
    "words behind the end": f"{MARK}//t/end.",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_cursor_is_refused_and_not_repeated(text: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_cursor(text, "s")  # type: ignore[arg-type]  # wrong on purpose

    assert refused.value.field == "cursor"
    assert len(str(refused.value)) < 120


# ---------------------------------------------------------------------- places

TURN = ended(
    view(
        page(started(), reply(1, calls("work")), result(2), entered(3, taken=("i.1",))),
        page(reply(4)),
        waits=(wait("w", 1),),
    ),
    DONE,
)
FACTS = facts_of(TURN)


def test_every_fact_has_a_place_of_its_own() -> None:
    places = [place_of(one, "s", "t") for one in FACTS]

    assert [place.fact for place in places] == ["1", "2", "3", "3.i.1", "wait1", "5", "7", "end"]
    assert {place.turn_id for place in places} == {"t"}


def test_from_every_place_the_rest_is_exactly_the_rest() -> None:
    for at, one in enumerate(FACTS):
        text = write_cursor("s", "f1.9", place_of(one, "s", "t"))

        assert facts_behind(FACTS, read_cursor(text, "s").place) == list(FACTS[at + 1 :])


def test_before_the_first_fact_all_of_them_are_the_rest() -> None:
    assert facts_behind(FACTS, Place("t", "")) == list(FACTS)


@pytest.mark.parametrize("missing", ["4", "wait2", "3.i.2", "wait1.over"])
def test_a_place_behind_a_fact_that_is_not_there_is_refused(missing: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        facts_behind(FACTS, Place("t", missing))

    assert refused.value.field == "cursor"


@pytest.mark.parametrize(
    ("event", "turn_id"), [(used(1, 1), "other"), (fact(TextDelta, 2, 1, text="a"), "t")]
)
def test_only_a_fact_of_the_turn_has_a_place_in_it(event: object, turn_id: str) -> None:
    with pytest.raises(InvalidInput):
        place_of(event, "s", turn_id)  # type: ignore[arg-type]  # an event


def test_the_end_of_a_turn_is_a_place() -> None:
    assert facts_behind(FACTS, place_of(end(), "s", "t")) == []
