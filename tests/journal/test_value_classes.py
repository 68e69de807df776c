"""The values of the journal are public, and told apart by their tags."""

from __future__ import annotations

from pathlib import Path

import windlass.journal
from tests.golden_bytes import Golden
from tests.journal.golden_journal import GOLDEN

CLASSES = Golden("windlass.journal", GOLDEN, Path(__file__).parent / "golden").value_classes()


def test_every_value_class_is_public() -> None:
    assert [
        kind.__name__ for kind in CLASSES if kind.__name__ not in windlass.journal.__all__
    ] == []


def test_no_two_classes_have_one_tag() -> None:
    tags = [kind.__struct_config__.tag for kind in CLASSES]
    assert len(tags) == len(set(tags))
