"""A file that somebody has changed: every door refuses, names the place, and writes nothing. Cases 56 to 64.

Length: a table of changes, one entry for each way in which a row can be wrong.
"""

from __future__ import annotations

import asyncio
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from tests.limits import HANGS_S
from tests.runtime import good_file, turns
from tests.runtime.good_file import DOORS
from windlass.errors import FormatUnsupported, JournalCorrupt, WindlassError
from windlass.journal import link_page, strand_seed
from windlass.stores.sqlite import SqliteStore

"""A door that says nothing for so long has lost whoever stands in it."""

A = "session = (SELECT no FROM sessions WHERE id = 'a')"
T3 = f"{A} AND strand = 3"
T3_ROW = f"{A} AND id = 't3'"
HISTORY = f"{A} AND strand = 0"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return good_file.build(tmp_path_factory.mktemp("good"))


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return shutil.copyfile(template, tmp_path / "w.db")


def change(path: Path, sql: str, *values: Any) -> int:
    """Change rows behind windlass's back; return how many."""
    db = apsw.Connection(str(path))
    try:
        db.execute(sql, values)
        return db.changes()
    finally:
        db.close()


def look(path: Path, sql: str) -> Any:  # noqa: ANN401 - a cell
    """Return the one cell that a query finds."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ((cell,),) = db.execute(sql).fetchall()
        return cell
    finally:
        db.close()


async def refusal_at(path: Path, door: str) -> WindlassError | None:
    """Go through a door; return the refusal, having seen that nothing was written."""
    store = SqliteStore(path)
    await store.open()
    before = turns.dump(path)
    try:
        async with asyncio.timeout(HANGS_S):
            await DOORS[door](store)
    except WindlassError as refusal:
        assert turns.dump(path) == before
        return refusal
    finally:
        await store.close()
    return None


class Case(NamedTuple):
    """How rows are changed, the doors that have to notice, and what they say."""

    sql: str
    doors: tuple[str, ...]
    says: str = ""
    kind: type[WindlassError] = JournalCorrupt


def flip(column: str, at: int = 40) -> str:
    """Return an expression with the lowest bit of one byte of a blob changed."""
    digit = f"substr(hex({column}), {at * 2}, 1)"
    place = f"instr('0123456789ABCDEF', {digit}) - 1"
    other = f"substr('1032547698BADCFE', {place} + 1, 1)"
    before, after = (
        f"substr(hex({column}), 1, {at * 2 - 1})",
        f"substr(hex({column}), {at * 2 + 1})",
    )
    return f"unhex({before} || {other} || {after})"


JOURNAL = ("load_turn", "submit", "commit", "take_over", "claim")
CASES: dict[str, Case] = {
    # --- 56: rows in a state that is none
    "unknown turn state": Case(
        f"UPDATE turns SET state = 'zombie' WHERE {T3_ROW}",
        ("load_turn", "submit", "commit", "take_over", "due", "claim", "list_turns"),
        "t3",
    ),
    "unknown state of a queued turn": Case(
        f"UPDATE turns SET state = 'zombie' WHERE {A} AND id = 't4'", ("load_queued", "due"), "t4"
    ),
    "an ended turn without its end": Case(
        f"UPDATE turns SET head = NULL WHERE {A} AND id = 't1'", ("load_ended",), "a/t1"
    ),
    "an ended turn without its digest": Case(
        f"UPDATE turns SET commit_digest = NULL WHERE {A} AND id = 't1'", ("load_ended",), "t1"
    ),
    "an ended turn that points at another's end": Case(
        f"UPDATE turns SET head = 2 WHERE {A} AND id = 't1'", ("load_ended",), "a/t1"
    ),
    "a running turn without a strand": Case(
        f"UPDATE turns SET strand = NULL WHERE {T3_ROW}", ("load_turn", "commit"), "t3"
    ),
    "a running turn with another's strand": Case(
        f"UPDATE turns SET strand = 1 WHERE {T3_ROW}", JOURNAL, "a/t3"
    ),
    "an active turn that is not there": Case(
        "UPDATE sessions SET active = 999 WHERE id = 'a'",
        (
            "load_session",
            "load_frame",
        ),
        "a",
    ),
    "a session of a kind that is none": Case(
        "UPDATE sessions SET kind = 'zombie' WHERE id = 'a'",
        ("load_session", "load_turn", "submit", "commit", "take_over"),
        "session a",
    ),
    "a starter that is not there": Case(
        "UPDATE sessions SET started_by = 999 WHERE id = 'a'", ("load_session",), "session a"
    ),
    "a root that is not there": Case(
        "UPDATE sessions SET root = 999 WHERE id = 'a'", ("load_session",), "session a"
    ),
    "a parent that is not there": Case(
        "UPDATE sessions SET parent = 999 WHERE id = 'f'",
        (
            "load_fork",
            "load_frame_of_fork",
        ),
        "f",
    ),
    "unknown wait state": Case(
        "UPDATE waits SET state = 'maybe' WHERE key = 'w_open'", ("load_turn", "resolve_open")
    ),
    "an answered wait without its answer": Case(
        "UPDATE waits SET answer = NULL WHERE key = 'w_answered'",
        ("load_turn", "resolve_answered"),
    ),
    "an open wait with an answer": Case(
        "UPDATE waits SET state = 'open' WHERE key = 'w_answered'",
        ("load_turn", "list_waits", "resolve_answered"),
    ),
    "a wait under another's key": Case(
        "UPDATE waits SET key = 'w_new' WHERE key = 'w_open'", ("load_turn", "list_waits")
    ),
    "a wait of another turn": Case(
        "UPDATE waits SET turn = (SELECT no FROM turns WHERE id = 't4') WHERE key = 'w_open'",
        ("load_queued",),
    ),
    "unknown item state": Case(
        "UPDATE inbox SET state = 'lost' WHERE id = 'i1'", ("withdraw", "enqueue"), "i1"
    ),
    # --- 57: one bit flipped
    "a bit in a journal page": Case(
        f"UPDATE log SET page = {flip('page')} WHERE {T3} AND seq = 1", JOURNAL, "a/t3, page 1"
    ),
    "a bit in a journal link": Case(
        f"UPDATE log SET link = {flip('link', 20)} WHERE {T3} AND seq = 1", JOURNAL, "a/t3, page 1"
    ),
    "a bit in the last journal link": Case(
        f"UPDATE log SET link = {flip('link', 20)} WHERE {T3} AND seq = 2", JOURNAL, "a/t3, page 2"
    ),
    "a bit in a body": Case(
        f"UPDATE bodies SET data = {flip('data', 50)} WHERE is_blob = 0", JOURNAL, "a/t3, page 0"
    ),
    "a body that is gone": Case("DELETE FROM bodies WHERE is_blob = 0", JOURNAL, "a/t3, page 0"),
    "a bit in a history page": Case(
        f"UPDATE log SET page = {flip('page', 60)} WHERE {HISTORY} AND seq = 1",
        ("load_session", "load_frame", "load_fork", "load_frame_of_fork", "load_ended"),
        "a",
    ),
    "a bit in a history link": Case(
        f"UPDATE log SET link = {flip('link', 20)} WHERE {HISTORY} AND seq = 1",
        ("load_session", "load_fork"),
        "a, page 1",
    ),
    "a bit in a history link, seen from behind": Case(
        f"UPDATE log SET link = {flip('link', 20)} WHERE {HISTORY} AND seq = 1",
        ("load_frame", "load_frame_of_fork"),
        "page 2: the page is not the one that was written there",
    ),
    "a bit in the last history link": Case(
        f"UPDATE log SET link = {flip('link', 20)} WHERE {HISTORY} AND seq = 2",
        ("load_session", "load_frame", "fork"),
        "a",
    ),
    "a bit in the session's link": Case(
        f"UPDATE sessions SET link = {flip('link', 20)} WHERE id = 'a'",
        ("load_session", "load_frame", "commit"),
        "a",
    ),
    "a bit in a request": Case(
        f"UPDATE log SET page = {flip('page', 60)} WHERE {A} AND strand < 0",
        ("load_turn", "load_ended", "load_queued"),
        "request of a/",
    ),
    "a bit in a wait": Case(
        f"UPDATE waits SET wait = {flip('wait', 60)} WHERE key = 'w_open'",
        ("load_turn", "list_waits", "resolve_open"),
        "wait",
    ),
    "a bit in a wait's digest": Case(
        f"UPDATE waits SET wait = {flip('wait', 10)} WHERE key = 'w_open'",
        ("load_turn", "list_waits", "resolve_open"),
        "wait",
    ),
    "a bit in an answer": Case(
        f"UPDATE waits SET answer = {flip('answer', 50)} WHERE key = 'w_answered'",
        ("load_turn", "resolve_answered"),
        "answer",
    ),
    "a bit in an item": Case(
        f"UPDATE inbox SET item = {flip('item', 50)}", ("inbox", "take_inbox"), "inbox of a"
    ),
    "a bit in the usage": Case(
        f"UPDATE sessions SET usage = {flip('usage', 50)} WHERE id = 'a'",
        ("load_session", "load_frame", "commit"),
        "usage of a",
    ),
    # --- 58: formats of other releases, beside the log
    **{
        f"{name} of format {found}": Case(
            f"UPDATE {table} SET {column} = unhex('574C3{found}' || substr(hex({column}), 7))"
            f" WHERE {where}",
            doors,
            kind=FormatUnsupported,
        )
        for found in (0, 2)
        for name, table, column, where, doors in (
            ("a wait", "waits", "wait", "key = 'w_open'", ("load_turn", "list_waits")),
            ("an answer", "waits", "answer", "key = 'w_answered'", ("load_turn",)),
            ("an item", "inbox", "item", "1", ("inbox", "take_inbox")),
            ("usage", "sessions", "usage", "id = 'a'", ("load_session", "commit")),
        )
    },
    # --- 59: pages moved, missing, doubled, of others
    "pages reordered": Case(
        f"UPDATE log SET seq = seq + 100 * (seq = 0) - (seq = 1) WHERE {T3};"
        f" UPDATE log SET seq = 1 WHERE {T3} AND seq = 100",
        JOURNAL,
        "a/t3",
    ),
    "the first page missing": Case(f"DELETE FROM log WHERE {T3} AND seq = 0", JOURNAL, "page 0"),
    "a page in between missing": Case(f"DELETE FROM log WHERE {T3} AND seq = 1", JOURNAL, "page 1"),
    # Of a turn that has not ended, pages cut off cannot be told from pages never written.
    "the journal of an ended turn missing": Case(
        f"DELETE FROM log WHERE {A} AND strand = 1", ("load_ended",), "a/t1"
    ),
    "a page missing and the rest moved up": Case(
        f"DELETE FROM log WHERE {T3} AND seq = 1; UPDATE log SET seq = 1 WHERE {T3} AND seq = 2",
        JOURNAL,
        "a/t3, page 1",
    ),
    "a page doubled": Case(
        f"INSERT INTO log (session, strand, seq, link, page)"
        f" SELECT session, strand, 3, link, page FROM log WHERE {T3} AND seq = 2",
        JOURNAL,
        "a/t3, page 3",
    ),
    "a page of another session": Case(
        f"UPDATE log SET (link, page) = (SELECT link, page FROM log WHERE strand = 1 AND session ="
        f" (SELECT no FROM sessions WHERE id = 'b')) WHERE {T3} AND seq = 0",
        JOURNAL,
        "a/t3, page 0",
    ),
    "a page of another turn": Case(
        f"UPDATE log SET (link, page) = (SELECT link, page FROM log WHERE {A} AND strand = 1)"
        f" WHERE {T3} AND seq = 0",
        JOURNAL,
        "a/t3, page 0",
    ),
    "a history page missing": Case(
        f"DELETE FROM log WHERE {HISTORY} AND seq = 1",
        ("load_session", "load_frame", "load_fork", "load_frame_of_fork", "load_ended"),
        "a",
    ),
    "the last history page missing": Case(
        f"DELETE FROM log WHERE {HISTORY} AND seq = 2",
        ("load_session", "load_frame", "load_fork", "load_frame_of_fork", "fork"),
        "a",
    ),
    "the head set back": Case(
        "UPDATE sessions SET head = 1 WHERE id = 'a'",
        (
            "load_session",
            "load_frame",
        ),
        "a",
    ),
    "the head set forward": Case(
        "UPDATE sessions SET head = 3 WHERE id = 'a'", ("load_session", "load_frame", "fork"), "a"
    ),
    "a request missing": Case(
        f"DELETE FROM log WHERE {A} AND strand < 0", ("load_turn", "load_queued"), "request of a/"
    ),
    "the request of another turn": Case(
        f"UPDATE log SET (link, page) = (SELECT link, page FROM log WHERE {A} AND strand ="
        f" -(SELECT no FROM turns WHERE id = 't4')) WHERE {A} AND strand < 0",
        ("load_turn", "load_ended"),
        "request of a/",
    ),
}


@pytest.mark.parametrize(
    ("name", "door"), [(name, door) for name, case in CASES.items() for door in case.doors]
)
async def test_a_changed_row_is_refused_and_nothing_written(
    path: Path, name: str, door: str
) -> None:
    case = CASES[name]
    assert change(path, case.sql) > 0

    refusal = await refusal_at(path, door)

    assert refusal is not None, "a value was made of it"
    assert type(refusal) is case.kind, refusal
    assert case.says in str(refusal)
    assert refusal.field


# One turn at a time: the third is under way, so the fourth cannot start.
@pytest.mark.parametrize("door", [door for door in DOORS if door != "start"])
async def test_a_good_file_is_refused_nowhere(path: Path, door: str) -> None:
    assert await refusal_at(path, door) is None


async def test_a_page_cannot_be_there_twice(path: Path) -> None:
    with pytest.raises(apsw.ConstraintError):
        change(
            path,
            "INSERT INTO log (session, strand, seq, link, page)"
            f" SELECT session, strand, seq, link, page FROM log WHERE {T3} AND seq = 1",
        )


# --- cells of another type ------------------------------------------------------------------------------

# SQLite keeps what it is given, unless a table is strict.
OTHER_TYPES: dict[str, Case] = {
    "a page that is text": Case(
        f"UPDATE log SET page = CAST(page AS TEXT) WHERE {T3} AND seq = 1", JOURNAL, "a/t3, page 1"
    ),
    "a link that is text": Case(
        f"UPDATE log SET link = 'x' WHERE {T3} AND seq = 1", JOURNAL, "a/t3, page 1"
    ),
    "a body that is text": Case(
        "UPDATE bodies SET data = CAST(data AS TEXT)", JOURNAL, "a/t3, page 0"
    ),
    "a head that is text": Case(
        "UPDATE sessions SET head = 'x' WHERE id = 'a'", ("load_session",), "a"
    ),
    "a link of the session that is text": Case(
        "UPDATE sessions SET link = 'x' WHERE id = 'a'", ("load_session", "commit"), "a"
    ),
    "a wait that is text": Case("UPDATE waits SET wait = 'x'", ("load_turn", "list_waits"), "wait"),
    "a generation that is text": Case(
        "UPDATE sessions SET generation = 'x' WHERE id = 'a'", ("load_session", "take_over"), "a"
    ),
}


@pytest.mark.parametrize(
    ("name", "door"), [(name, door) for name, case in OTHER_TYPES.items() for door in case.doors]
)
async def test_a_cell_of_another_type_is_impossible_or_refused(
    path: Path, name: str, door: str
) -> None:
    case = OTHER_TYPES[name]
    try:
        change(path, case.sql)
    except apsw.ConstraintError:
        return

    refusal = await refusal_at(path, door)

    assert refusal is not None, "a value was made of it"
    assert type(refusal) is JournalCorrupt, refusal
    assert case.says in str(refusal)


# --- whoever knows the format: pages with links that fit ---------------------------------------------


def relink(path: Path, rewrite: dict[int, bytes]) -> None:
    """Change pages of a/t3 and give them, and all behind them, links that fit."""
    db = apsw.Connection(str(path))
    link = strand_seed("a", "t3")
    pages: list[Any] = db.execute(f"SELECT seq, page FROM log WHERE {T3} ORDER BY seq").fetchall()
    for seq, page in pages:
        data = rewrite.get(seq, page)
        link = link_page(link, data)
        db.execute(f"UPDATE log SET link = ?, page = ? WHERE {T3} AND seq = ?", (link, data, seq))
    db.close()


def page_of(path: Path, seq: int) -> bytes:
    found: bytes = look(path, f"SELECT page FROM log WHERE {T3} AND seq = {seq}")
    return found


async def test_pages_that_were_linked_anew_are_the_same_pages(path: Path) -> None:
    before = turns.dump(path)
    relink(path, {})
    assert turns.dump(path) == before


@pytest.mark.parametrize("found", [0, 3, 99])
@pytest.mark.parametrize("door", ["load_turn", "submit", "commit", "take_over"])
async def test_a_page_of_another_format_is_refused_by_both_numbers(
    path: Path, found: int, door: str
) -> None:
    """Case 58."""
    page = page_of(path, 1)
    assert page.count(b'"format":2,') == 1
    relink(path, {1: page.replace(b'"format":2,', b'"format":%d,' % found)})

    refusal = await refusal_at(path, door)

    assert type(refusal) is FormatUnsupported
    assert (refusal.found, refusal.wanted) == (found, 2)
    assert "a/t3, page 1" in str(refusal)


BAD_PAGES = {
    "an unknown field": (b'"generation":', b'"generatioN":'),
    "an unknown entry": (b'"type":"claimed"', b'"type":"blamed!"'),
    "an unknown moment": (b'/decide"', b'/deride"'),
    "no format": (b'"format":2,', b""),
    "a format that is text": (b'"format":2,', b'"format":"2",'),
    "a missing field": (b'"generation":1,', b""),
    "cut short": (b'"type":"journal_page"}', b""),
    "a number for text": (b'"call_id":"c0"', b'"call_id":0'),
}


@pytest.mark.parametrize("name", BAD_PAGES)
@pytest.mark.parametrize("door", ["load_turn", "submit"])
async def test_a_page_edited_by_hand_is_refused_by_place(path: Path, name: str, door: str) -> None:
    """Case 64."""
    old, new = BAD_PAGES[name]
    page = page_of(path, 1)
    assert old in page
    relink(path, {1: page.replace(old, new)})

    refusal = await refusal_at(path, door)

    assert type(refusal) in (JournalCorrupt, FormatUnsupported)
    assert "a/t3, page 1" in str(refusal)


@pytest.mark.parametrize("door", ["load_turn", "submit", "commit", "take_over"])
async def test_a_result_without_its_claim_is_noticed_when_the_journal_is_read(
    path: Path, door: str
) -> None:
    """Case 56. The pages are as they were written, so they can be written behind; what they say is no journal."""
    empty = b'{"entries":[],"format":2,"generation":1,"type":"journal_page"}'
    relink(path, {1: empty})
    assert await refusal_at(path, door) is None
    store = SqliteStore(path)
    await store.open()

    async def fold() -> None:
        view = await store.load_turn("a", "t3")
        assert view is not None
        view.journal()

    with pytest.raises(JournalCorrupt, match="journal of a/t3, page 2"):
        await fold()
    await store.close()


async def test_a_reference_to_a_body_that_never_was_is_refused(path: Path) -> None:
    digest = sha256(b"nothing").hexdigest().encode()
    page = page_of(path, 0)
    mark = b"\\u0000"
    at = page.index(mark) + len(mark)
    relink(path, {0: page[:at] + digest + page[at + 64 :]})

    refusal = await refusal_at(path, "load_turn")

    assert type(refusal) is JournalCorrupt
    assert "a/t3, page 0" in str(refusal)


# --- every byte ----------------------------------------------------------------------------------------

BYTES = {
    "journal page": ("log", "page", f"{T3} AND seq = 1", "load_turn"),
    "journal link": ("log", "link", f"{T3} AND seq = 1", "load_turn"),
    "history page": ("log", "page", f"{HISTORY} AND seq = 1", "load_session"),
    "history page, in parts": ("log", "page", f"{HISTORY} AND seq = 1", "load_history"),
    "history page of an ended turn": ("log", "page", f"{HISTORY} AND seq = 1", "load_ended"),
    "request": ("log", "page", f"{A} AND strand = -(SELECT no FROM turns WHERE {T3_ROW})", "load_turn"),
    "body": ("bodies", "data", "is_blob = 0", "load_turn"),
    "wait": ("waits", "wait", "key = 'w_open'", "list_waits"),
    "answer": ("waits", "answer", "key = 'w_answered'", "load_turn"),
    "item": ("inbox", "item", "1", "inbox"),
    "usage": ("sessions", "usage", "id = 'a'", "load_session"),
}  # fmt: skip
MAX_FLIPS = 400


@pytest.mark.parametrize("name", BYTES)
async def test_no_byte_can_be_changed_unnoticed(path: Path, name: str) -> None:
    """Case 57, at every place of a row."""
    table, column, where, door = BYTES[name]
    good: bytes = look(path, f"SELECT {column} FROM {table} WHERE {where}")
    store = SqliteStore(path)
    await store.open()
    step = max(1, len(good) // MAX_FLIPS)
    db = apsw.Connection(str(path))
    unnoticed = []
    for at in range(0, len(good), step):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (bytes(bad),))
        try:
            async with asyncio.timeout(HANGS_S):
                await DOORS[door](store)
        except (JournalCorrupt, FormatUnsupported):
            continue
        unnoticed.append(at)
    assert unnoticed == []
    db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (good,))
    await DOORS[door](store)
    db.close()
    await store.close()
