"""Running a process: the function behind a turn, as asyncio tasks that may only wait for recorded operations.

An operation is what the function awaits of its context: a step, a sleep, a signal, a turn of an agent. Each has a position:
the number of the operation in the task that asks for it. The function's own task counts 1, 2, 3; a task that it begins
(`asyncio.gather`, a task group) counts `b1.1`, `b1.2`. So the order in which parallel operations end changes no position.

Law 1. If the journal has an answer at a position, that is the answer to the operation. If the function asks for something
    else there, its code has changed: the turn parks, and a person decides.
Law 2. The turn parks when every task of the function waits for something that takes long. Then a `BaseException` unwinds
    the function: `finally` and `async with` run, operations raise it again, and nothing is recorded. A step whose body
    runs ends first.
Law 3. A cancelled function gets `CancelledError` where it waits, and has a moment to clean up, in which no operation runs.
Law 4. What the function does outside of its operations happens again in every drive.
Law 5. Operations that wait return one at a time, in the order in which their ends were recorded; what follows from one end
    happens before the next operation returns. So a race between two operations has the same winner in every drive.
Law 6. Ends that came about while no worker ran are recorded in the order of their times. So a timer that ran out on Monday
    wins against a signal that came on Tuesday, even if the worker returns on Friday.

Length: one count knows the tasks of a function, and when all of them wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any, NoReturn, TypeVar

from windlass.errors import InvalidInput, ProcessEnded
from windlass.ports import Wait, WaitView
from windlass.runtime.body import RUNS_IN
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.process_order import PASSES, ReturnOrder
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import CancelTurn, JournalEnds, ParkTurn, StopTurn

T = TypeVar("T")
# How long an unwound or cancelled function may clean up.
_GRACE_S = 2.0
# A function that asks for more operations than this while it is unwound swallows the exception in a loop.
_MAX_REFUSED = 1_000
_log = logging.getLogger("windlass")


class Unwinding(BaseException):
    """Raised in a process whose drive ends: its turn parks, or its worker stops."""


def _is_news(record: logging.LogRecord) -> bool:
    """Whether asyncio's log is to have a record: that a task was unwound with its process is not news to anyone."""
    return not (record.exc_info and isinstance(record.exc_info[1], Unwinding))


# A task of the function that asks for no operation itself ends with what the tasks end with that it waits for.
logging.getLogger("asyncio").addFilter(_is_news)


class CancelledItself(Exception):
    """The function cancelled its own task."""

    def __init__(self) -> None:
        super().__init__("the function cancelled its own task")


# The reason to refuse operations once the function has ended: a task that it left behind may not ask for any.
_OVER = CancelTurn("the function has ended")


class _Branch:
    """One task of the function."""

    __slots__ = (
        "in_step", "n_branches", "n_children", "n_operations", "parent", "path", "task", "waits_for"
    )  # fmt: skip

    def __init__(self, path: str, task: asyncio.Task[object], parent: _Branch | None) -> None:
        self.path = path
        self.task = task
        self.parent = parent
        self.n_operations = self.n_branches = self.n_children = 0
        # The key of the wait of its current operation; None: the task runs.
        self.waits_for: str | None = None
        self.in_step = False


_BRANCH: ContextVar[_Branch | None] = ContextVar("windlass_branch", default=None)
# Whether this is the body of a step.
_IN_STEP: ContextVar[bool] = ContextVar("windlass_in_step", default=False)
# Where a replay has come to the end of the journal, and where a function had given up waiting: not keys of waits.
_FRONTIER, _NEVER = "frontier", "never"


class Operations(CallBatch):
    """The running operations of a function; it notices when every task waits."""

    __slots__ = (
        "_ends", "_lent", "_loaded", "_loading", "_may_park", "_n_wakes", "branches", "leaving", "left",
        "order", "step_ended")  # fmt: skip

    def __init__(self, turn: Turn, *, may_park: bool) -> None:
        super().__init__(turn, 2)
        self.is_alone = True
        self.branches: dict[asyncio.Task[object], _Branch] = {}
        # Why the function is unwound, once it is; and the future that tells the turn.
        self.leaving: BaseException | None = None
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.step_ended: asyncio.Future[None] | None = None
        recovery = turn.recovery
        ended = () if recovery is None else recovery.ended_operations
        self.order = ReturnOrder(ended, self._is_still)
        # The positions of operations whose waits are over, by the key of the wait; `order` has them, too.
        self._ends: dict[str, str] = {}
        if turn.waits:
            over = () if recovery is None else (*ended, *recovery.given_up)
            self._line_up(turn.waits.values(), frozenset(over))
        self._may_park = may_park
        # While the turn's slot is lent to another turn: what takes it back.
        self._lent: AbstractContextManager[None] | None = None
        # How often it was woken, and how many of these wakes it has answered by a look.
        self._n_wakes = self._loaded = 0
        self._loading = asyncio.Lock()

    # ------------------------------------------------------------------ tasks and positions

    def begin(self) -> tuple[_Branch, str]:
        """Return the task that asks for an operation, and the operation's position.

        Raises:
            InvalidInput: the body of a step asks for it.
        """
        if _IN_STEP.get():
            raise InvalidInput(
                "ctx: the body of a step asked for an operation; await it in the process itself",
                field="ctx",
            )
        branch = self._current()
        branch.n_operations += 1
        if not self.is_alone:
            self.order.moved()
        return branch, f"{branch.path}{branch.n_operations}"

    def next_position(self) -> str:
        """Return the position of the next operation of this task."""
        branch = self._current()
        return f"{branch.path}{branch.n_operations + 1}"

    def _current(self) -> _Branch:
        branch, task = _BRANCH.get(), asyncio.current_task()
        assert task is not None  # noqa: S101 - operations are awaited
        if branch is None or branch.task is not task:
            branch = self.open_branch(task, branch)
        return branch

    def open_branch(self, task: asyncio.Task[object], parent: _Branch | None) -> _Branch:
        """Begin to count the operations of a task; `parent` is the branch of the task that began it."""
        path = ""
        if parent is not None:
            parent.n_branches += 1
            parent.n_children += 1
            path = f"{parent.path}b{parent.n_branches}."
        branch = self.branches[task] = _Branch(path, task, parent)
        self.is_alone = len(self.branches) == 1
        task.add_done_callback(self._branch_ended)
        _BRANCH.set(branch)
        return branch

    def _branch_ended(self, task: asyncio.Task[object]) -> None:
        if not task.cancelled():
            task.exception()  # the task that awaits it and the turn get the error
        branch = self.branches.pop(task)
        if branch.parent is not None:
            branch.parent.n_children -= 1
        self.is_alone = len(self.branches) == 1
        self.order.moved()

    def ended(self) -> None:
        """Do nothing: this class counts tasks, not steps."""

    # ------------------------------------------------------------------ waiting

    def leave(self, signal: BaseException) -> None:
        """Unwind the function; the first reason counts."""
        if self.leaving is None:
            self.leaving = signal
            self.left.set_result(None)
            self._take_slot_back()
            self.order.let_go()
            self.tell_news()

    def wake(self) -> None:
        """Make waiting operations look for their answers."""
        self._n_wakes += 1
        self.tell_news()

    async def answered(self, key: str) -> WaitView:
        """Wait until a wait has its answer.

        Raises:
            ParkTurn: every task of the function waits.
        """
        turn, branch = self._turn, self._current()
        branch.waits_for = key
        self.order.moved()
        try:
            news = self.next_news()
            while turn.waits[key].state == "open":
                if self.leaving is not None:
                    raise self.leaving
                if turn.is_stopping:
                    raise StopTurn
                await news.wait()
                news = self.next_news()
                await self._look()
            if key not in self._ends:  # it was answered while this asked for it
                self._line_up((turn.waits[key],))
            position = self._ends.get(key)
            if position is not None and not self.order.returns_now(position):
                await self.order.returns(position)
                if self.leaving is not None:
                    raise self.leaving
        finally:
            branch.waits_for = None
            self._take_slot_back()
        return turn.waits[key]

    def _line_up(self, views: Iterable[WaitView], recorded: Container[str] = ()) -> None:
        """Line up the operations whose waits are over, in the order of their ends (Law 6)."""
        now_ms = self._turn.services.clock.now_ms()
        found: list[tuple[int, str, str]] = []
        for view in views:
            position, ended_ms = _position_of(view.wait), _ended_ms(view, now_ms)
            if position is not None and ended_ms is not None and position not in recorded:
                found.append((ended_ms, position, view.wait.key))
        for _, position, key in sorted(found):
            if key not in self._ends:
                self._ends[key] = position
                self.order.ended(position)

    async def _look(self) -> None:
        """Reload the waits; operations that were woken together share one look."""
        if self.leaving is None and self._loaded < self._n_wakes:
            async with self._loading:
                wakes = self._n_wakes
                if self._loaded < wakes:
                    await self._turn.reload_waits()
                    self._loaded = wakes
                    keys = [one.waits_for for one in self.branches.values()]
                    waits = self._turn.waits
                    self._line_up(waits[key] for key in keys if key in waits)

    async def let_cancels_arrive(self) -> None:
        """Let tasks that the function has just cancelled hear of it, before anything new is asked for in their place."""
        for _ in range(PASSES):
            waiting = [one for one in self.branches.values() if one.waits_for is not None]
            if not any(one.task.cancelling() for one in waiting):
                return
            await asyncio.sleep(0)

    async def stand_at_frontier(self) -> None:
        """Wait, in a replay, until no other task finds anything in the journal either."""
        await self._stand_still(_FRONTIER)

    async def never(self) -> NoReturn:
        """Wait for what does not come: the function had cancelled this task where it waits, and does so again."""
        await self._stand_still(_NEVER)
        assert self.leaving is not None  # noqa: S101 - else it would stand still
        raise self.leaving

    async def _stand_still(self, why: str) -> None:
        branch = self._current()
        branch.waits_for = why
        self.order.moved()
        try:
            while self.leaving is None:
                await self.next_news().wait()
        finally:
            branch.waits_for = None

    def _is_still(self) -> None:
        """Park if every task waits; called when nothing has moved for a few passes of the loop."""
        turn = self._turn
        if self.leaving is not None or not self.branches:
            return
        if not all(map(self._waits, self.branches.values())):
            return
        if turn.is_replay:
            self.leave(JournalEnds())
        elif self._may_park:
            self.leave(ParkTurn())
        elif self._lent is None:
            # It stays in memory, but lends its slot so that other turns can run.
            self._lent = turn.services.lent()
            self._lent.__enter__()

    def _take_slot_back(self) -> None:
        lent, self._lent = self._lent, None
        if lent is not None:
            lent.__exit__(None, None, None)

    def _waits(self, branch: _Branch) -> bool:
        if branch.waits_for is None:
            return branch.n_children > 0  # it awaits the tasks that it began
        if branch.waits_for in (_FRONTIER, _NEVER):
            return True
        return self._turn.waits[branch.waits_for].state == "open"

    async def steps_ended(self) -> None:
        """Wait until no body of a step runs."""
        while any(one.in_step for one in self.branches.values()):
            self.step_ended = asyncio.get_running_loop().create_future()
            await self.step_ended


def _position_of(wait: Wait) -> str | None:
    """Return the position of the operation that ends with a wait; None: the wait belongs to a call, which has more to do."""
    if wait.call_id is not None or not isinstance(wait.detail, dict) or "at" not in wait.detail:
        return None
    return str(wait.detail["at"]).partition(".")[2]


def _ended_ms(view: WaitView, now_ms: int) -> int | None:
    """Return when a wait ended; None if it has not. An expired wait counts as answered."""
    expires_ms = view.wait.expires_ms
    if view.state == "open":
        return expires_ms if expires_ms is not None and expires_ms <= now_ms else None
    if view.answer is None or (view.state == "expired" and expires_ms is not None):
        return expires_ms
    return view.answer.now_ms


class ProcessTask:
    """Runs the function of a process until it ends, or its drive does."""

    def __init__(self, turn: Turn, *, may_park: bool) -> None:
        self._turn = turn
        self.operations = Operations(turn, may_park=may_park)
        self._is_over = False
        # The position at which a replay reached the end of the journal.
        self.frontier: str | None = None
        # Whether the exception of `run` is about the turn, and not from the function.
        self.was_left = False
        self._n_refused = 0

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run the function; return what it returns and raise what it raises.

        Raises:
            ParkTurn: every task waits.
            StopTurn: its worker stops.
            CancelTurn: the turn was cancelled.
            CancelledItself: the function cancelled its own task.
        """
        try:
            return await self._run(work)
        finally:
            self._is_over = True

    async def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        operations = self.operations
        main = asyncio.get_running_loop().create_task(
            self._main(work), name=f"windlass-process-{self._turn.session_id}"
        )
        try:
            ends: set[asyncio.Future[Any]] = {main, operations.left}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if operations.leaving is not None:
                await operations.steps_ended()
            await self._end(main, cancel=operations.leaving is None)
        except asyncio.CancelledError as cancelled:
            operations.leave(cancelled)
            await self._end(main, cancel=True)
            raise
        finally:
            signal, operations.leaving = operations.leaving, _OVER
            self.was_left = signal is not None
            operations.order.close()
        if signal is not None:
            raise signal
        if main.cancelled():
            raise CancelledItself
        return main.result()

    async def _main(self, work: Callable[[], Awaitable[T]]) -> T:
        RUNS_IN.set(self._turn.session_id)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it was made here
        self.operations.open_branch(task, None)
        value = await work()
        # Answers from the journal do not suspend: tasks that the function began may not have run yet.
        recovery = self._turn.recovery
        if recovery is not None and recovery.has_unasked:
            await self.operations.order.quiet()
        return value

    async def _end(self, main: asyncio.Task[T], *, cancel: bool) -> None:
        """Wait a moment for the tasks of the function; then cancel those that still run."""
        running = {task for task in (main, *self.operations.branches) if not task.done()}
        for do_cancel in (cancel, True):
            if do_cancel:
                for task in running:
                    task.cancel()
            if running:
                _, running = await asyncio.wait(running, timeout=_GRACE_S)
        if running:
            _log.warning("a task of process %s does not end", self._turn.session_id)

    # ------------------------------------------------------------------ operations

    async def operate(
        self, perform: Callable[[str], Awaitable[T]], *, is_step: bool = False, waits: bool = True
    ) -> T:
        """Perform an operation at the position of the task that asks for it.

        An exception from it is about the turn, not about the operation: it unwinds the function, and the turn gets it.
        """
        operations = self.operations
        if operations.leaving is not None:
            await self._refuse()
        branch, position = operations.begin()
        if not waits:
            return await self.apart(partial(perform, position), position)
        operations.order.began(position)
        try:
            if is_step:
                result = await self._step(branch, partial(perform, position), position)
            else:
                result = await self.apart(partial(perform, position), position)
            if not operations.order.returns_now(position):
                await operations.order.returns(position)
        finally:
            operations.order.returned(position, is_alone=operations.is_alone)
        self.check_staying()
        return result

    async def _step(self, branch: _Branch, perform: Callable[[], Awaitable[T]], position: str) -> T:
        branch.in_step, inside = True, _IN_STEP.set(True)
        try:
            return await self.apart(perform, position)
        finally:
            branch.in_step = False
            _IN_STEP.reset(inside)
            ended = self.operations.step_ended
            if ended is not None and not ended.done():
                ended.set_result(None)

    async def apart(self, perform: Callable[[], Awaitable[T]], position: str = "") -> T:
        """Perform something without a position of its own."""
        try:
            return await perform()
        except asyncio.CancelledError:
            raise
        except JournalEnds:
            self.frontier = self.frontier or position
            await self.operations.stand_at_frontier()
            self.check_staying()
            raise
        except BaseException as signal:
            self.operations.leave(signal)
            self.check_staying()
            raise

    async def _refuse(self) -> None:
        """Raise the exception that unwinds the function; after too many refusals, block so that the loop stays free."""
        self._n_refused += 1
        await asyncio.sleep(0)
        if self._n_refused > _MAX_REFUSED:
            await asyncio.get_running_loop().create_future()
        self.check_staying()

    def check_staying(self) -> None:
        """If the function is being unwound, raise the exception that unwinds it."""
        leaving = self.operations.leaving
        if self._is_over:
            raise ProcessEnded(
                "ProcessContext: the process has ended, or is driven anew", field="ctx"
            )
        if leaving is None:
            return
        if isinstance(leaving, (CancelTurn, asyncio.CancelledError)):
            raise asyncio.CancelledError
        raise Unwinding
