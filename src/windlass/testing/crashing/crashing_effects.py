"""Models, tools and plugins that tell before, while and after they work that the process may die here."""

from __future__ import annotations

import copy
import functools
import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from threading import Condition
from typing import Any, Generic, TypeVar, cast

import msgspec

from windlass.api.agent import Agent
from windlass.api.process import Process
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.ports import EmitModelEvent, Model, Reconciled, Tool, ToolContext, ToolProvider
from windlass.ports.plugin import HOOKS, Plugin
from windlass.runtime.plugin_set import PluginSet, name_of
from windlass.runtime.program import Program
from windlass.testing.crashing.crash_point import Fuse, nth
from windlass.tools import Toolbox
from windlass.tools.agent_tool import AgentTool
from windlass.tools.body import Body


class ThreadBodies:
    """Counts the sync bodies of one life that are at work."""

    def __init__(self) -> None:
        self._at_work = 0
        self._change = Condition()

    def watched(self, tool: Tool) -> Tool:
        """Return a tool whose sync body is counted while it runs; any other as it is."""
        body = getattr(tool, "_body", None)
        if not isinstance(body, Body) or body.is_async:
            return tool
        fn = body.fn

        @functools.wraps(fn)
        def counted(*args: object, **options: object) -> object:
            self._count(1)
            try:
                return fn(*args, **options)
            finally:
                self._count(-1)

        watched: Any = copy.copy(tool)
        watched._body = Body(counted, name=body.name)  # noqa: SLF001 - a copy of its own
        return watched  # type: ignore[no-any-return]  # of the same kind

    def wait(self, seconds: float) -> None:
        """Wait until none is at work, but no longer than that."""
        with self._change:
            self._change.wait_for(lambda: self._at_work == 0, seconds)

    def _count(self, change: int) -> None:
        with self._change:
            self._at_work += change
            self._change.notify_all()


def crashing_plugin(fuse: Fuse, plugin: Plugin) -> Plugin:
    """Return a plugin with the same hooks, with crash points around them."""
    hooks: dict[str, Any] = {}
    for hook in HOOKS:
        own = getattr(type(plugin), hook)
        if own is not getattr(Plugin, hook):
            # Previews and what happens beside the turn are not in its journal.
            is_unseen = not HOOKS[hook].recorded_in
            handed_on = staticmethod(getattr(plugin, hook))
            hooks[hook] = handed_on if is_unseen else _watched(fuse, plugin, hook)
    # What it lets children use is written with each child, not as a hook's.
    hooks["allot"] = staticmethod(plugin.allot)
    kind: type[Plugin] = type(type(plugin).__name__, (Plugin,), {**hooks, "__getattr__": _inner})
    crashing = kind()
    crashing.__dict__.update(_plugin=plugin, name=name_of(plugin), version=plugin.version)
    return crashing


def _inner(self: Plugin, name: str) -> Any:  # noqa: ANN401 - whatever a plugin has
    return getattr(self.__dict__["_plugin"], name)


def _watched(fuse: Fuse, plugin: Plugin, hook: str) -> Callable[..., Awaitable[Any]]:
    bound, place = getattr(plugin, hook), f"{hook} of {name_of(plugin)}"

    async def watched(_self: Plugin, *given: object) -> Any:  # noqa: ANN401 - as the hook says
        fuse.reach(f"before {place}")
        said = await bound(*given)
        fuse.reach(f"after {place}, before that was recorded")
        return said

    return watched


T = TypeVar("T")
# A body that polls would have no end of moments.
_MAX_AWAITS = 32


class CrashingEffects:
    """Puts the fuse around what an agent does to the world, for one life."""

    def __init__(self, fuse: Fuse, bodies: ThreadBodies) -> None:
        self.fuse = fuse
        self._bodies = bodies
        self._model_calls = 0
        # Each agent and its copy: one that several call is one.
        self._agents: dict[int, tuple[Any, Any]] = {}

    def agent(self, agent: Agent[Any, Any]) -> Agent[Any, Any]:
        """Return an agent whose model, tools and plugins have crash points, and so have those of agents that it calls."""
        known = self._agents.get(id(agent))
        crashing: Any = None if known is None else known[1]
        if crashing is None:
            crashing = copy.copy(agent)
            self._agents[id(agent)] = agent, crashing
            crashing.compiled = lambda *given: self._program(agent.compiled(*given))
            crashing.called = lambda: [self.agent(one) for one in agent.called()]
        return crashing  # type: ignore[no-any-return]  # a copy, of the same type

    def process(self, process: Process[Any]) -> Process[Any]:
        """Return a process whose steps have crash points."""
        crashing: Any = copy.copy(process)

        def compiled(*given: Any) -> Program:
            program = process.compiled(*given)
            code = program.code
            assert code is not None  # noqa: S101 - of a process
            run = code.run
            return msgspec.structs.replace(
                program,
                code=msgspec.structs.replace(code, run=lambda host: run(CrashingHost(self, host))),
            )

        crashing.compiled = compiled
        return crashing  # type: ignore[no-any-return]  # a copy, of the same type

    def _program(self, program: Program) -> Program:
        def find_model(name: str) -> Model | None:
            found = program.find_model(name)
            return None if found is None else self.model(found)

        return msgspec.structs.replace(
            program,
            model=self.model(program.model),
            find_model=find_model,
            toolbox=Toolbox([self.tool(tool) for tool in program.toolbox]),
            providers=tuple(CrashingProvider(self, one) for one in program.providers),
            plugins=PluginSet(crashing_plugin(self.fuse, one) for one in program.plugins.plugins),
        )

    def model(self, model: Model) -> Model:
        """Return a model with crash points."""
        return model if isinstance(model, CrashingModel) else CrashingModel(self, model)

    def tool(self, tool: Tool) -> Tool:
        """Return a tool with crash points. An agent has its own where its model and its tools are."""
        if isinstance(tool, AgentTool):
            return tool
        return cast("Tool", CrashingTool(self.fuse, self._bodies.watched(tool)))

    def next_model_call(self) -> str:
        """Return what the next model call is called."""
        self._model_calls += 1
        return f"model call {self._model_calls}"


class CrashingModel:
    """Crash points before the model is asked, while it answers, and after its answer, before that is recorded."""

    def __init__(self, effects: CrashingEffects, model: Model) -> None:
        self._effects = effects
        self._model = model
        self.name = model.name

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer a request."""
        fuse, name = self._effects.fuse, self._effects.next_model_call()

        def waits(times: int) -> None:
            if times == 1:
                fuse.reach(f"during {name}")

        fuse.reach(f"before {name}")
        reply = await _Stepped(self._model.complete(request, emit), waits)
        fuse.reach(f"after {name}, before its reply was recorded")
        return reply


class CrashingTool:
    """Crash points before the body begins, wherever it awaits, and after it ended, before that is recorded."""

    def __init__(self, fuse: Fuse, tool: Tool) -> None:
        self._fuse = fuse
        self._tool = tool

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a tool has
        return getattr(self._tool, name)

    async def run(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> object:
        """Run the body."""
        call = f"{self._tool.spec.name} ({ctx.call_id})"
        self._fuse.reach(f"before {call} began")
        try:
            value = await self._body(call, self._tool.run(ctx, args))
        except CancelledError:
            raise
        except Exception:
            self._fuse.reach(f"after {call} raised, before that was recorded")
            raise
        self._fuse.reach(f"after {call} returned, before its result was recorded")
        return value

    async def _body(self, call: str, running: Coroutine[Any, Any, object]) -> object:
        if not getattr(self._tool, "is_async", True):
            return await running  # in a thread, which a crash can only wait for

        def waits(times: int) -> None:
            if times <= _MAX_AWAITS:
                self._fuse.reach(f"inside {call}, at its {nth(times)} await")

        return await _Stepped(running, waits)

    async def reconcile(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> Reconciled:
        """Say whether an earlier attempt acted."""
        call = f"{self._tool.spec.name} ({ctx.call_id})"
        self._fuse.reach(f"before the reconciler of {call} was asked")
        found = await self._tool.reconcile(ctx, args)
        self._fuse.reach(f"after the reconciler of {call} answered")
        return found


class CrashingHost:
    """Stands behind the context of a process and runs its steps with crash points."""

    def __init__(self, effects: CrashingEffects, host: Any) -> None:  # noqa: ANN401 - a host, or what stands for it
        self._effects = effects
        self._host = host

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a host has
        return getattr(self._host, name)

    async def call(self, tool: Tool, args: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Run a step."""
        return await self._host.call(self._effects.tool(tool), args)


class CrashingProvider:
    """Looks up tools that have crash points."""

    def __init__(self, effects: CrashingEffects, provider: ToolProvider) -> None:
        self._effects = effects
        self._provider = provider

    async def tools(self, context: Mapping[str, Any]) -> list[Tool]:
        """Return the tools of an iteration."""
        found = self._provider.tools(context)
        tools = await found if inspect.isawaitable(found) else found
        return [self._effects.tool(tool) for tool in tools]


class _Stepped(Generic[T]):
    """Awaits a coroutine and reports each time that it really suspends."""

    __slots__ = ("_coroutine", "_waits")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits: Callable[[int], None]) -> None:
        self._coroutine = coroutine
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, T]:
        times = 0
        thrown: BaseException | None = None
        while True:
            try:
                if thrown is None:
                    waits_for = self._coroutine.send(None)
                else:
                    waits_for = self._coroutine.throw(thrown)
            except StopIteration as end:
                return cast("T", end.value)
            times += 1
            try:
                self._waits(times)
                yield waits_for
                thrown = None
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                thrown = error
