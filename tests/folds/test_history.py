"""The history that a turn began with: the last frame among the pages before it."""

from __future__ import annotations

import pytest

from tests.folds.rows import said
from tests.folds.told import DONE
from windlass.folds import frame_in
from windlass.journal import FrameOpened, HistoryPage, NodeBody
from windlass.kernel import ConversationRecord, DriverRecord, Message


def added(*bodies: Message | NodeBody) -> HistoryPage:
    nodes = tuple(
        ConversationRecord(message=one) if isinstance(one, Message) else one for one in bodies
    )
    return HistoryPage(format=HistoryPage.FORMAT, turn_id="t", nodes=nodes, outcome=DONE)


PAGES = (
    added(said("one", "m1"), said("two", "m2", "assistant")),
    added(FrameOpened(frame_id="f", carries=True), said("sum", "m3")),
    added(said("three", "m4"), DriverRecord(data={"a": 1}), said("four", "m5", "assistant")),
)


@pytest.mark.parametrize(
    ("n_pages", "ids"),
    [(0, []), (1, ["m1", "m2"]), (2, ["m3"]), (3, ["m3", "m4", "m5"])],
)
def test_a_turn_begins_with_the_messages_of_the_last_frame(n_pages: int, ids: list[str]) -> None:
    assert [message.id for message in frame_in(PAGES[:n_pages])] == ids
