"""What has to hold after every cell, whatever the cell: looked up in the ledger and in the store."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from tests.durability.matrix.expected import REPLIED, USAGE, WAITS, Cell, Window, window_of
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.steps import CONTRACTS, SESSION, TURN
from windlass import TurnResult
from windlass.journal import HistoryPage, Recorded, UsageLine
from windlass.kernel.outcomes import FinishedValue
from windlass.ports import SessionView, Store, TurnView, Wait


class End(NamedTuple):
    """What is in the store when all is over."""

    turn: TurnView
    session: SessionView
    n_pending: int

    @property
    def page(self) -> HistoryPage:
        """What was committed."""
        assert self.turn.page is not None
        return self.turn.page

    @classmethod
    async def of(cls, store: Store) -> End:
        turn = await store.load_turn(SESSION, TURN)
        assert turn is not None
        items = (await store.inbox(SESSION)).items
        pending = [item for item in items if item.state != "settled"]
        return cls(turn, await store.load_session(SESSION), len(pending))


def check_cell(cell: Cell, ledger: Ledger, end: End) -> None:
    """Check the hand-written row, and the invariants.

    Raises:
        AssertionError: the cell is red.
    """
    check_invariants(ledger, end)
    for tool in CONTRACTS:
        _check_tool(tool, window_of(tool, cell.windows.get(tool)), ledger, end)
    for what, wanted in (("asked", cell.asked), ("replied", cell.replied)):
        found = ledger.counts(what)
        assert found == wanted, f"{what}: found {dict(found)}, wanted {wanted}"


def _check_tool(tool: str, window: Window, ledger: Ledger, end: End) -> None:
    found = Window(
        started=ledger.counts("started")[tool],
        acted=ledger.counts("acted")[tool],
        status=_statuses(end)[tool],
        reconciled=ledger.counts("reconciled")[tool],
        persons=sum(_is_about(tool, view.wait) for view in end.turn.waits),
    )
    assert found == window, f"{tool}: found {found}, wanted {window}"


def _is_about(tool: str, wait: Wait) -> bool:
    return wait.kind == "unknown_outcome" and bool(wait.detail["tool"] == tool)


def _statuses(end: End) -> dict[str, str]:
    assert isinstance(end.page.outcome, FinishedValue)
    statuses = end.page.outcome.value
    assert isinstance(statuses, dict)
    return dict(statuses)


def check_result(result: TurnResult[Any], end: End) -> None:
    """The caller that waited for the turn got what is in the store."""
    assert result.output == _statuses(end)
    assert _usage(result.usage.lines) == USAGE
    assert {call.name: call.outcome.status for call in result.tool_calls} == _statuses(end)
    assert result.issues == end.page.events


def check_invariants(ledger: Ledger, end: End) -> None:
    """I1, I2, I3, I4, I12, I13, I18, I20; and that `once` means once."""
    _check_executions(ledger)
    _check_journal(end)
    replies, deaths = ledger.counts("replied").total(), ledger.count("life") - 1
    assert replies <= len(REPLIED) + deaths, f"{replies} replies bought over {deaths} deaths"
    assert end.turn.state == "done"
    assert (end.session.head, len(end.session.pages), end.session.active) == (1, 1, None)
    assert ledger.count("committed") == 1
    assert end.n_pending == 0, "the letter was not settled"
    statuses = _statuses(end)
    assert set(statuses) == set(CONTRACTS)
    unknown = sorted(tool for tool, status in statuses.items() if status == "unknown")
    assert len(end.page.events) == len(unknown), "one issue for each unknown outcome"
    assert _usage(end.page.usage) == USAGE
    assert _usage(end.session.usage) == USAGE
    waits = Counter(v.wait.kind for v in end.turn.waits)
    del waits["unknown_outcome"]
    if "order" in unknown:
        waits["deferred"] += 1  # what was never ordered is never delivered
    assert waits == WAITS, f"waits: found {dict(waits)}, wanted {WAITS}"
    assert not [v for v in end.turn.waits if v.state == "open"]


def _usage(lines: tuple[UsageLine, ...]) -> dict[tuple[str, str], tuple[int, int, int]]:
    return {
        (line.source, line.model): (line.calls, line.usage.input_tokens, line.usage.output_tokens)
        for line in lines
    }


def _check_journal(end: End) -> None:
    """I1: one outcome under each key; all replies are there."""
    entries = [entry for page in end.turn.pages for entry in page.entries]
    recorded = Counter(entry.key for entry in entries if isinstance(entry, Recorded))
    twice = [key for key, times in recorded.items() if times > 1]
    assert not twice, f"I1: recorded twice: {twice}"
    replies = [key for key in recorded if "/model_call/" in key]
    assert len(replies) == len(REPLIED) - 1


def _check_executions(ledger: Ledger) -> None:
    """I2, I3, I4, from what was seen outside, in the order in which it was seen."""
    for tool, contract in CONTRACTS.items():
        claims = kept = started = deaths = 0
        under_way = False
        keys = set()
        for words in map(str.split, ledger.lines()):
            if words[0] == "life":
                deaths += under_way
            if words[1:2] != [tool]:
                continue
            if words[0] == "claimed":
                claims, under_way = claims + 1, True
                assert words[2] == contract
            elif words[0] == "started":
                started += 1
                keys.add(words[2])
                assert contract == "pure" or claims > 0, f"I4: {tool} ran without its intent"
                assert kept == 0, f"I2: {tool} ran after its result was kept"
                under_way = True
            elif words[0] == "recorded":
                kept, under_way = kept + 1, False
        assert kept == 1, f"I1: {tool}"
        assert started <= 1 + deaths, f"I3: {tool} ran {started} times over {deaths} deaths"
        assert len(keys) <= 1, f"{tool} had more than one idempotency key"
        assert contract != "once" or started <= 1, f"{tool} may run once and ran {started} times"
