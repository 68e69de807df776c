"""Repair: a frame that begins with the same history, but for what a provider does not take.

Law 1. Nothing is rewritten. The frame before stays readable with all that is hidden from here on.
Law 2. What is left pairs: a call keeps its result, and a result without its call goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import is_

import msgspec

from windlass.kernel.actions import Action, Append, Finish
from windlass.kernel.chain import Chain
from windlass.kernel.driver import DriverView
from windlass.kernel.history_view import (
    HistoryView,
    MessageReplaced,
    attachment_name,
    shown_messages,
)
from windlass.kernel.messages import (
    Attachment,
    ConversationRecord,
    DriverRecord,
    Message,
    Part,
    Record,
    ResultPart,
    Text,
    ToolResult,
)
from windlass.kernel.outcomes import Finished

REPAIR = "repair"


def repair(view: DriverView, hide: Collection[str], *, attachments: bool) -> list[Action]:
    """Return what begins a frame without these messages, and without attachments; nothing to hide opens none."""
    history = view.messages
    shown = repaired(history, hide, attachments=attachments)
    if shown.length == history.length and all(map(is_, shown, history)):
        return [Finish(outcome=Finished(text=""))]
    n_files = sum(map(n_attachments, history)) - sum(map(n_attachments, shown))
    detail = {"hidden": sorted(hide), "attachments": n_files}
    kept = [
        ConversationRecord(
            message=msgspec.structs.replace(message, id=view.message_id(f"kept{at}"))
        )
        for at, message in enumerate(shown)
    ]
    told = (
        f"Hidden from the model: {_count(len(hide), 'message')}, {_count(n_files, 'attachment')}."
    )
    return [
        Append(records=(DriverRecord(data={REPAIR: detail}), *kept)),
        Finish(outcome=Finished(text=told)),
    ]


def repaired(
    history: Chain[Message], hide: Collection[str], *, attachments: bool
) -> Chain[Message]:
    """Return a history without these messages; attachments stand there by their names."""
    named = [
        MessageReplaced(id=message.id, parts=tuple(map(_named, message.parts)))
        for message in history
        if attachments and message.id not in hide and n_attachments(message)
    ]
    return shown_messages(history, HistoryView(drop=tuple(hide), replace=tuple(named)))


def repaired_records(records: Iterable[Record]) -> tuple[DriverRecord, Sequence[Record]] | None:
    """Return what a repair said of itself and the messages that it kept; None: there was no repair."""
    listed = list(records)
    for at, record in enumerate(listed):
        if type(record) is DriverRecord and isinstance(record.data, dict) and REPAIR in record.data:
            return record, listed[at + 1 :]
    return None


def n_attachments(message: Message) -> int:
    """Return how many attachments a message has, those of its results included."""
    return sum(
        len([one for one in part.content if type(one) is Attachment])
        if type(part) is ToolResult
        else type(part) is Attachment
        for part in message.parts
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _named(part: Part) -> Part:
    if isinstance(part, ToolResult):
        content: list[ResultPart] = [
            Text(text=attachment_name(one)) if isinstance(one, Attachment) else one
            for one in part.content
        ]
        return msgspec.structs.replace(part, content=tuple(content))
    return Text(text=attachment_name(part)) if isinstance(part, Attachment) else part
