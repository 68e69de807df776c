"""The `windlass` command: what people start from a terminal.

Law 1. A command is imported when it is asked for: help and version load none of them.
Law 2. What a user can put right is told in one line, without a traceback; WINDLASS_DEBUG=1 shows it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import TypeGuard

from windlass import __version__
from windlass.cli import catalogue, exit_code
from windlass.errors import (
    CallerError,
    InvalidInput,
    ReplayError,
    StoreError,
    WindlassBug,
    WindlassError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _fill_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("\nwindlass: interrupted", file=sys.stderr)
        return exit_code.INTERRUPTED
    except BrokenPipeError:
        _give_output_up()  # the reader (head, less) went away
        return exit_code.PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last place; nobody above could tell the user
        return _tell_output(error) if _is_output(error) else _tell(error, words)
    return code


def _fill_streams() -> None:
    """Let streams that were closed lead nowhere: else a file of ours would be opened in their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - until the end


def _is_output(error: Exception) -> TypeGuard[OSError]:
    """Whether standard output could not be written: what else does I/O here says what it was about."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _give_output_up() -> None:
    """See to it that nothing more is flushed there at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell_output(error: OSError) -> int:
    _give_output_up()
    print(f"windlass: standard output: {error.strerror}", file=sys.stderr)
    return exit_code.OUTPUT


def _run(words: list[str]) -> int:
    first = words[0] if words else ""
    if first in ("--help", "-h", "help") or not words:
        print(catalogue.help_text(), end="", file=sys.stdout if words else sys.stderr)
        return exit_code.OK if words else exit_code.USAGE
    if first == "--version":
        print(f"windlass {__version__}")
        return exit_code.OK
    if first == catalogue.DEMO:
        from windlass.cli import demo_command  # noqa: PLC0415 - law 1

        return demo_command.main(words[1:])
    if first not in catalogue.NAMES:
        raise _unknown(first)
    try:
        from windlass.cli import command_line  # noqa: PLC0415 - law 1
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("cyclopts", "rich"):
            raise
        print(f"windlass {first} needs more: pip install 'windlass[cli]'", file=sys.stderr)
        return exit_code.USAGE
    return command_line.run(words)


def _unknown(word: str) -> InvalidInput:
    from windlass.cli.nearest import hint  # noqa: PLC0415 - law 1

    said = f"there is no command {word[:40]!r}{hint(word, catalogue.NAMES)}"
    return InvalidInput(f"{said} (windlass --help lists them)", field="command")


def _tell(error: Exception, words: Sequence[str]) -> int:
    """Say what went wrong, without any key that is in the environment."""
    from windlass.cli.keys import clean  # noqa: PLC0415 - only a failure needs it

    code = _code_of(error)
    if _is_debugging():
        import traceback  # noqa: PLC0415 - only asked for

        print(clean("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    is_known = isinstance(error, WindlassError) and not isinstance(error, WindlassBug)
    text = clean(str(error)) if is_known else clean(f"{type(error).__name__}: {error}")
    if "--json" in words:
        from windlass.cli.json_lines import write_json  # noqa: PLC0415 - only a failure needs it

        told = error.code if isinstance(error, WindlassError) else "bug"
        field = clean(error.field) if isinstance(error, WindlassError) and error.field else None
        write_json({"error": {"code": told, "message": text, "field": field}}, sys.stderr)
    elif is_known:
        print(f"windlass: {text}", file=sys.stderr)
    else:
        print(
            f"windlass: this is a defect in windlass, please report it: {text}\n"
            "WINDLASS_DEBUG=1 shows where it happened.",
            file=sys.stderr,
        )
    return code


def _is_debugging() -> bool:
    # Read here, where nothing else may be relied on any more.
    return os.environ.get("WINDLASS_DEBUG", "") not in ("", "0")  # noqa: TID251


def _code_of(error: Exception) -> int:
    if isinstance(error, CallerError):
        return exit_code.USAGE
    if isinstance(error, (StoreError, ReplayError)):
        return exit_code.STORE
    if isinstance(error, WindlassError) and not isinstance(error, WindlassBug):
        return exit_code.NOT_FINISHED
    return exit_code.BUG


if __name__ == "__main__":
    raise SystemExit(main())
