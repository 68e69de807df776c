"""A tool that comes with a ready schema, such as one of a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from windlass.errors import ConfigError
from windlass.kernel import ToolSpec, thaw
from windlass.ports.tool import ToolContext
from windlass.tools.arguments import check_against, frozen_args
from windlass.tools.declaration import DeclaredTool, ToolOptions, own_copy
from windlass.tools.schema import check_size, inline, refuse_patterns


class DynamicTool(DeclaredTool):
    """A tool by its spec and a function of `(ctx, args)`, sync or async.

    The schema comes from elsewhere: references inside it are written out, references to other documents and
    regular expressions are refused, and arguments are checked by its types, names and limits.
    """

    def __init__(
        self,
        spec: ToolSpec,
        run: Callable[[ToolContext[Any], dict[str, Any]], object],
        **options: Unpack[ToolOptions],
    ) -> None:
        if not isinstance(spec, ToolSpec) or not callable(run):
            found = f"{type(spec).__name__} and {type(run).__name__}"
            raise ConfigError.at("DynamicTool", found, "a ToolSpec and a function of (ctx, args)")
        super().__init__(_own_spec(spec, f"tool {spec.name}"), run, options)
        self.defaults = {
            name: schema["default"]
            for name, schema in self.spec.parameters.get("properties", {}).items()
            if isinstance(schema, Mapping) and "default" in schema
        }

    def __repr__(self) -> str:
        return f"<tool {self.name} by its schema>"

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments, made anew for this call.

        Raises:
            ArgsInvalid: naming the argument, what was found and what was wanted.
        """
        given = frozen_args(args)
        check_against(given, self.spec.parameters, "args")
        checked: Mapping[str, Any] = thaw(given)
        return checked

    async def run(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> object:
        """Call the function with checked arguments and return what it returns."""
        return await self._body.call(ctx, own_copy(args))


def _own_spec(spec: ToolSpec, field: str) -> ToolSpec:
    schema = spec.parameters or {"type": "object", "properties": {}}
    refuse_patterns(schema, field=field)
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    parameters = check_size(inline(schema, definitions, field=field), field=field)
    if parameters.setdefault("type", "object") != "object":
        raise ConfigError.at(field, "a schema of another type", "an object of arguments")
    return ToolSpec(name=spec.name, description=spec.description, parameters=parameters)
