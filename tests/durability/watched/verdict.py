"""What has to hold after every round: what the observers were told, one after the other, is what the file holds.

The ledger has the events of all observers in one order. Facts are compared with those that fold out of the file at the
end, by all that they say, and by their kinds with a list that was written by hand. Of previews, what a reader may hold on to is followed as a reader would: until the call has
ended, or they were taken back, or a view replaced them, or the observer goes on in another process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.durability.soak.ledger import Line
from tests.durability.watched.clerk import NAMES, SESSION, TASKS
from tests.durability.watched.observer import file_of, ledger_of, told
from windlass.folds import TurnFold, frame_in
from windlass.kernel import Event
from windlass.stores.sqlite import SqliteStore


class Verdict(NamedTuple):
    """What is wrong, and how much was looked at."""

    findings: list[str]
    facts: int
    previews: int


async def judge(folder: Path) -> Verdict:
    """Compare a round's ledger with its file."""
    everything = ledger_of(folder).lines()
    lines = [line for line in everything if line.kind in ("watches", "event")]
    shown = [line for line in lines if line.kind == "event" and not line.said["preview"]]
    stored = await _stored(folder)
    findings = [f"failed: {line.said['why']}" for line in everything if line.kind == "fails"]
    findings += [*_gaps(lines), *_differences(shown, stored), *dangling(lines), *_words(lines)]
    names = tuple(line.said["type"] for line in shown if '"kind":"poison"' not in line.said["told"])
    if not findings and names != NAMES:
        findings.append(f"the facts are {names}")
    return Verdict(findings, len(shown), sum(line.said.get("preview", False) for line in lines))


async def _stored(folder: Path) -> list[Event]:
    """Return the facts of both turns that the file holds."""
    store = SqliteStore(file_of(folder))
    await store.open()
    found: list[Event] = []
    try:
        for turn_id in TASKS:
            view = await store.load_turn(SESSION, turn_id)
            if view is not None:
                pages = await store.load_history(SESSION, before=view.turn_index)
                found += TurnFold.of(view, frame_in(pages)).facts
    finally:
        await store.close()
    return found


def _gaps(lines: Iterable[Line]) -> Iterator[str]:
    """Every observer goes on where the one before it was."""
    for line in lines:
        if line.kind == "watches" and line.said["has_gap"]:
            yield f"an observer has a gap at {line.said['cursor']}"


def _differences(shown: list[Line], stored: list[Event]) -> Iterator[str]:
    """Each fact of the file was shown once, in its order, and as it is."""
    ids, wanted = [line.said["id"] for line in shown], [fact.id for fact in stored]
    yield from (f"told twice: {one}" for one, times in Counter(ids).items() if times > 1)
    names = {fact.id: type(fact).__name__ for fact in stored}
    yield from (f"never told: {names[one]} {one}" for one in wanted if one not in ids)
    yield from (f"told, not stored: {one}" for one in ids if one not in names)
    if sorted(ids) == sorted(wanted) and ids != wanted:
        yield f"told in another order: {ids}, stored as {wanted}"
    whole = {fact.id: told(fact) for fact in stored}
    for line in shown:
        if line.said["told"] != whole.get(line.said["id"], line.said["told"]):
            yield f"told otherwise: {line.said['told']}, stored as {whole[line.said['id']]}"


def dangling(lines: Iterable[Line]) -> Iterator[str]:
    """No preview is left over that stands for nothing."""
    held: dict[str, str] = {}
    life = ""
    for line in lines:
        said = line.said
        if line.life != life:
            life = line.life
            held.clear()  # it goes on in another process
        if line.kind == "watches":
            continue
        if said["type"] == "Recovered":
            held.clear()  # there is a view instead
        elif not said["preview"]:
            held.pop(said["about"], None)
        elif said["type"] == "Retracted":
            for about in said["retracts"]:
                held.pop(about, None)
        elif said["about"]:
            held[said["about"]] = said["type"]
    yield from (f"left over: {name} of {about}" for about, name in held.items())


def _words(lines: Iterable[Line]) -> Iterator[str]:
    """In the process that drives, a reply is seen word by word, from its beginning on.

    An observer that leaves loses no word if its cursor names a place of the live feed.
    """
    said: dict[tuple[str, str], str] = {}
    is_live = True
    for line in lines:
        if line.kind == "watches":
            if not is_live:
                said.clear()
            continue
        is_live = line.said["cursor"].split("/")[1] != ""
        call = (line.life, line.said["about"])
        words = line.said["text"]
        if line.said["type"] == "ModelStarted":
            said[call] = ""
        elif line.said["type"] == "TextDelta" and call in said:
            said[call] += words
        elif line.said["type"] == "ModelFinished" and said.get(call, words) != words:
            yield f"shown as {said[call]!r}: {words!r}"
