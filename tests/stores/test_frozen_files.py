"""Files of earlier formats: what is finished is read, what is not is refused before anything is written.

`frozen` holds files as they were written: `format-1` and `schema-2` by the release before journals of format 2,
`schema-1` by one before that, `format-2` by the first release of that format. They are never made anew.
"""

from __future__ import annotations

from gzip import decompress
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.runtime import turns
from tests.stores.files import everything, raw, refused
from windlass import Agent, Runtime, tool
from windlass.errors import FormatUnsupported
from windlass.journal import ModelAnswered, Recorded
from windlass.kernel.outcomes import Finished
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS, VERSION
from windlass.testing import ScriptedModel, call, say

FROZEN = Path(__file__).parent / "frozen"


def thawed(folder: Path, name: str) -> Path:
    path = folder / "store.db"
    path.write_bytes(decompress((FROZEN / f"{name}.db.gz").read_bytes()))
    return path


@tool(effect="keyed", approval="ask")
async def refund(cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@tool(effect="once")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(effect="pure")
async def look(topic: str) -> str:
    """Look something up."""
    return topic


def helper(*replies: str) -> Agent[Any, Any]:
    model = ScriptedModel([say(text) for text in replies])
    return Agent("helper", model=model, instructions="Be brief.", tools=[pay, refund, look])


@pytest.mark.parametrize("name", ["format-1-finished", "format-2-finished"])
async def test_history_and_journals_of_finished_turns_are_read(tmp_path: Path, name: str) -> None:
    store = SqliteStore(thawed(tmp_path, name))
    await store.open()

    session = await store.load_session("done")
    turn = await store.load_turn("done", "t2")
    asked = await store.load_turn("asked", "t1")
    await store.close()

    assert [page.outcome for page in session.pages] == [
        Finished(text="Paid."),
        Finished(text="Hello, about tea."),
    ]
    assert (session.usage[0].source, session.usage[0].calls) == ("turn", 4)
    assert turn is not None
    assert turn.state == "done"
    assert {page.format for page in turn.pages} == {int(name[7])}
    journal = turn.journal()
    assert journal.started is not None
    assert journal.recorded == len(journal.rows()) == 4
    replies = [
        entry.outcome.result.text  # type: ignore[union-attr]  # the model answered each time
        for page in turn.pages
        for entry in page.entries
        if isinstance(entry, Recorded) and isinstance(entry.outcome, ModelAnswered)
    ]
    assert replies == ["", "Hello, about tea."]
    assert asked is not None
    assert [(view.state, view.answer and view.answer.by) for view in asked.waits] == [
        ("answered", "eva")
    ]


@pytest.mark.parametrize("name", ["format-1-finished", "format-2-finished"])
async def test_a_session_of_an_earlier_format_goes_on(tmp_path: Path, name: str) -> None:
    path = thawed(tmp_path, name)
    async with Runtime(helper("Again."), store=f"sqlite:///{path}") as rt:
        result = await rt.session("done").run("And now?", turn_id="t3")
        history = await rt.session("done").history()

    assert result.outcome == Finished(text="Again.")
    assert len(history) == 10
    assert raw(path).pragma("user_version") == VERSION


async def test_an_unfinished_turn_of_this_format_goes_on(tmp_path: Path) -> None:
    path = thawed(tmp_path, "format-2-unfinished")
    async with Runtime(helper("Hm.", "Refunded."), store=f"sqlite:///{path}") as rt:
        (wait,) = await rt.approvals()
        await rt.approve(wait.key, by="eva")
        result = await rt.turn("open", "t9").result(timeout=HANGS_S)

    assert result.outcome == Finished(text="Refunded.")


def as_schema(version: int, path: Path, old: Path) -> None:
    """Write what is in a file into one of an earlier schema, as a release of that schema would have."""
    db = raw(old)
    db.pragma("journal_mode", "wal")
    for step in MIGRATIONS[:version]:
        db.execute(step)
    db.execute(f"PRAGMA user_version = {version}; PRAGMA application_id = {APPLICATION_ID}")
    db.execute("ATTACH ? AS new", (str(path),))
    for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        columns = [row[1] for row in db.execute(f"PRAGMA main.table_info({table})")]
        names = ", ".join(columns)
        db.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM new.{table}")
    db.execute("DETACH new")
    db.close()


@pytest.mark.parametrize("version", [3, 4])
async def test_a_parked_turn_of_an_earlier_schema_goes_on(tmp_path: Path, version: int) -> None:
    asks = ScriptedModel([call("refund", cents=5)])
    agent = Agent("helper", model=asks, instructions="Be brief.", tools=[pay, refund, look])
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    async with Runtime(agent, store=f"sqlite:///{new}") as rt:
        assert (await rt.session("s").run("Refund it.", turn_id="t1")).parked
    as_schema(version, new, old)
    assert ("news" in turns.dump(old)) == (version > 3)
    assert raw(old).pragma("user_version") == version

    async with Runtime(helper("Hm.", "Refunded."), store=f"sqlite:///{old}") as rt:
        (wait,) = await rt.approvals()
        await rt.approve(wait.key, by="eva")
        result = await rt.turn("s", "t1").result(timeout=HANGS_S)

    assert result.outcome == Finished(text="Refunded.")
    assert made_as(old) == made_as(new)
    assert raw(old).pragma("user_version") == VERSION
    told = [row[2] for row in sorted(turns.dump(old)["news"]) if row[2] != "joined"]
    before = ["opened", "parked", "left"] if version > 3 else []
    assert told == [*before, "answered", "left"]


async def test_unfinished_turns_of_an_earlier_format_are_refused_by_name(tmp_path: Path) -> None:
    path = thawed(tmp_path, "format-1-unfinished")
    before = everything(tmp_path)

    error = await refused(path, FormatUnsupported)

    assert "open/t9" in str(error)
    assert "done" not in str(error)
    assert (error.found, error.wanted) == (1, 2)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(("count", "more"), [(10, ""), (11, " and 1 more"), (15, " and 5 more")])
async def test_no_more_than_ten_unfinished_turns_are_named(
    tmp_path: Path, count: int, more: str
) -> None:
    path = thawed(tmp_path, "format-1-unfinished")
    db = raw(path)
    columns = "id, state, arrived, strand, agent, digest, takeovers, takeover_mark, answered"
    for at in range(1, count):
        db.execute(
            f"INSERT INTO turns (session, {columns}) SELECT session, 'x{at}', state, arrived, strand, agent,"
            " digest, takeovers, takeover_mark, answered FROM turns WHERE id = 't9'"
        )
    db.close()

    error = await refused(path, FormatUnsupported)

    named = [f"open/{name}" for name in ["t9", *(f"x{at}" for at in range(1, min(count, 10)))]]
    assert f": {', '.join(named)}{more}; " in str(error)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_file_of_an_earlier_schema_is_brought_up_to_date_and_shows_what_it_did(
    tmp_path: Path, version: int
) -> None:
    """Its one turn was begun and had written nothing yet, so there is nothing of another format to go on with."""
    path = thawed(tmp_path, f"schema-{version}")
    assert raw(path).pragma("user_version") == version
    before = turns.dump(path)

    store = SqliteStore(path)
    await store.open()
    due = await store.due(turns.UNTIL_MS)
    await store.close()

    assert [turn.turn_id for turn in due.turns] == ["t1"]
    assert [(turn.turn_id, turn.owner) for turn in due.cancels] == [("t1", None)]
    assert [(inbox.first.item_id, inbox.now) for inbox in due.inboxes] == [("i1", True)]
    # Some columns more, in which nothing is, and a table.
    before["turns"] = [(*row, None) for row in before["turns"]]
    before["sessions"] = [(*row, "chat", None, None, None, None) for row in before["sessions"]]
    before["waits"] = [(*row, 0, None) for row in before["waits"]]
    before["inbox"] = [(*row, None) for row in before["inbox"]]
    before["news"] = []
    assert turns.dump(path) == before
    new = SqliteStore(path.with_name("new.db"))
    await new.open()
    await new.close()
    assert made_as(path) == made_as(new.path)
    assert raw(path).pragma("user_version") == VERSION


def made_as(path: Path) -> list[tuple[object, ...]]:
    """Return how the tables and indexes of a file were made, in the words of the file."""
    query = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
    return [tuple(row) for row in raw(path).execute(query)]
