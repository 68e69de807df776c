"""What live feeds show of turns with plugins is what the rows of these turns fold to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.folds.witness import Witness


@pytest.fixture(autouse=True)
def shown_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compare when a test is over. The folder is there for as long as this looks."""
    witness = Witness()
    with witness.watching(monkeypatch):
        yield
    witness.check_now()
