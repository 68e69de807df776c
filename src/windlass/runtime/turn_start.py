"""How a turn begins: the start record, and the machine's configuration that follows from it.

A turn is driven from its start record alone, so that new code, prompts and tools do not change a turn in flight.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from windlass.journal import EnvironmentBuilt, TurnJournal, TurnStarted
from windlass.kernel import Generation, Outcome, ToolSpec, TurnConfig, TurnIds, canonical
from windlass.kernel.compaction import COMPACTION, compaction_with
from windlass.kernel.messages import InputOrigin, Message, Part, Text, TurnCause
from windlass.kernel.projector import ChatProjector
from windlass.kernel.responses import Environment
from windlass.kernel.standard import StandardDriver
from windlass.kernel.termination import BY_VALUE
from windlass.kernel.value import EMPTY_DICT, Json, set_field
from windlass.ports import TurnRequest
from windlass.ports.prompt import Contribution, plain_pieces, recorded_pieces
from windlass.runtime.limits import Limits
from windlass.runtime.outputs import StructuredDriver, StructuredProjector, output_of
from windlass.runtime.program import Finish, Program

STRUCTURED = "structured"
DRIVERS = ("standard", STRUCTURED, COMPACTION)
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

    `prompt` is what became of the instructions, `pieces` what agent and caller gave beside them.
    """

    input: tuple[Part, ...] | None = None
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    pieces: tuple[Contribution, ...] = ()
    patches: dict[str, Any] = EMPTY_DICT
    ends: Outcome | None = None


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
    generation = program.generation
    if wanted.get("generation"):
        generation = msgspec.convert(dict(wanted["generation"]), Generation)
    started = TurnStarted(
        agent=program.name,
        model=wanted.get("model", program.model.name),
        instructions=instructions,
        tools=program.tools_text,
        contracts=program.contracts,
        policy_version=policy_version(program),
        limits=limits,
        generation=generation,
        driver="standard" if output is None else STRUCTURED,
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
        termination=_termination(wanted.get("finish", program.finish), output),
    )
    return _for_summary(started) if is_compaction(request) else started


def _termination(finish: Finish, output: Json) -> Json:
    """Return how a turn has to finish, as its driver reads it.

    With an output every answer is a value, or the turn fails: there is nothing more to ask for.
    """
    if finish == "answer" or (finish == BY_VALUE and output is not None):
        return None
    return finish if finish == BY_VALUE else list(finish)


def woken_by(place: tuple[str, str], request: TurnRequest) -> tuple[Message, ...]:
    """Return the event that the turn at `place`, its session and id, begins with, if a wake began it."""
    said = request.overrides.get("wake")
    if said is None:
        return ()
    origin = InputOrigin(turn_id=place[1], input_id=request.overrides["item"])
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
        if message.role == "event" and isinstance(message.origin, InputOrigin)
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
    if started.driver == COMPACTION:
        return TurnConfig(
            driver=compaction_with(request.overrides.get("compact", {})),
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
