"""A journey: one session over hundreds of turns, with others beside it, on runtimes that may die on the way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from tests.plugins.long_sessions.clerk import READS, WINDOW, Clerk
from tests.plugins.long_sessions.judge import Judge
from tests.plugins.long_sessions.ledger import Ledger
from tests.plugins.long_sessions.office import office, plugins
from tests.plugins.long_sessions.plans import MOST_BYTES, Kind, TurnPlan, plan
from tests.plugins.long_sessions.tokenizer import Tokenizer
from tests.scenarios.stage import DAY_S, Stage, until
from windlass import Runtime, Session, TurnResult
from windlass.errors import SessionParked, UnknownSession
from windlass.kernel import Finished, Stopped
from windlass.plugins import Plugin
from windlass.ports.inbox import turn_of_item

SESSION = "s"
_WITHIN_S = 60.0
_SIDE_SESSIONS = 3


class Setting(NamedTuple):
    """What a journey is like: how its provider counts, which plugins it has, how often its process dies."""

    seed: str = "calm"
    tokenizer: Tokenizer = Tokenizer(0.7, 1.3)
    plugins: Callable[[], list[Plugin]] = plugins
    kill_every: int = 0
    most_bytes: int = MOST_BYTES
    # Turns that are so far apart have the same plan, but for their numbers.
    period: int = 0
    # A fault: what waits for an answer is swept away by a compaction.
    sweeps: bool = False


class _Parked(NamedTuple):
    turn_id: str
    plan: TurnPlan
    key: str
    until: int


class Journey:
    """Goes on turn by turn. What it finds is in `ledger`."""

    def __init__(self, stage: Stage, setting: Setting) -> None:
        self.stage = stage
        self.setting = setting
        self.ledger = Ledger(setting.seed)
        self.judge = Judge(self.ledger, setting.tokenizer, WINDOW)
        self.n = 0
        self._chance = random.Random(f"journey:{setting.seed}")
        self._parked: _Parked | None = None
        self._queued: list[str] = []
        self._n_aside = 0
        self._fuse = -1
        self._killed = asyncio.Event()

    # ------------------------------------------------------------------ processes

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.rt.__aexit__(None, None, None)

    async def _open(self) -> None:
        self._clerk = Clerk(self.ledger, self.judge, self._burn)
        agent = office(self.ledger, self._clerk, self.setting.plugins())
        self._killed.clear()
        self.rt: Runtime[Any] = self.stage.runtime(agent)
        await self.rt.__aenter__()

    def _burn(self) -> bool:
        """Let the process die if its time has come; whoever asks is the last to know."""
        self._fuse -= 1
        if self._fuse != 0:
            return False
        self._kill()
        return True

    def _kill(self) -> None:
        self.ledger.counts["kills"] += 1
        self._clerk.is_dead = True
        self.stage.kill(self.rt)
        self._killed.set()

    async def _reopen(self) -> None:
        """Let another process go on; what the dead one still does comes too late."""
        dead = self.rt
        await self._open()
        await dead.__aexit__(None, None, None)

    @property
    def session(self) -> Session[Any]:
        """The session that all this is about, in the process that lives."""
        return self.rt.session(SESSION)

    # ------------------------------------------------------------------ going on

    async def go(self, n_turns: int) -> None:
        """Go on for so many turns."""
        for _ in range(n_turns):
            await self.next()

    async def next(self) -> None:
        """Let the next turn be, and all that comes with it."""
        n, setting = self.n, self.setting
        made = self._plan()
        self.n += 1
        self._chance = random.Random(f"journey:{setting.seed}:{self._like(n)}")
        if setting.kill_every and n % setting.kill_every == setting.kill_every - 1:
            self._fuse = self._chance.randint(1, 6)
        turn_id = f"t{n}"
        self.ledger.plans[turn_id] = made
        self.ledger.brought_bytes += len(made.text)
        self.ledger.brought_files += sum(len(file.data) for file in made.files)
        if self._parked is None:
            self.ledger.counts[made.kind] += 1
            await getattr(self, f"_{made.kind}")(turn_id, made)
        else:
            await self._while_parked(turn_id, made)
        if self._parked is None and n % 5:
            await self.idle()
        assert not self.ledger.faults, "\n".join(self.ledger.faults)

    def _like(self, n: int) -> int:
        return n % self.setting.period if self.setting.period else n

    def _plan(self) -> TurnPlan:
        kind: Kind | None = None if self._parked is None else "plain"
        return plan(
            self.setting.seed,
            self.n,
            like=self._like(self.n),
            kind=kind,
            most_bytes=self.setting.most_bytes,
        )

    @property
    def is_plain_next(self) -> bool:
        """Whether the next turn is one that only looks things up: it is not parked, and does not read on."""
        made = self._plan()
        is_free = self._parked is None and made.kind == "plain"
        return is_free and min(made.reads) >= READS

    async def arrive(self) -> None:
        """Let everything come to its end."""
        self._fuse = -1
        if self._parked is not None:
            await self._answer(self._parked)
        await self.idle()

    async def _begin(self, turn_id: str, made: TurnPlan) -> None:
        await self.session.submit([made.text, *made.files], turn_id=turn_id)

    async def _settled(self, turn_id: str, session_id: str = SESSION) -> TurnResult[Any]:
        """Wait until a turn is done or parked, whoever drives it then."""
        while True:
            result = asyncio.ensure_future(
                self.rt.turn(session_id, turn_id).result(timeout=_WITHIN_S)
            )
            killed = asyncio.ensure_future(self._killed.wait())
            await asyncio.wait((result, killed), return_when=asyncio.FIRST_COMPLETED)
            killed.cancel()
            if not self._killed.is_set():
                return await result
            result.cancel()
            await asyncio.gather(result, killed, return_exceptions=True)
            await self._reopen()

    async def idle(self) -> None:
        """Wait until nothing runs and nothing waits to enter."""
        async with asyncio.timeout(_WITHIN_S):
            while not await self._is_idle():
                if self._killed.is_set():
                    await self._reopen()
                await asyncio.sleep(0.001)

    async def turns(self) -> int:
        """Wait until nothing runs; return how many turns have ended, compactions among them."""
        await self.idle()
        return (await self.rt._services.store.load_session(SESSION, history=False)).head

    async def _is_idle(self) -> bool:
        view = await self.rt._services.store.load_session(SESSION, history=False)
        if view.active is not None or view.queued:
            return False
        return not (await self.session.inbox()).items

    # ------------------------------------------------------------------ kinds of turns

    async def _plain(self, turn_id: str, made: TurnPlan) -> None:
        if self._fuse < 0 and made.n % 2:
            result = await self.session.run([made.text, *made.files], turn_id=turn_id)
        else:
            await self._begin(turn_id, made)
            result = await self._settled(turn_id)
        self._expect_answer(result, made)

    def _expect_answer(self, result: TurnResult[Any], made: TurnPlan) -> None:
        found = result.outcome
        is_right = isinstance(found, Finished) and found.text == made.answer
        self.ledger.expect(is_right, result.turn_id, f"ended {found!r:.200}")

    async def _mailed(self, _turn_id: str, made: TurnPlan) -> None:
        """Begin a turn with an item of the inbox."""
        key = f"mail-{made.n}"
        turn_id = turn_of_item(key)
        self.ledger.plans[turn_id] = made
        await self.idle_first()
        await self.session.enqueue([made.text, *made.files], key=key)
        store = self.rt._services.store

        async def has_begun() -> bool:
            return await store.load_turn(SESSION, turn_id) is not None

        await until(has_begun, within_s=_WITHIN_S)
        self._expect_answer(await self._settled(turn_id), made)

    async def idle_first(self) -> None:
        """Wait until nothing runs; a session that has not begun is idle."""
        try:
            await self.idle()
        except UnknownSession:
            return

    async def _steered(self, turn_id: str, made: TurnPlan) -> None:
        fuse, self._fuse = self._fuse, -1
        entered, gate = self.ledger.hold(made.n)
        await self._begin(turn_id, made)
        async with asyncio.timeout(_WITHIN_S):
            await entered.wait()
        steer = f"[steer {made.n}] rather the other berth"
        await self.session.enqueue(steer, key=f"steer-{made.n}")
        self.ledger.steered[turn_id] = steer
        gate.set()
        self._expect_answer(await self._settled(turn_id), made)
        self._fuse = fuse

    async def _cancelled(self, turn_id: str, made: TurnPlan) -> None:
        fuse, self._fuse = self._fuse, -1
        entered, _ = self.ledger.hold(made.n)
        await self._begin(turn_id, made)
        async with asyncio.timeout(_WITHIN_S):
            await entered.wait()
        await self.rt.cancel(SESSION, turn_id, "not wanted any more")
        result = await self._settled(turn_id)
        is_right = isinstance(result.outcome, Stopped) and result.outcome.reason == "cancelled"
        self.ledger.expect(is_right, turn_id, f"ended {result.outcome!r:.200}")
        self._fuse = fuse

    # ------------------------------------------------------------------ approvals

    async def _approval(self, turn_id: str, made: TurnPlan) -> None:
        await self._begin(turn_id, made)
        result = await self._settled(turn_id)
        self.ledger.expect(result.parked, turn_id, f"is not parked but {result.outcome!r:.200}")
        (wait,) = result.waits
        until = made.n + self._chance.randint(1, 5)
        self._parked = _Parked(turn_id, made, wait.key, until)

    async def _while_parked(self, turn_id: str, made: TurnPlan) -> None:
        """Let an input queue, and other things happen, until the approval is answered."""
        parked = self._parked
        assert parked is not None
        await self._begin(turn_id, made)
        self._queued.append(turn_id)
        self.ledger.counts["queued"] += 1
        for _ in range(self._chance.randint(0, 2)):
            await self._aside()
        await self._meanwhile(parked)
        if made.n >= parked.until:
            await self._answer(parked)

    async def _aside(self) -> None:
        """Let another session have a turn."""
        self._n_aside += 1
        session_id = f"aside{self._n_aside % _SIDE_SESSIONS}"
        made = plan(f"aside:{self._chance.random()}", self._n_aside, kind="plain", most_bytes=4_000)
        turn_id = f"a{self._n_aside}"
        self.ledger.plans[turn_id] = made
        await self.rt.session(session_id).submit([made.text, *made.files], turn_id=turn_id)
        self._expect_answer(await self._settled(turn_id, session_id), made)
        self.ledger.counts["aside"] += 1

    async def _meanwhile(self, parked: _Parked) -> None:
        if self.setting.sweeps:
            await self.rt.cancel(SESSION, parked.turn_id, "to make room for a summary")
            await self._settled(parked.turn_id)
            await self.session.compact()
            return
        chosen = self._chance.randrange(6)
        if chosen == 0:
            self.stage.later(self._chance.random() * DAY_S, self.rt)
            await self.rt.vacuum()
        elif chosen == 1:
            await self.session.release()
        elif chosen == 2:
            try:
                await self.session.compact()
            except SessionParked:
                self.ledger.counts["compactions refused"] += 1
            else:
                self.ledger.fault(parked.turn_id, "a compaction ran while it was parked")
        elif chosen == 3 and self.setting.kill_every:
            self._kill()
            await self._reopen()

    async def _answer(self, parked: _Parked) -> None:
        ledger, made = self.ledger, parked.plan
        self._parked = None
        open_keys = {wait.key for wait in await self.rt.approvals()}
        ledger.expect(parked.key in open_keys, parked.turn_id, "its approval is lost")
        how = self._chance.choices(("approve", "deny", "edit", "cancel"), (6, 2, 1, 1))[0]
        ledger.counts[f"answered: {how}"] += 1
        n = made.n
        if how == "approve":
            await self.rt.approve(parked.key, by="eva")
        elif how == "edit":
            n = made.n + 1_000_000
            await self.rt.approve(parked.key, edit={"n": n}, by="eva")
        elif how == "deny":
            await self.rt.deny(parked.key, reason="not now", by="eva")
        else:
            await self.rt.cancel(SESSION, parked.turn_id, "not wanted any more")
        result = await self._settled(parked.turn_id)
        if how == "cancel":
            is_right = isinstance(result.outcome, Stopped) and result.outcome.reason == "cancelled"
            ledger.expect(is_right, parked.turn_id, f"ended {result.outcome!r:.200}")
        else:
            self._expect_answer(result, made)
        n_signed = ledger.signed[n]
        wanted = 1 if how in ("approve", "edit") else 0
        ledger.expect(n_signed == wanted, parked.turn_id, f"{how}, signed {n_signed} times")
        for turn_id in self._queued:
            self._expect_answer(await self._settled(turn_id), ledger.plans[turn_id])
        self._queued.clear()
