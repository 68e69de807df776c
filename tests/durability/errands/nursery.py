"""Starts workers quickly, as `tests.durability.soak.nursery` does, but those that run errands."""

from __future__ import annotations

from tests.durability.errands import worker
from tests.durability.soak import nursery

if __name__ == "__main__":
    nursery.worker = worker  # type: ignore[attr-defined]
    nursery.main()
