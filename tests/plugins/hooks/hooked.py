"""Plugins of a line: a hook and what it answers."""

from __future__ import annotations

import inspect
from typing import Any

from windlass.ports.plugin import Plugin


def hooked(name: str, **hooks: Any) -> Plugin:
    """Return a plugin; each hook is what it answers, or a function of what it is given that says so."""
    body = {hook: _run(answer) for hook, answer in hooks.items()}
    made: Plugin = type("Hooked", (Plugin,), {"name": name, **body})()
    return made


def _run(answer: Any) -> Any:  # noqa: ANN401 - a hook
    async def run(_self: Plugin, *given: Any) -> Any:  # noqa: ANN401 - as the hook says
        if not inspect.isfunction(answer):
            return answer
        said = answer(*given)
        return await said if inspect.isawaitable(said) else said

    return run
