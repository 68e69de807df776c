"""What users test with costs little to import."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("anyio", "apsw", "httpx", "hypothesis", "pydantic", "pytest", "sqlite3")


def test_importing_it_loads_no_store_no_network_and_no_test_runner() -> None:
    program = f"import windlass.testing, sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == []
