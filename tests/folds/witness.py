"""A witness: sees every fact that live feeds of this process show, and compares them with what the store folds to.

The law: what feeds showed of a turn is what its rows fold to. Of a turn whose drives were all here and were not cut off,
that is all of it; of any other, facts in their order, none twice. Rows fold the same in any portions, and the machine of
a fold has said what the turn committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import msgspec
import pytest

from windlass.errors import InvalidInput, JournalCorrupt, SessionDeleted, UnknownSession
from windlass.folds import (
    TurnFold,
    facts_behind,
    facts_of,
    place_of,
    read_cursor,
    write_cursor,
)
from windlass.journal import DriveBegan
from windlass.kernel import Chain, ConversationRecord, Event, Message, canonical
from windlass.kernel.compaction import CompactionDriver
from windlass.ports import TurnView
from windlass.runtime.drive import Drive, Parked
from windlass.runtime.feed import SessionFeed, TurnFeed
from windlass.runtime.folded import history_of
from windlass.runtime.starting import Job
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import TurnRecord
from windlass.stores.memory import MemoryStore
from windlass.stores.sqlite import SqliteStore
from windlass.testing.crashing.crashing_store import CrashingStore

# Of more turns than this in one test some are compared.
_MAX_TURNS = 40

Fold = Callable[[TurnView, Chain[Message] | None], Iterable[Event]]


class _Seen(NamedTuple):
    """What was seen of one turn: its drives, whether the first began it, those that returned, and what was shown."""

    store: Any
    session_id: str
    turn_id: str
    drives: list[Turn]
    returned: list[Drive]
    facts: list[Event]

    @property
    def is_whole(self) -> bool:
        """Whether the turn began here, and each drive of it went to its end or parked."""
        return self.drives[0].recovery is None and len(self.drives) == len(self.returned)


class Witness:
    """Keeps what was shown, and says whether the stores say the same."""

    def __init__(self, fold: Fold = facts_of) -> None:
        self._fold = fold
        self._seen: dict[tuple[object, str, str], _Seen] = {}
        self._by_feed: dict[int, tuple[_Seen, object]] = {}
        # How many turns were compared, and how many of them fact by fact.
        self.n_compared = self.n_whole = 0

    # ------------------------------------------------------------------ seeing

    @contextmanager
    def watching(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """See what is shown meanwhile."""
        show, begin, run = SessionFeed._pass, Drive._new_turn, Drive.run
        by_drive: dict[int, _Seen] = {}

        def passed(feed: SessionFeed, turn: TurnFeed, events: list[Event] | None) -> None:
            self._show(turn, events or ())
            show(feed, turn, events)

        def begun(drive: Drive, job: Job) -> Turn:
            turn = begin(drive, job)
            by_drive[id(drive)] = self._note(turn)
            return turn

        async def ran(drive: Drive) -> TurnRecord | Parked:
            ended = await run(drive)
            by_drive[id(drive)].returned.append(drive)
            return ended

        with monkeypatch.context() as patch:
            patch.setattr(SessionFeed, "_pass", passed)
            patch.setattr(Drive, "_new_turn", begun)
            patch.setattr(Drive, "run", ran)
            yield

    def _note(self, turn: Turn) -> _Seen:
        store: Any = turn.services.store
        while not isinstance(store, (MemoryStore, SqliteStore)):
            store = store._store  # one that stands before another
        place: object = store.path if isinstance(store, SqliteStore) else id(store)
        key = (place, turn.session_id, turn.turn_id)
        new = _Seen(store, turn.session_id, turn.turn_id, [], [], [])
        seen = self._seen.setdefault(key, new)
        seen.drives.append(turn)  # so that its feed keeps its number
        self._by_feed[id(turn.feed)] = (seen, turn.services.store)
        return seen

    def _show(self, turn: TurnFeed, events: Iterable[Event]) -> None:
        seen, store = self._by_feed.get(id(turn), (None, None))
        # A process that a test killed may still be cleared away: nobody watches it any more.
        is_dead = isinstance(store, CrashingStore) and store._fuse.is_burnt
        if seen is not None and not is_dead:
            seen.facts.extend(event for event in events if not event.preview)

    # ------------------------------------------------------------------ comparing

    def check_now(self) -> None:
        """Do as `check` where no loop runs."""
        if self._seen:
            asyncio.run(self.check())

    async def check(self) -> None:
        """Fail unless the stores say what was shown: of all turns, or of the first and the last of very many."""
        turns = list(self._seen.values())
        if len(turns) > _MAX_TURNS:
            half = _MAX_TURNS // 2
            turns = [*turns[:half], *turns[-half:]]
        by_store: dict[int, list[_Seen]] = {}
        for seen in turns:
            by_store.setdefault(id(seen.store), []).append(seen)
        for group in by_store.values():
            await self._check_store(group)

    async def _check_store(self, group: list[_Seen]) -> None:
        given, store = group[0].store, MemoryStore()  # type: tuple[Any, Any]
        if isinstance(given, MemoryStore):
            store._tables = given._tables  # a test may have changed how its own store reads
        elif given.path.exists():
            store = SqliteStore(given.path, durability="process")
        try:
            await store.open()
        except JournalCorrupt:
            return  # a test broke it
        try:
            for seen in group:
                # A test may break a turn, or let its session go.
                with suppress(JournalCorrupt, UnknownSession, SessionDeleted):
                    await self._check(store, seen)
        finally:
            await store.close()

    async def _check(self, store: Any, seen: _Seen) -> None:  # noqa: ANN401 - either of the two
        view = await store.load_turn(seen.session_id, seen.turn_id)
        if view is None or view.is_reclaimed:
            return
        history = await history_of(store, view)
        folded, shown = lines(self._fold(view, history)), lines(seen.facts)
        self.n_compared += 1
        entries = [entry for page in view.pages for entry in page.entries]
        n_drives = sum(isinstance(entry, DriveBegan) for entry in entries)
        place = f"{seen.session_id}/{seen.turn_id}"
        if seen.is_whole and len(seen.drives) >= n_drives:
            self.n_whole += 1
            expect(shown == folded, f"{place}: shown is not folded", shown, folded)
        else:
            rest = iter(folded)
            told = f"{place}: shown, and not folded at its place"
            expect(all(line in rest for line in shown), told, shown, folded)
        at_once, portions = TurnFold.of(view, history), fold_in_portions(view, history)
        found, wanted = lines(portions.facts), lines(at_once.facts)
        expect(found == wanted, f"{place}: in portions, and at once", found, wanted)
        check_cursors(seen.session_id, seen.turn_id, at_once.facts)
        machine = at_once._machine
        if view.page is not None and machine is not None and machine.records:
            said = lines(one for one in machine.records if type(one) is ConversationRecord)
            kept = lines(one for one in view.page.nodes if type(one) is ConversationRecord)
            is_sum = isinstance(machine._config.driver, CompactionDriver)
            expect(said == kept or is_sum, f"{place}: said, and committed", said, kept)


def check_cursors(session_id: str, turn_id: str, facts: list[Event]) -> None:
    """Fail unless every cursor of a turn gives exactly the rest, and is refused in another session."""
    for at, fact in enumerate(facts):
        cursor = write_cursor(session_id, "", place_of(fact, session_id, turn_id))
        rest = facts_behind(facts, read_cursor(cursor, session_id).place)
        expect(rest == facts[at + 1 :], f"{cursor}: the rest", lines(rest), lines(facts[at + 1 :]))
        with pytest.raises(InvalidInput):
            read_cursor(cursor, f"{session_id}.")


def fold_in_portions(view: TurnView, history: Chain[Message]) -> TurnFold:
    """Return the fold of a turn that is read page by page, as it grows."""
    fold = TurnFold(view.session_id, view.turn_id, view.request, history)
    unfinished = msgspec.structs.replace(view, outcome=None, page=None, receipt=None)
    for at, page in enumerate(view.pages):
        waits = tuple(one for one in view.waits if one.page <= at + 1)
        fold.absorb(msgspec.structs.replace(unfinished, pages=(page,), since=at, waits=waits))
    fold.absorb(view)
    return fold


def lines(values: Iterable[object]) -> list[str]:
    """Return facts, or other values, as text that shows all of them."""
    return [canonical.encode(value).decode() for value in values]


def expect(is_so: bool, claim: str, found: list[str], wanted: list[str]) -> None:
    """Fail with both lists unless it is so."""
    if not is_so:
        raise AssertionError("\n".join([claim, "found:", *found, "wanted:", *wanted]))
