"""Plugins that tell before and after each of their hooks that the process may die here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from windlass.ports.plugin import HOOKS, Plugin
from windlass.runtime.plugin_set import name_of
from windlass.testing.crashing.fuse import Fuse


def crashing_plugin(fuse: Fuse, plugin: Plugin) -> Plugin:
    """Return a plugin with the same hooks, with crash points around them."""
    hooks: dict[str, Any] = {}
    for hook in HOOKS:
        own = getattr(type(plugin), hook)
        if own is not getattr(Plugin, hook):
            bound = getattr(plugin, hook)
            # Previews and what happens beside the turn are not in its journal.
            is_unseen = not HOOKS[hook].recorded_in
            handed_on = _handed_on(bound, is_plain=not iscoroutinefunction(getattr(Plugin, hook)))
            hooks[hook] = handed_on if is_unseen else _watched(fuse, plugin, hook)
    kind: type[Plugin] = type(type(plugin).__name__, (Plugin,), {**hooks, "__getattr__": _inner})
    crashing = kind()
    crashing.__dict__.update(_plugin=plugin, name=name_of(plugin), version=plugin.version)
    return crashing


def _inner(self: Plugin, name: str) -> Any:  # noqa: ANN401 - whatever a plugin has
    return getattr(self.__dict__["_plugin"], name)


def _handed_on(bound: Callable[..., Any], *, is_plain: bool) -> Callable[..., Any]:
    if is_plain:
        return lambda _self, *given: bound(*given)

    async def hook(_self: Plugin, *given: object) -> Any:  # noqa: ANN401 - as the hook says
        return await bound(*given)

    return hook


def _watched(fuse: Fuse, plugin: Plugin, hook: str) -> Callable[..., Awaitable[Any]]:
    bound, place = getattr(plugin, hook), f"{hook} of {name_of(plugin)}"

    async def watched(_self: Plugin, *given: object) -> Any:  # noqa: ANN401 - as the hook says
        fuse.reach(f"before {place}")
        said = await bound(*given)
        fuse.reach(f"after {place}, before that was recorded")
        return said

    return watched
