"""`windlass demo`: its arguments. Read with what Python brings, so that the demo needs nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def main(words: Sequence[str]) -> int:
    """Show the demo; wrong arguments end the program with 2."""
    parser = argparse.ArgumentParser(
        prog="windlass demo",
        description="One turn of an agent on one SQLite file: killed in the middle of two tools, "
        "approved by another process, and finished. No key, no server, no network.",
    )
    parser.add_argument("--plain", action="store_true", help="no colors, plain ASCII")
    parser.add_argument("--json", action="store_true", help="one JSON value per line, for programs")
    parser.add_argument(
        "--dir",
        type=_empty_folder,
        metavar="DIR",
        help="keep the database and the counts here (DIR is new or empty)",
    )
    options = parser.parse_args(words)
    from windlass.cli import demo  # noqa: PLC0415 - help needs no store

    return demo.run(options.dir, plain=options.plain, json=options.json)


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
