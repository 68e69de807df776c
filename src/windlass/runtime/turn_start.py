"""How a turn begins: the start record, and the machine's configuration that follows from it.

A turn is driven from its start record alone, so that new code, prompts and tools do not change a turn in flight.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from windlass.journal import EnvironmentBuilt, TurnJournal, TurnStarted
from windlass.kernel import (
    WHOLE,
    Generation,
    HistoryView,
    Outcome,
    ToolSpec,
    TurnConfig,
    TurnIds,
    canonical,
)
from windlass.kernel.compaction import COMPACTION, compaction_with
from windlass.kernel.messages import (
    InputOrigin,
    Message,
    Part,
    ProcessOrigin,
    Text,
    TurnCause,
)
from windlass.kernel.process import PROCESS, ProcessDriver
from windlass.kernel.projector import ChatProjector
from windlass.kernel.responses import Environment
from windlass.kernel.standard import StandardDriver
from windlass.kernel.termination import BY_VALUE
from windlass.kernel.value import EMPTY_DICT, Json, set_field
from windlass.ports import TurnRequest
from windlass.ports.children import Tree
from windlass.ports.inbox import wake_in
from windlass.ports.prompt import Contribution, plain_pieces, recorded_pieces
from windlass.runtime.limits import TURN_LIMITS, Limits
from windlass.runtime.outputs import StructuredDriver, StructuredProjector, output_of
from windlass.runtime.program import Finish, Program
from windlass.tools import Toolbox

STRUCTURED = "structured"
# Those that need no tools, limits or environment.
_OTHER_DRIVERS = frozenset({COMPACTION, PROCESS})
DRIVERS = ("standard", STRUCTURED, COMPACTION, PROCESS)
_PLAIN = TurnRequest()
_STANDARD = StandardDriver()
_CHAT = ChatProjector()
canonical.prepare(tuple[ToolSpec, ...])


class GivenPrompt(NamedTuple):
    """What a turn's prompt is made of before plugins add to it: instructions, and the pieces of agent and caller.

    `is_callers`: the instructions are the caller's, in place of the agent's and of all else in their slot.
    """

    instructions: str
    is_callers: bool
    pieces: tuple[Contribution, ...]

    @classmethod
    def anew(cls, program: Program, request: TurnRequest, instructions: str) -> GivenPrompt:
        """Return that of a turn that begins."""
        wanted = request.overrides
        pieces = program.pieces
        if "pieces" in wanted:
            pieces = (*pieces, *recorded_pieces(wanted["pieces"]))
        return cls(instructions, "prompt" in wanted, pieces)

    @classmethod
    def of(cls, started: TurnStarted, request: TurnRequest) -> GivenPrompt:
        """Return that of a turn that has begun."""
        pieces = recorded_pieces(started.pieces)
        return cls(started.instructions, "prompt" in request.overrides, pieces)


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a turn's beginning; `input` is None where plugins left it alone.

    `prompt` is what became of the instructions, `pieces` what agent and caller gave beside them. `view` is what is shown
    of a session that was handed off.
    """

    input: tuple[Part, ...] | None = None
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    pieces: tuple[Contribution, ...] = ()
    patches: dict[str, Any] = EMPTY_DICT
    ends: Outcome | None = None
    view: HistoryView | None = None


NOTHING_SAID = Opening()


def start_record(  # noqa: PLR0913 - what a start record is made of
    program: Program,
    request: TurnRequest,
    opening: Opening,
    *,
    instructions: str,
    head: int,
    now_ms: int,
    accepted_ms: int = 0,
) -> TurnStarted:
    """Return everything that a worker needs to drive this turn, whatever its own code says."""
    is_plain = opening is NOTHING_SAID and not request.overrides and program.policy is None
    if is_plain and instructions is program.instructions:
        # Most turns of an agent begin alike: only where and when differs.
        record = program.once("record", lambda: _record_of(program, _PLAIN, opening, instructions))
        started: TurnStarted = record.__copy__()  # type: ignore[attr-defined]  # msgspec does not declare it
        set_field(started, "context", request.context)
    else:
        started = _record_of(program, request, opening, instructions)
    set_field(started, "history", head)
    set_field(started, "started_ms", now_ms)
    set_field(started, "accepted_ms", accepted_ms)
    return started


def _record_of(
    program: Program, request: TurnRequest, opening: Opening, instructions: str
) -> TurnStarted:
    wanted = request.overrides
    output = wanted.get("output")
    if output is None and program.output is not None:
        output = program.output.schema
    limits = program.limits_record
    if wanted.get("limits"):
        limits = {**limits, **wanted["limits"]}
    is_deep = program.toolbox.agents and is_deepest(
        request, limits.get("max_depth", TURN_LIMITS.max_depth)
    )
    generation = program.generation
    if wanted.get("generation"):
        generation = msgspec.convert(dict(wanted["generation"]), Generation)
    started = TurnStarted(
        agent=program.name,
        model=wanted.get("model", program.model.name),
        instructions=instructions,
        tools=_leaf_tools(program) if is_deep else program.tools_text,
        contracts=program.contracts,
        policy_version=policy_version(program),
        limits=limits,
        generation=generation,
        driver=_driver(program, output),
        context=request.context,
        output=output,
        plugins=program.plugins.versions,
        looks=program.plugins.looks,
        input=opening.input,
        messages=opening.messages,
        prompt=opening.prompt,
        pieces=plain_pieces(opening.pieces) or None,
        patches=opening.patches,
        ends=opening.ends,
        termination=_termination(wanted.get("finish", program.finish), output, program.handoffs),
        view=opening.view,
    )
    return _for_summary(started) if is_compaction(request) else started


def is_deepest(request: TurnRequest, max_depth: int) -> bool:
    """Whether a turn may begin no children, because it is as deep in its tree as turns may be.

    `max_depth` is its own limit, which counts for the turn at the top.
    """
    place = Tree.of(request)
    return place.depth >= (max_depth if place.max_depth is None else place.max_depth)


def without_agents(toolbox: Toolbox, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Return what is offered to a model whose turn may begin no children."""
    return tuple(one for one in specs if one.name not in toolbox.agents)


def _leaf_tools(program: Program) -> str:
    """Return the text of the tool specs of an agent that may begin no children."""
    specs = program.toolbox.specs
    return program.once(
        "leaf_tools",
        lambda: canonical.encode(without_agents(program.toolbox, specs)).decode(),
    )


def _driver(program: Program, output: Json) -> str:
    if program.code is not None:
        return PROCESS
    return "standard" if output is None else STRUCTURED


def _termination(finish: Finish, output: Json, handoffs: tuple[str, ...]) -> Json:
    """Return how a turn has to finish, as its driver reads it.

    With an output every answer is a value, or the turn fails: there is nothing more to ask for. A turn that hands the
    session off leaves it to another agent to finish.
    """
    if finish == "answer" or (finish == BY_VALUE and output is not None):
        return None
    return finish if finish == BY_VALUE else [*finish, *handoffs]


def woken_by(place: tuple[str, str], request: TurnRequest) -> tuple[Message, ...]:
    """Return the event that the turn at `place`, its session and id, begins with, if a wake began it."""
    said = request.overrides.get("wake")
    if said is None:
        return ()
    origin = wake_in(said).origin(request.overrides["item"], place[1])
    # Not the item's id: a wake that was reclaimed may come again, and no history has an id twice.
    message_id = TurnIds(*place).message("in", "wake")
    return (Message(id=message_id, role="event", parts=(Text(text=said["text"]),), origin=origin),)


def causes_of(started: TurnStarted, request: TurnRequest) -> tuple[TurnCause, ...]:
    """Return why a turn runs that no person asked for, in the words of its start record."""
    said = request.overrides.get("wake")
    if said is None:
        return ()
    return tuple(
        TurnCause(
            id=message.id,
            event_type=said["event_type"],
            origin=message.origin,
            text="".join(part.text for part in message.parts if type(part) is Text),
        )
        for message in started.messages
        if message.role == "event" and isinstance(message.origin, (InputOrigin, ProcessOrigin))
    )


def is_compaction(request: TurnRequest) -> bool:
    """Whether a turn was asked for to sum up."""
    return "compact" in request.overrides


def _for_summary(started: TurnStarted) -> TurnStarted:
    """Return the record of a turn that asks for words alone, and for as many as they take."""
    return msgspec.structs.replace(
        started,
        driver=COMPACTION,
        tools="[]",
        contracts=(),
        output=None,
        termination=None,
        generation=msgspec.structs.replace(started.generation, max_output_tokens=None, stop=()),
    )


def prompt_of(started: TurnStarted) -> str:
    """Return the system prompt that a turn began with."""
    return started.instructions if started.prompt is None else started.prompt


def policy_version(program: Program) -> str:
    """Return the version of the policy that decides now; none has the empty one."""
    return "" if program.policy is None else program.policy.version


def limits_of(program: Program, started: TurnStarted) -> Limits:
    """Return the limits that a turn began with."""
    if started.limits == program.limits_record:
        return program.limits
    recorded = dict(started.limits)
    if recorded.get("max_iterations") != 0:
        return msgspec.convert(recorded, Limits)
    # Taken until it was refused; what was recorded is read as it stands.
    limits = msgspec.convert({**recorded, "max_iterations": 1}, Limits)
    set_field(limits, "max_iterations", 0)
    return limits


def tools_of(program: Program, started: TurnStarted) -> tuple[ToolSpec, ...]:
    """Return the tools that the model is told of in this turn."""
    if started.tools == program.tools_text:
        return program.toolbox.specs
    return canonical.decode(started.tools.encode(), tuple[ToolSpec, ...])


def offered_spec(journal: TurnJournal, name: str) -> ToolSpec | None:
    """Return a tool as the model was last told of it in a turn; None if it never was."""
    found: ToolSpec | None = None
    listed = "[]" if journal.started is None else journal.started.tools
    built = [row.outcome for row in journal.rows() if isinstance(row.outcome, EnvironmentBuilt)]
    for tools in (
        canonical.decode(listed.encode(), tuple[ToolSpec, ...]),
        *(one.result.tools for one in built if isinstance(one.result, Environment)),
    ):
        found = next((spec for spec in tools if spec.name == name), found)
    return found


def config_of(
    program: Program,
    started: TurnStarted,
    place: tuple[str, str],
    request: TurnRequest,
    *,
    syncs: bool | None = None,
) -> TurnConfig:
    """Return the configuration of the turn at `place`, its session and id; `syncs` is what its journal tells of that."""
    if started.driver in _OTHER_DRIVERS:
        return TurnConfig(
            driver=ProcessDriver(started.agent)
            if started.driver == PROCESS
            else compaction_with(request.overrides.get("compact", {})),
            model=started.model,
            session_id=place[0],
            turn_id=place[1],
            system_prompt=started.instructions,
            generation=started.generation,
            progress=False,
        )
    driver, projector, output = _STANDARD, _CHAT, output_of(program, request, started)
    if output is not None:
        driver, projector = StructuredDriver(output), StructuredProjector(output)
    asked: dict[str, Any] = {
        "driver": driver,
        "projector": projector,
        "model": started.model,
        "system_prompt": prompt_of(started),
        "tools": tools_of(program, started),
        "max_iterations": limits_of(program, started).max_iterations,
        "generation": started.generation,
        "sync_environment": _syncs(program, started) if syncs is None else syncs,
        "termination": started.termination,
        "view": started.view or WHOLE,
        "progress": False,
    }
    # Most turns of an agent differ in their ids alone, which were checked at the door.
    last: list[Any] = program.once("last_config", list)
    if not last or last[0] != asked:
        last[:] = asked, TurnConfig(**asked, session_id=place[0], turn_id=place[1])
    config: TurnConfig = last[1].__copy__()
    set_field(config, "session_id", place[0])
    set_field(config, "turn_id", place[1])
    return config


def _syncs(program: Program, started: TurnStarted) -> bool:
    """Whether prompt, tools or view of an iteration may be others than those of the one before."""
    if program.providers or program.toolbox.deferred:
        return True
    if not started.plugins:
        return False
    plugins = program.plugins.only(plugin_names(started))
    return bool(plugins.having("prompt") or plugins.having("view"))


def plugin_names(started: TurnStarted) -> tuple[str, ...]:
    """Return the names of the plugins that a turn began with, in their order."""
    return tuple([one.name for one in started.plugins])
