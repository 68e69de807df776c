"""What is known of a turn that has ended: the same whether this worker drove it or a store remembers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from windlass.journal import HistoryPage, NodeBody, ToolCallCommand, TurnJournal, UsageLine
from windlass.journal.moments import CallPresented, CallReturned, ModelAnswered
from windlass.kernel import (
    Attachment,
    ConversationRecord,
    Message,
    Outcome,
    events,
)
from windlass.kernel.messages import ToolCall, ToolResult, answer_in
from windlass.kernel.outcomes import Finished, FinishedByTool, FinishedValue
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome, as_text
from windlass.ports import TurnCommit

if TYPE_CHECKING:
    # A record is read by many who drive no turn.
    from windlass.runtime.turn import Turn


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An ended turn; `recorded` are its calls as they were recorded, as far as that is known."""

    session_id: str
    turn_id: str
    outcome: Outcome
    nodes: Sequence[NodeBody] = ()
    recorded: Sequence[CompletedToolCall] = ()
    usage: tuple[UsageLine, ...] = ()
    issues: tuple[events.Error, ...] = ()
    iterations: int = 0
    duration_ms: int = 0
    # Whether its plugins put something into the inbox that begins another turn.
    left_something: bool = False

    @classmethod
    def of_turn(cls, turn: Turn, commit: TurnCommit) -> TurnRecord:
        """Return the record of a turn that was just committed."""
        started_ms = turn.started.started_ms if turn.started is not None else commit.now_ms
        return cls(
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            outcome=commit.outcome,
            nodes=commit.nodes,
            recorded=turn.completed,
            usage=commit.usage,
            issues=tuple(turn.issues),
            iterations=turn.spent.model_calls,
            duration_ms=max(0, commit.now_ms - started_ms),
            left_something=bool(commit.follow_ups),
        )

    @classmethod
    def of_page(cls, session_id: str, page: HistoryPage, journal: TurnJournal | None) -> TurnRecord:
        """Return the record of a turn as the store keeps it; its journal may be gone by now."""
        messages = messages_in(page.nodes)
        started_ms = page.committed_ms
        recorded: tuple[CompletedToolCall, ...] = ()
        iterations = sum(message.role == "assistant" for message in messages)
        if journal is not None and journal.started is not None:
            started_ms = journal.started.started_ms
            recorded = tuple(_with_records(journal, _calls_in(messages, {})))
            rows = journal.rows()
            iterations = sum(isinstance(row.outcome, ModelAnswered) for row in rows)
        return cls(
            session_id=session_id,
            turn_id=page.turn_id,
            outcome=page.outcome,
            nodes=page.nodes,
            recorded=recorded,
            usage=page.usage,
            issues=tuple(one for one in page.events if isinstance(one, events.Error)),
            iterations=iterations,
            duration_ms=max(0, page.committed_ms - started_ms),
        )

    # Most callers read neither of the two.

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """What the turn has added to the history."""
        return messages_in(self.nodes)

    @cached_property
    def tool_calls(self) -> tuple[CompletedToolCall, ...]:
        """The calls of those messages, in order."""
        return tuple(_calls_in(self.messages, {call.call_id: call for call in self.recorded}))

    @property
    def text(self) -> str:
        """The value that the turn ended with, as text, or the model's last words."""
        outcome = self.outcome
        if isinstance(outcome, Finished):
            return outcome.text
        # A tool may end a turn without a value.
        if isinstance(outcome, FinishedValue) or (
            isinstance(outcome, FinishedByTool) and outcome.value is not None
        ):
            return as_text(outcome.value)
        return last_words(self.messages)


def last_words(messages: Iterable[Message]) -> str:
    """Return the text of the last message that the model ended with."""
    for message in reversed(tuple(messages)):
        if message.role == "assistant":
            return answer_in(message.parts)
    return ""


def messages_in(nodes: Iterable[NodeBody]) -> tuple[Message, ...]:
    """Return the messages among what a turn added."""
    return tuple([node.message for node in nodes if type(node) is ConversationRecord])


def attached_to(messages: Iterable[Message]) -> Iterator[str]:
    """Return the digests of the bytes that messages refer to; one may come more than once."""
    for message in messages:
        for part in message.parts:
            for one in getattr(part, "content", (part,)):
                if type(one) is Attachment:
                    yield one.ref


def _calls_in(
    messages: Iterable[Message], raw: Mapping[str, CompletedToolCall]
) -> Iterator[CompletedToolCall]:
    """Return the calls that messages ask for and answer: raw where that is known, else as they were shown."""
    asked: dict[str, ToolCall] = {}
    for message in messages:
        for part in message.parts:
            if type(part) is ToolCall:
                asked[part.call_id] = part
            elif type(part) is ToolResult and part.call_id in asked:
                yield raw.get(part.call_id) or _as_shown(asked[part.call_id], part)


def _as_shown(call: ToolCall, result: ToolResult) -> CompletedToolCall:
    return CompletedToolCall(
        call_id=call.call_id,
        name=call.name,
        args=call.args,
        outcome=ToolOutcome(status=result.status, content=result.content),
    )


def calls_so_far(journal: TurnJournal) -> tuple[CompletedToolCall, ...]:
    """Return the calls of an unfinished turn that have their result, as the turn continues with them.

    Results that plugins have not looked at yet are left out.
    """
    looks = () if journal.started is None else journal.started.looks
    calls = _recorded_calls(journal)
    return tuple([found[0] for found in calls if len(found) > 1 or "tools" not in looks])


def _recorded_calls(journal: TurnJournal) -> Iterator[tuple[CompletedToolCall, ...]]:
    """Yield each call that has a result: as plugins left it, if they looked at it, then as it came."""
    for row in journal.rows():
        if isinstance(row.command, ToolCallCommand) and isinstance(row.outcome, CallReturned):
            raw = CompletedToolCall(
                call_id=row.command.call_id,
                name=row.command.name,
                args=row.command.args,
                outcome=row.outcome.outcome,
                duration_ms=row.outcome.duration_ms,
            )
            seen = journal.row(f"{row.key.replace('/tool_call/', '/tool_hooks/')}/presented")
            if seen is None or not isinstance(seen.outcome, CallPresented):
                yield (raw,)
            else:
                outcome = seen.outcome.outcome or raw.outcome
                yield msgspec.structs.replace(raw, outcome=outcome), raw


def _with_records(
    journal: TurnJournal, shown: Iterable[CompletedToolCall]
) -> Iterator[CompletedToolCall]:
    """Give each call the arguments that really ran and its whole outcome, as far as they are recorded.

    What does not say the same as the history was changed or withheld before the turn went on: it stays in the journal.
    """
    recorded = {versions[0].call_id: versions for versions in _recorded_calls(journal)}
    for call in shown:
        versions = recorded.get(call.call_id)
        if versions is None:
            yield call
            continue
        said = call.as_result(call.name)
        ran = msgspec.structs.replace(versions[0], outcome=call.outcome)
        yield next((one for one in versions if one.as_result(call.name) == said), ran)
