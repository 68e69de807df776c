"""Cases 31 and 32: tools that no model could call, refused when an agent is built with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import msgspec

from tests.abuse.bad_calls_scene import Scene
from tests.abuse.bad_calls_table import Table
from windlass import Agent, tool
from windlass.errors import ConfigError, LimitExceeded
from windlass.kernel import ToolSpec
from windlass.kernel.outcomes import Stopped
from windlass.testing import FunctionModel
from windlass.tools import DynamicTool

DECLARED = Table()
MODEL = FunctionModel(lambda _request: "fine")


def _of_int(a: int) -> int:
    return a


# --- 31, 32: tools --------------------------------------------------------------------------------

for _what, _given in {
    "empty": "",
    "300 characters": "x" * 300,
    "a space": "a b",
    "a digit first": "1a",
}.items():
    DECLARED.build(
        31,
        f"a tool's name: {_what}",
        partial(tool, _of_int, name=_given),
        field="ToolSpec.name",
        error=ConfigError,
    )
DECLARED.build(
    31,
    "two tools of one name",
    lambda: Agent("a", model=MODEL, tools=[tool(_of_int, name="x"), tool(_of_int, name="x")]),
    field="tools[1]",
    error=ConfigError,
)
_TOO_MANY = [tool(_of_int, name=f"x{_at}") for _at in range(513)]
DECLARED.build(
    31,
    "513 tools",
    lambda: Agent("a", model=MODEL, tools=_TOO_MANY),
    field="tools",
    error=ConfigError,
)
for _junk in (5, "add", _of_int, [None]):
    DECLARED.build(
        31,
        f"tools={type(_junk).__name__}",
        partial(
            Agent, "a", model=MODEL, tools=_junk if isinstance(_junk, (list, str)) else [_junk]
        ),
        field="Agent.tools" if isinstance(_junk, str) else "tools[0]",
        error=ConfigError,
    )


@DECLARED.row(
    31,
    "a tool that a provider offers under a name that is taken ends that turn with these words",
    instead="no plugins in this release; a tool provider is the nearest thing",
)
async def shadowed(scene: Scene) -> None:
    class Server:
        def tools(self, _context: object) -> list[Any]:
            return [tool(_of_int, name="add")]

    async with scene.runtime(store="memory:", tools=[*scene.tools, Server()]) as rt:
        outcome = (await rt.session("s").run("x")).outcome
        assert isinstance(outcome, Stopped)
        assert "add" in outcome.detail
        assert scene.ran == []


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@dataclass
class Loop:
    """Holds itself."""

    again: Loop | None = None


SCHEMAS: dict[str, dict[str, Any]] = {
    "a $ref loop": _schema({"$ref": "#/$defs/x"}) | {"$defs": {"x": {"$ref": "#/$defs/x"}}},
    "a loop over two": _schema({"$ref": "#/$defs/x"})
    | {"$defs": {"x": {"items": {"$ref": "#/$defs/y"}}, "y": {"items": {"$ref": "#/$defs/x"}}}},
    "a remote $ref": _schema({"$ref": "https://example.com/schema.json"}),
    "a file $ref": _schema({"$ref": "file:///etc/passwd"}),
    "a regex bomb": _schema({"type": "string", "pattern": "(a+)+$"}),
    "a regex bomb for names": _schema({"type": "object", "patternProperties": {"(a+)+$": {}}}),
    "a schema of over 64 KiB": _schema({"type": "string", "description": "x" * 65_536}),
}
for _what, _parameters in SCHEMAS.items():
    DECLARED.build(
        32,
        _what,
        partial(
            lambda parameters: DynamicTool(
                ToolSpec(name="x", parameters=parameters), lambda ctx, args: 1
            ),
            _parameters,
        ),
        field="tool x",
        error=ConfigError,
    )
DECLARED.build(
    32,
    "a schema of 1,000 levels",
    lambda: ToolSpec(name="x", parameters=_schema(_deep(1_000))),
    field="ToolSpec.parameters*",
    error=LimitExceeded,
)


def _looping(again: Loop) -> None:
    """Take what holds itself."""


def _bombing(text: Annotated[str, msgspec.Meta(pattern="(a+)+$")]) -> None:
    """Take what a regular expression takes for ever to refuse."""


for _fn, _place in ((_looping, "again"), (_bombing, "text")):
    DECLARED.build(
        32,
        f"the hint of a parameter: {_fn.__name__}",
        partial(tool, _fn),
        field=f"{__name__}.{_fn.__name__}({_place})",
        error=ConfigError,
    )
DECLARED.build(
    32,
    "an output that holds itself",
    lambda: Agent("a", model=MODEL, output_type=Loop),
    field="output_type",
    error=ConfigError,
)
DECLARED.refuse(
    32,
    "an output for one turn that has no JSON form",
    lambda scene: scene.run(output_type=object),
    field="output_type",
    error=ConfigError,
)
