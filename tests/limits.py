"""How long a test waits before it calls something a hang, and how often it tries a random property.

`make test` tries a property as often as its test says; `make soak` sets WINDLASS_SOAK, and tries that many times as often.
"""

from __future__ import annotations

import os

# A limit for what never takes long unless it hangs: far above what any machine under load needs.
HANGS_S = 120.0

SOAK = int(os.environ.get("WINDLASS_SOAK") or 1)


def times(n: int) -> int:
    """Return how often this run tries what `make test` tries n times."""
    return n * SOAK
