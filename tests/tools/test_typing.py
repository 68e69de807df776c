"""A tool keeps the signature of its function, as two type checkers see it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
from windlass.ports.tool import Tool, ToolContext
from windlass.tools import Toolbox, tool


@tool
def add(a: int, b: int = 2) -> int:
    return a + b


@tool(effect="pure", approval=lambda args: args["x"] > 1)
async def fetch(ctx: ToolContext[str], url: str) -> bytes:
    return (ctx.deps + url).encode()


def mul(a: int) -> int:
    return a


async def main() -> None:
    reveal_type(add(1, b=3))
    reveal_type(await fetch(ToolContext(deps="x"), "y"))
    reveal_type(tool(mul, name="times")(2))
    box: list[Tool] = [add, fetch]
    Toolbox([add, fetch])
    add("1")  # wrong
    add()  # wrong
    tool(effect="twice")  # wrong
    tool(mul, colour="red")  # wrong
"""
WRONG = {at for at, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def output_of(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.slow
def test_mypy_keeps_the_signature(program: Path) -> None:
    out = output_of(
        sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(program.parent), str(program),
        folder=program.parent,
    )  # fmt: skip

    revealed = re.findall(r'Revealed type is "([^"]+)"', out)
    assert revealed == ["int", "bytes", "int"]
    assert {int(line) for line in re.findall(r"program\.py:(\d+): error", out)} == WRONG


@pytest.mark.slow
def test_pyright_keeps_the_signature(program: Path) -> None:
    out = output_of(
        sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(program),
        folder=program.parent,
    )  # fmt: skip

    revealed = re.findall(r'Type of ".*" is "([^"]+)"', out)
    assert revealed == ["int", "bytes", "int"]
    assert {int(line) for line in re.findall(r"program\.py:(\d+):\d+ - error", out)} == WRONG
