"""`windlass work`: a worker. It drives the turns of your agents until it is told to stop.

Law 1. The first SIGTERM or SIGINT stops the worker, which ends no turn: another worker continues them. The second
    one ends the process at once, even if a tool blocks.
Law 2. It shows what this worker does. Keys of waits are cut to what `windlass approve` needs beside the store.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any, Final, TypeAlias

from cyclopts import Parameter

from windlass import Runtime
from windlass.api.notices import Notice, NoticeKind, Notices
from windlass.api.runtime import RuntimeStatus
from windlass.cli import arguments, exit_code
from windlass.cli.agents import Work, choose_deps, choose_work
from windlass.cli.opening import opened_store
from windlass.cli.output import plain, write_json
from windlass.cli.settings import Settings, checked_store, read_settings, store_file
from windlass.cli.terminal import (
    answer_text,
    console,
    count,
    ending,
    is_finished,
    line,
    moment,
    note,
    one_line,
    short_key,
    wait_line,
)
from windlass.errors import ConfigError, StoreError
from windlass.journal import DriveBegan
from windlass.ports import Phase, Store, TurnView, Wait, WaitAnswer, WaitView
from windlass.ports.process import FIRST_TURN
from windlass.ports.unit import CHAT
from windlass.runtime.system_clock import SystemClock

AgentsOption: TypeAlias = Annotated[
    list[str] | None,
    Parameter(
        name=["--agent", "-m"],
        help="your agent, process, schedule, Source or function with @on as module:name, or a module with "
        "all that it has; may be given several times",
    ),
]
TurnKey: TypeAlias = tuple[str, str]
_KINDS: Final[tuple[NoticeKind, ...]] = (
    "turn_rested", "turn_ended", "wait_opened",
)  # fmt: skip
_LOOK_S: Final = 0.5
# The id of a turn that says nothing to people.
_MADE_UP: Final = re.compile(r"[a-z]_[0-9a-f]{40}")


def work(
    *,
    agent: AgentsOption = None,
    deps: arguments.DepsOption = None,
    max_turns: Annotated[int, Parameter(show_default=True)] = 32,
    store: arguments.StoreOption = None,
    json: arguments.JsonOption = False,
) -> int:
    """Drive the turns of your agents and your background work until SIGTERM or Ctrl-C; pressed again, it exits at once.

    Turns that no process drives, that were answered or that are queued continue here.

    Args:
        max_turns: how many turns to drive at a time
    """
    settings = read_settings(store=store)
    if store_file(checked_store(settings)) is None:
        raise ConfigError.at("store", settings.store, "a file that other processes can open, too")
    chosen = choose_work(agent, settings)
    log = WorkLog(chosen, is_json=json)
    runtime = Runtime(
        *chosen.agents,
        store=settings.store,
        durability=settings.durability,
        deps=choose_deps(deps, settings),
        max_turns=max_turns,
        probe=log,
        processes=chosen.processes,
        schedules=chosen.schedules,
        triggers=chosen.triggers,
    )
    try:
        return asyncio.run(_work(runtime, settings, log))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group  # the others say the same about the same store


async def _work(runtime: Runtime[Any], settings: Settings, log: WorkLog) -> int:
    stop = asyncio.Event()
    # A runtime that drives nothing watches, so that what the worker does first is noticed, too.
    watching = Runtime(store=settings.store, durability=settings.durability)
    async with watching, watching.observe(kinds=_KINDS) as seen, opened_store(settings) as rows:
        with _until_signalled(stop, log):
            async with asyncio.TaskGroup() as tasks:
                async with runtime:
                    log.came(await runtime.status(), settings)
                    hearing = tasks.create_task(log.hear(seen))
                    tasks.create_task(log.tell_all(rows))
                    await stop.wait()
                hearing.cancel()
                log.end_telling()
            await log.tell_rest(rows)
    log.went()
    return exit_code.OK


@contextmanager
def _until_signalled(stop: asyncio.Event, log: WorkLog) -> Iterator[None]:
    """Make the first signal set `stop`, and the second one end the process."""
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            # Not through the loop: a tool may block it. What is recorded is on disk already.
            os._exit(128 + number)
        loop.call_soon_threadsafe(log.stopping, number)
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class WorkLog:
    """What a worker does, a line each. As the runtime's probe it knows which turns this process drives."""

    def __init__(self, chosen: Work, *, is_json: bool) -> None:
        self._chosen = chosen
        self._worker_id = ""
        self._is_json = is_json
        self._news: asyncio.Queue[TurnKey | Notice | None] = asyncio.Queue()
        # The turns that were driven here and have not ended, with the answers to their waits that were told.
        self._told: dict[TurnKey, set[str]] = {}
        # What the turns are called that are told about, for people.
        self._names: dict[TurnKey, str] = {}
        # How many drives of a turn began here and have not been seen to park: the store's news comes a moment later.
        self._n_drives: Counter[TurnKey] = Counter()

    def _driving(self) -> list[TurnKey]:
        return [key for key, number in self._n_drives.items() if number > 0]

    # ------------------------------------------------------------------ what is heard

    def begin(self, phase: Phase, session_id: str, turn_id: str) -> None:
        """Note the beginning of a drive; called by the runtime."""
        if phase == "context":
            self._news.put_nowait((session_id, turn_id))

    def end(self, phase: Phase, session_id: str, turn_id: str) -> None:
        """Ignore the end of a phase: the store says how a turn ended."""

    async def hear(self, notices: Notices) -> None:
        """Hear what is written, for as long as the store can be read."""
        while True:
            try:
                async for notice in notices:
                    self._news.put_nowait(notice)
            except StoreError as error:
                note(f"the store cannot be read: {error}")
                await asyncio.sleep(_LOOK_S)

    # ------------------------------------------------------------------ what is told

    async def tell_all(self, rows: Store) -> None:
        """Tell what is heard, in that order, until `end_telling`."""
        while (news := await self._news.get()) is not None:
            await self._tell(news, rows)

    def end_telling(self) -> None:
        """Let `tell_all` end behind what was heard so far."""
        self._news.put_nowait(None)

    async def tell_rest(self, rows: Store) -> None:
        """Tell what became of the turns that were driven when the worker stopped."""
        for key in sorted(self._driving()):
            found = await rows.load_turn(*key)
            if found is not None and found.state == "done":
                await self._ended(key, rows)
            elif found is not None and found.state != "parked":
                told = "left unfinished; another worker continues it"
                self._say("turn_left", key, told, "yellow")

    async def _tell(self, news: TurnKey | Notice, rows: Store) -> None:
        try:
            if isinstance(news, tuple):
                await self._began(news, rows)
            else:
                await self._noticed(news, (news.session_id, news.turn_id), rows)
        except StoreError as error:
            note(f"the store cannot be read: {error}")

    async def _noticed(self, notice: Notice, key: TurnKey, rows: Store) -> None:
        if key not in self._told:
            return  # another worker's
        wait = notice.wait
        if notice.kind == "turn_ended":
            await self._ended(key, rows)
        elif notice.kind == "turn_rested":
            self._n_drives[key] -= 1
            if self._is_json:
                self._say("turn_parked", key)
        elif notice.kind == "wait_opened" and wait is not None:
            self._say("wait_opened", key, wait_line(wait), "yellow", wait=_wait_record(wait))

    async def _began(self, key: TurnKey, rows: Store) -> None:
        found = await rows.load_turn(*key)
        if not self._is_json and key not in self._names:
            self._names[key] = await _name_of(key, rows)
        is_known = key in self._told
        told = self._told.setdefault(key, set())
        self._n_drives[key] += 1
        if found is None or not (is_known or self._was_driven(found)):
            is_short = self._names.get(key, key[0]).startswith(key[0])
            self._say("turn_started", key, "started" if is_short else f"started in {key[0]}")
            return
        answers = [
            each for each in found.waits if each.answer is not None and each.wait.key not in told
        ]
        told.update(each.wait.key for each in answers)
        shown = "".join(f", {_answer_words(each)}" for each in answers)
        record = [_wait_record(each.wait, each.answer) for each in answers]
        self._say("turn_continued", key, f"continues{shown}", answers=record)

    def _was_driven(self, turn: TurnView) -> bool:
        """Whether another worker drove a turn before."""
        entries = (entry for page in turn.pages for entry in page.entries)
        return any(
            isinstance(entry, DriveBegan) and entry.worker != self._worker_id for entry in entries
        )

    async def _ended(self, key: TurnKey, rows: Store) -> None:
        self._told.pop(key, None)
        self._n_drives.pop(key, None)
        found = await rows.load_turn(*key)
        outcome = None if found is None else found.outcome
        text = getattr(outcome, "text", "")
        told, style = ending(outcome), "green" if is_finished(outcome) else "red"
        said = one_line(answer_text(outcome, text), 100) if is_finished(outcome) else ""
        self._say("turn_ended", key, f"{told}{said and f': {said}'}", style, outcome=plain(outcome))
        self._names.pop(key, None)

    # ------------------------------------------------------------------ lines

    def came(self, status: RuntimeStatus, settings: Settings) -> None:
        """Say that the worker is there."""
        self._worker_id = status.worker_id or ""
        driven = {
            "agents": list(status.agents),
            "processes": list(status.processes),
            "schedules": [one.name for one in self._chosen.schedules],
            "sources": self._chosen.sources,
        }
        if self._is_json:
            # The agents always; the others where there are some.
            told = {name: some for name, some in driven.items() if some or name == "agents"}
            self._write("worker_started", worker=status.worker_id, **told, store=settings.store)
        else:
            words = {
                "agents": "agent",
                "processes": "process",
                "schedules": "schedule",
                "sources": "source",
            }
            listed = [
                f"{words[name] if len(some) == 1 else name} {', '.join(some)}"
                for name, some in driven.items()
                if some
            ]
            note(f"worker {status.worker_id}, {', '.join(listed)}, {settings.store}")
            note("Ctrl-C or SIGTERM stops it; turns that it leaves continue elsewhere")

    def stopping(self, number: int) -> None:
        """Say that the worker stops."""
        name = signal.Signals(number).name
        if self._is_json:
            self._write("worker_stopping", worker=self._worker_id, signal=name)
        else:
            turns = count(len(self._driving()), "turn")
            note(f"{name}: stopping with {turns} under way; again to exit at once")

    def went(self) -> None:
        """Say that the worker is gone."""
        if self._is_json:
            self._write("worker_stopped", worker=self._worker_id)
        else:
            note("stopped")

    def _say(
        self, name: str, key: TurnKey, told: str = "", style: str = "", **more: object
    ) -> None:
        if self._is_json:
            self._write(name, session=key[0], turn=key[1], **more)
            return
        at = moment(SystemClock().now_ms()).partition(" ")[2]
        shown = line(
            (f"{at}  ", "dim"), (f"{self._names.get(key, '/'.join(key))}  ", "cyan"), (told, style)
        )
        console().print(shown, soft_wrap=True)

    def _write(self, name: str, **more: object) -> None:
        write_json({"event": name, "at_ms": SystemClock().now_ms(), **more})


async def _name_of(key: TurnKey, rows: Store) -> str:
    """Return what people call a turn: by its session's id if they gave it, else by what is at work there."""
    session = await rows.load_session(key[0], history=False)
    if session.kind == CHAT:
        return "/".join(key)
    label = session.label or ""
    # Labels of schedules and triggers begin with the name of what is at work; those of others are names given to them.
    name = label if label.startswith(session.agent) else f"{session.agent} {label}".rstrip()
    is_made_up = _MADE_UP.fullmatch(key[1]) is not None or key[1] in (FIRST_TURN, "t")
    return name if is_made_up else f"{name}/{key[1]}"


def _answer_words(wait: WaitView) -> str:
    by = f" by {wait.answer.by}" if wait.answer is not None and wait.answer.by else ""
    return f"{wait.wait.kind} {wait.state}{by}"


def _wait_record(wait: Wait, answer: WaitAnswer | None = None) -> dict[str, object]:
    record: dict[str, object] = {"key": short_key(wait.key), "kind": wait.kind, "title": wait.title}
    return record if answer is None else {**record, "status": answer.status, "by": answer.by}
