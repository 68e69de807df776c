"""Starts workers quickly, as `tests.durability.soak.nursery` does, but those on a budget."""

from __future__ import annotations

from tests.durability.soak import nursery
from tests.durability.spend import worker

if __name__ == "__main__":
    nursery.worker = worker  # type: ignore[attr-defined]
    nursery.main()
