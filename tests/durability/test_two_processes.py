"""Two processes on one file: neither loses what the other wrote, and neither is refused because of the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from tests.durability.workload import check_session, turn_name
from tests.durability.writing_process import WritingProcess
from tests.limits import times
from windlass.stores.sqlite import SqliteStore

SECONDS = times(8)
SESSIONS = (("a0", "a1", "a2"), ("b0", "b1", "b2"))


async def check_file(file: Path, writers: list[WritingProcess]) -> None:
    """Compare the file with what both have said."""
    store = SqliteStore(file)
    await store.open()
    try:
        for writer, sessions in zip(writers, SESSIONS, strict=True):
            for session in sessions:
                marks = [m for m in writer.marks if m.session == session]
                n_commits = sum(m.kind == "commit" for m in marks)
                assert await check_session(store, session, marks) == n_commits
        both = [writer.said("shared") for writer in writers]
        queued = (await store.inbox("shared")).queued_turns
        assert queued == tuple(turn_name(n) for n in range(max(map(len, both))))
    finally:
        await store.close()
    # Each shared turn was new to one of the two, and known to the other if that came so far.
    new = [int(number) for said in both for number, how in said if how == "new"]
    assert sorted(new) == list(range(max(map(len, both))))
    # They did race. Who is ahead may stay ahead: that one of the two is always second is no fault.
    assert all(both)
    assert any(how == "known" for said in both for _, how in said)


def test_processes_that_make_the_same_new_file_at_once_all_open_it(tmp_path: Path) -> None:
    for round_ in range(5):
        file = str(tmp_path / f"{round_}.db")
        writers = [WritingProcess("load", file, f"s{n}", "--seconds", "0.2") for n in range(4)]
        codes = [writer.wait() for writer in writers]
        assert codes == [0] * 4, "".join(writer.stderr for writer in writers)
        assert [writer.lines[-1] for writer in writers] == ["over"] * 4


async def make(file: Path) -> None:
    """Make the file, so that neither process waits for the other to make it."""
    store = SqliteStore(file)
    await store.open()
    await store.close()


@pytest.mark.slow
def test_two_writers_lose_nothing_and_hear_nothing_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "w.db"
    asyncio.run(make(file))
    options = ("--seconds", str(SECONDS), "--shared", "shared")
    with (
        WritingProcess("load", str(file), ",".join(SESSIONS[0]), *options) as first,
        WritingProcess("load", str(file), ",".join(SESSIONS[1]), *options) as second,
    ):
        codes = [first.wait(SECONDS), second.wait(SECONDS)]
    assert codes == [0, 0], first.stderr + second.stderr
    assert [first.lines[-1], second.lines[-1]] == ["over", "over"]
    assert first.said("refused") + second.said("refused") == []
    asyncio.run(check_file(file, [first, second]))
    db = apsw.Connection(str(file))
    assert db.pragma("integrity_check") == "ok"
    db.close()
