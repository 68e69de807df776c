"""Starts drivers and observers quickly, as `tests.durability.soak.nursery` starts workers."""

from __future__ import annotations

# A runtime loads these when it opens; here they are loaded once.
import windlass.api.session
import windlass.engines.local
import windlass.engines.worker
import windlass.runtime.services  # noqa: F401
from tests.durability.soak import nursery
from tests.durability.watched import life

if __name__ == "__main__":
    nursery.worker = life  # type: ignore[attr-defined]
    nursery.main()
