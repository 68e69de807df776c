"""The commands: their names, one line about each, and where they are. Imports none of them."""

from __future__ import annotations

from keyword import iskeyword
from typing import Final, NamedTuple

from windlass.cli import exit_code


class Command(NamedTuple):
    """One command: the function of that name in `commands/{module}.py`, imported when it is used.

    Where Python has the name for itself, the function's ends in an underscore.
    """

    name: str
    module: str
    summary: str

    @property
    def where(self) -> str:
        end = "_" if iskeyword(self.name) else ""
        return f"windlass.cli.commands.{self.module}:{self.name}{end}"


DEMO: Final = "demo"

COMMANDS: Final = (
    Command("chat", "run", "talk to an agent; the conversation survives kill -9"),
    Command("run", "run", "run one turn and print its answer"),
    Command("work", "work", "drive your agents' turns until it is told to stop"),
    Command("sessions", "sessions", "list the sessions of a store"),
    Command("show", "turns", "show a session, a turn or its journal"),
    Command("tail", "tail", "follow a session's turns, whichever process drives them"),
    Command("waits", "waits", "list what turns are waiting for"),
    Command("approve", "waits", "approve a call that waits"),
    Command("deny", "waits", "deny a call that waits"),
    Command("answer", "waits", "answer a question, or give a result that a turn waits for"),
    Command("cancel", "waits", "end a turn, wherever it runs"),
    Command("processes", "processes", "list the processes of a store"),
    Command(
        "process",
        "processes",
        "start one; its status, its result; signal, cancel, hand over, delete it",
    ),
    Command("schedules", "schedules", "list the schedules of a store"),
    Command("schedule", "schedules", "pause, resume, run or remove one"),
    Command("triggers", "triggers", "list the sources of events, or the events of one"),
    Command("trigger", "triggers", "emit an event"),
    Command("children", "children", "show the sessions that a session began, as a tree"),
    Command("fork", "sessions", "start a session from another one's history"),
    Command("repair", "repair", "hide what a provider rejects, so that a session can go on"),
    Command("usage", "sessions", "count tokens, calls and cost"),
    Command("export", "archive", "write a session as JSON lines or Markdown"),
    Command("import", "archive", "make a session of what export wrote"),
    Command("vacuum", "machine", "reclaim old journals, and give space back"),
    Command("doctor", "machine", "check the store, the disk, keys and models"),
    Command("bench", "machine", "measure turns per second on this disk"),
    Command("models", "machine", "list models, or download the small local one"),
    Command("record", "record", "record a call to a model, scrubbed, for a report or a test"),
    Command(DEMO, "", "watch a turn finish although its process is killed twice"),
)
NAMES: Final = tuple(command.name for command in COMMANDS)


def help_text() -> str:
    """Return what `windlass --help` prints: plain text, so that it needs no library."""
    width = max(map(len, NAMES)) + 3
    commands = "\n".join(f"  {each.name:<{width}}{each.summary}" for each in COMMANDS)
    codes = "\n".join(f"  {code:<{width}}{meaning}" for code, meaning in exit_code.MEANINGS)
    return (
        "Usage: windlass COMMAND [ARGUMENTS]\n\n"
        "Durable LLM agents: kill the process at any moment, and the turn continues.\n\n"
        f"Commands:\n{commands}\n\n"
        "Options:\n"
        f"  {'--help':<{width}}this text; windlass COMMAND --help explains one command\n"
        f"  {'--version':<{width}}the installed version\n\n"
        "Settings: flags, then WINDLASS_STORE, WINDLASS_MODEL, WINDLASS_AGENT, WINDLASS_TOOLS,\n"
        "WINDLASS_DURABILITY, WINDLASS_BY, then [tool.windlass] in pyproject.toml.\n"
        "WINDLASS_DEBUG=1 shows tracebacks.\n"
        "Every command takes --json for machine-readable output.\n\n"
        f"Exit codes:\n{codes}\n"
    )
