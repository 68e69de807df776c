"""The arguments of all commands but the demo, read with cyclopts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

import cyclopts

from windlass.cli import catalogue, exit_code
from windlass.cli.terminal import console
from windlass.errors import InvalidInput


def run(words: Sequence[str]) -> int:
    """Run the command that the words name; return its exit code.

    Raises:
        InvalidInput: they are not what it takes.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign shows another; it is not a reason to fail.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = _app()(
            list(words), exit_on_error=False, print_error=False, result_action="return_value"
        )
    except cyclopts.CycloptsError as error:
        raise InvalidInput(
            f"{words[0]}: {_said(error)} (windlass {words[0]} --help)", field="arguments"
        ) from None
    return code if isinstance(code, int) else exit_code.OK


def _said(error: cyclopts.CycloptsError) -> str:
    if isinstance(error, cyclopts.UnusedCliTokensError):
        left = " ".join(error.unused_tokens or ())
        return f"{left[:40]!r} is more than it takes; put words that belong together in quotes"
    return " ".join(str(error).split())


def _app() -> cyclopts.App:
    app = cyclopts.App(
        name="windlass",
        help_format="plaintext",
        version_flags=[],
        suppress_keyboard_interrupt=False,
        console=console(),
        # That a flag is off before somebody gives it needs no words.
        default_parameter=cyclopts.Parameter(negative=(), show_default=False),
    )
    for command in catalogue.COMMANDS:
        if command.where:
            app.command(command.where, name=command.name)
    return app
