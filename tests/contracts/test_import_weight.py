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


NEEDED = "asyncio, msgspec, apsw"
LIST_MODULES = "import sys; {wanted}; print(*sys.modules)"


def modules_after(wanted: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES.format(wanted=wanted)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_what_users_import_first_brings_hashes_and_nothing_else_of_the_standard_library() -> None:
    """Each module here is paid for by everybody, however little they do with windlass."""
    loaded = modules_after("from windlass import Agent, Runtime, tool")
    more = {name for name in loaded - modules_after(f"import {NEEDED}") if "windlass" not in name}

    assert more == {"_blake2", "_hashlib", "copy", "hashlib", "hmac"}


def test_what_drives_turns_is_loaded_when_a_runtime_is_opened() -> None:
    loaded = modules_after("from windlass import Agent, Runtime, tool")

    assert not [name for name in loaded if name.startswith(("windlass.engines", "windlass.stores"))]
    assert "windlass.runtime.drive" not in loaded
    assert len([name for name in loaded if name.startswith("windlass")]) <= 88
