"""What all turns of one worker share: the store, the clock, the live feeds, and tasks that run beside the turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from os import urandom
from typing import Any, Literal, TypeAlias, cast

import msgspec

from windlass.guards.secret import REGISTERED
from windlass.kernel import Event
from windlass.kernel.events import ChildEvent
from windlass.ports import Clock, ErrandReceipt, Phase, PhaseProbe, Price, Store, TurnRequest
from windlass.ports.children import Above, Tree
from windlass.ports.policy import Approver
from windlass.ports.trigger import EventSource
from windlass.runtime.feed import SessionFeed
from windlass.runtime.reader import Drive, Waiting

_MAX_FEEDS = 1_024
_TIDIED_AT_ONCE = 16

OnMismatch: TypeAlias = Literal["park", "accept"]
"""What becomes of a turn whose code asks something else than its journal holds."""


class _Unseen:
    """What is entered where there is no probe: both ends are C functions that do nothing, for it is entered often."""

    __enter__ = __exit__ = "".format  # takes anything; what it returns is false


UNSEEN = cast("AbstractContextManager[None]", _Unseen())


def _without_secrets(record: logging.LogRecord) -> bool:
    """Clean what is logged: the errors of tools, plugins and deps may say anything."""
    if REGISTERED.secrets:
        record.msg, record.args = REGISTERED.clean(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = REGISTERED.clean(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
    return True


_log = logging.getLogger("windlass")
_log.addFilter(_without_secrets)


@contextmanager
def _seen(probe: PhaseProbe, phase: Phase, session_id: str, turn_id: str) -> Iterator[None]:
    _tell(probe.begin, phase, session_id, turn_id)
    try:
        yield
    finally:
        _tell(probe.end, phase, session_id, turn_id)


def _tell(
    tell: Callable[[Phase, str, str], None], phase: Phase, session_id: str, turn_id: str
) -> None:
    try:
        tell(phase, session_id, turn_id)
    except Exception:  # noqa: BLE001 - a probe only looks
        _log.exception("a probe failed")


class Feeds:
    """The feed of each session that is watched or driven here. The one that was used longest ago goes first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._feeds: dict[str, SessionFeed] = {}

    def of(self, session_id: str) -> SessionFeed:
        """Return the feed of a session, made on first use."""
        feed = self._feeds.pop(session_id, None)
        if feed is None:
            # Its cursors are its own: those of another session, process or time have a gap here.
            feed = SessionFeed(session_id, incarnation=urandom(4).hex(), clock=self._clock)
            self._make_room()
        self._feeds[session_id] = feed
        feed.use()
        return feed

    def find(self, session_id: str) -> SessionFeed | None:
        """Return the feed of a session, if there is one."""
        return self._feeds.get(session_id)

    def _make_room(self) -> None:
        if len(self._feeds) < _MAX_FEEDS:
            return
        # A feed that is driven or read stays, however many there are.
        idle = next((name for name, feed in self._feeds.items() if feed.is_idle), None)
        if idle is not None:
            self._feeds.pop(idle).close()

    def tidy(self) -> None:
        """Drop what is too old to be read again, a few sessions at a time."""
        for name in tuple(islice(self._feeds, _TIDIED_AT_ONCE)):
            feed = self._feeds.pop(name)
            feed.forget_old()
            if not feed.is_forgotten:
                self._feeds[name] = feed

    def close(self) -> None:
        """End all readers."""
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()


class Relaying(Waiting):
    """Shows what a child shows to those who read the feeds of the turns above it, where all of them are in one process.

    The child's feed has shown it before: facts are durable, and what the child's plugins were to look at they have seen.
    It goes up as far as no plugin was to look at results first: what such a plugin would change or withhold is in a
    child's words, too. Where no one reads, nothing is made.
    """

    __slots__ = ("_above", "_feeds", "_place")

    is_relay = True

    def __init__(
        self,
        feeds: Feeds,
        place: tuple[str, str],
        above: list[tuple[Above, tuple[str, ...]]],
    ) -> None:
        super().__init__(only=place[1], until=place[1])
        self._feeds = feeds
        self._place = place
        # The turns above, the nearest first, each with the names on the way down from there.
        self._above = above

    @classmethod
    def begin(cls, feeds: Feeds, place: tuple[str, str], request: TurnRequest) -> None:
        """Hand on what the turn at `place`, its session and id, shows from now on, if those above may see it."""
        tree, above = Tree.of(request), list[tuple[Above, tuple[str, ...]]]()
        for at in reversed(range(tree.depth)):
            if not tree.above[at].is_shown:
                break
            above.append((tree.above[at], tree.path[at + 1 :]))
        if above:
            feeds.of(place[0]).hand_on(cls(feeds, place, above))

    def put(self, position: int, drive: Drive, event: Event) -> bool:  # noqa: ARG002 - it keeps nothing to go on from
        """Show the readers above what this child shows; False once its drive has ended."""
        session_id, turn_id = self._place
        if drive.turn_id == turn_id:
            for above, path in self._above:
                feed = self._feeds.find(above.session_id)
                if feed is not None and feed.has_readers:
                    told = ChildEvent(
                        id=event.id,
                        session_id=session_id,
                        turn_id=turn_id,
                        event=event,
                        path=path,
                        call_id=above.call_id,
                    )
                    feed.relay(above.turn_id, told)
        return not self.is_ended

    def put_relayed(self, position: int, drive: Drive, event: Event) -> bool:  # noqa: ARG002 - of a child's child
        """Leave it: what is below this child is shown above by relays of its own."""
        return not self.is_ended


class TaskSet:
    """Tasks of a runtime: it keeps a reference to each until it ends, and none outlives it.

    Not a TaskGroup: a group lives and dies inside one task, while a runtime may be opened in one and closed in
    another (a fixture, a web framework's start and stop), and one task that fails must not take the others along.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start a task; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a plugin failed beside its turn: %s", type(error).__name__)

    async def finish(self, seconds: float) -> None:
        """Give running tasks some time, then cancel them and wait for their end."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=seconds)
        while self._tasks:
            running = tuple(self._tasks)
            for task in running:
                task.cancel()
            await asyncio.wait(running)


class Services(msgspec.Struct, kw_only=True):
    """The store, the clock and what else a turn uses from its worker."""

    store: Store
    clock: Clock
    feeds: Feeds
    worker_id: str = ""
    lease_ms: int = 15_000
    # Answers approvals in this process; and what it allowed for as long as the runtime is open, by agent and action.
    approve: Approver | None = None
    allowed: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    on_mismatch: OnMismatch = "park"
    probe: PhaseProbe | None = None
    # Until when the last start has given this worker its sessions; they may be its own for longer.
    held_until_ms: int = 0
    # Where this worker runs, for the journal: host and process.
    place: str = ""
    # How many turns are being driven here, and how many callers are about to begin one.
    driving: int = 0
    callers: int = 0
    prices: Mapping[str, Price] | None = None
    # Is told what became of the errands of a unit.
    on_errands: Callable[[tuple[ErrandReceipt, ...]], None] | None = None
    # The sources of events that are declared here, by name.
    sources: Mapping[str, EventSource] = {}
    # Lends the slot of a turn that only waits, and does not park, to another.
    lent: Callable[[], AbstractContextManager[None]] = nullcontext
    # What plugins do beside the turns.
    aside: TaskSet = msgspec.field(default_factory=TaskSet)

    def is_alone(self) -> bool:
        """Whether one turn at the most is being driven here, and no other is about to be."""
        return self.driving + self.callers <= 1

    def phase(self, phase: Phase, session_id: str, turn_id: str) -> AbstractContextManager[None]:
        """Be in a phase of a turn, and tell the probe, if there is one."""
        if self.probe is None:
            return UNSEEN
        return _seen(self.probe, phase, session_id, turn_id)

    def until_ms(self) -> int:
        """Return until when a lease taken now holds."""
        return self.clock.now_ms() + self.lease_ms
