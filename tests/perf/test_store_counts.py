"""What the store costs, in counts that are the same on every run: they are the gate, times are not.

Pages of the write-ahead log, commits and statements depend on what is written and on nothing else.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import apsw
import pytest

from bench.counts import instructions_by_file
from bench.store_bytes import CountingVfs, turn_bytes
from bench.store_file import OpenStore, bare_file, commit_bare, log_row, open_store
from bench.store_turns import OpenTurn, TurnPlace, begin_turn, closing_unit, opening_unit
from windlass.ports import Ticket, Unit, UnitReceipt
from windlass.stores.sqlite import reads, units
from windlass.stores.sqlite.rows import Rows

UNITS = 40
SESSIONS = 50

# As counted when they were last set.
UNIT_INSTRUCTIONS = 600
ITERATION_STATEMENTS = 4
OPENING_STATEMENTS = 15
CLOSING_STATEMENTS = 10
ITERATION_PAGES = 3.1
TURN_PAGES = 17.5

# Bytecode instructions are counted on 3.11; other releases count others.
SLACK = 1.0 if sys.version_info[:2] == (3, 11) else 1.5

FRAME_BYTES = 4_096 + 24
OLD, NEWER = 200, 12
MAX_GROWTH = 1.1


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[OpenStore]:
    async with open_store(tmp_path / "store.db", durability="process") as opened:
        yield opened


def connection_of(opened: OpenStore) -> apsw.Connection:
    rows = opened.store._writer._rows
    assert rows is not None
    return rows.db


async def write(opened: OpenStore, units: Sequence[Unit]) -> None:
    for unit in units:
        await opened.store.submit(unit).durable()


async def statements(opened: OpenStore, unit: Unit) -> list[str]:
    """Return the statements that a unit takes, from BEGIN to COMMIT."""
    seen: list[str] = []

    def trace(_: apsw.Cursor, sql: str, __: object) -> bool:
        seen.append(sql)
        return True

    db = connection_of(opened)
    db.exec_trace = trace
    await write(opened, [unit])
    db.exec_trace = None
    return seen


async def second_turn(opened: OpenStore) -> TurnPlace:
    """Return the place of a second turn, in a session that has had a whole one."""
    first = TurnPlace("s", "t1")
    await write(opened, [opening_unit(first, opened.worker_id), closing_unit(first)])
    return TurnPlace("s", "t2", 2)


# --- commits -----------------------------------------------------------------------------------


async def test_a_unit_is_one_commit(opened: OpenStore) -> None:
    turn = await begin_turn(opened.store, opened.worker_id, "s")
    before, _ = opened.commits()

    await write(opened, turn.units(UNITS))

    assert opened.commits()[0] - before == UNITS


async def test_a_turn_with_one_call_is_two_commits(opened: OpenStore) -> None:
    place = await second_turn(opened)
    before, _ = opened.commits()

    await write(opened, [opening_unit(place, opened.worker_id), closing_unit(place)])

    assert opened.commits()[0] - before == 2


async def test_sessions_that_write_at_once_share_commits(opened: OpenStore) -> None:
    names = [f"s{number}" for number in range(SESSIONS)]
    turns = [await begin_turn(opened.store, opened.worker_id, name) for name in names]
    before, _ = opened.commits()

    await asyncio.gather(*(write(opened, turn.units(3)) for turn in turns))

    assert opened.commits()[0] - before <= SESSIONS * 3 / 10


# --- statements --------------------------------------------------------------------------------


async def test_an_iteration_is_its_row_in_a_transaction(opened: OpenStore) -> None:
    turn = await begin_turn(opened.store, opened.worker_id, "s")

    for unit in turn.units(5):
        seen = await statements(opened, unit)
        assert len(seen) <= ITERATION_STATEMENTS
        assert sum(sql.startswith(("INSERT", "UPDATE", "DELETE")) for sql in seen) == 1


async def test_the_units_around_it_stay_within_their_budget(opened: OpenStore) -> None:
    place = await second_turn(opened)

    opening = await statements(opened, opening_unit(place, opened.worker_id))
    closing = await statements(opened, closing_unit(place))

    assert len(opening) <= OPENING_STATEMENTS
    assert len(closing) <= CLOSING_STATEMENTS


# --- instructions ------------------------------------------------------------------------------


async def unit_instructions(opened: OpenStore) -> int:
    """Count what a unit costs in the stores and the journal, committed in the call."""
    turn = await begin_turn(opened.store, opened.worker_id, "s")
    for unit in turn.units(UNITS):
        opened.store._writer._pace_s = 0.0  # this machine may be busy
        tickets: list[Ticket[UnitReceipt]] = []

        def settle(unit: Unit = unit, tickets: list[Ticket[UnitReceipt]] = tickets) -> None:
            tickets.append(opened.store.submit(unit))
            tickets[0].settle_now()

        counts = instructions_by_file(settle)
        if tickets[0].is_settled:  # else the writer's thread was not back at rest yet
            assert tickets[0].refusal is None
            return sum(
                count
                for name, count in counts.items()
                if "/windlass/stores/" in name or "/windlass/journal/" in name
            )
        await tickets[0].durable()
    raise AssertionError("no unit was settled in the call")


async def test_a_durable_unit_stays_within_its_budget(opened: OpenStore) -> None:
    assert await unit_instructions(opened) <= UNIT_INSTRUCTIONS * SLACK


async def test_a_store_that_reads_the_journal_while_it_writes_is_seen(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = units.apply_unit

    def read_first(rows: Rows, unit: Unit, *rest: Any) -> UnitReceipt:
        reads.load_turn(rows, unit.session_id, unit.turn_id, 0)
        return apply(rows, unit, *rest)

    monkeypatch.setattr(units, "apply_unit", read_first)

    assert await unit_instructions(opened) > UNIT_INSTRUCTIONS * SLACK


# --- bytes -------------------------------------------------------------------------------------


async def iteration_bytes(path: Path) -> tuple[int, int]:
    """Return what so many iterations write to the log: with a store, and as bare rows."""
    vfs = CountingVfs()
    async with open_store(path / "store.db", durability="process", vfs=vfs.name) as opened:
        turn = await begin_turn(opened.store, opened.worker_id, "s")
        before = vfs.log_bytes
        await write(opened, turn.units(UNITS))
        of_store = vfs.log_bytes - before
    with bare_file(path / "bare.db", vfs=vfs.name) as db:
        first, *rows = [log_row(u, 1) for u in OpenTurn(TurnPlace("s", "t1")).units(UNITS + 1)]
        commit_bare(db, first)
        before = vfs.log_bytes
        for row in rows:
            commit_bare(db, row)
        of_bare = vfs.log_bytes - before
    vfs.unregister()
    return of_store, of_bare


async def test_a_unit_writes_the_pages_of_its_row_and_no_others(tmp_path: Path) -> None:
    of_store, of_bare = await iteration_bytes(tmp_path)

    assert of_store <= of_bare + 4 * FRAME_BYTES
    assert of_store / FRAME_BYTES / UNITS <= ITERATION_PAGES


async def test_an_old_session_writes_what_a_young_one_writes(tmp_path: Path) -> None:
    youngs, olds = await turn_bytes(tmp_path / "store.db", OLD, NEWER)

    assert fmean(olds) <= MAX_GROWTH * fmean(youngs)
    assert fmean(youngs) / FRAME_BYTES <= TURN_PAGES


# --- the fault that turns it red ---------------------------------------------------------------


async def test_a_turn_that_touches_its_history_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with bare_file(path) as db:
        db.execute(
            "CREATE TRIGGER walk AFTER INSERT ON log WHEN new.strand = 0 BEGIN"
            " UPDATE log SET link = randomblob(32) WHERE session = new.session AND strand = 0; END"
        )

    youngs, olds = await turn_bytes(path, OLD, NEWER)

    assert fmean(olds) > 2 * fmean(youngs)
