"""Whatever program is put to it, a store answers and shows what the memory store does.

Length: one machine, with a rule for each method of the port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.conformance.harnesses import MemoryHarness, SqliteHarness
from tests.conformance.pair import Ask, Pair, Side, refusal
from tests.conformance.pools import (
    BLOBS,
    DAY_MS,
    KEYS,
    chance,
    endings,
    entry,
    entry_lists,
    errand_lists,
    items,
    keys,
    lags,
    outcome,
    places,
    sessions,
    some_errands,
    statuses,
    texts,
    turns,
    workers,
)
from tests.limits import times
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import WindlassError
from windlass.journal import Entry, ForkedFrom, HistoryPage
from windlass.kernel import Stopped
from windlass.ports import (
    AcceptTurn,
    Errand,
    NewItem,
    NewTurn,
    SessionKind,
    Start,
    Ticket,
    TurnCommit,
    TurnState,
    Unit,
    UnitReceipt,
    Wait,
    WaitAnswer,
    WaitKind,
    When,
)
from windlass.testing.conformance import StoreHarness
from windlass.testing.conformance.entries import intent, reply, result
from windlass.testing.conformance.scene import Driven, request

A = TypeVar("A")
Status = Literal["answered", "rejected", "expired", "superseded"]


class StoreLaws(RuleBasedStateMachine):
    """One program, put to both stores; after each step everything is compared."""

    tested: Callable[[], StoreHarness] = MemoryHarness

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.pair = self.run(Pair.make(MemoryHarness(), type(self).tested()))
        self.now = 1_000
        self.joined = 0
        self.units: list[Unit] = []
        # Turns that a step tried to have accepted; teardown checks that there are no others.
        self.turns: set[tuple[str, str]] = set()

    def run(self, step: Coroutine[Any, Any, A]) -> A:
        return self.loop.run_until_complete(step)

    def ask(self, ask: Ask) -> None:
        async def step() -> None:
            await self.pair.ask(ask)
            await self.pair.compare(self.turns)

        self.run(step())

    def teardown(self) -> None:
        try:
            self.run(self.pair.compare())
        finally:
            self.run(self.pair.close())
            self.loop.close()

    # ---------------------------------------------------------------- what stands, in the model

    def driven(self, session_id: str, turn_id: str, lag: int) -> Driven:
        return Driven(session_id, turn_id, "", max(self.pair.fence(session_id) + lag, 0))

    def note(self, errands: Sequence[Errand]) -> None:
        for errand in errands:
            if isinstance(errand, AcceptTurn):
                self.turns.add((errand.session_id, errand.turn_id))

    def submit(self, unit: Unit) -> None:
        self.units.append(unit)
        self.note(unit.errands)
        self.ask(lambda side: side.store.submit(unit).durable())

    # ---------------------------------------------------------------- time and workers

    @initialize(waits=st.booleans())
    def begin(self, waits: bool) -> None:
        self.join(5_000)
        self.accept("s1", "t1", "a", "helper")
        if waits:
            self.start("s1", "t1", 0, 1)
            now = self.driven("s1", "t1", 0)
            self.submit(now.unit(waits=tuple(self.wait(now, key) for key in KEYS)))

    @rule(by=st.sampled_from((1, 100, 6_000, DAY_MS + 1, -3_000)))
    def the_clock_jumps(self, by: int) -> None:
        self.now += by

    @rule(lease_ms=st.sampled_from((500, 5_000)))
    def join(self, lease_ms: int) -> None:
        async def join(side: Side) -> None:
            until_ms = self.now + lease_ms
            side.workers.append(await side.store.join(until_ms=until_ms, now_ms=self.now))

        if self.joined < 6:
            self.joined += 1
            self.ask(join)

    @rule(at=workers)
    def leave(self, at: int) -> None:
        self.ask(lambda side: side.store.leave(side.worker(at)))

    @rule(at=workers)
    def kill_worker(self, at: int) -> None:
        self.ask(lambda side: side.harness.kill_worker(side.store, side.worker(at)))

    @rule(at=workers, lease_ms=st.sampled_from((-500, 9_000)))
    def renew(self, at: int, lease_ms: int) -> None:
        until_ms = self.now + lease_ms
        self.ask(lambda side: side.store.renew(side.worker(at), until_ms=until_ms).durable())

    @rule(at=workers, later=st.sampled_from((0, 2_000)))
    def is_present(self, at: int, later: int) -> None:
        now_ms = self.now + later
        self.ask(lambda side: side.store.is_present(side.worker(at), now_ms=now_ms))

    @rule(session=sessions, lag=lags)
    def release(self, session: str, lag: int) -> None:
        generation = self.pair.fence(session) + lag
        self.ask(lambda side: side.store.release(session, generation=generation))

    @rule(session=sessions, turn=turns, at=workers)
    def take_over(self, session: str, turn: str, at: int) -> None:
        turn = self.pair.active(session, turn)
        self.ask(
            lambda side: side.store.take_over(
                session, turn, worker_id=side.worker(at), until_ms=self.now + 50, now_ms=self.now
            )
        )

    @rule(
        at=workers,
        agents=st.sampled_from((("helper",), ("other",), ("helper", "other"))),
        limit=st.integers(0, 3),
        session=st.one_of(st.none(), st.none(), sessions),
        but=st.lists(sessions, max_size=1),
    )
    def claim(
        self, *, at: int, agents: tuple[str, ...], limit: int, session: str | None, but: list[str]
    ) -> None:
        self.ask(
            lambda side: side.store.claim(
                side.worker(at),
                agents=agents,
                limit=limit,
                until_ms=self.now + 50,
                now_ms=self.now,
                session_id=session,
                but=but,
            )
        )

    @rule(later=st.sampled_from((0, 2_000)))
    def list_workers(self, later: int) -> None:
        async def by_name(side: Side) -> object:
            found = await side.store.list_workers(now_ms=self.now + later)
            return sorted(found, key=lambda one: side.workers.index(one.worker_id))

        self.ask(by_name)

    @rule()
    def crash_and_reopen(self) -> None:
        async def step() -> None:
            await self.pair.crash()
            await self.pair.compare()

        self.run(step())

    # ---------------------------------------------------------------- turns

    @rule(
        session=sessions,
        turn=turns,
        text=texts,
        agent=st.sampled_from(("helper", "other")),
        takes=st.lists(items, max_size=2),
    )
    def accept(
        self, session: str, turn: str, text: str, agent: str, takes: Sequence[str] = ()
    ) -> None:
        self.turns.add((session, turn))
        new = NewTurn(agent=agent, request=request(text), now_ms=self.now, takes=tuple(takes))
        self.ask(lambda side: side.store.accept(session, turn, new))

    @rule(session=sessions, turn=turns, at=workers, lag=st.sampled_from((0, 1, 1, 1, 2)))
    def start(self, session: str, turn: str, at: int, lag: int) -> None:
        generation = self.pair.fence(session) + lag

        def start(side: Side) -> Awaitable[object]:
            until_ms = self.now + 2_000
            wanted = Start(worker_id=side.worker(at), until_ms=until_ms, now_ms=self.now)
            return UnitShortcuts(side.store).start(session, turn, wanted, generation=generation)

        self.ask(start)

    @rule(
        session=sessions,
        turn=turns,
        wanted=entry_lists,
        lag=lags,
        shift=lags,
        opens=st.lists(keys, max_size=2),
        parks=chance,
        sends=errand_lists,
    )
    def write(
        self,
        *,
        session: str,
        turn: str,
        wanted: list[tuple[str, int, str]],
        lag: int,
        shift: int,
        opens: list[str],
        parks: bool,
        sends: tuple[Errand, ...],
    ) -> None:
        now = self.driven(session, self.pair.active(session, turn), lag)
        position = max(self.pair.pages(session, now.turn_id) + shift, 0)
        waits = tuple(self.wait(now, key) for key in opens)
        entries = [entry(now, *one) for one in wanted]
        parts: dict[str, Any] = {"waits": waits, "parks": parks, "errands": sends}
        self.submit(now.unit(*entries, position=position, **parts))

    @rule(session=sessions, turn=turns, lag=lags, opens=keys)
    def park(self, session: str, turn: str, lag: int, opens: str) -> None:
        now = self.driven(session, self.pair.active(session, turn), lag)
        self.submit(now.unit(waits=(self.wait(now, opens),), parks=True))

    @rule(
        session=sessions,
        turn=turns,
        kind=endings,
        lag=lags,
        shift=lags,
        settle=st.lists(items, max_size=1),
        follow_ups=st.lists(st.tuples(items, texts), max_size=1),
        records=chance,
        blobs=st.lists(st.sampled_from(BLOBS), max_size=1),
        sends=errand_lists,
    )
    def commit(
        self,
        *,
        session: str,
        turn: str,
        kind: str,
        lag: int,
        shift: int,
        settle: list[str],
        follow_ups: list[tuple[str, str]],
        records: bool,
        blobs: list[bytes],
        sends: tuple[Errand, ...],
    ) -> None:
        now = self.driven(session, self.pair.active(session, turn), lag)
        end = TurnCommit(
            expected_head=self.pair.head(session) + shift,
            nodes=(),
            outcome=outcome(kind),
            settle=tuple(settle),
            follow_ups=tuple(NewItem(item_id=name, content=text) for name, text in follow_ups),
            now_ms=self.now,
        )
        position = self.pair.pages(session, now.turn_id)
        entries = (reply(now, 9),) if records else ()
        digests = tuple(self.put(data) for data in blobs)
        parts: dict[str, Any] = {"commit": end, "blobs": digests, "errands": sends}
        self.submit(now.unit(*entries, position=position, **parts))

    @rule(session=sessions, turn=turns, lag=lags, sends=some_errands)
    def send_errands_alone(
        self, session: str, turn: str, lag: int, sends: tuple[Errand, ...]
    ) -> None:
        now = self.driven(session, self.pair.active(session, turn), lag)
        self.submit(now.unit(errands=sends))

    @rule(sends=some_errands)
    def run_errands(self, sends: tuple[Errand, ...]) -> None:
        self.note(sends)
        self.ask(lambda side: side.store.run_errands(sends, now_ms=self.now))

    @rule(data=st.data())
    def deliver_a_unit_again(self, data: st.DataObject) -> None:
        if self.units:
            unit = self.units[data.draw(st.integers(0, len(self.units) - 1))]
            self.ask(lambda side: side.store.submit(unit).durable())

    @rule(session=sessions, turn=turns, at=places, good=chance)
    def hand_in_several_at_once(self, session: str, turn: str, at: int, good: bool) -> None:
        now = self.driven(session, self.pair.active(session, turn), 0)
        first = self.pair.pages(session, now.turn_id)
        entries: list[Entry] = [
            reply(now, at),
            intent(now, at),
            result(now, at),
            reply(now, at + 1),
        ]
        units = [now.unit(one, position=first + place) for place, one in enumerate(entries)]
        if not good:
            units[2] = now.unit(reply(now), position=first + 9)
        self.units += units

        async def pipeline(side: Side) -> list[object]:
            ticket: Ticket[UnitReceipt] | None = None
            tickets = [ticket := side.store.submit(unit, after=ticket) for unit in units]
            one_by_one = (one.durable() for one in tickets)
            found = await asyncio.gather(*one_by_one, return_exceptions=True)
            return [refusal(one) if isinstance(one, WindlassError) else one for one in found]

        self.ask(pipeline)

    @rule(
        session=sessions,
        turn=turns,
        at=workers,
        text=texts,
        takes=st.lists(items, max_size=1),
        cancelled=chance,
    )
    def write_a_whole_turn(
        self, session: str, turn: str, at: int, text: str, *, takes: list[str], cancelled: bool
    ) -> None:
        self.turns.add((session, turn))
        head, generation = self.pair.head(session), self.pair.fence(session)

        def whole(side: Side) -> Awaitable[object]:
            now = Driven(session, turn, side.worker(at), generation + (at == 0))
            start = Start(worker_id=now.worker_id, until_ms=self.now + 2_000, now_ms=self.now)
            unit = now.unit(
                reply(now),
                accept=NewTurn(agent="helper", request=request(text), takes=tuple(takes)),
                start=start,
                commit=TurnCommit(
                    expected_head=head,
                    nodes=(),
                    outcome=outcome("cancelled" if cancelled else text),
                    settle=tuple(takes),
                ),
            )
            return side.store.submit(unit).durable()

        self.ask(whole)

    @rule(session=sessions, turn=turns, reason=st.sampled_from(("", "late")))
    def request_cancel(self, session: str, turn: str, reason: str) -> None:
        self.ask(lambda side: side.store.request_cancel(session, turn, reason=reason))

    # ---------------------------------------------------------------- waits and the inbox

    def wait(self, turn: Driven, key: str, title: str = "") -> Wait:
        expires_ms = 4_000 if key in ("w2", "w3", "w6") else None
        kinds: dict[str, WaitKind] = {"w3": "timer", "w4": "child", "w5": "signal", "w6": "signal"}
        detail = {"signal": "go"} if key in ("w5", "w6") else None
        kind, more = kinds.get(key, "approval"), {"title": title, "detail": detail}
        return turn.wait(key, kind=kind, expires_ms=expires_ms, **more)

    @rule(session=sessions, turn=turns, key=keys, lag=lags, title=texts)
    def open_wait(self, session: str, turn: str, key: str, lag: int, title: str) -> None:
        now = self.driven(session, self.pair.active(session, turn), lag)
        wait = self.wait(now, key, "" if title == "a" else title)
        self.ask(
            lambda side: UnitShortcuts(side.store).open_wait(
                session, now.turn_id, wait, generation=now.generation
            )
        )

    @rule(key=keys, status=statuses, value=texts)
    def resolve_wait(self, key: str, status: Status, value: str) -> None:
        answer = WaitAnswer(status=status, value=value, by="eva", now_ms=self.now)
        self.ask(lambda side: side.store.resolve_wait(key, answer))

    @rule(
        kind=st.sampled_from((None, "approval", "timer")),
        session=st.one_of(st.none(), sessions),
        turn=st.one_of(st.none(), turns),
        key=st.one_of(st.none(), st.none(), keys),
        after=st.one_of(st.none(), st.none(), keys),
        limit=st.integers(1, 3),
    )
    def list_waits(
        self,
        *,
        kind: str | None,
        session: str | None,
        turn: str | None,
        key: str | None,
        after: str | None,
        limit: int,
    ) -> None:
        self.ask(
            lambda side: side.store.list_waits(
                kind=kind, session_id=session, turn_id=turn, key=key, after=after, limit=limit
            )
        )

    @rule(
        session=sessions, name=items, text=texts, when=st.sampled_from(("now", "now", "next_turn"))
    )
    def enqueue(self, session: str, name: str, text: str, when: When) -> None:
        item = NewItem(item_id=name, content=text, when=when)
        self.ask(lambda side: side.store.enqueue(session, item, now_ms=self.now))

    @rule(session=sessions, turn=turns, lag=lags, limit=st.integers(1, 3))
    def take_inbox(self, session: str, turn: str, lag: int, limit: int) -> None:
        now = self.driven(session, self.pair.active(session, turn), lag)
        self.ask(
            lambda side: side.store.take_inbox(
                session, now.turn_id, generation=now.generation, limit=limit
            )
        )

    @rule(session=sessions, name=items)
    def withdraw(self, session: str, name: str) -> None:
        self.ask(lambda side: side.store.withdraw(session, name))

    # ---------------------------------------------------------------- sessions and bytes

    @rule(session=sessions, new=sessions, at=st.sampled_from((None, None, 0, 1, 2)))
    def fork(self, session: str, new: str, at: int | None) -> None:
        self.ask(lambda side: side.store.fork(session, new, at=at, now_ms=self.now))

    @rule(session=sessions, new=sessions, at=st.sampled_from((0, 1, 2)), turn=turns)
    def fork_inside_a_turn(self, session: str, new: str, at: int, turn: str) -> None:
        page = HistoryPage(
            format=HistoryPage.FORMAT,
            turn_id=turn,
            nodes=(),
            outcome=Stopped(reason="incomplete"),
            forked=ForkedFrom(session_id=session, turn_id=turn, iterations=1),
        )
        self.ask(lambda side: side.store.fork(session, new, at=at, now_ms=self.now, page=page))

    @rule(session=st.sampled_from(("s2", "s3", "s3", "s1")), sure=chance)
    def delete_session(self, session: str, sure: bool) -> None:
        if sure:
            self.ask(lambda side: side.store.delete_session(session, now_ms=self.now))

    @rule(
        session=sessions,
        before=st.sampled_from((None, None, 1, 2, 3)),
        limit=st.sampled_from((None, 1, 2)),
        frame=chance,
    )
    def load_history(
        self, session: str, before: int | None, limit: int | None, *, frame: bool
    ) -> None:
        self.ask(
            lambda side: side.store.load_history(session, before=before, limit=limit, frame=frame)
        )

    @rule(session=sessions, turn=turns, since=places)
    def load_turn(self, session: str, turn: str, since: int) -> None:
        self.ask(lambda side: side.store.load_turn(session, turn, since=since))

    @rule(
        state=st.sampled_from((None, "queued", "running", "parked", "ready", "done")),
        agent=st.sampled_from((None, None, "helper", "other")),
        session=st.one_of(st.none(), sessions),
        limit=st.integers(1, 3),
    )
    def list_turns(
        self, state: TurnState | None, agent: str | None, session: str | None, limit: int
    ) -> None:
        async def page_by_page(side: Side) -> list[object]:
            found: list[object] = []
            before: int | None = None
            while some := await side.store.list_turns(
                state=state, agent=agent, session_id=session, before=before, limit=limit
            ):
                found += some
                before = some[-1].no
            return found

        self.ask(page_by_page)

    def put(self, data: bytes) -> str:
        self.ask(lambda side: side.store.put_blob(data, now_ms=self.now))
        return self.run(self.pair.model.store.put_blob(data, now_ms=self.now))

    @rule(data=st.sampled_from(BLOBS))
    def put_and_get_a_blob(self, data: bytes) -> None:
        digest = self.put(data)
        self.ask(lambda side: side.store.get_blob(digest))

    @rule(
        retention_ms=st.sampled_from((0, 100, DAY_MS)),
        keep_ms=st.sampled_from((None, None, {"child": 0}, {"process": 100, "child": DAY_MS})),
    )
    def vacuum(self, retention_ms: int, keep_ms: dict[SessionKind, int] | None) -> None:
        self.ask(
            lambda side: side.store.vacuum(
                now_ms=self.now, retention_ms=retention_ms, keep_ms=keep_ms
            )
        )

    @rule(
        root=st.one_of(st.none(), sessions),
        label=st.sampled_from((None, "x")),
        kind=st.sampled_from((None, "chat", "child", "process")),
    )
    def list_sessions(self, root: str | None, label: str | None, kind: SessionKind | None) -> None:
        self.ask(lambda side: side.store.list_sessions(root=root, label=label, kind=kind))

    @rule(
        agents=st.sampled_from((None, ("helper",), ("other",))),
        at=st.one_of(st.none(), workers),
        limit=st.integers(1, 3),
    )
    def due(self, agents: tuple[str, ...] | None, at: int | None, limit: int) -> None:
        def due(side: Side) -> Awaitable[object]:
            worker = None if at is None else side.worker(at)
            return side.store.due(self.now, agents=agents, worker_id=worker, limit=limit)

        self.ask(due)


class SqliteLaws(StoreLaws):
    tested = SqliteHarness


LOOK = settings(
    max_examples=times(60),
    stateful_step_count=60,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)


@pytest.mark.slow
@pytest.mark.timeout(times(300))
def test_the_sqlite_store_answers_every_program_as_the_memory_store_does() -> None:
    run_state_machine_as_test(SqliteLaws, settings=LOOK)


def test_the_memory_store_answers_every_program_as_another_of_its_kind_does() -> None:
    run_state_machine_as_test(StoreLaws, settings=settings(LOOK, max_examples=times(20)))
