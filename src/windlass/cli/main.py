"""The `windlass` command: what people start from a terminal.

A command is imported when it is asked for: `windlass --version` loads none of them.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from windlass import __version__

EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_PIPE_CLOSED = 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. Wrong arguments end the program with 2."""
    options = _parser().parse_args(argv)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print("\nwindlass: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) went away. Nothing more may be flushed there at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED


def _run(options: argparse.Namespace) -> int:
    from windlass.cli import demo  # noqa: PLC0415 - see above

    return demo.run(options.dir, plain=options.plain)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="windlass",
        description="Durable LLM agents: kill the process at any moment, and the turn goes on.",
    )
    parser.add_argument("--version", action="version", version=f"windlass {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="watch an agent being killed and going on",
        description="One turn of an agent on one SQLite file: killed in the middle of two tools, "
        "approved by another process, and finished. No key, no server, no network.",
    )
    demo.add_argument("--plain", action="store_true", help="no colors, plain ASCII")
    demo.add_argument(
        "--dir",
        type=_empty_folder,
        metavar="DIR",
        help="keep the database and the counts here (DIR is new or empty)",
    )
    return parser


def _empty_folder(text: str) -> Path:
    """Return a folder that is there and empty."""
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise argparse.ArgumentTypeError(f"{folder} is not empty")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{folder}: {error.strerror}") from None
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
