"""The floor: a bare asyncio loop that does the same calls and stores the same messages, and nothing else.

`full`: one row and one FULL commit per step (question, reply, result), in autocommit, as one would write it by hand.
`group`: a thread commits whatever waits in one transaction. `memory`: nothing is stored.
Through apsw, with windlass's pragmas. `warm` fills the write-ahead log first, as windlass does when it makes a file.
"""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import apsw

from bench.workloads.candidate import Candidate
from bench.workloads.script import Args, script

WAL_PAGES = 1_000
_TABLE = "CREATE TABLE IF NOT EXISTS steps (session TEXT, at INTEGER, body TEXT, PRIMARY KEY (session, at)) WITHOUT ROWID"
_PUT = "INSERT INTO steps VALUES (?, ?, ?)"

Step: TypeAlias = dict[str, Any]
Row: TypeAlias = "tuple[str, int, str]"
_Waiting: TypeAlias = "tuple[Row, asyncio.Future[None]]"


def connect(path: Path, *, warm: bool = False, vfs: str | None = None) -> apsw.Connection:
    """Open a file with windlass's pragmas and one plain table."""
    db = apsw.Connection(str(path), vfs=vfs)
    db.set_busy_timeout(5_000)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    db.execute("PRAGMA secure_delete = ON")
    db.execute("PRAGMA cache_size = -16384")
    db.execute(_TABLE)
    if warm:
        _warm(db)
    return db


def _warm(db: apsw.Connection) -> None:
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    for _ in range(WAL_PAGES + 24):
        db.execute("PRAGMA application_id = 1")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)


class Floor(Candidate):
    """The least that anybody could do."""

    def __init__(
        self, variant: str, folder: Path, *, warm: bool = False, vfs: str | None = None
    ) -> None:
        super().__init__(variant, folder)
        self._warm = warm
        self._vfs = vfs
        self._histories: dict[str, list[Step]] = {}
        self._db: apsw.Connection | None = None
        self._group: _Group | None = None
        self.commits = 0

    async def open(self) -> None:
        """Open the file, unless nothing is stored."""
        if self.variant != "memory":
            self._db = connect(self.folder / "floor.db", warm=self._warm, vfs=self._vfs)
        if self.variant == "group":
            assert self._db is not None
            self._group = _Group(self._db)

    async def close(self) -> None:
        """Close the file."""
        if self._group is not None:
            self._group.close()
        if self._db is not None:
            self._db.close()

    async def turn(self, session: str, asked: str) -> str:
        """Ask, and loop until there is an answer."""
        history = self._history(session)
        await self._add(session, history, {"role": "user", "text": asked})
        return await self._go_on(session, history, asked, 0)

    async def resume(self, session: str, asked: str) -> str:
        """Run the calls of the last reply that have no result, then go on."""
        history = self._history(session)
        at = max(at for at, step in enumerate(history) if step["role"] != "tool")
        done = {step["id"] for step in history[at + 1 :]}
        left = [call for call in history[at].get("calls", ()) if call["id"] not in done]
        await self._run_calls(session, history, left)
        asked_at = max(at for at, step in enumerate(history) if step["role"] == "user")
        n_results = sum(step["role"] == "tool" for step in history[asked_at:])
        return await self._go_on(session, history, asked, n_results)

    async def _go_on(self, session: str, history: list[Step], asked: str, n_results: int) -> str:
        while True:
            said = script.reply(asked, n_results, len(history))
            if isinstance(said, str):
                await self._add(session, history, {"role": "assistant", "text": said})
                return said
            calls = [{"id": script.call_id(), "args": args} for args in said]
            await self._add(session, history, {"role": "assistant", "calls": calls})
            await self._run_calls(session, history, calls)
            n_results += len(calls)

    async def _run_calls(self, session: str, history: list[Step], calls: list[Step]) -> None:
        async def run(call: Step) -> None:
            args: Args = call["args"]
            text = await script.run_tool(**args)
            await self._add(session, history, {"role": "tool", "id": call["id"], "text": text})

        if len(calls) == 1:
            await run(calls[0])
        else:
            await asyncio.gather(*map(run, calls))

    async def _add(self, session: str, history: list[Step], step: Step) -> None:
        history.append(step)
        if self._db is None:
            return
        row = (session, len(history), json.dumps(step))
        if self._group is None:
            self._db.execute(_PUT, row)
            self.commits += 1
        else:
            await self._group.write(row)
            self.commits = self._group.commits

    def _history(self, session: str) -> list[Step]:
        known = self._histories.get(session)
        if known is None:
            known = self._histories[session] = []
            if self._db is not None:
                found = self._db.execute(
                    "SELECT body FROM steps WHERE session = ? ORDER BY at", (session,)
                )
                known += [json.loads(body) for (body,) in found]
        return known


class _Group:
    """A thread that commits all rows that wait in one transaction."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.commits = 0
        self._thread.start()

    async def write(self, row: Row) -> None:
        """Hand a row in and wait until it is durable."""
        done = self._loop.create_future()
        self._queue.put((row, done))
        await done

    def close(self) -> None:
        """Stop the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            while not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    return
                batch.append(more)
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_PUT, [row for row, _ in batch])
            self._db.execute("COMMIT")
            self.commits += 1
            self._loop.call_soon_threadsafe(_tell, batch)


def _tell(batch: list[_Waiting]) -> None:
    for _, done in batch:
        done.set_result(None)
