"""An agent as a tool: a call of it is a turn of that agent in a session of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from windlass.errors import ConfigError, InvalidInput, LimitExceeded, WindlassBug
from windlass.kernel import Json, ToolSpec, canonical
from windlass.ports.tool import ToolContext
from windlass.tools.arguments import converted, frozen_args
from windlass.tools.declaration import DeclaredTool, ToolOptions
from windlass.tools.schema import check_size, schema_of_hint

_TASK: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with all that is needed to do it."}
    },
    "required": ["task"],
    "additionalProperties": False,
}


class AgentTool(DeclaredTool):
    """What a model and a turn must know about an agent that is called. `agent.as_tool` makes one.

    It has no body: the turn that calls it begins a turn of the agent and waits for that one's answer. The session of the
    child derives from the call, so a call that is begun again is the same child.
    """

    is_agent: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913 - what the tool is, and how its child runs
        self,
        agent: Any,  # noqa: ANN401 - an Agent, which this layer does not know
        *,
        name: str,
        description: str,
        input_type: Any = None,  # noqa: ANN401 - any hint
        limits: Mapping[str, Any],
        keep: bool = False,
        background: bool = False,
        options: ToolOptions,
    ) -> None:
        field = f"agent {agent.name}: as_tool"
        schema = _TASK if input_type is None else schema_of_hint(input_type, field=field)
        if schema.get("type") != "object":
            found = str(schema.get("type", "another type"))
            raise ConfigError.at(f"{field}: input_type", found, "a type with fields")
        words = description or f"Ask the agent {agent.name}."
        try:
            spec = ToolSpec(
                name=name, description=words, parameters=check_size(schema, field=field)
            )
        except (InvalidInput, LimitExceeded) as error:
            raise ConfigError(f"{field}: {error}", field=error.field) from None
        super().__init__(spec, _never_called, {**options, "effect": "keyed"})
        self.agent = agent
        self.limits = dict(limits)
        self.keep = keep
        self.background = background
        self._input_type = input_type

    def __repr__(self) -> str:
        return f"<agent {self.agent.name} as a tool>"

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments, if they fit.

        Raises:
            ArgsInvalid: naming the argument, what was found and what was wanted.
        """
        given = frozen_args(args)
        hint = self._input_type
        if hint is None:
            return {"task": converted("task", given.get("task"), str, _TASK["properties"]["task"])}
        converted("input", dict(given), hint, self.spec.parameters)
        return given

    def words(self, args: Mapping[str, Any]) -> str:
        """Return what the agent is asked: the task, or the whole input as JSON."""
        if self._input_type is None:
            return str(args["task"])
        plain: Json = dict(args)
        return canonical.encode(plain).decode()

    async def run(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> object:  # noqa: ARG002 - the port's shape
        """Refuse to run: the turn that calls it begins a child instead."""
        raise WindlassBug(f"tool {self.name}: an agent is not run as a body")


def _never_called() -> None:
    raise WindlassBug("an agent is not run as a body")
