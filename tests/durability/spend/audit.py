"""The audit of a round: what counts as spent, against what was bought."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.durability.soak.ledger import Line
from tests.durability.spend import clerk
from tests.durability.spend.worker import file_of, ledger_of
from windlass.journal import ModelAnswered
from windlass.kernel import ModelReply, Usage
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import SessionView, TurnView
from windlass.stores.sqlite import SqliteStore


class Finding(NamedTuple):
    """A rule that does not hold, and where."""

    rule: str
    where: str


class Report(NamedTuple):
    """What an audit came to: how many calls were lost, how many turns stopped at the limit and how many did not."""

    findings: list[Finding]
    lost: int
    stopped: int
    finished: int


async def audit(folder: Path) -> Report:
    """Look at all sessions of a file."""
    lines = ledger_of(folder).lines("model")
    store = SqliteStore(file_of(folder))
    await store.open()
    try:
        found = []
        for session in clerk.sessions():
            view = await store.load_session(session)
            turns = [await store.load_turn(session, turn) for turn in clerk.turns()]
            own = [line for line in lines if line.session == session]
            found.append(SessionAudit(view, [turn for turn in turns if turn is not None], own))
    finally:
        await store.close()
    outcomes = [turn.outcome for each in found for turn in each.turns]
    return Report(
        findings=[finding for each in found for finding in each.check()],
        lost=sum(line.lost for each in found for line in each.session.usage),
        stopped=sum(isinstance(outcome, Stopped) for outcome in outcomes),
        finished=sum(isinstance(outcome, Finished) for outcome in outcomes),
    )


class SessionAudit:
    """One session, as the store has it and as the ledger has it."""

    def __init__(self, session: SessionView, turns: list[TurnView], bought: list[Line]) -> None:
        self.session = session
        self.turns = turns
        self.bought = bought

    def check(self) -> Iterator[Finding]:
        """Yield what does not hold."""
        for rule in (self._ended, self._spent, self._covered, self._within):
            for place in rule():
                yield Finding(rule.__name__[1:], f"{self.session.session_id}: {place}")

    def _ended(self) -> Iterator[str]:
        """Every turn ended, at its end or at the limit."""
        states = [turn.state for turn in self.turns]
        if states != ["done"] * clerk.N_TURNS or self.session.head != clerk.N_TURNS:
            yield f"turns {states}, head {self.session.head}"
        for turn in self.turns:
            outcome = turn.outcome
            if not isinstance(outcome, Finished) and not (
                isinstance(outcome, Stopped) and outcome.reason == "limit"
            ):
                yield f"{turn.turn_id} came to {outcome}"

    def _spent(self) -> Iterator[str]:
        """What counts is the replies that are recorded and the reservations that are lost, each once."""
        prices = {line.said["word"]: line.said["tokens"] for line in self.bought}
        reserves = {line.said["reserve"] for line in self.bought}
        replies, lost = 0, []
        wanted = 0
        for turn in self.turns:
            for row in turn.journal().rows():
                lost += [*row.lost]
                answered = row.outcome
                if isinstance(answered, ModelAnswered) and isinstance(answered.result, ModelReply):
                    replies += 1
                    wanted += prices[answered.result.text]
                elif row.reserved is not None:
                    lost.append(row.reserved)
                    if isinstance(turn.outcome, Stopped):
                        # Its worker died between the claim and the call, and then there was no room for another.
                        reserves |= {_tokens(usage) for usage in (*row.lost, row.reserved)}
        wanted += sum(_tokens(usage) for usage in lost)
        lines = self.session.usage
        found = (self.spent, sum(line.calls for line in lines), sum(line.lost for line in lines))
        if found != (wanted, replies + len(lost), len(lost)):
            yield f"{found} counts, wanted {wanted} of {replies} replies and {len(lost)} lost"
        if strange := {_tokens(usage) for usage in lost} - reserves:
            yield f"{strange} are lost, which no call may take"

    def _covered(self) -> Iterator[str]:
        """No call was made that does not count; nothing was bought that is not paid."""
        calls = sum(line.calls for line in self.session.usage)
        bought = sum(line.said["tokens"] for line in self.bought)
        if len(self.bought) > calls or bought > self.spent:
            yield f"bought {bought} in {len(self.bought)} calls, {self.spent} in {calls} count"

    def _within(self) -> Iterator[str]:
        """Nothing is over the limit: no reply here is longer than its reservation."""
        bought = sum(line.said["tokens"] for line in self.bought)
        if max(bought, self.spent) > clerk.LIMIT:
            yield f"bought {bought}, spent {self.spent}, the limit is {clerk.LIMIT}"

    @property
    def spent(self) -> int:
        """How many tokens count."""
        return sum(_tokens(line.usage) for line in self.session.usage)


def _tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens
