"""A repair opens a frame with the same history without what is to be hidden, and asks for nothing."""

from __future__ import annotations

from typing import Any

from tests.kernel.builders import drain
from tests.kernel.compactions import HISTORY, compacting, nodes_of, said
from windlass.journal import FrameOpened
from windlass.kernel import (
    Attachment,
    ConversationRecord,
    Done,
    DriverRecord,
    Finished,
    Message,
    Text,
    ToolResult,
    check_history,
)
from windlass.kernel.chain import Chain
from windlass.kernel.repair import n_attachments, repaired_records

IMAGE = Attachment(ref="ab" * 32, media_type="image/png", name="cat.png")
WITH_FILES = (
    Message(id="f1", role="user", parts=(Text(text="Look."), IMAGE)),
    HISTORY[1],
    Message(
        id="r1",
        role="user",
        parts=(
            ToolResult(call_id="c1", name="find", content=(Text(text="a map"), IMAGE)),
            ToolResult(call_id="c2", name="weather", content=(Text(text="fine"),)),
        ),
    ),
    *HISTORY[3:],
)


def kept_by(history: tuple[Message, ...], **options: Any) -> tuple[FrameOpened, list[Message]]:
    machine = compacting(history, **options)
    asked = drain(machine)
    assert type(asked[-1]) is Done  # no model is asked
    frame, *records = nodes_of(machine, history)
    assert isinstance(frame, FrameOpened)
    messages = [one.message for one in records if isinstance(one, ConversationRecord)]
    assert len(messages) == len(records)
    check_history(Chain(messages))
    return frame, messages


def test_attachments_are_shown_by_their_names_also_in_results() -> None:
    frame, kept = kept_by(WITH_FILES, attachments=True)

    assert (frame.reason, frame.carries) == ("repair", True)
    assert frame.detail == {"hidden": [], "attachments": 2}
    assert kept[0].parts == (Text(text="Look."), Text(text="[attachment cat.png]"))
    assert kept[2].parts == (
        ToolResult(
            call_id="c1",
            name="find",
            content=(Text(text="a map"), Text(text="[attachment cat.png]")),
        ),
        ToolResult(call_id="c2", name="weather", content=(Text(text="fine"),)),
    )
    assert [one.parts for one in kept[3:]] == [one.parts for one in WITH_FILES[3:]]
    assert {one.id for one in kept}.isdisjoint(one.id for one in WITH_FILES)
    assert sum(map(n_attachments, kept)) == 0


def test_a_hidden_message_is_gone_and_the_others_keep_their_attachments() -> None:
    frame, kept = kept_by(WITH_FILES, hide=("f1",))

    assert frame.detail == {"hidden": ["f1"], "attachments": 1}
    assert [one.parts for one in kept] == [one.parts for one in WITH_FILES[1:]]


def test_the_results_of_a_hidden_reply_go_with_it() -> None:
    _, kept = kept_by(HISTORY, hide=("a1",))

    assert [one.parts for one in kept] == [HISTORY[0].parts, *(one.parts for one in HISTORY[3:])]


def test_what_is_hidden_is_not_named_as_well() -> None:
    frame, kept = kept_by(WITH_FILES, hide=("f1",), attachments=True)

    assert frame.detail == {"hidden": ["f1"], "attachments": 2}
    assert kept[0].parts == HISTORY[1].parts


def test_a_whole_history_may_be_hidden() -> None:
    _, kept = kept_by((said("One.", "u1"),), hide=("u1",))

    assert kept == []


def test_nothing_to_hide_opens_no_frame() -> None:
    machine = compacting(HISTORY, attachments=True)
    drain(machine)

    assert machine.outcome == Finished(text="")
    assert nodes_of(machine) == ()


def test_only_its_own_record_tells_of_a_repair() -> None:
    others = (DriverRecord(data=None), DriverRecord(data={"repaired": 1}))

    assert repaired_records(others) is None
