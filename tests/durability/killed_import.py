"""Imports a session again and again, each time killed at another disk call; says what was found after each kill.

python -m tests.durability.killed_import FOLDER
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.durability.faulty_vfs import CallKind, FaultyVfs
from windlass.errors import UnknownSession
from windlass.journal import HistoryPage
from windlass.kernel import ConversationRecord, Finished, Message, Text
from windlass.ports import ImportedSession, ImportedTurn
from windlass.stores.sqlite import SqliteStore

N_TURNS = 12
MAX_CALLS = 2_000
NONE, WHOLE, HALF = 10, 11, 12


def session() -> ImportedSession:
    """A session of turns, some of them long enough that their texts are kept apart."""
    return ImportedSession(
        session_id="s", agent="a", created_ms=1, turns=tuple(map(_turn, range(N_TURNS)))
    )


def _turn(number: int) -> ImportedTurn:
    said = Message(id=f"m{number}", role="user", parts=(Text(text=f"{number} " * 900),))
    page = HistoryPage(
        format=1,
        turn_id=f"t{number}",
        nodes=(ConversationRecord(message=said),),
        outcome=Finished(text="done"),
        committed_ms=number,
    )
    return ImportedTurn(page=page, request_digest=f"{number:064x}")


class KillingVfs(FaultyVfs):
    """A disk under which the process dies at its n-th call."""

    left = -1

    def pass_or_fail(self, kind: CallKind) -> None:
        if self.left > 0:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
        super().pass_or_fail(kind)


async def bring_in(path: Path, nth: int) -> None:
    vfs = KillingVfs("killing")
    store = SqliteStore(path, vfs=vfs.name)
    await store.open()
    vfs.left = nth
    await store.import_session(session(), now_ms=2)
    vfs.left = -1
    await store.close()


async def found(path: Path) -> int:
    """Return whether the session is there, and whole."""
    store = SqliteStore(path)
    await store.open()
    try:
        view = await store.load_session("s")
    except UnknownSession:
        # Then it can be imported, and nothing is in the way.
        view = await store.import_session(session(), now_ms=3)
        kind = NONE
    else:
        kind = WHOLE
    turn = await store.load_turn("s", f"t{N_TURNS - 1}")
    is_good = turn is not None and view.pages == tuple(one.page for one in session().turns)
    await store.close()
    return kind if is_good and view.head == N_TURNS else HALF


def apart(work: Callable[[], int]) -> int:
    """Do something in a process of its own; return how that ended."""
    pid = os.fork()
    if not pid:
        os._exit(work())
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def main(folder: Path) -> None:
    template = folder / "template"
    template.mkdir()

    async def make() -> None:
        store = SqliteStore(template / "w.db")
        await store.open()
        await store.close()

    apart(lambda: asyncio.run(make()) or 0)
    for nth in range(1, MAX_CALLS):
        place = folder / "trial"
        shutil.copytree(template, place)
        path = place / "w.db"
        ended = apart(lambda path=path, nth=nth: asyncio.run(bring_in(path, nth)) or 0)  # type: ignore[misc]  # a thunk
        left = apart(lambda path=path: asyncio.run(found(path)))  # type: ignore[misc]  # a thunk
        sys.stdout.write(f"{ended} {left}\n")
        shutil.rmtree(place)
        if ended == 0:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
