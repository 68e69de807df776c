"""What having plugins costs, in counts that are the same on every run: the gate. Each has a fault that turns it red.

The plugins have every hook and never have a say. Instructions differ between Python releases, so their budgets are exact
for the one they were taken on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.bars.plugin_costs import hooked_commits, hooked_instructions
from bench.workloads import hooked_turns
from bench.workloads.hooked_turns import N_PLUGINS, quiet_plugins
from tests.perf.test_turn_counts import on_this_python
from windlass.plugins import Plugin, PluginTurn, add
from windlass.ports.plugin import HOOKS

# Bytecode instructions on 3.11 of one iteration, 5 % above what was counted when they were last set.
PER_PLUGIN_BUDGET = 440
FIRST_BUDGET = 2_220


def test_the_plugins_that_are_counted_have_every_hook() -> None:
    plugins = quiet_plugins()

    assert len(plugins) == N_PLUGINS == 10
    for at, plugin in enumerate(plugins):
        mine = {hook for hook in HOOKS if getattr(type(plugin), hook) is not getattr(Plugin, hook)}
        assert set(HOOKS) - mine == (set() if at == 0 else {"present_result"})


async def test_plugins_that_say_nothing_add_no_commit(tmp_path: Path) -> None:
    found = []
    for variant in ("0", str(N_PLUGINS)):
        (tmp_path / variant).mkdir()
        found.append(await hooked_commits(variant, tmp_path / variant))

    assert found == [21.0, 21.0]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return what an iteration without plugins executes."""
    return hooked_instructions("0", tmp_path_factory.mktemp("bare")).total()


@pytest.mark.parametrize(
    ("n", "budget"), [(1, FIRST_BUDGET), (N_PLUGINS, N_PLUGINS * PER_PLUGIN_BUDGET)]
)
def test_plugins_stay_within_their_budget(n: int, budget: int, bare: int, tmp_path: Path) -> None:
    counted = hooked_instructions(str(n), tmp_path).total()

    assert counted - bare <= on_this_python(budget)


class Tallying(Plugin):
    """Changes its state in a hook of every iteration."""

    async def before_model(self, turn: PluginTurn, request: object) -> None:
        turn.patch(calls=add(1))


class Keeping(Plugin):
    """Keeps bytes in a hook of every iteration."""

    async def before_model(self, turn: PluginTurn, request: object) -> None:
        await turn.attach(f"{turn.session_id} {turn.iteration}".encode())


class Busy(Plugin):
    """Does a little in a hook of every iteration."""

    async def before_model(self, turn: PluginTurn, request: object) -> None:
        for _ in range(N_PLUGINS * 200):
            pass


def test_a_few_lines_more_per_hook_are_seen(
    bare: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooked_turns, "quiet_plugins", lambda _n: [Busy()])
    counted = hooked_instructions("1", tmp_path).total()

    assert counted - bare > on_this_python(N_PLUGINS * PER_PLUGIN_BUDGET)


async def test_a_change_of_state_rides_with_the_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooked_turns, "quiet_plugins", lambda _n: [Tallying()])

    assert await hooked_commits("1", tmp_path) == 21.0


async def test_a_plugin_that_writes_by_itself_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooked_turns, "quiet_plugins", lambda _n: [Keeping()])

    assert await hooked_commits("1", tmp_path) >= 21 + 20
