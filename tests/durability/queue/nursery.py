"""Starts workers quickly, as `tests.durability.soak.nursery` does, but those of the queue."""

from __future__ import annotations

from tests.durability.queue import worker
from tests.durability.soak import nursery

if __name__ == "__main__":
    nursery.worker = worker  # type: ignore[attr-defined]
    nursery.main()
