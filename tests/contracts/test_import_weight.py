"""What a bare import costs: the kernel brings neither an event loop nor a foreign stack."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("anyio", "apsw", "asyncio", "httpx", "pydantic", "sqlite3", "ssl")

LIST_LOADED = "import {module}, sys; print(*sorted(set({heavy!r}) & set(sys.modules)))"


def loaded_by(module: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LIST_LOADED.format(module=module, heavy=HEAVY)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize("module", ["windlass", "windlass.errors", "windlass.kernel"])
def test_an_import_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(module) == []


def test_the_probe_sees_what_is_loaded() -> None:
    """The red proof: asyncio pulls in ssl, and both are reported."""
    assert loaded_by("asyncio") == ["asyncio", "ssl"]
