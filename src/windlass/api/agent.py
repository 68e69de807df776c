"""An agent: an immutable, named description of a model, its instructions and its tools. No I/O.

Length: most of it are the overloads that tie tools to deps, and what each argument means.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, overload

from windlass.errors import ConfigError, InvalidInput, LimitExceeded
from windlass.guards import check_limit, is_id
from windlass.guards.text import check_text, check_version, is_clean
from windlass.kernel.model_call import PROVIDER_CHOICE, Generation
from windlass.kernel.tool_call import ToolOutcome
from windlass.ports import Model, Plugin, Tool, ToolFor, ToolPolicy, ToolProvider, TurnInfo
from windlass.ports.prompt import Contribution, Prompter, read_pieces
from windlass.runtime.limits import TURN_LIMITS, Limits
from windlass.runtime.outputs import TypedOutput
from windlass.runtime.plugin_set import PluginSet
from windlass.runtime.program import (
    Finish,
    HandoffView,
    Instructions,
    Program,
    Steering,
    limits_record,
    read_finish,
)
from windlass.tools import Toolbox
from windlass.tools.declaration import is_background
from windlass.tools.function_tool import FunctionTool, handoff_tool
from windlass.tools.toolbox import FINDER

if TYPE_CHECKING:
    # A program that only describes agents does not load what runs them.
    from windlass.api.adapters import KnownModels
    from windlass.api.session import Session
    from windlass.api.turn_options import Input, RunOptions
    from windlass.api.turn_result import TurnResult
    from windlass.tools.agent_tool import AgentTool
    from windlass.tools.declaration import Approval

D = TypeVar("D")
T = TypeVar("T")
O = TypeVar("O")  # noqa: E741 - the output's type
Instruction = (
    str
    | Callable[[TurnInfo], str | Awaitable[str]]
    | Callable[[TurnInfo, Any], str | Awaitable[str]]
)
_NOT_DURABLE = (
    "this turn ran in memory; with Runtime(agent, store=...) it would outlive the process"
)


class AgentOptions(TypedDict, total=False):
    """What an agent may be given beside its name, its model and its types; `Agent` says what each is for."""

    instructions: Instruction
    plugins: Sequence[Plugin]
    limits: Limits
    policy: ToolPolicy | None
    generation: Generation
    aliases: Sequence[str]
    steering: Steering
    finish: str | Sequence[str]
    prompt: Contribution | Sequence[Contribution]
    prompter: Prompter | None
    handoffs: Sequence[Agent[Any, Any] | str]
    handoff_view: HandoffView


class Agent(Generic[D, O]):
    """A model with instructions and tools. Generic in the type of its deps and of its output.

    Args:
        name: What sessions and other workers know it by.
        model: A `Model`, or a name such as `anthropic:claude-sonnet-4-5`.
        deps_type: The type of what its tools work with; None if they need nothing.
        output_type: The type of its answers; None for text.
        instructions: The system prompt: text, or a function of `TurnInfo`, and of the deps if it takes two.
        tools: What the model may call: functions with `@tool`, tools, and providers that look tools up per turn.
        plugins: Hooks around its turns, model calls and tools.
        limits: What one turn may use.
        policy: Decides on every tool call before it runs: allow, deny or ask.
        generation: Sampling settings; without them the provider's own.
        aliases: Earlier names, so that their sessions and turns go on under this one.
        steering: Whether `all` new messages enter a running turn at a checkpoint, or `one` at a time.
        finish: How a turn has to finish: by any `answer`, by a `value`, or by the tool, or one of the tools, of this name.
        prompt: Pieces of the system prompt beside the instructions, each in its slot.
        prompter: Writes the system prompt from its pieces; without it, slots become sections.
        handoffs: The agents, or their names, that it may hand a session off to: each is a tool `transfer_to_<name>`.
        handoff_view: What it sees of a session that was handed off to it, from before that: `all`, `last` (the last
            input of the caller), or a function of the messages that returns those to show.
    """

    @overload
    def __init__(
        self: Agent[None, str],
        name: str,
        *,
        model: str | Model,
        deps_type: None = None,
        output_type: None = None,
        tools: Sequence[ToolFor[None] | ToolProvider] = (),
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[D, str],
        name: str,
        *,
        model: str | Model,
        deps_type: type[D],
        output_type: None = None,
        tools: Sequence[ToolFor[D] | ToolProvider] = (),
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[None, O],
        name: str,
        *,
        model: str | Model,
        deps_type: None = None,
        output_type: type[O],
        tools: Sequence[ToolFor[None] | ToolProvider] = (),
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[D, O],
        name: str,
        *,
        model: str | Model,
        deps_type: type[D],
        output_type: type[O],
        tools: Sequence[ToolFor[D] | ToolProvider] = (),
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(  # noqa: PLR0913 - a description has as many facets as it has
        self,
        name: str,
        *,
        model: str | Model,
        deps_type: type[Any] | None = None,
        output_type: Any = None,
        instructions: Instruction = "",
        tools: Sequence[Tool | ToolProvider] = (),
        plugins: Sequence[Plugin] = (),
        limits: Limits = TURN_LIMITS,
        policy: ToolPolicy | None = None,
        generation: Generation = PROVIDER_CHOICE,
        aliases: Sequence[str] = (),
        steering: Steering = "all",
        finish: str | Sequence[str] = "answer",
        prompt: Contribution | Sequence[Contribution] = (),
        prompter: Prompter | None = None,
        handoffs: Sequence[Agent[Any, Any] | str] = (),
        handoff_view: HandoffView = "all",
    ) -> None:
        self.name = _name(name, "Agent.name")
        self.aliases = tuple(
            _name(alias, "Agent.aliases") for alias in listed(aliases, "Agent.aliases")
        )
        self.model = _model(model)
        self.deps_type = deps_type
        self.output_type = output_type
        self.instructions = instructions
        _check_instructions(instructions)
        offered = listed(tools, "Agent.tools")
        self.providers = tuple(one for one in offered if _is_provider(one))
        self.handoffs = tuple(listed(handoffs, "Agent.handoffs"))
        self.handoff_tools = self._handoff_tools()
        own = with_child_tools(one for one in offered if not _is_provider(one))
        self.toolbox = Toolbox([*own, *self.handoff_tools])
        self.handoff_view: HandoffView = handoff_view
        if handoff_view not in ("all", "last") and not callable(handoff_view):
            wanted = "all, last, or a function of the messages"
            raise ConfigError.at("Agent.handoff_view", repr(handoff_view)[:40], wanted)
        self.limits = _checked(limits, Limits, "Agent.limits")
        self.generation = _checked(generation, Generation, "Agent.generation")
        self.policy = policy
        if policy is not None:
            _check_callable(getattr(policy, "decide", None), "Agent.policy")
            check_version(getattr(policy, "version", None), field="Agent.policy.version")
        self.output = None if output_type in (None, str) else TypedOutput(output_type)
        self.plugins = PluginSet(listed(plugins, "Agent.plugins"), field="Agent.plugins")
        self.pieces = _pieces(prompt)
        self.prompter = prompter
        if prompter is not None and not callable(prompter):
            raise ConfigError.at(
                "Agent.prompter", type(prompter).__name__, "a function of the prompt's pieces"
            )
        self.steering = steering
        if steering not in ("all", "one"):
            raise ConfigError("Agent.steering: wanted all or one", field="Agent.steering")
        self.finish = self._finish(finish)

    def compiled(
        self,
        models: KnownModels,
        plugins: Sequence[Plugin] = (),
        deps: Callable[..., Any] | None = None,
    ) -> Program:
        """Return the agent as a runtime drives it: with the runtime's plugins before its own, and its deps factory.

        Args:
            models: The models that the runtime knows.
            plugins: The runtime's plugins; they come before the agent's own.
            deps: Makes what its tools work with, once per drive; None if each turn brings its own.
        """
        together = PluginSet((*plugins, *self.plugins.plugins))
        brought = together.tools()
        tools = [one for one in brought if not _is_provider(one)]
        return Program(
            name=self.name,
            model=models.of(self.model),
            find_model=models.find,
            instructions=_instructions(self.instructions),
            toolbox=self._toolbox_with(tools),
            providers=(*self.providers, *(one for one in brought if _is_provider(one))),
            policy=self.policy,
            limits=self.limits,
            generation=self.generation,
            output=self.output,
            aliases=self.aliases,
            deps_type=self.deps_type,
            deps=deps,
            plugins=together,
            steering=self.steering,
            finish=self.finish,
            pieces=self.pieces,
            prompter=self.prompter,
            handoffs=tuple(one.name for one in self.handoff_tools),
            handoff_view=self.handoff_view,
        )

    def as_tool(  # noqa: PLR0913 - what the tool is, and how its child runs
        self,
        *,
        name: str | None = None,
        description: str = "",
        input_type: Any = None,  # noqa: ANN401 - any type with fields
        limits: Limits | None = None,
        keep: bool = False,
        background: bool = False,
        approval: Approval = "never",
    ) -> AgentTool:
        """Return this agent as a tool of another agent: each call is a turn of this agent, in a session of its own.

        The calling turn waits, parked, and survives crashes. Approvals that the child asks for are in the caller's
        `result.waits`, and the child's usage is in `result.child_usage`. A runtime that drives the other agent drives this
        one, too.

        Args:
            name: The name of the tool; by default this agent's name.
            description: What the other agent's model reads about the tool.
            input_type: A type whose fields are the arguments; without it, the call has one text, `task`.
            limits: What one such turn may use, instead of this agent's own limits; for `max_tokens` and `max_seconds` the
                smaller limit counts.
            keep: Whether all calls of a session go to one child session, which remembers; else each call has its own.
            background: Whether the call returns at once: the result arrives as a message when the child has ended. With
                it the other agent's model gets the tools `children`, `message_child` and `stop_child`.
            approval: Whether a person must approve a call, as for any tool.
        """
        from windlass.tools.agent_tool import AgentTool  # noqa: PLC0415 - for agents that others call

        return AgentTool(
            self,
            name=tool_name(self.name) if name is None else name,
            description=description,
            input_type=input_type,
            limits={} if limits is None else limits_record(limits),
            keep=_flag(keep, "as_tool.keep"),
            background=_flag(background, "as_tool.background"),
            options={"approval": approval},
        )

    def _handoff_tools(self) -> tuple[FunctionTool[object, [str], ToolOutcome], ...]:
        """Return the tools that hand a session off, one for each target."""
        names = [one.name if isinstance(one, Agent) else one for one in self.handoffs]
        for at, name in enumerate(names):
            field = f"Agent.handoffs[{at}]"
            _name(name, field)
            if name in (self.name, *self.aliases):
                raise ConfigError.at(field, f"{name}, the agent itself", "another agent")
        return tuple(handoff_tool(name) for name in names)

    def _reachable(self) -> list[Agent[Any, Any]]:
        """Return the agent and all that a session may come to from it.

        Raises:
            ConfigError: one is known by its name alone.
        """
        found: dict[str, Agent[Any, Any]] = {}
        waiting: list[Agent[Any, Any]] = [self]
        while waiting:
            one = waiting.pop(0)
            if found.setdefault(one.name, one) is one:
                more = [target for target in one.handoffs if isinstance(target, Agent)]
                waiting += [target for target in more if target.name not in found]
        for one in found.values():
            for target in one.handoffs:
                if isinstance(target, str) and target not in found:
                    said = f"Agent.run: {one.name} may hand off to {target}, which is only named; use a Runtime with both"
                    raise ConfigError(said, field="handoffs", found=target)
        return list(found.values())

    def called(self) -> list[Agent[Any, Any]]:
        """Return the agents that are tools of this one, or of its plugins, and those that it hands off to."""
        tools = (*self.toolbox, *self.plugins.tools())
        found = (*(getattr(one, "agent", None) for one in tools), *self.handoffs)
        return [one for one in found if isinstance(one, Agent)]

    def _finish(self, given: object) -> Finish:
        """Return how turns have to finish; tools that a provider brings are known only when a turn runs."""
        names: set[str] | None = None
        brought = [] if given in ("answer", "value") else self.plugins.tools()
        if not self.providers and not any(_is_provider(one) for one in brought):
            names = {one.spec.name for one in (*self.toolbox, *brought)}
        try:
            finish = read_finish(given, names, field="Agent.finish")
        except InvalidInput as error:
            raise ConfigError(str(error), field="Agent.finish", found=error.found) from None
        for one in (*self.toolbox, *brought):
            if is_background(one) and one.spec.name in finish and isinstance(finish, tuple):
                found = f"{one.spec.name}, which runs in the background"
                raise ConfigError.at("Agent.finish", found, "a tool that ends in its turn")
        return finish

    def _toolbox_with(self, brought: Sequence[Tool]) -> Toolbox:
        tools = [*(one for one in self.toolbox if one.spec.name != FINDER), *brought]
        if any(map(is_background, tools)):
            from windlass.runtime.background_tools import with_background_tools  # noqa: PLC0415 - for agents that have some

            tools = with_background_tools(tools)
        elif not brought:
            return self.toolbox
        return Toolbox(with_child_tools(tools), field=f"tools of {self.name} and its plugins")

    @overload
    async def run(
        self, input: Input, *, output_type: type[T], deps: D = ..., **options: Unpack[RunOptions]
    ) -> TurnResult[T]: ...
    @overload
    async def run(
        self,
        input: Input,
        *,
        output_type: None = None,
        deps: D = ...,
        **options: Unpack[RunOptions],
    ) -> TurnResult[O]: ...
    async def run(
        self, input: Input, *, output_type: Any = None, **options: Any
    ) -> TurnResult[Any]:
        """Run one turn in memory. Nothing of it outlives the process, and the result says so.

        It takes what `session.run` takes, and `approve`: a function of the `Wait` that answers approvals.

        Args:
            input: Text, an `Attachment`, or a list of both.
            output_type: The type that the answer is to have; without it, the agent's own, or text.
            **options: What `session.run` takes, `deps` of the agent's `deps_type`, and `approve`.

        Raises:
            ConfigError: a tool asks for approval and there is no `approve`; or a tool runs in the background.
        """
        from windlass import Runtime  # noqa: PLC0415 - this is a shortcut for what a user would write
        from windlass.kernel.events import Error  # noqa: PLC0415

        approve = options.pop("approve", None)
        runtime = Runtime(*self._reachable(), store="memory:", approve=approve)
        toolbox = runtime._programs[self.name].toolbox  # noqa: SLF001 - with its plugins' tools
        if approve is None:
            for program in runtime._programs.values():  # noqa: SLF001 - with their plugins' tools
                _check_asks_nothing(program.toolbox)
        _check_ends_with_turn(toolbox)
        async with runtime:
            session: Session[Any] = runtime.session("run", self)
            wanted: Any = {**options, "output_type": output_type}
            result: TurnResult[Any] = await session.run(input, **wanted)
        result._more_issues += (Error(code="not_durable", message=_NOT_DURABLE),)  # noqa: SLF001 - how it was run
        return result

    @overload
    def run_sync(
        self, input: Input, *, output_type: type[T], deps: D = ..., **options: Unpack[RunOptions]
    ) -> TurnResult[T]: ...
    @overload
    def run_sync(
        self,
        input: Input,
        *,
        output_type: None = None,
        deps: D = ...,
        **options: Unpack[RunOptions],
    ) -> TurnResult[O]: ...
    def run_sync(self, input: Input, *, output_type: Any = None, **options: Any) -> TurnResult[Any]:
        """Run one turn as `run` does, for code that does not await.

        Args:
            input: Text, an `Attachment`, or a list of both.
            output_type: The type that the answer is to have; without it, the agent's own, or text.
            **options: What `run` takes.
        """
        return run_blocking(lambda: self.run(input, output_type=output_type, **options))

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"


def with_child_tools(tools: Iterable[Any]) -> list[Any]:
    """Return the tools, with those for children added if one begins children in the background."""
    listed = list(tools)
    if any(getattr(one, "agent", None) is not None and one.background for one in listed):
        from windlass.tools.child_tools import CHILD_TOOLS  # noqa: PLC0415 - for agents that begin others

        listed += [one for one in CHILD_TOOLS if one not in listed]
    return listed


def _flag(given: object, field: str) -> bool:
    if not isinstance(given, bool):
        raise ConfigError.at(field, type(given).__name__, "True or False")
    return given


def check(field: str, holds: bool, wanted: str) -> None:  # noqa: FBT001 - a claim about the field
    """Refuse a setting that does not hold."""
    if not holds:
        raise ConfigError(f"Runtime.{field}: wanted {wanted}", field=field, wanted=wanted)


def tool_name(name: str) -> str:
    """Return an agent's name as a tool may have it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]


def _name(name: object, field: str) -> str:
    if not is_id(name):
        raise ConfigError(f"{field}: wanted 1 to 128 of A-Z a-z 0-9 . _ : - @ + = ~ |", field=field)
    return str(name)


def _model(model: object) -> Any:  # noqa: ANN401 - a name or any object that is a model
    name = model if isinstance(model, str) else getattr(model, "name", None)
    is_model = isinstance(model, str) or callable(getattr(model, "complete", None))
    if is_model and isinstance(name, str) and name and is_clean(name):
        return model
    raise ConfigError.at(
        "Agent.model", type(model).__name__, "a Model with a name, or the name of one"
    )


def _check_asks_nothing(toolbox: Toolbox) -> None:
    for one in toolbox:
        if one.approval != "never":
            name = one.spec.name
            raise ConfigError(
                f"Agent.run: {name} asks for approval and there is no one to answer; give approve=, or use a Runtime",
                field="approve",
                found=name,
            )


def _check_ends_with_turn(toolbox: Toolbox) -> None:
    for one in toolbox:
        if is_background(one):
            name = one.spec.name
            raise ConfigError(
                f"Agent.run: {name} runs in the background, and its result would come when this has returned; "
                "use a Runtime",
                field="tools",
                found=name,
            )


def _check_instructions(text: object) -> None:
    if not isinstance(text, str):
        _check_callable(text, "Agent.instructions")
        return
    try:
        check_text(text, field="Agent.instructions")
        check_limit("input_text_bytes", len(text.encode()), field="Agent.instructions")
    except (InvalidInput, LimitExceeded) as error:
        raise ConfigError(str(error), field="Agent.instructions") from None


def _pieces(given: object) -> tuple[Contribution, ...]:
    if isinstance(given, str):
        raise ConfigError.at("Agent.prompt", "text", "Contributions; text belongs in instructions")
    try:
        return read_pieces(given, field="Agent.prompt", layers=("agent",))
    except (InvalidInput, LimitExceeded) as error:
        raise ConfigError(str(error), field=error.field) from None


def listed(given: object, field: str) -> list[Any]:
    """Return what was given as a list.

    Raises:
        ConfigError: it is neither a list nor a tuple.
    """
    if isinstance(given, (list, tuple)):
        return list(given)
    raise ConfigError.at(field, type(given).__name__, f"a list of {field.rpartition('.')[2]}")


def _check_callable(given: object, field: str) -> None:
    wanted = "text, or a function of the turn" if "instructions" in field else "a decide method"
    try:
        takes_one = callable(given) and bool(inspect.signature(given).parameters)
    except (TypeError, ValueError):
        takes_one = callable(given)
    if not takes_one:
        raise ConfigError(f"{field}: wanted {wanted}", field=field, wanted=wanted)


def _is_provider(one: object) -> bool:
    return not hasattr(one, "spec") and callable(getattr(one, "tools", None))


def _checked(found: Any, wanted: type, field: str) -> Any:  # noqa: ANN401 - checked here
    if isinstance(found, wanted):
        return found
    raise ConfigError.at(field, type(found).__name__, wanted.__name__)


def _takes_deps(given: Callable[..., object]) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(parameter.kind in kinds for parameter in parameters) > 1


def _instructions(given: Instruction) -> Instructions:
    if isinstance(given, str):
        return given
    if _takes_deps(given):
        return given  # type: ignore[return-value]  # it takes the turn and the deps
    return lambda info, _deps: given(info)  # type: ignore[call-arg]  # it takes the turn alone


def run_blocking(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on an event loop of its own.

    Raises:
        ConfigError: an event loop runs in this thread already.
    """
    import asyncio  # noqa: PLC0415 - half of what an import of windlass would cost

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    raise ConfigError("run_sync: an event loop runs in this thread; await run() instead")
