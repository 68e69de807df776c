"""The arguments of all commands but the demo, read with cyclopts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

import cyclopts

from windlass.cli import catalogue, exit_code


def run(words: Sequence[str]) -> int:
    """Run the command that the words name; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign shows another; it is not a reason to fail.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = _app()(
            list(words), exit_on_error=False, print_error=False, result_action="return_value"
        )
    except cyclopts.CycloptsError as error:
        said = " ".join(str(error).split())
        print(f"windlass {words[0]}: {said} (windlass {words[0]} --help)", file=sys.stderr)
        return exit_code.USAGE
    return code if isinstance(code, int) else exit_code.OK


def _app() -> cyclopts.App:
    app = cyclopts.App(
        name="windlass",
        help_format="plaintext",
        version_flags=[],
        suppress_keyboard_interrupt=False,
        default_parameter=cyclopts.Parameter(negative=()),
    )
    for command in catalogue.COMMANDS:
        if command.where:
            app.command(command.where, name=command.name)
    return app
