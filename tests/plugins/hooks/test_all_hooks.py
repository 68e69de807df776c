"""One turn with every hook at once, killed everywhere; and with another plugin object at every effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.hooks.everything import SAID, Everything, scenario
from tests.plugins.hooks.ledger import Ledger
from tests.plugins.hooks.playing import Played, disks
from tests.plugins.hooks.swapped import swapped
from tests.scenarios.stage import STORES
from windlass.ports.directives import ShortCircuit
from windlass.ports.plugin import HOOKS, AskedCall, Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import Scenario, kill_everywhere
from windlass.testing.crashing.life import run_trial


async def undisturbed(
    kind: str, folder: Path, make: Callable[[Ledger], Plugin]
) -> tuple[Played, Ledger]:
    """Return what it comes to when nothing dies."""
    ledger = Ledger()
    async with disks(kind, folder) as disk:
        report = await run_trial(
            lambda: scenario(ledger, lambda: make(ledger)), disk(), patience_s=30.0
        )
    assert report.error is None
    assert isinstance(report.fate.result, Played)
    return report.fate.result, ledger


@pytest.mark.parametrize("kind", STORES)
async def test_every_hook_takes_part_as_often_as_its_effect(kind: str, tmp_path: Path) -> None:
    found, ledger = await undisturbed(kind, tmp_path, Everything)

    assert found.said == SAID
    assert found.issues == ["worth a look"]
    assert Counter(ledger.acts) == {
        "on_session_open": 1,  # while its turn was parked the session stayed
        "on_input": 2,
        "before_turn": 2,
        "prompt": 2 + 2,  # at each start, and where an iteration follows
        "view": 4,
        "before_model": 4,
        "on_error.model": 1,
        "after_model": 4,
        "before_tool": 4,
        "after_tool": 4,
        "on_error.tool": 1,
        "present_result": 4,
        "at_checkpoint": 4,
        "after_turn": 2,
        "after_commit": 2,
    }
    assert {hook.partition(".")[0] for hook in ledger.acts} == {*HOOKS} - {"on_stream"}


@pytest.mark.parametrize(("kind", "most"), [("memory", None), ("sqlite", 15)])
async def test_killed_anywhere_it_comes_to_the_same_and_pays_at_most_once(
    kind: str, most: int | None, tmp_path: Path
) -> None:
    whole, _ = await undisturbed(kind, tmp_path, Everything)

    def make() -> Scenario:
        ledger = Ledger()

        def check(found: Played) -> None:
            assert ledger.bodies.count("paid") <= 1
            # A payment of which nobody knows is another story; the rest is the same to the byte.
            if "unknown" not in str(found.said):
                assert ledger.bodies.count("paid") == 1
                assert found == whole

        return scenario(ledger, lambda: swapped(lambda: Everything(ledger)), check)

    report = await kill_everywhere(make, store=kind, max_points=most)  # type: ignore[arg-type]  # a kind

    assert len(report.points) == (most or len(report.points))
    if kind == "memory":
        assert len(report.points) > 100
        assert report.missed == ()
        assert len(report.unknown) < len(report.points) / 2


@pytest.mark.parametrize("kind", STORES)
async def test_another_object_at_every_hook_makes_no_difference(kind: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, _ = await undisturbed(kind, tmp_path, Everything)
    many, _ = await undisturbed(
        kind, tmp_path / "other", lambda ledger: swapped(lambda: Everything(ledger))
    )

    assert one == many


class Forgetful(Everything):
    """Keeps something about the turn on itself."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.n_calls = 0

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> ShortCircuit:
        self.n_calls += 1
        return ShortCircuit(f"call {self.n_calls}")


async def test_a_plugin_that_keeps_something_on_itself_is_found_out(tmp_path: Path) -> None:
    one, _ = await undisturbed("memory", tmp_path, Forgetful)
    many, _ = await undisturbed(
        "memory", tmp_path, lambda ledger: swapped(lambda: Forgetful(ledger))
    )

    assert "*call 3*" in str(one.said)
    assert one != many
