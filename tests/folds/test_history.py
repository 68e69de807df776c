"""The history that a turn began with, and whether its facts can depend on it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.folds.rows import calls, ended, looked, page, reply, said, started, view
from tests.folds.told import DONE
from windlass.errors import InvalidInput
from windlass.folds import history_before, needs_history
from windlass.journal import FrameOpened, HistoryPage, NodeBody
from windlass.kernel import ConversationRecord, DriverRecord, Message, Text
from windlass.ports import SessionView, TurnRequest, TurnView


def added(*bodies: Message | NodeBody) -> HistoryPage:
    nodes = tuple(
        ConversationRecord(message=one) if isinstance(one, Message) else one for one in bodies
    )
    return HistoryPage(format=HistoryPage.FORMAT, turn_id="t", nodes=nodes, outcome=DONE)


FRAME = FrameOpened(frame_id="f", carries=True)
PAGES = (
    added(said("one", "m1"), said("two", "m2", "assistant")),
    added(FRAME, said("sum", "m3")),
    added(said("three", "m4"), DriverRecord(data={"a": 1}), said("four", "m5", "assistant")),
)


def session(*, first: int = 0, head: int = 3) -> SessionView:
    """Return a session with its pages from one on."""
    return SessionView(
        session_id="s", agent="a", created_ms=0, head=head, generation=1, pages=PAGES[first:head]
    )


def ids(found: SessionView, turn: TurnView) -> list[str]:
    return [message.id for message in history_before(found, turn)]


def test_a_turn_under_way_began_with_all_that_its_frame_holds() -> None:
    assert ids(session(), view()) == ["m3", "m4", "m5"]
    assert ids(session(first=1), view()) == ["m3", "m4", "m5"]
    assert ids(session(head=1), view()) == ["m1", "m2"]
    assert ids(session(head=0), view()) == []


@pytest.mark.parametrize(("head", "before"), [(1, []), (2, ["m1", "m2"]), (3, ["m3"])])
def test_a_turn_that_has_ended_began_with_what_came_before_it(head: int, before: list[str]) -> None:
    """The second opened the frame itself: it summed up the one before."""
    assert ids(session(), ended(view(), DONE, head=head)) == before


@pytest.mark.parametrize("head", [1, 2])
def test_a_session_that_was_read_from_a_later_frame_on_is_not_enough(head: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        history_before(session(first=1), ended(view(), DONE, head=head))

    assert refused.value.field == "session.pages"
    assert ids(session(first=1), ended(view(), DONE, head=3)) == ["m3"]


def test_a_session_without_its_history_is_not_enough() -> None:
    with pytest.raises(InvalidInput):
        history_before(session(first=3), view())


SILENT = TurnRequest()


@pytest.mark.parametrize(
    ("turn", "needs"),
    [
        pytest.param(view(), False, id="not begun"),
        pytest.param(view(page(started(), reply(1))), False, id="words"),
        pytest.param(view(page(started(), reply(1, calls("work")))), True, id="calls"),
        pytest.param(view(page(started(), reply(1)), page(looked(1, calls("work")))), True, id="calls of plugins"),
        pytest.param(view(page(started(), looked(1))), False, id="looked at"),
        pytest.param(view(page(started(driver="compaction"))), True, id="sums up"),
        pytest.param(view(page(started()), request=SILENT), True, id="no words of its own"),
        pytest.param(view(page(started(messages=(said("Go.", "p"),))), request=SILENT), False, id="words of plugins"),
        pytest.param(view(page(started(input=(Text(text="Go."),))), request=None), False, id="other words"),
    ],
)  # fmt: skip
def test_facts_can_depend_on_history_only_where_something_of_it_is_looked_at(
    turn: Any,  # noqa: ANN401 - a view
    needs: bool,
) -> None:
    assert needs_history(turn) is needs
