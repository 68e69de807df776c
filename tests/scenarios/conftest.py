"""Every scenario is played on every store that a runtime can have without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.folds.witness import Witness
from tests.scenarios.stage import STORES, Stage


@pytest.fixture(autouse=True)
def shown_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What live feeds show in a scenario is what its rows fold to. The folder is there for as long as this looks."""
    witness = Witness()
    with witness.watching(monkeypatch):
        yield
    witness.check_now()


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


@pytest.fixture
def memory_stage(tmp_path: Path) -> Stage:
    """For claims that no store has a part in."""
    return Stage("memory", tmp_path)
