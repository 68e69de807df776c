"""Journals that earlier releases wrote fold to the facts of their turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stores.test_frozen_files import thawed
from windlass.folds import facts_of
from windlass.kernel.events import Event
from windlass.runtime.folded import history_of
from windlass.stores.sqlite import SqliteStore

# What a turn tells, by the end of the fact's id. Rows from before waits told their page come first.
PAID = [
    "UsageReported 1", "ModelFinished 2", "ToolFinished 3", "UsageReported 5", "ModelFinished 7", "TurnEnded end",
]  # fmt: skip
TOLD_ABOUT_TEA = [
    "UsageReported 1", "ModelFinished 2", "ToolFinished 3", "ToolFinished 4", "UsageReported 6", "ModelFinished 8",
    "TurnEnded end",
]  # fmt: skip
ASKED = [
    "WaitOpened wait1", "UsageReported 1", "ModelFinished 2", "WaitResolved wait1.over", *PAID[2:],
]  # fmt: skip


def in_short(fact: Event) -> str:
    return f"{type(fact).__name__} {fact.id.partition('.')[2]}"


@pytest.mark.parametrize("name", ["format-1-finished", "format-2-finished"])
@pytest.mark.parametrize(
    ("place", "told"),
    [(("done", "t1"), PAID), (("done", "t2"), TOLD_ABOUT_TEA), (("asked", "t1"), ASKED)],
)
async def test_a_turn_of_an_earlier_release_is_told(
    tmp_path: Path, name: str, place: tuple[str, str], told: list[str]
) -> None:
    store = SqliteStore(thawed(tmp_path, name))
    await store.open()
    view = await store.load_turn(*place)
    assert view is not None
    history = await history_of(store, view)
    await store.close()

    assert [in_short(fact) for fact in facts_of(view, history)] == told
