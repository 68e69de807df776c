"""A plugin that is another object each time one of its hooks runs: what it keeps on itself is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.ports.plugin import HOOKS, Plugin
from windlass.runtime.plugin_set import name_of


def swapped(make: Callable[[], Plugin]) -> Plugin:
    """Return a plugin with the hooks of what `make` makes, each run on an object of its own."""
    model = make()
    hooks = [hook for hook in HOOKS if getattr(type(model), hook) is not getattr(Plugin, hook)]
    body: dict[str, Any] = {hook: _fresh(make, hook) for hook in hooks}
    body["name"] = name_of(model)
    body["version"] = model.version
    if hasattr(model, "covers_direct_calls"):
        body["covers_direct_calls"] = model.covers_direct_calls
    made: Plugin = type("Swapped", (Plugin,), body)()
    return made


def _fresh(make: Callable[[], Plugin], hook: str) -> Callable[..., Any]:
    async def run(_self: Plugin, *given: Any) -> Any:  # noqa: ANN401 - as the hook says
        return await getattr(make(), hook)(*given)

    def show(_self: Plugin, *given: Any) -> Any:  # noqa: ANN401 - as the hook says
        return getattr(make(), hook)(*given)

    made = show if hook == "on_stream" else run
    made.__name__ = hook
    return made
