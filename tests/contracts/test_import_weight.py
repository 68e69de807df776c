"""What a bare import costs: the kernel brings neither an event loop nor a foreign stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


FIRST_TURN = """
import asyncio, sys
from windlass import Agent, Runtime, tool
from windlass.kernel import ModelReply, Text, ToolCall
from windlass.models.scripted import ScriptedModel

@tool
async def sound(i: int) -> str:
    {imports}
    return f"{{i}}: 7 fathoms"

CALL = ModelReply(parts=(ToolCall(call_id="c1", name="sound", args={{"i": 1}}),), terminal="tool_use")
ANSWER = ModelReply(text="7 fathoms", parts=(Text(text="7 fathoms"),))

async def main(path):
    agent = Agent("pilot", model=ScriptedModel([CALL, ANSWER]), tools=[sound])
    async with Runtime(agent, store=f"sqlite:///{{path}}") as runtime:
        before = set(sys.modules)
        await runtime.session("s").run("how deep?")
        print(*set(sys.modules) - before)

asyncio.run(main(sys.argv[1]))
"""


def loaded_by_first_turn(folder: Path, imports: str = "pass") -> list[str]:
    program = FIRST_TURN.format(imports=imports)
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "w.db")],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_first_turn_waits_for_no_import(tmp_path: Path) -> None:
    assert loaded_by_first_turn(tmp_path) == []


def test_an_import_in_the_first_turn_is_seen(tmp_path: Path) -> None:
    assert loaded_by_first_turn(tmp_path, "import colorsys") == ["colorsys"]
