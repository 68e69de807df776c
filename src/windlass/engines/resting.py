"""Waiting for a turn to rest: it has ended, or it is parked and nothing of it gets on by itself.

A turn may wait for other sessions (`child`) and for a time (`timer`). It rests only when what it waits for does: an answer
that is missing three sessions below is what its caller is told of, and what its caller answers.

Law 1. A turn that waits for nothing but children and timers goes on for its caller as long as one of those does.
Law 2. What a resting turn waits for are the leaves: the waits that something outside has to answer. A timer counts as one
    if it is far off, because its caller would be kept for as long.
Law 3. A turn is read again only if something was written in a session where it gets on, or was driven there to an end.
    While such a session is driven here, nothing is read: the end of that drive is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from windlass.engines.drives import Drives
from windlass.errors import EngineError, SessionDeleted, StoreUnavailable, UnknownSession
from windlass.ports import Store, TurnView, Wait, WaitView
from windlass.ports.views import NO_PAGES
from windlass.ports.waits import waits_for_itself
from windlass.runtime.hand_off import last_view
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


IsDriven: TypeAlias = Callable[[str], object]
"""Says whether a turn of a session is driven in this process: then the session need not be read."""


async def leaves_of(
    store: Store, view: TurnView, now_ms: int, is_driven: IsDriven, depth: int = 0
) -> Leaves:
    """Return what is at the end of all that a parked turn waits for."""
    leaves: list[Wait] = []
    moving: list[str] = []
    has_moving = False
    for wait in _open_waits(view):
        if wait.kind == "child" and depth < _MAX_DEPTH:
            below = await _below(store, wait, now_ms, is_driven, depth)
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


async def _below(store: Store, wait: Wait, now_ms: int, is_driven: IsDriven, depth: int) -> Leaves:
    """Return the leaves of the turn that a `child` wait names."""
    named = wait.detail if isinstance(wait.detail, dict) else {}
    session_id, turn_id = str(named.get("session", "")), str(named.get("turn", ""))
    moving = Leaves(is_moving=True, waits=(), sessions=(session_id,))
    if is_driven(session_id):
        return moving
    try:
        child = await last_view(store, session_id, turn_id)
    except SessionDeleted:
        child = None
    if child is None:
        return Leaves(is_moving=False, waits=(wait,))  # only its own turn can say more
    if child.state != "parked":
        return moving
    return await leaves_of(store, child, now_ms, is_driven, depth + 1)


class _Caller:
    """A caller that waits for a turn that is not driven here.

    `sessions`: where the turn gets on. `is_stale`: something happened there since the turn was read.
    """

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.is_stale = False
        self._news = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether it has seen all that happened."""
        return not self._news.is_set()

    def wake(self) -> None:
        """Let it look what this process knows of its turn."""
        self._news.set()

    def tell(self) -> None:
        """Let it look what the store knows of its turn."""
        self.is_stale = True
        self._news.set()

    async def wait(self) -> None:
        """Wait to be woken, or for so long that the turn is read again in any case."""
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._news.wait()
        except TimeoutError:
            self.is_stale = True
        self._news.clear()


class Resting:
    """Waits for turns to rest, for the callers of one worker."""

    def __init__(self, services: Services, drives: Drives, watch: StoreWatch) -> None:
        self._services = services
        self._drives = drives
        self._watch = watch
        self._n_callers = 0
        # Those of them whose turn is not driven here.
        self._elsewhere: set[_Caller] = set()
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
        is_idle = any(caller.is_idle for caller in self._elsewhere)
        return is_idle or any(not news.is_set() for news in self._patient)

    def close(self) -> None:
        """Wake all callers: their turns go on when another runtime opens."""
        self._is_closing = True
        for caller in self._elsewhere:
            caller.tell()
        for news in self._patient:
            news.set()

    def wake(self) -> None:
        """Say that turns may be driven here that were not, or cannot be."""
        for caller in self._elsewhere:
            caller.wake()

    def tell(self, session_id: str) -> None:
        """Say that the drive of a turn has ended here: those who wait for its session look again."""
        for caller in self._elsewhere:
            if session_id in caller.sessions:
                caller.tell()
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
        """Return a turn that is not driven here, if it rests; else wait until that may have changed, and return None."""
        found = await self._look(session_id, turn_id)
        if not isinstance(found, tuple):
            return found
        caller, drives = _Caller(), self._drives
        with ExitStack() as leaving:
            self._elsewhere.add(caller)
            leaving.callback(self._elsewhere.discard, caller)
            while isinstance(found, tuple):
                await self._follow(caller, (session_id, *found), leaving)
                while not caller.is_stale:
                    if drives.get(session_id, turn_id) is not None:
                        return None
                    await caller.wait()
                    # Why the turn cannot go on now is told to its caller.
                    caller.is_stale = caller.is_stale or (session_id, turn_id) in drives.outages
                caller.is_stale = False
                found = await self._look(session_id, turn_id, since=NO_PAGES)
        return None

    async def _follow(self, caller: _Caller, sessions: Iterable[str], leaving: ExitStack) -> None:
        """Tell a caller what happens in these sessions. What happened since they were read makes it stale."""
        for one in sessions:
            if one in caller.sessions:
                continue
            caller.sessions.add(one)
            leaving.callback(await self._watch.follow(one, partial(self._news_of, caller, one)))
            if one not in self._drives.by_session:
                caller.is_stale = True

    def _news_of(self, caller: _Caller, session_id: str) -> None:
        """Tell a caller that something was written in a session. Of one that is driven here, the end is told."""
        if session_id not in self._drives.by_session:
            caller.tell()

    async def _look(
        self, session_id: str, turn_id: str, since: int = 0
    ) -> TurnRecord | TurnView | tuple[str, ...]:
        """Return a turn that rests, with its journal from a page on, or the other sessions in which it gets on."""
        failure = self._drives.failures.pop((session_id, turn_id), None)
        if failure is not None:
            raise failure
        self._refuse_if_closing(f"turn {turn_id}")
        services, by_session = self._services, self._drives.by_session
        view = await services.store.load_turn(session_id, turn_id, since=since)
        if view is not None and view.page is not None:
            return TurnRecord.of_page(session_id, view.page, view.journal() if view.pages else None)
        if view is not None and view.state == "parked":
            # A caller that asks again and again lets others work meanwhile, also where no store takes time.
            await asyncio.sleep(0)
            now_ms = services.clock.now_ms()
            leaves = await leaves_of(services.store, view, now_ms, by_session.__contains__)
            if not leaves.is_moving:
                return _with_leaves(view, leaves.waits)
            return leaves.sessions
        if view is None and session_id not in by_session:
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
