"""Where several workers meet: a file, its ledger, and what this process does with both. It never drives a turn."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from tests.durability.soak import gang
from tests.durability.soak.ledger import Ledger, Line
from tests.durability.soak.member_process import Member
from tests.limits import HANGS_S
from windlass import Runtime
from windlass.journal import CallReturned, ToolCallCommand
from windlass.kernel.outcomes import Finished
from windlass.ports import SessionView, TurnView
from windlass.stores.sqlite import SqliteStore


class Job(NamedTuple):
    """A turn to submit."""

    session: str
    task: str
    turn: str = "t0"


class Place:
    """A file and its ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger(folder / "ledger")
        self.store = f"sqlite:///{folder / 'gang.db'}"

    def submit(self, *jobs: Job) -> None:
        """Submit turns."""

        async def run() -> None:
            agent = gang.gang(self.ledger)
            async with Runtime(agent, store=self.store, worker=False) as runtime:
                for job in jobs:
                    await runtime.session(job.session).submit(job.task, turn_id=job.turn)

        asyncio.run(run())

    def await_ends(self, *jobs: Job, within_s: float = HANGS_S) -> None:
        """Wait until all of these turns are done."""

        async def run() -> None:
            agent = gang.gang(self.ledger)
            async with Runtime(agent, store=self.store, worker=False) as runtime:
                for job in jobs:
                    handle = runtime.turn(job.session, job.turn)
                    result = await handle.result(timeout=within_s)
                    assert result.status == "done", f"{job}: {result}"

        asyncio.run(run())

    def lease_left_s(self, session: str) -> float:
        """Return for how long the owner of a session still has its lease."""
        db = apsw.Connection(str(self.folder / "gang.db"))
        try:
            until_ms = db.execute(
                "select until_ms from workers where id = (select owner from sessions where id = ?)",
                (session,),
            ).get
        finally:
            db.close()
        assert isinstance(until_ms, int)
        return until_ms / 1_000 - time.time()

    def read(self, job: Job) -> tuple[SessionView, TurnView]:
        """Return a turn and its session as they stand."""

        async def run() -> tuple[SessionView, TurnView]:
            store = SqliteStore(self.folder / "gang.db")
            await store.open()
            try:
                turn = await store.load_turn(job.session, job.turn)
                assert turn is not None
                return await store.load_session(job.session), turn
            finally:
                await store.close()

        return asyncio.run(run())

    def runs(self, session: str = "") -> list[Line]:
        """Return all bodies that began."""
        return [line for line in self.ledger.lines("tool") if session in ("", line.session)]

    def findings(self, *jobs: Job, cut: tuple[str, ...] = ()) -> list[str]:
        """Return what does not hold of turns that are done; `cut` are sessions whose worker was lost."""
        found = []
        for job in jobs:
            session, turn = self.read(job)
            words = job.task.removeprefix("Do ").split()
            if turn.outcome != Finished(text=f"did {len(words)}"):
                found.append(f"{job.session}: came to {turn.outcome}")
            if [page.turn_id for page in session.pages].count(job.turn) != 1:
                found.append(f"{job.session}: was committed {len(session.pages)} times")
            written = [page.generation for page in turn.pages]
            if written != sorted(written):
                found.append(f"{job.session}: generations wrote in the order {written}")
            most = 1 if job.session not in cut else 2
            found += self._runs_of(job, words, most)
        return found

    def _runs_of(self, job: Job, words: list[str], most: int) -> Iterator[str]:
        runs = [line for line in self.runs(job.session) if line.call.startswith(f"{job.turn}/")]
        times = Counter(line.call for line in runs)
        wanted = sum(len(word.split("+")) for word in words)
        if len(times) != wanted:
            yield f"{job.session}: {len(times)} calls ran, wanted {wanted}"
        for call, count in times.items():
            if "/look_" not in call and count > (1 if "/pay_" in call else most):
                yield f"{job.session}: {call} ran {count} times"
        if len({(line.call, line.said["key"]) for line in runs}) != len(times):
            yield f"{job.session}: calls ran under several keys"

    def statuses(self, job: Job) -> dict[str, str]:
        """Return how the calls of a turn ended, by call."""
        _, turn = self.read(job)
        return {
            row.command.call_id: row.outcome.outcome.status
            for row in turn.journal().rows()
            if isinstance(row.command, ToolCallCommand) and isinstance(row.outcome, CallReturned)
        }


@contextmanager
def members(place: Place, count: int, *arguments: str) -> Iterator[list[Member]]:
    """Start several members at once."""
    started = [Member(place.folder, *arguments) for _ in range(count)]
    try:
        for member in started:
            member.await_line("ready")
        yield started
    finally:
        for member in started:
            member.kill()
