"""The audit of a round: what entered each session, in which order, and what it cost, against the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.durability.queue import office
from tests.durability.queue.worker import file_of, ledger_of
from tests.durability.soak.ledger import Line
from windlass.journal import ModelAnswered
from windlass.kernel import ConversationRecord, ModelReply, Text, ToolResult
from windlass.ports import SessionView, TurnView
from windlass.stores.sqlite import SqliteStore


class Finding(NamedTuple):
    """A rule that does not hold, and where."""

    rule: str
    where: str


class Report(NamedTuple):
    """What an audit came to.

    `lost` are replies that came and are recorded nowhere; `begun_again` how often a turn's hooks ran in a later life;
    `left` how many lives ended by leaving.
    """

    findings: list[Finding]
    bought: int
    lost: list[Line]
    begun_again: int
    left: int


async def audit(folder: Path) -> Report:
    """Look at all sessions of a file, when no worker is left."""
    lines = ledger_of(folder).lines()
    store = SqliteStore(file_of(folder))
    await store.open()
    try:
        found = []
        for session in office.sessions():
            view = await store.load_session(session)
            turns = [await store.load_turn(session, page.turn_id) for page in view.pages]
            own = [line for line in lines if line.session == session]
            known = [turn for turn in turns if turn is not None]
            unfinished = [*((view.active,) if view.active else ()), *view.queued]
            found.append(SessionAudit(view, known, own, unfinished))
    finally:
        await store.close()
    findings = [finding for each in found for finding in each.check()]
    hooks = Counter((line.session, line.call) for line in lines if line.kind == "hook")
    return Report(
        findings=findings + [Finding("leaving", place) for place in _after_leaving(lines)],
        bought=sum(line.kind == "reply" for line in lines),
        lost=[line for each in found for line in each.lost()],
        begun_again=sum(count - 1 for count in hooks.values()),
        left=sum(line.kind == "leaving" for line in lines) - 1,
    )


def _after_leaving(lines: list[Line]) -> Iterator[str]:
    """A process that has begun to leave buys nothing. A call that it has claimed may still act."""
    left: set[str] = set()
    for line in lines:
        if line.kind == "leaving":
            left.add(line.life)
        elif line.life in left and line.kind == "model":
            yield f"life {line.life}: bought for {line.session} {line.call} after it had begun to leave"


class SessionAudit:
    """One session, as the store has it and as the ledger has it."""

    def __init__(
        self, session: SessionView, turns: list[TurnView], lines: list[Line], unfinished: list[str]
    ) -> None:
        self.session = session
        self.turns = turns
        self.lines = lines
        self.unfinished = unfinished
        self.entered = [_said(turn) for turn in turns]

    def check(self) -> Iterator[Finding]:
        """Yield what does not hold."""
        for rule in (
            self._order,
            self._notes,
            self._hooks,
            self._calls,
            self._withheld,
            self._bought,
        ):
            for place in rule():
                yield Finding(rule.__name__[1:], f"{self.session.session_id}: {place}")

    def _order(self) -> Iterator[str]:
        """Everything entered once, in the order in which it was given."""
        order = [name for name in self.entered if name not in office.NOTES]
        if order != office.wanted_order() or self.unfinished:
            yield f"{order}, wanted {office.wanted_order()}; unfinished {self.unfinished}"

    def _notes(self) -> Iterator[str]:
        """A note is in the history once, in a turn that was under way or in one of its own."""
        said = Counter(
            office.name_in(part.text)
            for page in self.session.pages
            for node in page.nodes
            if isinstance(node, ConversationRecord) and node.message.role == "user"
            for part in node.message.parts
            if isinstance(part, Text)
        )
        for name in office.NOTES:
            if said[name] != 1:
                yield f"note {name} was heard {said[name]} times"

    def _hooks(self) -> Iterator[str]:
        """In one life a turn begins once."""
        begun = Counter((line.life, line.call) for line in self.lines if line.kind == "hook")
        for (life, turn), count in begun.items():
            if count > 1:
                yield f"life {life} began {turn} {count} times"

    def _calls(self) -> Iterator[str]:
        """No payment was made twice, and a result that was recorded is the one of the payment."""
        paid = {line.call: line.said["word"] for line in self.lines if line.kind == "tool"}
        runs = Counter(line.call for line in self.lines if line.kind == "tool")
        for call, count in runs.items():
            if count > 1:
                yield f"{call} was paid {count} times"
        for result in self._results():
            # A cancel may come while the plugin looks at a result; `_withheld` says when it may not be withheld.
            if result.status != "ok" or (
                _is_withheld(result) and result.call_id in office.CANCELLED
            ):
                continue
            if paid.get(result.call_id) not in _texts(result):
                yield f"{result.call_id} has another result than its payment"

    def _withheld(self) -> Iterator[str]:
        """What the model was shown of a result stays: no cancel and no crash replaces it."""
        looked: dict[str, str] = {}
        shown: set[str | None] = set()
        for line in self.lines:
            if line.kind == "looked":
                looked[line.said["name"]] = line.call
            elif line.kind == "model":
                shown.add(looked.get(line.call))
        for result in self._results():
            if result.call_id in shown and _is_withheld(result):
                yield f"{result.call_id} was shown, and is withheld"

    def _bought(self) -> Iterator[str]:
        """A reply that came is recorded; a kill costs a session the last one, and the call in flight.

        What a life lost has to be of the turn that it was at in the end: no turn gave way to another.
        """
        lost = self.lost()
        for life in {line.life for line in lost}:
            mine = [line for line in lost if line.life == life]
            last = [line for line in self.lines if line.life == life and line.kind == "model"][-1]
            if len(mine) > 1:
                yield f"life {life} lost {len(mine)} replies"
            elif mine[0].call != last.call and last.call not in office.NOTES:
                yield f"life {life} bought a reply for {mine[0].call}, and went on with {last.call}"

    def lost(self) -> list[Line]:
        """Return the replies that came and are recorded nowhere."""
        kept = {word for turn in self.turns for word in _replies(turn)}
        return [one for one in self.lines if one.kind == "reply" and one.said["word"] not in kept]

    def _results(self) -> Iterator[ToolResult]:
        for page in self.session.pages:
            for node in page.nodes:
                if isinstance(node, ConversationRecord):
                    for part in node.message.parts:
                        if isinstance(part, ToolResult):
                            yield part


def _said(turn: TurnView) -> str:
    """Return which entry a turn began with."""
    assert turn.request is not None
    (part,) = turn.request.input
    assert isinstance(part, Text)
    return office.name_in(part.text)


def _is_withheld(result: ToolResult) -> bool:
    return any("withheld" in text for text in _texts(result))


def _texts(result: ToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, Text)]


def _replies(turn: TurnView) -> Iterator[str]:
    """Return the words of the replies that a turn has recorded."""
    for row in turn.journal().rows():
        answered = row.outcome
        if isinstance(answered, ModelAnswered) and isinstance(answered.result, ModelReply):
            yield answered.result.text
