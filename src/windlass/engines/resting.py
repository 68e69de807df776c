"""Waiting for a turn to rest: it has ended, or it is parked and nothing of it gets on by itself.

A turn may wait for other sessions (`child`) and for a time (`timer`). It rests only when what it waits for does: an answer
that is missing three sessions below is what its caller is told of, and what its caller answers.

Law 1. A turn that waits for nothing but children and timers goes on for its caller as long as one of those does.
Law 2. What a resting turn waits for are the leaves: the waits that something outside has to answer. A timer counts as one
    if it is far off, because its caller would be kept for as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import NamedTuple

import msgspec

from windlass.engines.drives import Drives
from windlass.errors import EngineError, SessionDeleted, StoreUnavailable, UnknownSession
from windlass.ports import Store, TurnView, Wait, WaitView
from windlass.ports.waits import waits_for_itself
from windlass.runtime.hand_off import last_turn
from windlass.runtime.services import Services
from windlass.runtime.store_watch import StoreWatch
from windlass.runtime.turn_record import TurnRecord

# A timer that is due within this time is waited for.
SOON_MS = 60_000
# Nothing starts sessions so deep; a tree that does is damaged.
_MAX_DEPTH = 64
# News from other processes is best effort: this often a caller looks for itself.
_LOOK_S = 5.0


class Leaves(NamedTuple):
    """What is at the end of all that a turn waits for.

    `is_moving`: something there gets on by itself, and `sessions` are where it does.
    """

    is_moving: bool
    waits: tuple[Wait, ...]
    sessions: tuple[str, ...] = ()


async def leaves_of(store: Store, view: TurnView, now_ms: int, depth: int = 0) -> Leaves:
    """Return what is at the end of all that a parked turn waits for."""
    leaves: list[Wait] = []
    moving: list[str] = []
    has_moving = False
    for wait in _open_waits(view):
        if wait.kind == "child" and depth < _MAX_DEPTH:
            below = await _below(store, wait, now_ms, depth)
            has_moving = has_moving or below.is_moving
            leaves += below.waits
            moving += below.sessions
        elif wait.kind == "timer" and (wait.expires_ms or 0) - now_ms <= SOON_MS:
            has_moving = True
            moving.append(view.session_id)
        else:
            leaves.append(wait)
    # A wait of another kind is somebody's to answer, whatever goes on beside it.
    is_moving = has_moving and waits_for_itself(view.waits)
    return Leaves(is_moving, tuple(leaves), tuple(dict.fromkeys(moving)))


def _open_waits(view: TurnView) -> Sequence[Wait]:
    return [one.wait for one in view.waits if one.state == "open"]


async def _below(store: Store, wait: Wait, now_ms: int, depth: int) -> Leaves:
    """Return the leaves of the turn that a `child` wait names."""
    named = wait.detail if isinstance(wait.detail, dict) else {}
    session_id, turn_id = str(named.get("session", "")), str(named.get("turn", ""))
    try:
        turn_id = await last_turn(store, session_id, turn_id)
        child = await store.load_turn(session_id, turn_id)
    except SessionDeleted:
        child = None
    if child is None:
        return Leaves(is_moving=False, waits=(wait,))  # only its own turn can say more
    if child.state != "parked":
        return Leaves(is_moving=True, waits=(), sessions=(session_id,))
    return await leaves_of(store, child, now_ms, depth + 1)


class Resting:
    """Waits for turns to rest, for the callers of one worker."""

    def __init__(self, services: Services, drives: Drives, watch: StoreWatch) -> None:
        self._services = services
        self._drives = drives
        self._watch = watch
        self._n_callers = 0
        # What wakes those of them whose turn is not driven here.
        self._elsewhere: set[asyncio.Event] = set()
        # What wakes those who may wait for days, with the sessions that they wait for: nothing else wakes them.
        self._patient: dict[asyncio.Event, tuple[str, ...]] = {}
        self._is_closing = False

    @property
    def has_callers(self) -> bool:
        """Whether a caller waits for a turn."""
        return self._n_callers > 0

    @property
    def has_idle_callers(self) -> bool:
        """Whether a caller waits for a turn that is not driven here, and has seen all that happened."""
        return any(not news.is_set() for news in (*self._elsewhere, *self._patient))

    def close(self) -> None:
        """Wake all callers: their turns go on when another runtime opens."""
        self._is_closing = True
        for news in (*self._elsewhere, *self._patient):
            news.set()

    def tell(self, session_id: str | None = None) -> None:
        """Say that something happened here, in a session or anywhere: callers look again."""
        for news in self._elsewhere:
            news.set()
        if session_id is not None and self._patient:
            for news, sessions in self._patient.items():
                if session_id in sessions:
                    news.set()

    async def outcome(self, session_id: str, turn_id: str) -> TurnRecord | TurnView:
        """Wait until a turn rests; return its record, or the turn as it is parked, with its leaves for waits.

        Raises:
            WindlassError: why the turn cannot be driven here.
        """
        self._n_callers += 1
        try:
            while True:
                driving = self._drives.get(session_id, turn_id)
                if driving is None:
                    found = await self._at_rest(session_id, turn_id)
                    if found is not None:
                        return found
                else:
                    ended = await driving.end()
                    if isinstance(ended, TurnRecord):
                        return ended
        finally:
            self._n_callers -= 1

    async def until_it_moves(self, view: TurnView) -> None:
        """Wait until a turn that rests goes on, or waits for something else. Nothing is read while nothing happens.

        Raises:
            WindlassError: why the turn cannot be driven here.
        """
        waiting = _open_keys(view)
        followed = (view.session_id, *(one.session_id for one in _open_waits(view)))
        async with self._happens_in(*followed) as news:
            while isinstance(found := await self._look(view.session_id, view.turn_id), TurnView):
                if _open_keys(found) != waiting:
                    return
                await news.wait()
                news.clear()

    async def until_idle(self, session_id: str) -> None:
        """Wait until nothing of a session is unfinished. Nothing is read while nothing happens.

        Raises:
            WindlassError: why a turn of it cannot be driven here.
        """
        async with self._happens_in(session_id) as news:
            while not await self._is_idle(session_id):
                await news.wait()
                news.clear()

    async def _is_idle(self, session_id: str) -> bool:
        """Whether a session has no turn in flight or queued, and nothing in its inbox that is to enter."""
        self._refuse_if_closing(f"session {session_id}")
        for failed in [key for key in self._drives.failures if key[0] == session_id]:
            raise self._drives.failures.pop(failed)
        if session_id in self._drives.by_session:
            return False
        store = self._services.store
        try:
            session = await store.load_session(session_id, history=False)
        except UnknownSession:
            return True  # it has no turns yet
        if session.active is not None or session.queued:
            return False
        # A signal that no turn asked for may lie there for ever.
        return all(item.when == "asked" for item in (await store.inbox(session_id)).items)

    @asynccontextmanager
    async def _happens_in(self, *sessions: str) -> AsyncIterator[asyncio.Event]:
        """Give an event that is set when something happens in one of these sessions, here or elsewhere."""
        news = asyncio.Event()
        with ExitStack() as leaving:
            self._patient[news] = sessions
            leaving.callback(self._patient.pop, news)
            for one in dict.fromkeys(sessions):
                leaving.callback(await self._watch.follow(one, news.set))
            yield news

    async def _at_rest(self, session_id: str, turn_id: str) -> TurnRecord | TurnView | None:
        """Return a turn that is not driven here, if it rests; else wait for news of it and return None."""
        found = await self._look(session_id, turn_id)
        if isinstance(found, (TurnRecord, TurnView)):
            return found
        news = asyncio.Event()
        with ExitStack() as leaving:
            self._elsewhere.add(news)
            leaving.callback(self._elsewhere.discard, news)
            for one in dict.fromkeys((session_id, *found)):
                leaving.callback(await self._watch.follow(one, news.set))
            # From here on nothing is missed; what came before is looked at once more.
            while (again := await self._look(session_id, turn_id)) == found:
                if self._drives.get(session_id, turn_id) is not None:
                    return None
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await news.wait()
                news.clear()
        return again if isinstance(again, (TurnRecord, TurnView)) else None

    async def _look(self, session_id: str, turn_id: str) -> TurnRecord | TurnView | tuple[str, ...]:
        """Return a turn that rests, or the other sessions in which it gets on."""
        failure = self._drives.failures.pop((session_id, turn_id), None)
        if failure is not None:
            raise failure
        self._refuse_if_closing(f"turn {turn_id}")
        services = self._services
        view = await services.store.load_turn(session_id, turn_id)
        if view is not None and view.page is not None:
            return TurnRecord.of_page(session_id, view.page, view.journal() if view.pages else None)
        if view is not None and view.state == "parked":
            # A caller that asks again and again lets others work meanwhile, also where no store takes time.
            await asyncio.sleep(0)
            leaves = await leaves_of(services.store, view, services.clock.now_ms())
            if not leaves.is_moving:
                return _with_leaves(view, leaves.waits)
            return leaves.sessions
        if view is None and session_id not in self._drives.by_session:
            raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
        outage = self._drives.outages.get((session_id, turn_id))
        if outage is not None:
            said = f"turn {turn_id}: is accepted and cannot go on now: {outage}. It goes on by itself once that is over"
            raise StoreUnavailable(said) from outage
        return ()

    def _refuse_if_closing(self, what: str) -> None:
        if self._is_closing:
            raise EngineError(f"{what}: this runtime was closed; it continues when one is opened")


def _open_keys(view: TurnView) -> frozenset[str]:
    return frozenset(wait.key for wait in _open_waits(view))


def _with_leaves(view: TurnView, leaves: tuple[Wait, ...]) -> TurnView:
    """Return a parked turn whose open waits are those at the leaves."""
    own = {one.wait.key: one for one in view.waits}
    closed = [one for one in view.waits if one.state != "open"]
    shown = [own.get(wait.key) or WaitView(wait=wait) for wait in leaves]
    return msgspec.structs.replace(view, waits=(*closed, *shown))
