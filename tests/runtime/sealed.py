"""An agent of which nothing may be called: whatever a replay asks is noted, and refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import msgspec

from windlass.kernel import ModelReply, ModelRequest
from windlass.ports import Model, Plugin, Tool, ToolPolicy
from windlass.ports.plugin import HOOKS
from windlass.runtime.plugin_set import PluginSet, name_of
from windlass.runtime.program import Program
from windlass.tools import Toolbox
from windlass.tools.toolbox import FINDER


class Outside:
    """What is outside of a replay: `asked` is who was asked for something all the same."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def refuse(self, what: str) -> NoReturn:
        """Note a question."""
        self.asked.append(what)
        raise AssertionError(f"a replay asked {what}")

    def sealed(self, program: Program) -> Program:
        """Return a program that asks for the same, and whose parts all refuse."""
        return msgspec.structs.replace(
            program,
            model=_SealedModel(self, program.model),
            find_model=lambda name: self.refuse(f"for the model {name}"),
            instructions=lambda *_: self.refuse("for instructions"),
            toolbox=Toolbox(
                _SealedTool(self, one) for one in program.toolbox if one.spec.name != FINDER
            ),
            providers=tuple(_SealedProvider(self) for _ in program.providers),
            policy=None if program.policy is None else _SealedPolicy(self, program.policy),
            plugins=PluginSet(_sealed_plugin(self, one) for one in program.plugins.plugins),
        )


class _SealedModel:
    def __init__(self, outside: Outside, model: Model) -> None:
        self.name = model.name
        self._outside = outside

    async def complete(self, request: ModelRequest, emit: object) -> ModelReply:
        self._outside.refuse(f"the model {self.name}")


class _SealedTool:
    """Says of itself what a tool says; does nothing of what a tool does."""

    def __init__(self, outside: Outside, tool: Tool) -> None:
        self._outside = outside
        self._tool = tool

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the tool has it
        return getattr(self._tool, name)

    def check(self, args: Mapping[str, Any]) -> NoReturn:
        self._outside.refuse(f"the tool {self.spec.name} to check")

    async def run(self, *_: object) -> NoReturn:
        self._outside.refuse(f"the tool {self.spec.name} to run")

    async def reconcile(self, *_: object) -> NoReturn:
        self._outside.refuse(f"the tool {self.spec.name} to reconcile")

    async def needs_approval(self, *_: object) -> NoReturn:
        self._outside.refuse(f"the tool {self.spec.name} whether it needs approval")


class _SealedProvider:
    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def tools(self, context: Mapping[str, Any]) -> NoReturn:
        self._outside.refuse("a provider")


class _SealedPolicy:
    def __init__(self, outside: Outside, policy: ToolPolicy) -> None:
        self.version = policy.version
        self._outside = outside

    def decide(self, *_: object) -> NoReturn:
        self._outside.refuse("the policy")


def _sealed_plugin(outside: Outside, plugin: Plugin) -> Plugin:
    """Return a plugin of the same name with the same hooks."""
    hooks = [hook for hook in HOOKS if getattr(type(plugin), hook) is not getattr(Plugin, hook)]
    body: dict[str, Any] = {hook: _refusing(outside, hook) for hook in hooks}
    made: Plugin = type("Sealed", (Plugin,), {"name": name_of(plugin), **body})()
    return made


def _refusing(outside: Outside, hook: str) -> Callable[..., Any]:
    async def run(_self: Plugin, *_: object) -> NoReturn:
        outside.refuse(f"the hook {hook}")

    def show(_self: Plugin, *_: object) -> NoReturn:
        outside.refuse(f"the hook {hook}")

    return show if hook == "on_stream" else run
