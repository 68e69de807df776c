"""The `windlass` command.

Law 1. A command is imported when it runs: help and version load none of them.
Law 2. An error that the user can fix is one line without a traceback; WINDLASS_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import TypeGuard

from windlass import __version__, errors
from windlass.cli import catalogue, exit_code
from windlass.release import install_hint


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
        _discard_output()  # the reader (head, less) has exited
        return exit_code.PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last place that can tell the user
        return _tell_output(error) if _is_output(error) else _tell(error, words)
    return code


def _fill_streams() -> None:
    """Open closed streams on /dev/null: else the next file opened would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - until the end


def _is_output(error: Exception) -> TypeGuard[OSError]:
    """Whether standard output could not be written: other errors of I/O name their file."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _discard_output() -> None:
    """Send what is still buffered to /dev/null, so that nothing fails at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell_output(error: OSError) -> int:
    _discard_output()
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
        return _demo(words[1:])
    if first not in catalogue.NAMES:
        raise _unknown(first)
    try:
        from windlass.cli import arguments  # noqa: PLC0415 - law 1
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("cyclopts", "rich"):
            raise
        print(f"windlass {first} needs an extra: {install_hint('cli')}", file=sys.stderr)
        return exit_code.USAGE
    return arguments.run(words)


def _unknown(word: str) -> errors.InvalidInput:
    from windlass.cli.settings import hint  # noqa: PLC0415 - law 1

    said = f"there is no command {word[:40]!r}{hint(word, catalogue.NAMES)}"
    return errors.InvalidInput(f"{said} (windlass --help lists them)", field="command")


def _demo(words: Sequence[str]) -> int:
    """Read the demo's arguments with argparse, so that it needs no extra; exit with 2 if they are wrong."""
    import argparse  # noqa: PLC0415 - law 1
    from pathlib import Path  # noqa: PLC0415 - law 1

    def empty_folder(text: str) -> Path:
        folder = Path(text)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise argparse.ArgumentTypeError(f"{folder} is not empty")
        except OSError as error:
            raise argparse.ArgumentTypeError(f"{folder}: {error.strerror}") from None
        return folder

    parser = argparse.ArgumentParser(
        prog="windlass demo",
        description="One turn of an agent on one SQLite file: killed in the middle of two tools, "
        "approved by another process, and finished. No key, no server, no network.",
    )
    parser.add_argument("--plain", action="store_true", help="no colors, plain ASCII")
    parser.add_argument("--json", action="store_true", help="one JSON value per line, for programs")
    kept = "keep the database and the counts here (DIR is new or empty)"
    parser.add_argument("--dir", type=empty_folder, metavar="DIR", help=kept)
    options = parser.parse_args(words)
    from windlass.cli import demo  # noqa: PLC0415 - help needs no store

    return demo.run(options.dir, plain=options.plain, json=options.json)


def _tell(error: Exception, words: Sequence[str]) -> int:
    """Print what went wrong, without the value of any key; return the exit code."""
    from windlass.cli.keys import clean  # noqa: PLC0415 - only a failure needs it

    code = _code_of(error)
    if _is_debugging():
        import traceback  # noqa: PLC0415 - only debugging needs it

        print(clean("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    is_known = code != exit_code.BUG
    text = clean(str(error) if is_known else f"{type(error).__name__}: {error}")
    if "--json" in words:
        from windlass.cli.output import write_json  # noqa: PLC0415 - only a failure needs it

        told = {"code": "bug", "message": text, "field": None}
        if isinstance(error, errors.WindlassError):
            told |= {"code": error.code, "field": error.field and clean(error.field)}
        write_json({"error": told}, sys.stderr)
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
    # Read directly: after a failure, nothing else can be relied on.
    return os.environ.get("WINDLASS_DEBUG", "") not in ("", "0")  # noqa: TID251


def _code_of(error: Exception) -> int:
    if isinstance(error, errors.CallerError):
        return exit_code.USAGE
    if isinstance(error, (errors.StoreError, errors.ReplayError)):
        return exit_code.STORE
    if isinstance(error, errors.WindlassError) and not isinstance(error, errors.WindlassBug):
        return exit_code.NOT_FINISHED
    return exit_code.BUG


if __name__ == "__main__":
    raise SystemExit(main())
