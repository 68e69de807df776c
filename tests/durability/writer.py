"""A program that writes turns and says so: a line on its standard output for all that is durable.

    python -m tests.durability.writer load FILE SESSION,... [--until-ms N] [--seconds N] [--shared SESSION]
    python -m tests.durability.writer obey FILE SESSION

`load` takes its sessions over, ends what is unfinished and runs turns until it is killed, or for so many
seconds. `obey` begins one turn and then does what its standard input says: `renew N`, `write`.

    ready                        it has joined
    took SESSION GENERATION      a session is its own
    unit s0 3 1                  a mark: acknowledged as durable
    shared 17 new|known          an accept that other processes make, too
    renewed N
    refused SESSION DOOR CODE    a write was refused, with this code
    landed SESSION DOOR          a write after a refusal was not refused
    over                         the last line of a clean end
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.durability.workload import (
    LEASE_MS,
    PAGES,
    Mark,
    Shape,
    Worker,
    commit,
    new_turn,
    resume,
    run_turn,
    turn_name,
    unit,
)
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import WindlassError
from windlass.ports import Start, Wait
from windlass.stores.sqlite import SqliteStore


def say(line: str) -> None:
    """Write a line with one system call: a kill leaves it whole or out."""
    os.write(1, f"{line}\n".encode())


def tell(mark: Mark) -> None:
    say(mark.line())


class Writer:
    """A store, a worker that has joined, and when to stop."""

    def __init__(self, store: SqliteStore, worker: Worker, *, ends_s: float | None) -> None:
        self.store = store
        self.worker = worker
        self.ends_s = ends_s

    def is_over(self) -> bool:
        return self.ends_s is not None and time.monotonic() >= self.ends_s

    async def run_session(self, session: str, shape: Shape | None) -> None:
        """Run turns, one after another; once something is refused, try every door and stop."""
        generation, turn = await resume(self.store, session, self.worker, tell)
        say(f"took {session} {generation}")
        while not self.is_over():
            try:
                await run_turn(
                    self.store, session, turn, self.worker, generation, tell, shape=shape
                )
            except WindlassError as error:
                say(f"refused {session} load {error.code}")
                await self.try_every_door(session, turn, generation)
                return
            turn += 1

    async def try_every_door(self, session: str, turn: int, generation: int) -> None:
        """Try each fenced write once, with content that is new, and print its result."""
        store, name = self.store, turn_name(turn)
        begins = Start(
            worker_id=self.worker.worker_id,
            until_ms=self.worker.until_ms,
            now_ms=self.worker.now_ms,
        )
        wait = Wait(key="w_zombie", kind="signal", session_id=session, turn_id=name)
        doors: dict[str, Callable[[], Awaitable[object]]] = {
            "submit": lambda: store.submit(
                unit(session, turn, PAGES, generation=generation)
            ).durable(),
            "commit": lambda: UnitShortcuts(store).commit(
                session, name, commit("zombie", turn), generation=generation
            ),
            "start": lambda: UnitShortcuts(store).start(
                session, name, begins, generation=generation
            ),
            "open_wait": lambda: UnitShortcuts(store).open_wait(
                session, name, wait, generation=generation
            ),
            "take_inbox": lambda: store.take_inbox(session, name, generation=generation),
        }
        for door, knock in doors.items():
            try:
                await knock()
            except WindlassError as error:
                say(f"refused {session} {door} {error.code}")
            else:
                say(f"landed {session} {door}")

    async def run_shared(self, session: str) -> None:
        """Accept turns that others accept, too."""
        number = 0
        while not self.is_over():
            receipt = await self.store.accept(session, turn_name(number), new_turn(session, number))
            say(f"shared {number} {'known' if receipt.known else 'new'}")
            number += 1
            # Others are to have their turn; the file is shared, the loop is not.
            await asyncio.sleep(0.01)


async def load(options: argparse.Namespace) -> None:
    store = SqliteStore(options.file)
    await store.open()
    until_ms = options.until_ms
    worker = Worker(await store.join(until_ms=until_ms, now_ms=1_000), until_ms=until_ms)
    ends_s = None if options.seconds is None else time.monotonic() + options.seconds
    writer = Writer(store, worker, ends_s=ends_s)
    say("ready")
    async with asyncio.TaskGroup() as group:
        for session in options.sessions.split(","):
            group.create_task(writer.run_session(session, options.shape))
        if options.shared is not None:
            group.create_task(writer.run_shared(options.shared))
    await store.close()
    say("over")


async def obey(options: argparse.Namespace) -> None:
    store = SqliteStore(options.file)
    await store.open()
    until_ms = options.until_ms
    worker = Worker(await store.join(until_ms=until_ms, now_ms=1_000), until_ms=until_ms)
    writer = Writer(store, worker, ends_s=None)
    session = options.sessions
    name = turn_name(0)
    await store.accept(session, name, new_turn(session, 0))
    begins = Start(worker_id=worker.worker_id, until_ms=until_ms, now_ms=1_000)
    await UnitShortcuts(store).start(session, name, begins, generation=1)
    tell(Mark("start", session, 0))
    await store.submit(unit(session, 0, 0, generation=1)).durable()
    tell(Mark("unit", session, 0, 0))
    say("ready")
    while order := await asyncio.to_thread(sys.stdin.readline):
        match order.split():
            case ["renew", until]:
                await store.renew(worker.worker_id, until_ms=int(until)).durable()
                say(f"renewed {until}")
            case ["write"]:
                await writer.try_every_door(session, 0, 1)
                break
            case _:
                raise SystemExit(f"unknown order: {order!r}")
    await store.close()
    say("over")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["load", "obey"])
    parser.add_argument("file", type=Path)
    parser.add_argument("sessions")
    parser.add_argument("--until-ms", type=int, default=1_000 + LEASE_MS)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--shape")
    parser.add_argument("--shared")
    options = parser.parse_args(arguments)
    asyncio.run(load(options) if options.what == "load" else obey(options))


if __name__ == "__main__":
    main(sys.argv[1:])
