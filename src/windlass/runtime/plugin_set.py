"""The plugins of an agent, sorted by hook: a hook that no plugin has costs nothing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Final

from windlass.errors import ConfigError
from windlass.guards.ids import is_id
from windlass.guards.text import check_version
from windlass.journal import PluginVersion
from windlass.kernel.value import snake_case
from windlass.ports.plugin import HOOKS, Plugin

_KNOWN: Final = frozenset(dir(Plugin))
_ALMOST: Final = 0.88


def name_of(plugin: Plugin) -> str:
    """Return a plugin's name, or that of its class."""
    return plugin.name or snake_case(type(plugin).__name__)


class PluginSet:
    """Plugins in their order."""

    def __init__(self, plugins: Iterable[Plugin] = (), *, field: str = "plugins") -> None:
        self.plugins = tuple(plugins)
        for at, plugin in enumerate(self.plugins):
            _check_plugin(plugin, f"{field}[{at}]")
        self.names = tuple(name_of(plugin) for plugin in self.plugins)
        self._by_hook = {
            hook: tuple(one for one in self.plugins if _has(one, hook)) for hook in HOOKS
        }
        # What their hooks look at before it is shown: "model" for replies, "tools" for results.
        seen = {HOOKS[hook].looks_at for hook, plugins in self._by_hook.items() if plugins}
        self.looks = tuple(sorted(seen - {""}))
        self.has_tool_hooks = "tools" in self.looks or bool(self._by_hook["before_tool"])
        self.sees_results = bool(self._by_hook["after_tool"] or self._by_hook["present_result"])
        self.versions = tuple(
            PluginVersion(name=name_of(one), version=one.version) for one in self.plugins
        )
        # What turns that began with fewer of them are driven with.
        self._parts: dict[tuple[str, ...], PluginSet] = {}
        self._check_together(field)

    def _check_together(self, field: str) -> None:
        for name in self.names:
            if self.names.count(name) > 1:
                raise ConfigError.at(field, f"two plugins called {name}", "each name once")
        owners = [name_of(one) for one in self._by_hook["present_result"]]
        if len(owners) > 1:
            found = f"present_result in {' and '.join(owners)}"
            raise ConfigError.at(field, found, "it in one plugin at most")

    def having(self, hook: str) -> tuple[Plugin, ...]:
        """Return the plugins that have a hook, in their order."""
        return self._by_hook[hook]

    def tools(self) -> list[Any]:
        """Return the tools that the plugins bring.

        Raises:
            ConfigError: a plugin gave something else than a list.
        """
        brought: list[Any] = []
        for plugin in self.plugins:
            given = plugin.tools()
            if not isinstance(given, (list, tuple)):
                field = f"tools of the plugin {name_of(plugin)}"
                raise ConfigError.at(field, type(given).__name__, "a list of tools")
            brought += given
        return brought

    def only(self, names: tuple[str, ...]) -> PluginSet:
        """Return the set of the plugins with these names: plugins that came later do not change a turn in flight."""
        if names == self.names:
            return self
        known = self._parts.get(names)
        if known is None:
            known = PluginSet(one for one in self.plugins if name_of(one) in names)
            self._parts[names] = known
        return known

    def __len__(self) -> int:
        return len(self.plugins)


def _has(plugin: Plugin, hook: str) -> bool:
    return getattr(type(plugin), hook) is not getattr(Plugin, hook)


def _check_plugin(plugin: object, field: str) -> None:
    if isinstance(plugin, type):
        raise ConfigError.at(field, plugin.__name__, "a Plugin; a class has to be called first")
    if not isinstance(plugin, Plugin):
        raise ConfigError.at(field, type(plugin).__name__, "a Plugin")
    name = name_of(plugin)
    if not is_id(name):
        wanted = "1 to 128 of A-Z a-z 0-9 . _ : - @ + = ~ |"
        raise ConfigError.at(f"{field}.name", repr(name), wanted)
    check_version(plugin.version, field=f"{field}.version")
    _check_spelling(plugin, field)
    for hook in (*HOOKS, "tools", "allot"):
        is_async = inspect.iscoroutinefunction(getattr(Plugin, hook))
        if _has(plugin, hook) and inspect.iscoroutinefunction(getattr(plugin, hook)) != is_async:
            wanted = "async def" if is_async else "def"
            raise ConfigError(
                f"{field} ({name}): {hook} has to be written with {wanted}",
                field=f"{field}.{hook}",
                wanted=wanted,
            )


def _check_spelling(plugin: Plugin, field: str) -> None:
    """Refuse a coroutine whose name is almost a hook's: a guard that is never asked guards nothing."""
    made_by = type(plugin)
    for method in sorted(set(dir(made_by)) - _KNOWN):
        if method.startswith("_") or not inspect.iscoroutinefunction(getattr(made_by, method)):
            continue
        from difflib import get_close_matches  # noqa: PLC0415 - few plugins have methods of their own

        meant = get_close_matches(method, HOOKS, n=1, cutoff=_ALMOST)
        if meant:
            wanted = f"the hook {meant[0]} or another name"
            raise ConfigError.at(f"{field}.{method}", f"{method} in {name_of(plugin)}", wanted)


NO_PLUGINS = PluginSet()
