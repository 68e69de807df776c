"""Starts lives of the matrix quickly, as `tests.durability.soak.nursery` starts workers."""

from __future__ import annotations

from tests.durability.matrix import child
from tests.durability.soak import nursery

if __name__ == "__main__":
    nursery.worker = child  # type: ignore[attr-defined]
    nursery.main()
