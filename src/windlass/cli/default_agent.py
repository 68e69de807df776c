"""The agent that is there when nobody brings one: a few tools that only look, and no network."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from windlass import Agent, tool
from windlass.cli import arithmetic
from windlass.cli.workspace import Workspace
from windlass.models.local.weights import find_weights
from windlass.runtime.system_clock import SystemClock

NAME: Final = "assistant"
_LOCAL: Final = "local:smollm2"
_PLAIN: Final = "You are a helpful assistant in a terminal. Answer briefly."
_INSTRUCTIONS: Final = (
    "You are a helpful assistant in a terminal. Answer briefly, in Markdown where it helps. "
    "Use the tools for the time, for arithmetic and for files in the user's folder; "
    "do not guess what a tool can tell you. You have no network."
)


@tool(effect="pure")
def clock() -> str:
    """Return the date and the time here, with the offset from UTC."""
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, tz=UTC)
    return now.astimezone().isoformat(timespec="seconds")


@tool(effect="pure")
def calculate(expression: str) -> int | float:
    """Calculate, e.g. `(17 + 4) * 2 ** 0.5`. Knows sqrt, log, exp, sin, cos, tan, min, max, round."""
    return arithmetic.calculate(expression)


@tool(effect="pure")
def read_file(path: str) -> str:
    """Read a text file below the folder that the user is in."""
    return Workspace(Path.cwd()).read(path)


@tool(effect="pure")
def list_files(folder: str = ".") -> list[str]:
    """List what is in a folder below the one that the user is in."""
    return Workspace(Path.cwd()).names(folder)


def default_agent(model: str) -> Agent[Any, Any]:
    """Return the agent, with the model of that name. A local one is too small to choose between tools: it gets none."""
    if model.startswith("local:"):
        return Agent(NAME, model=model, instructions=_PLAIN)
    return Agent(
        NAME,
        model=model,
        instructions=_INSTRUCTIONS,
        tools=[clock, calculate, read_file, list_files],
    )


def default_model() -> str:
    """Return the model to use when none is named: the small local one if it is installed."""
    return _LOCAL if has_local() else "demo"


def has_local() -> bool:
    """Whether the small local model is installed."""
    return find_spec("xllamacpp") is not None and find_weights() is not None
