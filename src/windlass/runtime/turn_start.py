"""How a turn begins: the start record, and the machine's configuration that follows from it.

A turn is driven from its start record alone, so that new code, prompts and tools do not change a turn in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.journal import TurnStarted
from windlass.kernel import StandardDriver, TurnConfig, canonical
from windlass.kernel.model_call import Generation
from windlass.kernel.projector import ChatProjector
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import Json
from windlass.ports import TurnRequest
from windlass.runtime.program import Output, Program
from windlass.runtime.run_limits import Limits
from windlass.runtime.structured_driver import StructuredDriver, StructuredProjector

STRUCTURED = "structured"
DRIVERS = ("standard", STRUCTURED)
_STANDARD = StandardDriver()
_CHAT = ChatProjector()
canonical.prepare(tuple[ToolSpec, ...])


def start_record(
    program: Program, request: TurnRequest, *, instructions: str, head: int, now_ms: int
) -> TurnStarted:
    """Return everything that a worker needs to drive this turn, whatever its own code says."""
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
    return TurnStarted(
        agent=program.name,
        model=wanted.get("model", program.model.name),
        instructions=wanted.get("prompt", instructions),
        tools=program.tools_text,
        contracts=program.contracts,
        policy_version=policy_version(program),
        limits=dict(limits),
        generation=generation,
        driver="standard" if output is None else STRUCTURED,
        context=request.context,
        history=head,
        started_ms=now_ms,
        output=output,
    )


def policy_version(program: Program) -> str:
    """Return the version of the policy that decides now; none has the empty one."""
    return "" if program.policy is None else program.policy.version


def limits_of(program: Program, started: TurnStarted) -> Limits:
    """Return the limits that a turn began with."""
    if started.limits == program.limits_record:
        return program.limits
    return msgspec.convert(dict(started.limits), Limits)


def tools_of(program: Program, started: TurnStarted) -> tuple[ToolSpec, ...]:
    """Return the tools that the model is told of in this turn."""
    if started.tools == program.tools_text:
        return program.toolbox.specs
    return canonical.decode(started.tools.encode(), tuple[ToolSpec, ...])


def config_of(
    program: Program,
    started: TurnStarted,
    place: tuple[str, str],
    *,
    limits: Limits,
    output: Output | None,
) -> TurnConfig:
    """Return the configuration of the turn at `place`, its session and id."""
    driver, projector = _STANDARD, _CHAT
    if output is not None:
        driver = StructuredDriver(lambda value: _fits(output, value))
        projector = StructuredProjector(output.schema)
    return TurnConfig(
        driver=driver,
        projector=projector,
        model=started.model,
        session_id=place[0],
        turn_id=place[1],
        system_prompt=started.instructions,
        tools=tools_of(program, started),
        max_iterations=limits.max_iterations,
        generation=started.generation,
        sync_environment=bool(program.providers or program.toolbox.deferred),
    )


def _fits(output: Output, value: Json) -> bool:
    try:
        output.check(value)
    except ValueError:
        return False
    return True


def overrides_record(**wanted: Any) -> Mapping[str, Any]:
    """Return what a caller asked for beyond the agent, as the request keeps it: no Nones."""
    return {name: value for name, value in wanted.items() if value is not None}
