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

# Bytecode instructions on 3.11 of one iteration, 5 % above what was counted when they were last set. The first plugin
# brings the environment of each iteration, and the entries that say what was looked at.
FIRST_BUDGET = 2_500
FURTHER_BUDGET = 125


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


@pytest.fixture(scope="module")
def with_one(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return what an iteration with one plugin executes."""
    return hooked_instructions("1", tmp_path_factory.mktemp("one")).total()


def test_the_first_plugin_stays_within_its_budget(bare: int, with_one: int) -> None:
    assert with_one - bare <= on_this_python(FIRST_BUDGET)


def test_each_further_plugin_stays_within_its_budget(with_one: int, tmp_path: Path) -> None:
    counted = hooked_instructions(str(N_PLUGINS), tmp_path).total()

    assert counted - with_one <= on_this_python((N_PLUGINS - 1) * FURTHER_BUDGET)


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

    assert counted - bare > on_this_python(FIRST_BUDGET + (N_PLUGINS - 1) * FURTHER_BUDGET)


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
