"""A process that reads all there is to read of the turn, in every way, and writes it down.

It knows none of the secrets, so it hides none. Commands are run as `windlass` runs them, each without a terminal.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from tests.limits import HANGS_S
from tests.security.stepped.agent import SESSION, TURN
from windlass import Runtime
from windlass.cli import main as cli
from windlass.cli.commands import tail
from windlass.cli.opening import Found
from windlass.cli.talk.screen import Screen, show_leftover
from windlass.cli.terminal import console
from windlass.errors import WindlassError
from windlass.folds import TurnFold
from windlass.folds.answers import Answers
from windlass.kernel import Message, TurnEnded
from windlass.stores import bell

COMMANDS = (
    ("show", SESSION),
    ("show", SESSION, "--json"),
    ("show", SESSION, "--turn", TURN),
    ("show", SESSION, "--turn", TURN, "--json"),
    ("tail", SESSION),
    ("tail", SESSION, "--json"),
    ("export", SESSION),
    ("sessions", "--json"),
    ("waits", "--json"),
)


def say(what: object) -> None:
    """Write something down, as it shows itself and as JSON."""
    sys.stdout.write(f"{what!r}\n{msgspec.json.encode(what, enc_hook=repr).decode()}\n")
    sys.stdout.flush()


async def read(runtime: Runtime[Any]) -> None:
    """Read by the interface for programs, once."""
    session, turn = runtime.session(SESSION), runtime.turn(SESSION, TURN)
    folded = await runtime._worker.folded.of(SESSION, TURN)
    assert folded is not None
    n_facts = len(folded.fold.facts)
    async with session.observe(turn.cursor) as seen:
        say([seen.committed, seen.provisional])
        for _ in range(n_facts):
            say(await anext(aiter(seen)))
    events = turn.events()
    for _ in range(n_facts):
        say(await anext(events))
    await events.aclose()
    say([await turn.messages(), await session.history(), await session.nodes()])
    say([await runtime.waits(), await runtime.turns(), await turn.status()])
    store = runtime._services.store
    found = Found(session=await store.load_session(SESSION), turns=(folded.view,))
    show_leftover(found, Screen(console()))  # as `windlass chat` begins


async def read_once(path: Path) -> None:
    """Read all, as far as it is there; what is refused is written down as well."""
    async with Runtime(store=f"sqlite:///{path}", durability="process") as runtime:
        async with runtime.session(SESSION).observe() as seen:
            say([seen.committed, seen.provisional, seen.cursor])
        try:
            async with asyncio.timeout(HANGS_S):
                if await runtime._services.store.load_turn(SESSION, TURN) is not None:
                    await read(runtime)
        except WindlassError as error:
            say(error)


async def watch(path: Path) -> None:
    """Watch the session and all that happens in the store until the turn has ended."""
    opened: Runtime[Any] = Runtime(store=f"sqlite:///{path}", durability="process")
    async with opened as runtime, asyncio.TaskGroup() as group:
        group.create_task(_watch_session(runtime))
        group.create_task(_watch_store(runtime))


async def _watch_session(runtime: Runtime[Any]) -> None:
    async with runtime.session(SESSION).observe() as seen:
        sys.stdout.write("watches the session\n")
        sys.stdout.flush()
        async for event in seen:
            say(event)
            if isinstance(event, TurnEnded):
                return


async def _watch_store(runtime: Runtime[Any]) -> None:
    async with runtime.observe() as seen:
        sys.stdout.write("watches the store\n")
        sys.stdout.flush()
        async for notice in seen:
            say(notice)
            if notice.kind == "turn_ended":
                return


def run_commands(path: Path) -> None:
    """Run every command that shows something, one after the other."""

    def leave(_seconds: float) -> None:
        raise KeyboardInterrupt  # as a person does who has seen enough

    tail.asyncio = SimpleNamespace(sleep=leave)  # type: ignore[attr-defined,assignment]  # as it sees it
    for words in COMMANDS:
        sys.stdout.write(f"$ windlass {' '.join(words)}\n")
        sys.stdout.flush()
        cli.main([*words, "--store", f"sqlite:///{path}"])
        sys.stdout.flush()


# ---------------------------------------------------------------------- faults


def tells_what_is_looked_at() -> None:
    """A fold tells replies and results before plugins have looked at them."""
    Answers._is_to_be_looked_at = lambda *_: False  # type: ignore[method-assign]


def tells_what_was_asked() -> None:
    """A fold tells the input before plugins have looked at it."""
    messages = TurnFold.messages.fget  # type: ignore[attr-defined]

    def raw(self: TurnFold) -> tuple[Message, ...]:
        asked = () if self._request is None else self._request.input
        found: tuple[Message, ...] = messages(self)
        return found or (Message(id="m", role="user", parts=asked),)

    TurnFold.messages = property(raw)  # type: ignore[assignment,method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (tells_what_is_looked_at, tells_what_was_asked)
}


def main(what: str, file: str, out: str, fault: str = "") -> None:
    """Read once, or watch to the end; write to a file."""
    # Output that is no terminal is cut into lines as well; none of them may cut a secret.
    os.environ["COLUMNS"] = "10000"
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    os.dup2(1, 2)
    bell.PERIOD_S = 0.01
    if fault:
        FAULTS[fault]()
    if what == "watch":
        asyncio.run(watch(Path(file)))
    else:
        asyncio.run(read_once(Path(file)))
        run_commands(Path(file))
    sys.stdout.flush()
