"""Starts readers quickly, as `tests.durability.soak.nursery` starts workers."""

from __future__ import annotations

# Commands and runtimes load these when they are used; here they are loaded once.
import windlass.api.session
import windlass.cli.arguments
import windlass.cli.commands.sessions
import windlass.cli.commands.turns
import windlass.cli.commands.waits
import windlass.engines.local
import windlass.engines.worker
import windlass.runtime.services  # noqa: F401
from tests.durability.soak import nursery
from tests.security.stepped import reader

if __name__ == "__main__":
    nursery.worker = reader  # type: ignore[attr-defined]
    nursery.main()
