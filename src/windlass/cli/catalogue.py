"""The commands: their names, one line about each, and where they are. Imports none of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from windlass.cli import exit_code


class Command(NamedTuple):
    """One command; `where` is `module:function`, imported when it is asked for."""

    name: str
    summary: str
    where: str


def _here(name: str, summary: str) -> Command:
    return Command(name, summary, f"windlass.cli.commands.{name}:{name}")


DEMO: Final = "demo"

COMMANDS: Final = (
    _here("chat", "talk to an agent; it survives kill -9"),
    _here("run", "run one turn and print what it came to"),
    _here("sessions", "list the sessions of a store"),
    _here("show", "show a session, a turn or its journal"),
    _here("tail", "watch a session as its journal grows"),
    _here("waits", "list what stands still, and why"),
    _here("approve", "say yes to a call that waits"),
    _here("deny", "say no to a call that waits"),
    _here("cancel", "end a turn, wherever it runs"),
    _here("fork", "begin a session from another one's history"),
    _here("usage", "count tokens, calls and money"),
    _here("export", "write a session as JSON lines or Markdown"),
    _here("doctor", "check the store, the disk, keys and models"),
    _here("bench", "measure turns per second on this disk"),
    _here("models", "list models, or get the small local one"),
    Command(DEMO, "watch an agent being killed and going on", ""),
)
NAMES: Final = tuple(command.name for command in COMMANDS)


def help_text() -> str:
    """Return what `windlass --help` says: plain text, so that nothing has to be loaded for it."""
    width = max(map(len, NAMES)) + 3
    commands = "\n".join(f"  {each.name:<{width}}{each.summary}" for each in COMMANDS)
    codes = "\n".join(f"  {code:<{width}}{meaning}" for code, meaning in exit_code.MEANINGS)
    return (
        "Usage: windlass COMMAND [ARGUMENTS]\n\n"
        "Durable LLM agents: kill the process at any moment, and the turn goes on.\n\n"
        f"Commands:\n{commands}\n\n"
        "Options:\n"
        f"  {'--help':<{width}}this, or the help of a command: windlass chat --help\n"
        f"  {'--version':<{width}}which release this is\n\n"
        "Settings: flags, then WINDLASS_STORE, WINDLASS_MODEL, WINDLASS_AGENT, WINDLASS_DURABILITY,\n"
        "WINDLASS_BY, then [tool.windlass] in pyproject.toml. WINDLASS_DEBUG=1 shows tracebacks.\n"
        "--json gives every command machine-readable output.\n\n"
        f"Exit codes:\n{codes}\n"
    )
