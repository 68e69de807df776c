"""One turn without a store: for trying things out."""

from __future__ import annotations

from typing import Any

from windlass.api.known_models import KnownModels
from windlass.api.machinery import Machinery, Settings
from windlass.api.session import Session
from windlass.api.turn_result import TurnResult
from windlass.errors import ConfigError
from windlass.kernel import events
from windlass.runtime.program import Program
from windlass.runtime.system_clock import SystemClock

NOT_DURABLE = events.Error(
    code="not_durable",
    message="this turn ran in memory; with Runtime(agent, store=...) it would outlive the process",
)


async def run_in_memory(
    program: Program,
    models: KnownModels,
    input: Any,  # noqa: A002, ANN401 - as Session.run
    options: dict[str, Any],
) -> TurnResult[Any]:
    """Run one turn of an agent in a runtime that ends with it.

    Raises:
        ConfigError: a tool asks for approval and nobody is there to give it.
    """
    approve = options.pop("approve", None)
    asking = [tool.spec.name for tool in program.toolbox if tool.approval != "never"]
    if asking and approve is None:
        raise ConfigError(
            f"Agent.run: {asking[0]} asks for approval and nobody is there to answer; "
            "give approve=, or use a Runtime",
            field="approve",
            found=asking[0],
        )
    settings = Settings(store="memory:", clock=SystemClock(), services={"approve": approve})
    machinery = Machinery(settings, {program.name: program}, models)
    await machinery.open()
    try:
        session: Session[Any] = Session(machinery, "run", program.name)
        result = await session.run(input, **options)
    finally:
        await machinery.close()
    result.issues = (*result.issues, NOT_DURABLE)
    return result
