"""windlass with plugins that have every hook and never have a say: what they cost is what having plugins costs."""

from __future__ import annotations

from pathlib import Path

from bench.workloads.candidate import Candidate
from bench.workloads.windlass_turns import WindlassTurns, agent_of
from windlass import Agent, Runtime
from windlass.plugins import Plugin
from windlass.ports.plugin import HOOKS
from windlass.stores.memory import MemoryStore

N_PLUGINS = 10
_PLAIN = "on_stream"
_OWNED = "present_result"


async def _quiet(_self: Plugin, _turn: object, _seen: object = None) -> None:
    """Say nothing."""


def _quiet_at_once(_self: Plugin, _turn: object, _seen: object) -> None:
    """Say nothing."""


def quiet_plugins(n: int = N_PLUGINS) -> list[Plugin]:
    """Return so many plugins with all hooks; how results are shown is the first one's, for one alone may have that."""
    plugins = []
    for at in range(n):
        hooks = [hook for hook in HOOKS if hook != _OWNED or not at]
        body = {hook: _quiet_at_once if hook == _PLAIN else _quiet for hook in hooks}
        plugins.append(type("Quiet", (Plugin,), {**body, "name": f"quiet{at}"})())
    return plugins


class HookedTurns(WindlassTurns):
    """A runtime on one SQLite file, whose agent has so many plugins as the variant says."""

    def agent(self) -> Agent[None, str]:
        """Return who works."""
        return agent_of("once", quiet_plugins(int(self.variant)))


class HookedInMemory(Candidate):
    """The same in memory: no file hides what hooks cost."""

    def __init__(self, variant: str, folder: Path) -> None:
        super().__init__(variant, folder)
        agent = agent_of("once", quiet_plugins(int(variant)))
        self._runtime = Runtime(agent, store=MemoryStore(), max_turns=1_000)

    async def open(self) -> None:
        """Enter the runtime."""
        await self._runtime.__aenter__()

    async def close(self) -> None:
        """Leave it."""
        await self._runtime.__aexit__(None, None, None)

    async def turn(self, session: str, asked: str) -> str:
        """Run a turn."""
        return (await self._runtime.session(session).run(asked)).text
