"""The claims about signals, moved processes and kept sessions tell a store that breaks one, each with its fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.harnesses import MemoryHarness
from windlass.errors import WindlassError
from windlass.ports import AcceptTurn, MoveSession, Wait
from windlass.stores import rules
from windlass.stores.memory import errands as memory_errands
from windlass.stores.memory import inbox, sessions, signals, units, waits
from windlass.stores.memory import store as memory_store
from windlass.stores.memory.rows import Changes, ItemRow, SessionRow, Tables, TurnRow
from windlass.testing import conformance

CHECKS = {conformance.name_of(check): check for check in conformance.CHECKS}


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def newest(session: SessionRow, name: str) -> ItemRow | None:
    """Return the newest signal of a name."""
    waiting = (row for row in reversed(session.open_items.values()) if row.state == "pending")
    return next((row for row in waiting if rules.signal_name(row.item) == name), None)


def given_and_kept(tables: Tables, turn: TurnRow, wait: Wait, *rest: Any) -> None:
    """Answer a wait and leave the signal where it is."""
    _, answer, changes = rest
    waits.end(tables, turn, turn.waits[wait.key], answer, changes)


def all_pending(session: SessionRow) -> list[ItemRow]:
    """Take signals for items that are to enter."""
    return [row for row in session.open_items.values() if row.state == "pending"]


def all_taken(turn: TurnRow, **_: Any) -> tuple[Any, ...]:
    """Take whatever is in the inbox."""
    return tuple(row.item for row in turn.session.open_items.values())


def moved_alone(self: memory_errands.MemoryErrands, errand: MoveSession) -> bool:
    """Move a process and leave what is below it in the old tree."""
    session, to = self._tables.session(errand.session_id), self._tables.session(errand.to)
    if session.started_by is to:
        return True
    self._changes.set(session, started_by=to, root=to.root or to)
    return False


def moved_again(self: memory_errands.MemoryErrands, errand: MoveSession) -> bool:
    """Move a process whether it is there or not."""
    MOVE(self, errand)
    return False


MOVE = memory_errands.MemoryErrands.move
IS_OLD = sessions._is_old
PUT = inbox.put
OPEN_WAIT = units._open_wait


def old_by(**ignored: Any) -> Callable[..., bool]:
    """Return what says whether a session is old, and does not look at these fields of it."""

    def is_old(tables: Tables, session: SessionRow, *rest: Any) -> bool:
        changes = Changes()
        changes.set(session, **ignored)
        try:
            return IS_OLD(tables, session, *rest)
        finally:
            changes.take_back()

    return is_old


def old_by_its_first_turn(tables: Tables, session: SessionRow, *rest: Any) -> bool:
    """Look at the first turn of a session alone."""
    turns = dict(list(session.turns.items())[:1])
    return old_by(turns=turns, unfinished={})(tables, session, *rest)


def opened_whatever_follows(tables: Tables, turn: TurnRow, wait: Wait, changes: Changes) -> bool:
    """Give a signal to a wait that ends with its unit."""
    if OPEN_WAIT(tables, turn, wait, changes):
        signals.opened(tables, turn, wait, changes)
    return False


def old_whatever_is_below(
    tables: Tables, session: SessionRow, now_ms: int, keep_ms: dict[Any, int]
) -> bool:
    """Do not look at what a session began."""
    return IS_OLD(Tables(), session, now_ms, keep_ms)


def old_at_once(tables: Tables, session: SessionRow, now_ms: int, keep_ms: dict[Any, int]) -> bool:
    """Keep nothing for any time."""
    return IS_OLD(tables, session, 10**15, keep_ms)


def old_of_any_kind(
    tables: Tables, session: SessionRow, now_ms: int, keep_ms: dict[Any, int]
) -> bool:
    """Keep every kind as long as the first that is named."""
    first = next(iter(keep_ms.values()), 0)
    everything = dict.fromkeys(("chat", "child", "process", "schedule", "trigger"), first)
    return IS_OLD(tables, session, now_ms, everything)  # type: ignore[arg-type]  # kinds


def put_twice(tables: Tables, session: SessionRow, item: Any, *rest: Any, **more: Any) -> Any:  # noqa: ANN401 - the store's own
    """Forget what was settled."""
    known = session.items.get(item.item_id)
    if known is not None and known.state == "settled":
        del session.items[item.item_id]
    return PUT(tables, session, item, *rest, **more)


def labelled_again(self: memory_errands.MemoryErrands, errand: AcceptTurn, number: int) -> bool:
    """Let the last errand name a session."""
    known = ACCEPT(self, errand, number)
    self._tables.session(errand.session_id).label = errand.label
    return known


ACCEPT = memory_errands.MemoryErrands.accept


@pytest.mark.parametrize(
    ("place", "name", "fault", "claim"),
    [
        (signals, "posted", nothing, "signalling: a_signal_answers_the_wait_that_asks_for_it"),
        (signals, "opened", nothing, "signalling: a_wait_is_answered_by_the_signal_that_is_there"),
        (signals, "_oldest", newest, "signalling: signals_are_given_in_the_order_of_their_arrival"),
        (
            signals,
            "_give",
            given_and_kept,
            "signalling: a_wait_that_is_opened_again_takes_no_second_signal",
        ),
        (
            rules,
            "is_over",
            lambda *_: False,
            "signalling: a_signal_is_not_lost_in_a_wait_whose_time_is_over",
        ),
        (
            rules,
            "awaited_signal",
            lambda wait: "go",
            "signalling: a_signal_of_another_name_or_session_answers_nothing",
        ),
        (
            SessionRow,
            "pending",
            property(all_pending),
            "signalling: a_signal_begins_no_turn_and_enters_none",
        ),
        (SessionRow, "pending", property(all_pending), "signalling: nothing_waits_behind_a_signal"),
        (inbox, "take", all_taken, "signalling: a_signal_begins_no_turn_and_enters_none"),
        (
            memory_store,
            "check_enqueues",
            nothing,
            "signalling: callers_put_no_signal_into_an_inbox",
        ),
        (inbox, "put", put_twice, "signalling: a_signal_is_known_by_its_id_whatever_became_of_it"),
        (
            memory_errands.MemoryErrands,
            "move",
            moved_alone,
            "moving: a_process_moves_with_all_below_it",
        ),
        (
            memory_errands.MemoryErrands,
            "move",
            moved_alone,
            "moving: what_cannot_be_moved_stays_and_says_why",
        ),
        (
            memory_errands.MemoryErrands,
            "move",
            moved_again,
            "moving: what_is_there_already_is_known",
        ),
        (
            memory_errands.MemoryErrands,
            "accept",
            labelled_again,
            "moving: a_session_that_is_there_keeps_its_label",
        ),
        (
            sessions,
            "_is_old",
            old_at_once,
            "retaining: a_session_goes_when_it_ended_longer_ago_than_its_kind_is_kept",
        ),
        (
            sessions,
            "_is_old",
            old_of_any_kind,
            "retaining: each_kind_has_a_time_of_its_own_and_no_other_goes",
        ),
        (
            sessions,
            "_is_old",
            old_whatever_is_below,
            "retaining: a_session_with_something_unfinished_anywhere_below_stays",
        ),
        (
            sessions,
            "_is_old",
            old_by(started_in=None),
            "retaining: a_child_stays_while_the_journal_of_the_turn_that_began_it_does",
        ),
        (
            sessions,
            "_is_old",
            old_by(open_items={}),
            "retaining: a_session_that_an_item_is_to_enter_stays",
        ),
        (
            sessions,
            "_is_old",
            old_by_its_first_turn,
            "retaining: the_last_turn_of_a_session_counts",
        ),
        (
            units,
            "_open_wait",
            opened_whatever_follows,
            "signalling: a_turn_that_ends_leaves_signals_to_the_next",
        ),
        (rules, "check_kept", nothing, "retaining: chats_are_not_kept_for_a_time"),
    ],
)
async def test_a_store_that_breaks_a_law_is_told(
    place: Any,  # noqa: ANN401 - a module or a class
    name: str,
    fault: object,
    claim: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await CHECKS[claim].run(MemoryHarness())
    monkeypatch.setattr(place, name, fault)

    with pytest.raises((AssertionError, WindlassError)):
        await CHECKS[claim].run(MemoryHarness())
