"""Every claim about whole turns is made on every store that a runtime can have without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.stage import STORES, Stage


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


@pytest.fixture
def memory_stage(tmp_path: Path) -> Stage:
    """For claims that no store has a part in."""
    return Stage("memory", tmp_path)
