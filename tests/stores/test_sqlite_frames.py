"""The last frame of a session is read from behind: all of it is compared with its links, nothing before it is looked at."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.runtime.turns import GENERATION, UNTIL_MS, begin, ending
from tests.stores.files import raw
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import JournalCorrupt
from windlass.journal import FrameOpened
from windlass.stores.sqlite import SqliteStore

PAGES, FRAME_AT = 12, 9
FRAME = FrameOpened(frame_id="f", carries=True)


async def grown(path: Path) -> None:
    """Make a session whose ninth page of twelve opens a frame, and a fork of it."""
    store = SqliteStore(path)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    for head in range(PAGES):
        turn_id = f"t{head + 1}"
        await begin(store, "a", worker, turn_id=turn_id)
        end = ending(f"end of {turn_id}", head=head)
        if head + 1 == FRAME_AT:
            end = msgspec.structs.replace(end, nodes=(FRAME, *end.nodes))
        await UnitShortcuts(store).commit("a", turn_id, end, generation=GENERATION)
    await store.fork("a", "f", at=FRAME_AT + 1)
    await store.close()


def damage(path: Path, seq: int) -> None:
    db = raw(path)
    db.execute("UPDATE log SET page = zeroblob(length(page)) WHERE strand = 0 AND seq = ?", (seq,))
    assert db.changes() == 1
    db.close()


async def seen(path: Path, session_id: str, *, frame: bool) -> list[str]:
    store = SqliteStore(path)
    await store.open()
    try:
        return [p.turn_id for p in (await store.load_session(session_id, frame=frame)).pages]
    finally:
        await store.close()


@pytest.mark.parametrize("seq", [1, FRAME_AT - 2, FRAME_AT - 1])
async def test_what_lies_before_the_frame_is_not_read(tmp_path: Path, seq: int) -> None:
    path = tmp_path / "w.db"
    await grown(path)
    damage(path, seq)

    assert await seen(path, "a", frame=True) == ["t9", "t10", "t11", "t12"]
    assert await seen(path, "f", frame=True) == ["t9", "t10"]
    with pytest.raises(JournalCorrupt, match=f"history of a, page {seq}: "):
        await seen(path, "a", frame=False)


@pytest.mark.parametrize("frame", [True, False])
@pytest.mark.parametrize("seq", [FRAME_AT, FRAME_AT + 1, PAGES])
async def test_damage_in_the_frame_is_found(tmp_path: Path, seq: int, frame: bool) -> None:
    path = tmp_path / "w.db"
    await grown(path)
    damage(path, seq)

    with pytest.raises(JournalCorrupt, match=f"history of a, page {seq}: "):
        await seen(path, "a", frame=frame)
