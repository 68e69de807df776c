"""What a turn did is what its replay comes to, at its end and at every moment before; and nothing is asked for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.played import PLAYS
from tests.runtime.replays import check_prefixes, check_same, prefixes, replayed
from tests.scenarios.stage import Stage
from windlass.errors import WindlassBug
from windlass.kernel import SyncEnvironment
from windlass.kernel.responses import EnvironmentSynced
from windlass.runtime import performer, replaying
from windlass.runtime.checkpoints import Checkpoints
from windlass.runtime.environments import Environments
from windlass.runtime.turn import Turn

PLAYED = pytest.mark.parametrize("name", PLAYS)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage("memory", tmp_path)


@PLAYED
async def test_a_finished_turn_replays_to_what_it_committed(stage: Stage, name: str) -> None:
    await check_same(await PLAYS[name](stage))


@PLAYED
async def test_after_each_entry_a_turn_replays_as_far_as_it_had_come(
    stage: Stage, name: str
) -> None:
    found = await check_prefixes(await PLAYS[name](stage))

    assert found[0].effects == 0


# ---------------------------------------------------------------------- faults that are seen


async def test_a_replay_that_asks_a_provider_is_seen(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, sync = await PLAYS["tools_of_a_provider"](stage), Environments.sync

    async def asking(self: Environments, effect: SyncEnvironment) -> EnvironmentSynced:
        assert self._turn.provided is not None
        await self._turn.provided.look_up(self._turn)
        return await sync(self, effect)

    monkeypatch.setattr(Environments, "sync", asking)

    for check in (check_same, check_prefixes):
        with pytest.raises(AssertionError, match="a provider"):
            await check(turn)


@pytest.mark.parametrize(
    ("name", "n_entries", "asked"),
    [
        ("tools_of_a_provider", 2, "a provider"),
        ("tools_of_a_provider", 3, "the model m"),
        ("tools_of_a_provider", 4, "a provider"),
        ("every_contract", 3, "the tool look to check"),
        ("a_policy", 6, "the tool send to check"),
    ],
)
async def test_a_replay_that_goes_live_is_seen(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str, n_entries: int, asked: str
) -> None:
    turn = await PLAYS[name](stage)
    monkeypatch.setattr(Turn, "go_live", lambda _turn: None)
    monkeypatch.setattr(replaying._Nothing, "__getattr__", lambda _self, _name: None)

    with pytest.raises(AssertionError, match=f"asked: {asked}"):
        await replayed(turn._replace(view=[*prefixes(turn.view)][n_entries - 1]))


async def test_a_replay_that_goes_live_gets_nothing_from_a_store(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await PLAYS["words"](stage)
    monkeypatch.setattr(Turn, "go_live", lambda _turn: None)

    with pytest.raises(WindlassBug, match="a replay asked for get_blob"):
        await check_prefixes(turn)


async def test_a_replay_that_looks_into_the_inbox_is_seen(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, run = await PLAYS["input_that_came_meanwhile"](stage), Checkpoints.run

    async def looking(self: Checkpoints, *given: Any) -> Any:  # noqa: ANN401 - as it is
        await self._take_items()
        return await run(self, *given)

    monkeypatch.setattr(Checkpoints, "run", looking)

    with pytest.raises(WindlassBug, match="a replay asked for take_inbox"):
        await check_same(turn)


async def test_a_limit_that_the_replay_does_not_see_is_seen(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await PLAYS["out_of_tokens"](stage)
    monkeypatch.setattr(performer, "over_limit", lambda *_: None)

    with pytest.raises(AssertionError, match="goes_on"):
        await check_same(turn)
