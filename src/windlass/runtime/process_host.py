"""The host behind the context of a process: it answers each operation from the journal, or performs it.

    step, tool      a tool call at its position: decide, intent, result, by the tool's contract
    sleep           a claim with its due time, and a timer
    signal          the next signal of a name, or a timeout
    turn, start     a turn of an agent, a process: an errand begins it in another session
    wake, emit      an item for another session; an event for observers
    version, read   a value that is recorded once

Law 1. What an operation does to other sessions is in the unit that records it.
Law 2. The unit that opens the wait of an operation also claims the operation, with its full command. So changed code is
    noticed by position, kind and content.
Law 3. An operation in the journal that the function no longer asks for is a difference like any other.

Length: two methods for each operation: one asks for it, one performs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from windlass.guards.text import words_of
from windlass.journal import (
    Emitted,
    ProcessCommand,
    RunCodeCommand,
    SleepCommand,
    derived_session_id,
)
from windlass.journal.commands import Command, ToolCallCommand, kind_of
from windlass.journal.moments import GIVEN_UP, CodeRan, ProcessAnswered, Slept
from windlass.journal.redaction import cleaned
from windlass.kernel import (
    CodeReturned,
    CompletedToolCall,
    Json,
    PendingToolCall,
    RunCode,
    events,
)
from windlass.kernel.responses import CodeResult
from windlass.kernel.value import freeze
from windlass.ports import (
    AnswerWait,
    CancelTurn,
    Errand,
    Wait,
    WaitAnswer,
    WaitKind,
    WaitView,
)
from windlass.ports.tool import Tool
from windlass.runtime.children import NewChild, start_child
from windlass.runtime.process_run import ProcessTask
from windlass.runtime.process_signals import LeftSignals, Signalled
from windlass.runtime.process_steps import AgentStepRun, AnyStep, Kept, StepRun, kept_in, value_of
from windlass.runtime.turn import Keyed, Turn
from windlass.runtime.turn_signals import ReplayBlocked
from windlass.tools.agent_tool import AgentTool
from windlass.tools.results import NotPlain, as_json

if TYPE_CHECKING:
    from windlass.runtime.model_call import ModelCalls

_MAX_ERROR_CHARS = 4_000

Made: TypeAlias = tuple[Json, tuple[Errand, ...]]
"""The value of an operation, and its errands to other sessions."""


class ContinueAs(BaseException):
    """Raised in a process that continues in another turn, with these arguments and an empty journal."""

    def __init__(self, args: Json) -> None:
        super().__init__("continues as another turn")
        self.args_given = args


class ProcessHost:
    """The operations of one process, in one drive."""

    def __init__(self, turn: Turn, models: ModelCalls) -> None:
        code = turn.program.code
        assert code is not None  # noqa: S101 - its driver runs code
        self.turn = turn
        self._models = models
        self._code = code
        self._task = ProcessTask(turn, may_park=code.may_park)
        self._operations = self._task.operations
        # Steps whose bodies may be running.
        self._steps: list[StepRun | AgentStepRun] = []
        self._effect_id = 0
        self._versions: dict[str, bool] = {}
        self._left = LeftSignals(turn)
        # The kind of each operation, for the report of a replay.
        self._kinds: dict[str, str] = {}
        # The last value of each event that the process emitted, over all of its turns.
        self._told: dict[str, Json] = dict(turn.request.overrides.get("record") or {})

    def wake(self) -> None:
        """Make waiting operations look for their answers."""
        self._operations.wake()

    def interrupted(self) -> None:
        """Record for interrupted steps that it is not known whether they acted."""
        for step in self._steps:
            completed = step.interrupted()
            if completed is not None:
                self._completed(step, completed)
        self._steps.clear()

    async def run(self, effect: RunCode) -> CodeReturned:
        """Run the function, or return what an earlier drive recorded of its end.

        Raises:
            ParkTurn, StopTurn, CancelTurn: as for a tool call.
        """
        turn, self._effect_id = self.turn, effect.id
        turn.lane.is_patient = self._code.is_short
        asked = turn.keyed(
            RunCodeCommand(language=effect.language, code=effect.code), str(effect.id)
        )
        known = turn.answer_to(asked, CodeRan)
        if known is not None:
            return CodeReturned(id=effect.id, result=known.result)
        is_claimed = turn.row(asked.key) is not None
        if not is_claimed:
            turn.go_live()
            turn.claim(asked)
        elif not self._code.runs_again and turn.is_recovered:
            result = CodeResult(error="Its worker was lost, and it is declared to run only once.")
            return self._ended(effect, asked, result)
        result = await self._run()
        if turn.recovery is not None:
            turn.recovery.check_all_asked()
        turn.go_live()
        return self._ended(effect, asked, result)

    def _ended(self, effect: RunCode, asked: Keyed, result: CodeResult) -> CodeReturned:
        self.turn.record(asked, CodeRan(result=cleaned(result)), claimed=True)
        return CodeReturned(id=effect.id, result=cleaned(result))

    async def _run(self) -> CodeResult:
        try:
            value = await self._task.run(partial(self._code.run, self))
        except BaseException as error:
            if self._task.was_left or isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            going_on = _continuation(error)
            if going_on is not None:
                await self._left.return_all()
                return CodeResult(value=going_on.args_given)
            return CodeResult(error=_words(error))
        try:
            return CodeResult(value=as_json(value), finished=True)
        except NotPlain as error:
            return CodeResult(error=f"It returned a value that cannot be kept: {error}")

    # ------------------------------------------------------------------ steps

    async def call(self, tool: Tool, args: dict[str, Any]) -> Json:
        """Run a tool, or a function as one, at the next position; return its value.

        Raises:
            ToolFailed, ToolTimeout, ToolDenied, StepUnknown: the step has no value.
        """
        called = await self._operate_step(tool, tool.spec.name, args)
        return value_of(*called)

    async def completed(
        self,
        tool: Tool | None,
        name: str,
        args: Mapping[str, Any],
        kind: type[AnyStep] | None = None,
    ) -> CompletedToolCall:
        """Run a tool at the next position; return how it ended. `tool` is None if no tool has this name any more."""
        completed, _ = await self._operate_step(tool, name, args, kind)
        return completed

    async def _operate_step(
        self,
        tool: Tool | None,
        name: str,
        args: Mapping[str, Any],
        kind: type[AnyStep] | None = None,
    ) -> tuple[CompletedToolCall, Kept | None]:
        if kind is None:
            kind = AgentStepRun if isinstance(tool, AgentTool) else StepRun
        perform = partial(self._call, kind, tool, name, args)
        return await self._task.operate(perform, is_step=True)

    async def _call(
        self,
        kind: type[AnyStep],
        tool: Tool | None,
        name: str,
        args: Mapping[str, Any],
        position: str,
    ) -> tuple[CompletedToolCall, Kept | None]:
        turn = self.turn
        call = PendingToolCall(call_id=position, name=name, args=freeze(dict(args), field="args"))
        if turn.recovery is not None:
            self._kinds[position] = "tool_call"
            asked = ToolCallCommand(call_id=position, name=call.name, args=call.args)
            turn.recovery.check_operation(self._at(position), "tool_call", asked)
        step = kind(turn, self._models, self._operations, call, self._at(position), 0)
        step.tool = tool
        if step.is_recorded:
            completed = await step.run()
            turn.completed.append(completed)
            return completed, await kept_in(completed, turn)
        self._steps.append(step)
        completed = await step.run()
        self._steps.remove(step)
        self._completed(step, completed)
        # A value that was just written is not read back: the operation returns right after its end is recorded.
        return completed, getattr(tool, "kept", None) or await kept_in(completed, turn)

    def _completed(self, step: StepRun | AgentStepRun, completed: CompletedToolCall) -> None:
        """Tell observers that a step has a new result."""
        fact = events.ToolFinished(
            call_id=completed.call_id,
            name=completed.name,
            args=completed.args,
            outcome=completed.outcome,
            duration_ms=completed.duration_ms,
        )
        self.turn.tell_fact(fact, f"{step.place}.end", step.place)
        self.turn.completed.append(completed)

    # ------------------------------------------------------------------ waiting

    async def sleep(self, duration_ms: int) -> None:
        """Wait until this time has passed since the first drive asked for it."""
        await self._task.operate(partial(self._sleep, SleepCommand(duration_ms=duration_ms)))

    async def sleep_until(self, until_ms: int) -> None:
        """Wait until a time; return at once if it has passed."""
        command = SleepCommand(duration_ms=0, until_ms=until_ms)
        await self._task.operate(partial(self._sleep, command))

    async def _sleep(self, command: SleepCommand, position: str) -> None:
        turn = self.turn
        asked = self._asked(command, position)
        if turn.answer_to(asked, Slept) is not None:
            return
        turn.go_live()
        due_ms = self._due_ms(asked, command.duration_ms, command.until_ms)
        view = self._open("timer", position, "sleeps", {}, due_ms)
        await self._over(view)
        turn.record(asked, Slept(due_ms=due_ms), claimed=True, began_ms=view.wait.created_ms)
        self._tell_over(view, "expired")

    def _due_ms(self, asked: Keyed, duration_ms: int, until_ms: int | None = None) -> int:
        """Return when a sleep ends; claim it first if it is new."""
        row = self.turn.row(asked.key)
        if row is not None and row.due_ms is not None:
            return row.due_ms
        now_ms = self.turn.services.clock.now_ms()
        due_ms = now_ms + duration_ms if until_ms is None else until_ms
        self.turn.claim(asked, due_ms=due_ms)
        return due_ms

    async def signal(
        self, name: str, timeout_ms: int | None, until_ms: int | None = None
    ) -> Signalled:
        """Wait for the next signal of a name, for so long or until then; the answer is `expired` if none came in time."""
        return await self._task.operate(partial(self._signal, name, timeout_ms, until_ms))

    async def _signal(
        self, name: str, timeout_ms: int | None, until_ms: int | None, position: str
    ) -> Signalled:
        turn = self.turn
        command = ProcessCommand(operation="await", process_id=turn.session_id, name=name)
        asked = self._asked(command, position)
        known, row = turn.answer_to(asked, ProcessAnswered), turn.row(asked.key)
        if known is not None:
            until_ms = None if row is None else row.due_ms
            answer = await self._known_signal(known, name, position)
            return Signalled(answer, until_ms, self._at(position))
        turn.go_live()
        # A wait that was given up is closed before another one of its name is opened: signals go to the oldest.
        await self._operations.let_cancels_arrive()
        expires_ms = None
        if timeout_ms is not None:
            expires_ms = self._due_ms(asked, timeout_ms, until_ms)
        elif row is None:
            turn.claim(asked)
        left = await self._left_signal(name, position)
        if left is not None:
            turn.record(asked, left, claimed=True)
            return Signalled(left, expires_ms, self._at(position))
        detail = {"signal": name}
        view = self._open("signal", position, f"waits for the signal {name}", detail, expires_ms)
        return Signalled(await self._heard(asked, view), expires_ms, self._at(position))

    async def _known_signal(
        self, known: ProcessAnswered, name: str, position: str
    ) -> ProcessAnswered:
        """Return what an earlier drive recorded; where the function had given up, wait until it does so again."""
        turn = self.turn
        if turn.is_replay:
            # It has no secret to make keys with, and goes no further than the journal.
            return await self._operations.never() if known.status == GIVEN_UP else known
        key = turn.wait_key(self._about(position), "signal")
        if known.status == GIVEN_UP:
            self._left.give_up(name, key)
            return await self._operations.never()
        if key not in turn.waits:
            self._left.take(name)  # it had none of its own: this is what it took then
        return known

    async def _left_signal(self, name: str, position: str) -> ProcessAnswered | None:
        """Return the signal that a wait got after the function had given it up, if there is one."""
        key = self.turn.wait_key(self._about(position), "signal")
        if not self._left or key in self.turn.waits:
            return None
        await self._left.look()
        return self._left.take(name)

    async def turn_of(self, child: NewChild, command: ProcessCommand) -> ProcessAnswered:
        """Run a turn in another session; return its answer: a `ChildEnd`, or text if the turn could not begin."""
        return await self._task.operate(partial(self._turn_of, child, command))

    async def _turn_of(
        self, child: NewChild, command: ProcessCommand, position: str
    ) -> ProcessAnswered:
        turn = self.turn
        asked = self._asked(command, position)
        known = turn.answer_to(asked, ProcessAnswered)
        if known is not None:
            return await self._operations.never() if known.status == GIVEN_UP else known
        turn.go_live()
        if turn.row(asked.key) is None:
            turn.claim(asked)
        key = turn.wait_key(self._about(position), "child")
        view = turn.waits.get(key) or start_child(
            turn,
            child,
            about=self._about(position),
            title=f"waits for {child.name}",
            at=self._at(position),
        )
        return await self._heard(asked, view)

    async def _heard(self, asked: Keyed, view: WaitView) -> ProcessAnswered:
        """Wait for the answer and record it; or that the function gave up waiting, as it cancels the task that does."""
        try:
            return self._answer(asked, await self._over(view))
        except asyncio.CancelledError:
            if self._operations.leaving is None:
                self._give_up(asked, view.wait)
            raise

    def _give_up(self, asked: Keyed, wait: Wait) -> None:
        """Record that nothing waits here any more; in the same unit, close the wait or cancel the child."""
        turn, now_ms = self.turn, self.turn.services.clock.now_ms()
        turn.record(asked, ProcessAnswered(status=GIVEN_UP), claimed=True)
        self._tell_over(turn.waits[wait.key], GIVEN_UP)
        named = wait.detail if isinstance(wait.detail, dict) else {}
        if wait.kind == "child":
            session_id, turn_id = str(named["session"]), str(named["turn"])
            said = "the process gave up waiting for it"
            turn.lane.run_errand(CancelTurn(session_id=session_id, turn_id=turn_id, reason=said))
            return
        # A signal that comes from now on is for the next wait. One that came before is left behind for it.
        self._left.give_up(str(named["signal"]), wait.key)
        answer = WaitAnswer(status="superseded", now_ms=now_ms)
        turn.lane.run_errand(AnswerWait(key=wait.key, answer=answer))

    def _open(
        self,
        kind: WaitKind,
        position: str,
        title: str,
        detail: dict[str, Any],
        expires_ms: int | None,
    ) -> WaitView:
        return self.turn.open_wait(
            kind,
            about=self._about(position),
            digest=kind,
            title=f"{self.turn.program.name} {title}",
            detail={**detail, "at": self._at(position)},
            expires_ms=expires_ms,
        )

    async def _over(self, view: WaitView) -> WaitView:
        """Wait for the answer. An answer that existed before the wait opened is seen at once."""
        turn, key = self.turn, view.wait.key
        if view.state == "open" and (view.wait.kind == "signal" or not self._code.may_park):
            await turn.lane.durable()
            await turn.reload_waits()
        return await self._operations.answered(key)

    def _answer(self, asked: Keyed, view: WaitView) -> ProcessAnswered:
        """Record the answer to a wait, and return it."""
        answer = view.answer
        status = view.state if answer is None else answer.status
        outcome = cleaned(
            ProcessAnswered(
                value=None if answer is None else answer.value,
                status=status,
                by=None if answer is None else answer.by,
            )
        )
        self.turn.record(asked, outcome, claimed=True, began_ms=view.wait.created_ms)
        self._tell_over(view, status, outcome.by)
        self.turn.hear_child(view.wait, outcome.value)
        return outcome

    def _tell_over(self, view: WaitView, status: str, by: str | None = None) -> None:
        self.turn.tell_wait_over(view.wait, status, by)

    # ------------------------------------------------------------------ acting on others, and telling

    async def act(
        self,
        command: ProcessCommand,
        make: Callable[[str], Made | Awaitable[Made]],
        *,
        claims: bool = False,
    ) -> Json:
        """Do something to other sessions, once; `make` returns the value and the errands for a position.

        `claims`: the store refuses the unit if the turn was cancelled before, so nothing happens to other sessions.
        """
        return await self._task.operate(partial(self._act, command, make, claims))

    async def _act(
        self,
        command: ProcessCommand,
        make: Callable[[str], Made | Awaitable[Made]],
        claims: bool,  # noqa: FBT001 - as for `act`
        position: str,
    ) -> Json:
        turn, asked = self.turn, self._asked(command, position)
        known = turn.answer_to(asked, ProcessAnswered)
        if known is not None:
            return known.value
        turn.go_live()
        made = make(self._at(position))
        value, errands = await made if isinstance(made, Awaitable) else made
        if claims:
            turn.claim(asked)
        turn.record(asked, cleaned(ProcessAnswered(value=value)), claimed=claims)
        for errand in errands:
            turn.lane.run_errand(errand)
        return value

    async def emit(self, name: str, value: Json) -> None:
        """Tell observers something, once."""
        await self._task.operate(partial(self._emit, name, value), waits=False)

    async def _emit(self, name: str, value: Json, position: str) -> None:
        turn = self.turn
        key = turn.key("process", self._at(position))
        if turn.recovery is not None:
            self._kinds[position] = "process"
            turn.recovery.check_operation(self._at(position), "process", name)
            told = turn.recovery.emitted.get(key)
            if told is not None:
                turn.recovery.check_emitted(told, name)
                self._told[name] = told.value
                return
        turn.go_live()
        entry = cleaned(Emitted(key=key, name=name, value=value))
        turn.lane.add(entry)
        self._told[name] = entry.value
        turn.tell_fact(
            events.ProcessEvent(name=name, value=entry.value), f"{self._at(position)}.emitted"
        )

    async def version(self, name: str) -> bool:
        """Whether the function runs the code of this version: it had not passed this point when the version came."""
        self._task.check_staying()
        if name not in self._versions:
            self._versions[name] = await self._version(name)
        return self._versions[name]

    async def _version(self, name: str) -> bool:
        turn = self.turn
        command = ProcessCommand(operation="version", process_id=turn.session_id, name=name)
        asked = turn.keyed(command, f"{self._effect_id}.version.{name}")
        known = turn.answer_to(asked, ProcessAnswered)
        if known is not None:
            return True
        position = self._operations.next_position()
        if turn.recovery is not None and self._at(position) in turn.recovery.operations:
            return False  # an earlier release has passed this point
        return await self._task.apart(partial(self._mark, asked))

    async def _mark(self, asked: Keyed) -> bool:
        self.turn.go_live()
        self.turn.record(asked, ProcessAnswered(value=True))
        return True

    async def read(self, name: str, make: Callable[[], Json]) -> Json:
        """Return a value that is made once and recorded: a time, a random number."""
        command = ProcessCommand(operation="read", process_id=self.turn.session_id, name=name)
        return await self.act(command, lambda _: (make(), ()))

    def continue_as(self, args: Json) -> NoReturn:
        """End this turn and continue in the next one, with these arguments."""
        raise ContinueAs({"args": args, "record": self._told} if self._told else {"args": args})

    # ------------------------------------------------------------------ places

    def derived_session(self, kind: Literal["child", "process"]) -> str:
        """Return the session that the next operation of this task begins: the same in every drive.

        A replay has no secret to derive it with, so it uses the recorded session.
        """
        turn, at = self.turn, self._at(self._operations.next_position())
        if not turn.is_replay:
            secret = turn.services.store.secret
            return derived_session_id(secret, kind, turn.session_id, turn.turn_id, at)
        row = turn.row(turn.key("process", at))
        found = None if row is None else row.command
        return found.process_id if isinstance(found, ProcessCommand) else "unknown"

    @property
    def deps(self) -> Any:  # noqa: ANN401 - as their factory is declared
        """The deps that the runtime made for this drive.

        Raises:
            Unwinding: this is a replay, which has no deps.
        """
        turn = self.turn
        if turn.is_replay and turn.program.deps is not None:
            self._operations.leave(ReplayBlocked("Its function uses deps, which a replay has not"))
            self._task.check_staying()
        return turn.deps

    @property
    def frontier(self) -> str:
        """The key of the operation at which a replay reached the end of the journal; by default the function's own key."""
        position = self._task.frontier
        kind = None if position is None else self._kinds.get(position)
        if position is None or kind is None:
            return self.turn.key("run_code", str(self._effect_id))
        return self.turn.key(kind, self._at(position))

    def _at(self, position: str) -> str:
        return f"{self._effect_id}.{position}"

    def _about(self, position: str) -> str:
        return f"{self.turn.session_id}/{self.turn.turn_id}/{self._at(position)}"

    def _asked(self, command: Command, position: str) -> Keyed:
        """Return a command at its place, after checking that the journal has nothing else there."""
        recovery, at = self.turn.recovery, self._at(position)
        if recovery is not None:
            self._kinds[position] = kind_of(command)
            recovery.check_operation(at, kind_of(command), command)
        return self.turn.keyed(command, at)


def _continuation(error: BaseException) -> ContinueAs | None:
    """Return the `ContinueAs` that a function raised; a task group may wrap it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        found = error.subgroup(ContinueAs)
        if found is None:
            return None
        error = found.exceptions[0]
    return error if isinstance(error, ContinueAs) else None


def _words(error: BaseException) -> str:
    name, words = type(error).__name__, words_of(error)[:_MAX_ERROR_CHARS]
    return f"{name}: {words}" if words else name
