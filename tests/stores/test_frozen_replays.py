"""Turns of frozen files replay with the agent that they were written by: every release goes on reading them."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from tests.runtime.replays import Kept, check_same, read, replayed
from tests.stores.test_frozen_files import helper, thawed
from windlass import Runtime
from windlass.stores.sqlite import SqliteStore

DONE = [("done", "t1"), ("done", "t2"), ("asked", "t1")]
TURNS = [
    *(("format-1-finished", *place) for place in DONE),
    *(("format-2-finished", *place) for place in DONE),
    *(("format-2-unfinished", *place) for place in DONE),
]
MAX_S = 0.005
TRIES = 7


async def opened(path: Path) -> SqliteStore:
    """Return a store that is only read."""
    store = SqliteStore(path)
    await store.open()
    return store


async def frozen_turn(folder: Path, name: str, session_id: str, turn_id: str) -> Kept:
    """Return a turn of a frozen file, and the agent that it was written by."""
    store = await opened(thawed(folder, name))
    view, session = await read(store, session_id, turn_id)
    await store.close()
    return Kept(Runtime(helper())._programs["helper"], view, session)


@pytest.mark.parametrize(("name", "session_id", "turn_id"), TURNS)
async def test_a_finished_turn_of_a_frozen_file_replays_to_what_it_committed(
    tmp_path: Path, name: str, session_id: str, turn_id: str
) -> None:
    turn = await frozen_turn(tmp_path, name, session_id, turn_id)
    assert {page.format for page in turn.view.pages} == {int(name[7])}

    found = await check_same(turn)

    assert found.effects == 3


async def test_an_unfinished_turn_of_a_frozen_file_replays_up_to_what_it_waits_for(
    tmp_path: Path,
) -> None:
    turn = await frozen_turn(tmp_path, "format-2-unfinished", "open", "t9")

    found = await replayed(turn)

    assert (found.state, found.at, found.effects) == ("goes_on", "open/t9/1/0/tool_call/2/0", 1)
    assert [message.role for message in found.messages] == ["user", "assistant"]


@pytest.mark.parametrize(("name", "session_id", "turn_id"), TURNS[::3])
async def test_its_replay_takes_milliseconds(
    tmp_path: Path, name: str, session_id: str, turn_id: str
) -> None:
    turn = await frozen_turn(tmp_path, name, session_id, turn_id)
    took_s = []
    for _ in range(TRIES):
        began_s = process_time()
        await replayed(turn)
        took_s.append(process_time() - began_s)

    assert min(took_s) <= MAX_S
