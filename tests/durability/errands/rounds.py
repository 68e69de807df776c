"""Rounds of the errand soak: several workers on one file, killed at random moments, until all is quiet.

Beside the workers there is an operator: it reclaims whatever has ended at once, so that a settled item leaves no trace; it
deletes sessions that are sent to; and it lets turns go on that were taken for poison because their workers were killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apsw

from tests.durability.errands import plan
from tests.durability.errands.audit import Report, audit
from tests.durability.errands.worker import file_of, ledger_of
from tests.durability.errands.yard import yard
from tests.durability.soak.ledger import Ledger
from tests.durability.soak.lives import Nursery
from tests.limits import HANGS_S, SOAK
from windlass import Runtime
from windlass.errors import HeadMoved, SessionDeleted

N_WORKERS = 2 if SOAK == 1 else 3
# How long a worker may work before it is killed.
SHORTEST_S, LONGEST_S = 0.0, 0.35
# How often a turn that is taken for poison is let go on; after that it stays where it is, and the audit says so.
_RETRIES, _RETRIES_WITH_FAULTS = 30, 1
_LOOK_S = 0.05
_QUIET_LOOKS = 6
# What is about to happen: turns to be driven, and items that begin one. What waits behind a parked turn is quiet, and so is
# the parked turn, and a signal that nothing asks for; whether they may be, the audit says.
_UNREST = (
    "SELECT (SELECT count(*) FROM turns JOIN sessions ON sessions.no = turns.session"
    "    WHERE state IN ('running', 'ready') OR state = 'queued' AND active IS NULL)"
    " + (SELECT count(*) FROM inbox JOIN sessions ON sessions.no = inbox.session"
    "    WHERE state = 'pending' AND due <> 'asked' AND active IS NULL)"
)


class Round(NamedTuple):
    """One file: how often a worker was killed, and the audit."""

    folder: Path
    kills: int
    report: Report


class Kills:
    """How many kills are left, for all workers together."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._left = threading.Semaphore(count)

    def take(self) -> bool:
        """Take one; False: none is left."""
        return self._left.acquire(blocking=False)

    def give_back(self) -> None:
        """Leave one that was not made to another."""
        self._left.release()

    def made(self) -> int:
        """Return how many were made, when nothing takes any more."""
        left = 0
        while self.take():
            left += 1
        return self._count - left


def rounds(folder: Path, seed: int, kills: int, mutant: str = "") -> Iterator[Round]:
    """Kill workers so many times, each at work; whenever all is quiet on a file, take a new one."""
    folder.mkdir(exist_ok=True)
    logs = [folder / f"stderr.{number}" for number in range(N_WORKERS)]
    number = done = 0
    with ExitStack() as stack:
        module = "tests.durability.errands.nursery"
        nurseries = [stack.enter_context(Nursery(log, module)) for log in logs]
        while done < kills:
            place = folder / f"{seed}.{number}"
            place.mkdir()
            spent = play(nurseries, place, Random(f"{seed}.{number}"), kills - done, mutant)
            done, number = done + spent, number + 1
            yield Round(place, spent, asyncio.run(audit(place)))
    complaints = "".join(_unexpected(log) for log in logs)
    assert mutant or not complaints, complaints


def _unexpected(log: Path) -> str:
    """Return what workers complained about, but for what they are to say: that errands were dropped."""
    lines = log.read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("an errand to "))


def play(nurseries: Sequence[Nursery], place: Path, random: Random, kills: int, mutant: str) -> int:
    """Run workers on one file, and kill them on the way, until all is quiet; return how often."""
    asyncio.run(_prepare(place))
    left, over = Kills(kills), threading.Event()
    with ThreadPoolExecutor(len(nurseries)) as pool:
        lives = [
            pool.submit(_live, nursery, place, Random(random.random()), left, over, mutant)
            for nursery in nurseries
        ]
        try:
            retries = _RETRIES_WITH_FAULTS if mutant else _RETRIES
            asyncio.run(_operate(place, random, lives, retries))
        finally:
            over.set()
        for each in lives:
            each.result()
    return left.made()


def _live(
    nursery: Nursery,
    place: Path,
    random: Random,
    kills: Kills,
    over: threading.Event,
    mutant: str,
) -> None:
    """Start one worker after the other, and kill each at work; the last one lives until the round is over."""
    while not over.is_set():
        pid = nursery.start(str(place), mutant)
        is_to_die = kills.take()
        is_at_work = is_to_die and _begins(place, pid, over)
        if is_at_work and not over.wait(random.uniform(SHORTEST_S, LONGEST_S)):
            nursery.kill()
            wanted = -signal.SIGKILL
        else:
            if is_to_die:
                kills.give_back()
            over.wait()
            os.kill(pid, signal.SIGTERM)
            wanted = 0
        code = nursery.ended()
        assert code == wanted, f"{place}: a worker ended with {code}"


def _begins(place: Path, pid: int, over: threading.Event) -> bool:
    """Wait until a worker has begun to work; False: the round is over."""
    ledger, deadline = ledger_of(place, pid), time.monotonic() + HANGS_S
    while not over.is_set():
        if ledger.size():
            return True
        assert time.monotonic() < deadline, f"worker {pid} did not begin to work"
        time.sleep(0.002)
    return False


# ------------------------------------------------------------------------- the operator


async def _prepare(place: Path) -> None:
    """Make the sessions of a round, and ask each for what it is to do."""
    ledger, store = Ledger(place / "prepared"), f"sqlite:///{file_of(place)}"
    async with Runtime(yard(ledger, HANGS_S), store=store) as runtime:
        for session_id in (*plan.hearing(), *plan.deleted(), *plan.leaving()):
            await runtime.session(session_id).run("Hello.", turn_id=plan.TURN)
        for session_id in plan.deleted():
            await runtime.session(session_id).delete()
    async with Runtime(yard(ledger, HANGS_S), store=store, worker=False) as runtime:
        for session_id in (*plan.trees(), *plan.roots()):
            asked = plan.task_of(session_id)
            await runtime.session(session_id).submit(asked, turn_id=plan.TURN)
    ledger.close()


async def _operate(
    place: Path, random: Random, lives: Sequence[Future[None]], retries: int
) -> None:
    """Tidy up, delete and let go on, until all is quiet or a worker failed."""
    ledger, store = Ledger(place / "ledger.operator"), f"sqlite:///{file_of(place)}"
    retried: Counter[tuple[str, str]] = Counter()
    leaving = {session_id: random.randrange(100) for session_id in plan.leaving()}
    quiet = looks = 0
    async with Runtime(yard(ledger, HANGS_S), store=store, worker=False, retention=0) as runtime:
        while quiet < _QUIET_LOOKS and not any(each.done() for each in lives):
            looks += 1
            ledger.write("reclaimed", items=(await runtime.vacuum()).items)
            await _delete(runtime, [name for name, at in leaving.items() if looks >= at])
            for wait in await runtime.waits():
                turn = (wait.session_id, wait.turn_id)
                if wait.kind == "poison" and retried[turn] < retries:
                    retried[turn] += 1
                    await runtime.retry(*turn)
            quiet = 0 if _unrest(place) else quiet + 1
            await asyncio.sleep(_LOOK_S)
        await _delete(runtime, list(leaving))
    ledger.close()


async def _delete(runtime: Runtime[Any], session_ids: Sequence[str]) -> None:
    """Delete sessions, but for those at work."""
    for session_id in session_ids:
        with suppress(HeadMoved, SessionDeleted):
            await runtime.session(session_id).delete()


def _unrest(place: Path) -> int:
    db = apsw.Connection(str(file_of(place)), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = db.execute(_UNREST).get
    finally:
        db.close()
    assert isinstance(found, int)
    return found
