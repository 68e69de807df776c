"""A fold goes on with later views; it can be of a part of a turn; and it shows what the turn has said."""

from __future__ import annotations

import msgspec
import pytest

from tests.folds.rows import calls, ended, page, reply, result, said, started, view, wait
from tests.folds.told import DONE, WORK, end, replied, used
from windlass.errors import InvalidInput
from windlass.folds import TurnFold, facts_of
from windlass.kernel import Chain, Message, Text
from windlass.ports import TurnRequest, TurnView

PAGES = (page(started(), reply(1, calls("work"))), page(result(2)), page(reply(4)))
WAITS = (wait("w1", 1), wait("w2", 2), wait("w3", 3))
WHOLE = ended(view(*PAGES, waits=WAITS), DONE, said("Go.", "u"), said("Done.", "a", "assistant"))


def since(turn: TurnView, at: int) -> TurnView:
    """Return a view that was read from a page on."""
    return msgspec.structs.replace(turn, pages=turn.pages[at:], since=at)


# ---------------------------------------------------------------------- going on


def test_a_fold_goes_on_where_it_was() -> None:
    fold = TurnFold.of(view(PAGES[0], waits=WAITS[:1]))
    seen = len(fold.facts)
    fold.absorb(since(view(*PAGES[:2], waits=WAITS[:2]), 1))
    assert [one.id[-6:] for one in fold.facts[seen:]] == ["c5f0.3", ".wait2"]
    fold.absorb(since(WHOLE, 2))

    assert (fold.n_pages, fold.n_waits, fold.outcome) == (3, 3, DONE)
    assert fold.facts == list(facts_of(WHOLE))


def test_what_a_fold_has_seen_is_not_told_again() -> None:
    fold = TurnFold.of(WHOLE)
    for again in (WHOLE, since(WHOLE, 2), view(PAGES[0])):
        fold.absorb(again)

    assert fold.facts == list(facts_of(WHOLE))
    assert fold.facts.count(end()) == 1


def test_a_view_that_begins_behind_the_next_page_has_a_hole() -> None:
    fold = TurnFold.of(view(PAGES[0]))

    with pytest.raises(InvalidInput, match=r"view\.since: found 2, wanted 1 or less"):
        fold.absorb(since(WHOLE, 2))
    assert fold.n_pages == 1


@pytest.mark.parametrize("place", [{"turn_id": "other"}, {"session_id": "other"}])
def test_a_view_of_another_turn_is_refused(place: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        TurnFold.of(view()).absorb(msgspec.structs.replace(WHOLE, **place))

    assert refused.value.field == "view"


# ---------------------------------------------------------------------- a part of it


@pytest.mark.parametrize(
    ("pages", "waits", "n_facts"),
    [
        (0, 0, 0),
        (1, 0, 2),
        (1, 1, 3),
        (2, 1, 4),
        (2, 9, 5),
        (3, 2, 7),
        (3, None, 8),
        (None, 3, 8),
        (9, 9, 8),
    ],
)
def test_a_part_of_a_turn_tells_the_first_facts_of_the_whole(
    pages: int | None, waits: int | None, n_facts: int
) -> None:
    fold = TurnFold.of(WHOLE, pages=pages, waits=waits)
    whole = list(facts_of(WHOLE))

    assert len(whole) == 9
    assert fold.facts == whole[:n_facts]
    assert fold.outcome is None
    fold.absorb(WHOLE)
    assert fold.facts == whole


# ---------------------------------------------------------------------- what the turn has said


def texts(fold: TurnFold) -> list[str]:
    return [
        part.text if isinstance(part, Text) else type(part).__name__
        for message in fold.messages
        for part in message.parts
    ]


def test_before_its_start_record_a_turn_has_said_nothing() -> None:
    assert TurnFold.of(view()).messages == ()


def test_a_turn_has_said_what_it_began_with_and_what_came_back() -> None:
    first = started(messages=(said("Remember.", "p"),), input=(Text(text="Go, please."),))
    begun = TurnFold.of(view(page(first)))
    assert texts(begun) == ["Remember.", "Go, please."]
    begun.absorb(since(view(page(first), page(reply(1, calls("work")))), 1))
    assert texts(begun) == ["Remember.", "Go, please.", "ToolCall"]
    assert begun.messages[1].id == "m_74f1b1e01f63c5f0.in.input"


def test_what_was_said_before_the_turn_is_not_said_by_it() -> None:
    before: Chain[Message] = Chain([said("Hello.", "u"), said("Well.", "a", "assistant")])

    assert texts(TurnFold.of(view(*PAGES), before)) == ["Go.", "ToolCall", "ToolResult", "Done."]


def test_a_turn_that_has_ended_has_said_what_it_added_to_the_history() -> None:
    assert texts(TurnFold.of(WHOLE)) == ["Go.", "Done."]


def test_a_turn_without_input_has_said_what_came_back() -> None:
    turn = view(page(started(), reply(1)), request=TurnRequest())

    assert texts(TurnFold.of(turn)) == ["Done."]
    assert facts_of(turn) == (used(1, 1), replied(3, 1))
    assert facts_of(view(PAGES[0])) == (used(1, 1), replied(2, 1, "", WORK))
