"""The arguments of all commands but the demo, read with cyclopts; options that commands share are here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any, TypeAlias

import cyclopts
from cyclopts import Parameter

from windlass.cli import catalogue, exit_code
from windlass.cli.terminal import console
from windlass.errors import InvalidInput
from windlass.kernel import canonical

StoreOption: TypeAlias = Annotated[
    str | None, Parameter(name=["--store", "-s"], help="the store: sqlite:///FILE, or a file name")
]
JsonOption: TypeAlias = Annotated[bool, Parameter(name="--json", help="JSON instead of text")]
_YOURS = "your agent as module:name; the current folder is searched first"
AgentOption: TypeAlias = Annotated[str | None, Parameter(name=["--agent", "-m"], help=_YOURS)]
ModelOption: TypeAlias = Annotated[
    str | None, Parameter(name="--model", help="the model as provider:model, or demo")
]
ToolsOption: TypeAlias = Annotated[
    str | None,
    Parameter(name="--tools", help="tools of windlass's own agent, such as default,shell"),
]
DepsOption: TypeAlias = Annotated[
    str | None,
    Parameter(name="--deps", help="module:name of a function that returns what the tools need"),
]
ByOption: TypeAlias = Annotated[
    str | None, Parameter(name="--by", help="who answers; stored with the answer")
]
SessionWord: TypeAlias = Annotated[str, Parameter(help="the session's id")]
KeyWord: TypeAlias = Annotated[
    str, Parameter(help="the key of the wait, or its beginning (windlass waits lists them)")
]


def run(words: Sequence[str]) -> int:
    """Run the command that the words name; return its exit code.

    Raises:
        InvalidInput: the command does not take these arguments.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another one; the command does not fail.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = _app()(
            list(words), exit_on_error=False, print_error=False, result_action="return_value"
        )
    except cyclopts.CycloptsError as error:
        told = f"{words[0]}: {_reason(error)} (windlass {words[0]} --help)"
        raise InvalidInput(told, field="arguments") from None
    return code if isinstance(code, int) else exit_code.OK


def _reason(error: cyclopts.CycloptsError) -> str:
    if isinstance(error, cyclopts.UnusedCliTokensError):
        left = " ".join(error.unused_tokens or ())
        return f"unexpected argument {left[:40]!r}; put text of several words in quotes"
    return " ".join(str(error).split())


def _app() -> cyclopts.App:
    app = cyclopts.App(
        name="windlass",
        help_format="plaintext",
        version_flags=[],
        suppress_keyboard_interrupt=False,
        console=console(),
        # Flags are off by default; the help need not say so.
        default_parameter=Parameter(negative=(), show_default=False),
    )
    for command in catalogue.COMMANDS:
        if command.module:
            app.command(command.where, name=command.name)
    return app


def read_json(field: str, text: str) -> Any:  # noqa: ANN401 - JSON
    """Return what was written as JSON, for this field.

    Raises:
        InvalidInput: the text is not JSON.
    """
    try:
        return canonical.parse(text)
    except ValueError as error:
        raise InvalidInput(f"{field}: not valid JSON: {error}", field=field) from None


def read_arguments(field: str, text: str) -> dict[str, Any]:
    """Return arguments that were written as JSON, for this field.

    Raises:
        InvalidInput: the text is not a JSON object.
    """
    found = read_json(field, text)
    if not isinstance(found, dict):
        raise InvalidInput.at(field, type(found).__name__, "a JSON object with all arguments")
    return found
