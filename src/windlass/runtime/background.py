"""Background tools: a call starts a process of one step, and the turn continues; the result wakes the session.

Law 1. Intent, process and result of the call are one unit. So a call that reports its start has started, and a call
    without a result has started nothing.
Law 2. Approval comes before the process starts, in the calling turn.
Law 3. The body runs by the tool's contract, like any step of a process. Its context has the session, the turn, the call id
    and the idempotency key of the model's call, wherever it runs.
Law 4. The wake is in the unit of the process's end: it arrives once, or the process has not ended.

In a subagent's session the call runs in the foreground: the subagent's answer is due when its turn ends, so no later turn
could receive the result.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from windlass.errors import ConfigError
from windlass.journal import derived_session_id, idempotency_key
from windlass.journal.commands import Contract
from windlass.kernel import CompletedToolCall, Json, ToolOutcome, events
from windlass.kernel.messages import Text
from windlass.kernel.value import Value, thaw
from windlass.ports import Ask, TurnInfo, TurnRequest
from windlass.ports.children import Ends, as_answer
from windlass.ports.tool import Tool, ToolContext
from windlass.runtime.approvals import Permit
from windlass.runtime.background_tools import BACKGROUND
from windlass.runtime.children import NewChild, acceptance, below
from windlass.runtime.environments import tools_now
from windlass.runtime.process_host import ProcessHost
from windlass.runtime.process_steps import StepRun, failure_of
from windlass.runtime.program import Code, Program
from windlass.runtime.tool_call import ToolCallRun
from windlass.tools import Toolbox
from windlass.tools.declaration import is_background

STARTED = "Started in the background as {label}. Its result arrives by itself; do not wait for it."
_TURN: Final = "run"
_LABEL_CHARS: Final = 12


class _Caller(Value, kw_only=True):
    """The call that started a process, as the request of the process stores it."""

    session_id: str
    turn_id: str
    call_id: str
    effect_id: str
    ordinal: int

    @classmethod
    def of(cls, request: TurnRequest) -> _Caller:
        return msgspec.convert(dict(request.overrides["caller"]), cls)


class BackgroundCallRun(ToolCallRun):
    """Starts one call of a background tool."""

    async def _work(
        self,
        tool: Tool,
        permit: Permit | None,
        contract: Contract | None = None,
        *,
        is_taken_over: bool = False,
    ) -> CompletedToolCall:
        # An intent without a result is from a release in which the tool ran in the foreground: its contract decides.
        if not is_background(tool) or contract is not None or not self.turn.memory.is_open:
            return await super()._work(tool, permit, contract, is_taken_over=is_taken_over)
        return self._start(permit)

    def _start(self, permit: Permit | None) -> CompletedToolCall:
        """Write the intent, start the process and write the result. Nothing is awaited: they are one unit."""
        turn, call = self.turn, self.call
        consumes = None if permit is None else self._use_up(permit)
        self._began_ms = turn.services.clock.now_ms()
        self._claim("keyed", consumes)
        child = self._new_process()
        ends = Ends(
            wakes=turn.session_id,
            item=f"end-{child.session_id}",
            name=f"{call.name} ({child.label})",
            source=call.name,
        )
        turn.lane.run_errand(acceptance(turn, child, ends, below(turn, call.name, call.call_id)))
        started = events.ToolStarted(call_id=call.call_id, name=call.name, args=self._args)
        turn.tell(started, self.place)
        return self._record(ToolOutcome(value=STARTED.format(label=child.label)))

    def _new_process(self) -> NewChild:
        turn, name = self.turn, self.call.name
        session_id = derived_session_id(
            turn.services.store.secret,
            "process",
            turn.session_id,
            turn.turn_id,
            self.effect_id,
            self.ordinal,
        )
        caller = _Caller(
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            call_id=self.call.call_id,
            effect_id=self.effect_id,
            ordinal=self.ordinal,
        )
        overrides = {"tool": name, "args": self._args, "caller": as_answer(caller)}
        request = TurnRequest(context=turn.request.context, overrides=overrides)
        return NewChild(
            session_id=session_id,
            turn_id=_TURN,
            agent=f"{BACKGROUND}{turn.program.name}",
            name=name,
            request=request,
            kind="process",
            label=session_id[:_LABEL_CHARS],
        )


# ---------------------------------------------------------------------- the process


def add_background(programs: dict[str, Program]) -> None:
    """Add the program for the background tools of each agent, even if it has none now: an earlier release may have had.

    Raises:
        ConfigError: an agent already has such a name, or a background tool needs deps that only callers give.
    """
    for name, program in tuple(programs.items()):
        tool = next(filter(is_background, program.toolbox), None)
        if tool is not None and program.needs_deps and program.deps is None:
            what = f"the {tool.spec.name} of {program.name} runs in the background"
            raise ConfigError.at("Runtime.deps", "none", f"a function that makes them: {what}")
        if f"{BACKGROUND}{name}" in programs:
            raise ConfigError.at("agents", f"an agent called {BACKGROUND}{name}", "another name")
        made = program.once("background", partial(_in_background, program))
        programs[f"{BACKGROUND}{name}"] = made


def _in_background(program: Program) -> Program:
    """Return the program that runs the background tools of an agent: with its limits, its models and its deps."""

    async def run(host: ProcessHost) -> Json:
        return await _run(program, host)

    def deps(info: TurnInfo) -> Any:  # noqa: ANN401 - whatever its factory makes
        assert program.deps is not None  # noqa: S101 - this stands for it
        return program.deps(msgspec.structs.replace(info, agent=program.name))

    return Program(
        name=f"{BACKGROUND}{program.name}",
        model=program.model,
        find_model=program.find_model,
        toolbox=Toolbox(()),
        limits=program.limits,
        deps_type=program.deps_type,
        deps=None if program.deps is None else deps,
        code=Code(run=run),
    )


async def _run(program: Program, host: ProcessHost) -> Json:
    """Run the call of a process; return its result.

    Raises:
        ToolFailed, ToolTimeout, ToolDenied, StepUnknown: the call failed, with the tool's message.
    """
    asked, context = host.turn.request.overrides, host.turn.request.context
    name = str(asked["tool"])
    tool = program.toolbox.get(name)
    if tool is None and program.providers:
        found = await tools_now(program, context)
        tool = found.get(name) if isinstance(found, Toolbox) else None
    ended = await host.completed(tool, name, asked["args"], BackgroundStep)
    outcome = ended.outcome
    if outcome.status != "ok":
        raise failure_of(outcome)(str(outcome.value), field=name)
    if outcome.content or outcome.shown is not None or outcome.control is not None:
        return _words(ended)
    return thaw(outcome.value)


def _words(ended: CompletedToolCall) -> str:
    """Return a result that is more than a value as text. Files are named there, and kept with the process."""
    said = []
    for part in ended.as_result(ended.name).content:
        if isinstance(part, Text):
            said.append(part.text)
        else:
            said.append(f"[{part.name or 'a file'}, {part.media_type}: kept with the process]")
    control = ended.outcome.control
    if control is not None:
        kind = type(control).__name__
        said.append(f"(It returned {kind}, which ends no turn from the background.)")
    return "\n".join(said)


class BackgroundStep(StepRun):
    """The body of a background call: the tool sees it as the model's call."""

    async def _permit(self, tool: Tool, wanted: Ask | None) -> Permit | None:  # noqa: ARG002 - asked before it started
        return None

    def _context(self, attempt: int) -> ToolContext[Any]:
        caller = _Caller.of(self.turn.request)
        return ToolContext(
            deps=self.turn.deps,
            session_id=caller.session_id,
            turn_id=caller.turn_id,
            call_id=caller.call_id,
            attempt=attempt,
            host=self,
        )

    @property
    def idempotency_key(self) -> str:
        """The key that the call would have in the foreground."""
        caller = _Caller.of(self.turn.request)
        return idempotency_key(
            self.turn.services.store.store_id,
            caller.session_id,
            caller.turn_id,
            caller.effect_id,
            caller.ordinal,
        )
