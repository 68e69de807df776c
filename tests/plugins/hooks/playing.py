"""Playing an act: one turn with one plugin, undisturbed or killed at one of its moments, and what is committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from tests.plugins.hooks.ledger import Ledger, Make
from tests.plugins.hooks.swapped import swapped
from tests.plugins.scene import shown
from tests.scenarios.stage import until
from windlass import Agent, Limits, Runtime
from windlass.kernel import ModelReply, canonical
from windlass.kernel.messages import ConversationRecord
from windlass.kernel.outcomes import Finished, Outcome
from windlass.testing import CrashPoint, Scenario, call, say, virtual_clock
from windlass.testing.crashing.crash_point import Fuse
from windlass.testing.crashing.crashing_store import WriteNames
from windlass.testing.crashing.disk import Disk, MemoryDisk, SqliteDisk, make_blank
from windlass.testing.crashing.life import Fate, Life, World

MIDDLE = "bytes are kept"
DONE = Finished(text="Done.")
HUNG = Fate("hung")
# A provider that is down is waited for by no turn here.
NO_PATIENCE = Limits(provider_patience=0.0)
SCRIPT = (call("act", x=1), call("act", x=5), say("Done."), say("More."))


@dataclass(frozen=True, kw_only=True)
class Act:
    """A hook that changes a turn: what comes of it, and which write it is recorded in.

    `said` is the history, `asked` the request with the number `asked_at`, `bodies` the arguments that ran.
    """

    name: str
    plugin: Make
    records: str
    said: Sequence[str]
    outcome: Outcome = DONE
    asked: Sequence[str] | None = None
    asked_at: int = 1
    bodies: Sequence[int] = (1, 5)
    replies: Sequence[ModelReply] = SCRIPT
    turns: int = 1
    is_broken: bool = False
    issues: Sequence[str] = ()
    limits: Limits = NO_PATIENCE


@dataclass
class Trial:
    """What became of it: `seen` are the moments of the first process, the last of which is where it died."""

    ledger: Ledger
    fate: Fate = HUNG
    seen: tuple[CrashPoint, ...] = ()
    lives: int = 0

    def is_in_the_middle(self, act: Act) -> bool:
        """Whether the process died after the hook had begun, and before its outcome was recorded."""
        began = [at for at, point in enumerate(self.seen) if MIDDLE in point.what]
        return bool(began) and not any(is_record(act, one) for one in self.seen[began[0] :])


def is_record(act: Act, point: CrashPoint) -> bool:
    """Whether from this moment on the hook's outcome is recorded."""
    return point.where.startswith("after write") and act.records in point.what


@dataclass(frozen=True)
class Played:
    """What an act came to. `pages` is what is committed, byte by byte, without its times."""

    pages: tuple[bytes, ...]
    said: list[str]
    outcome: Outcome | None
    issues: list[str]


def scenario(act: Act, ledger: Ledger) -> Scenario:
    """Return the program of an act; its plugin is another object at each hook."""
    ledger_model = ledger.broken_model if act.is_broken else ledger.model

    def agents() -> Agent[Any, Any]:
        plugin = swapped(lambda: act.plugin(ledger))
        model = ledger_model(act.replies)
        return Agent(
            "a",
            model=model,
            instructions="Act.",
            tools=[ledger.tool()],
            plugins=[plugin],
            limits=act.limits,
        )

    async def run(rt: Runtime[Any]) -> Played | None:
        result = await rt.session("s").run("Go.", turn_id="t")
        return None if result.parked else await played(rt, act.turns)

    return Scenario(
        agents=agents,
        run=run,
        answer=lambda rt, wait: rt.approve(wait.key, by="eva"),
        settings={"models": [ledger.model(act.replies, "spare"), ledger.oracle()]},
    )


async def played(rt: Runtime[Any], turns: int = 1) -> Played:
    """Read what is committed, once that many turns are."""
    store = rt._services.store

    async def has_ended() -> bool:
        rt._worker.kick()
        return (await store.load_session("s")).head >= turns

    await until(has_ended)
    view = await store.load_session("s")
    nodes = [node for page in view.pages for node in page.nodes]
    return Played(
        pages=tuple(page_bytes(page) for page in view.pages),
        said=[shown(node.message) for node in nodes if isinstance(node, ConversationRecord)],
        outcome=view.pages[0].outcome,
        issues=[
            str(getattr(event, "message", event)) for page in view.pages for event in page.events
        ],
    )


def page_bytes(page: Any) -> bytes:  # noqa: ANN401 - a page
    """Return a page as it is stored, but for when that was."""
    return canonical.encode(msgspec.structs.replace(page, committed_ms=0))


@asynccontextmanager
async def disks(kind: str, folder: Path) -> AsyncIterator[Callable[[], Disk]]:
    """Give disks of a kind, each for one world."""
    if kind == "memory":
        yield MemoryDisk
        return
    blank = folder / "blank.db"
    await make_blank(blank)
    worlds = iter(range(10_000))

    def disk() -> Disk:
        world = folder / f"world-{next(worlds)}"
        world.mkdir()
        return SqliteDisk(world, blank)

    yield disk


class RecordFuse(Fuse):
    """Burns when the outcome of an act has just been recorded, whatever number that write has."""

    def __init__(self, act: Act, crash: Callable[[CrashPoint], None]) -> None:
        super().__init__(None, crash)
        self._act = act

    def reach(self, where: str, what: str = "") -> None:
        has_begun = any(MIDDLE in point.what for point in self.seen)
        if has_begun and is_record(self._act, CrashPoint(where=where, what=what)):
            self._at = where
        super().reach(where, what)


async def play(act: Act, disk: Disk, at: CrashPoint | Literal["record"] | None = None) -> Trial:
    """Play an act; with `at` its process dies there, and is started again."""
    trial = Trial(ledger=Ledger())
    world = World(scenario(act, trial.ledger), disk, virtual_clock(), WriteNames(), 10.0)
    lives: list[Life] = []
    try:
        for dies in (None,) if at is None else (at, None):
            life = Life(world, dies.where if isinstance(dies, CrashPoint) else None)
            if dies == "record":
                life.fuse = RecordFuse(act, life._crash)
            lives.append(life)
            trial.fate = await life.fate()
            if trial.fate.kind != "crashed":
                break
        trial.seen = tuple(lives[0].fuse.seen)
        trial.lives = len(lives)
    finally:
        for life in lives:
            await life.bury()
    return trial
