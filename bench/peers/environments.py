"""An environment per peer, in .bench/ of the repository, made from the package registry and kept.

A peer that cannot be installed is not left out: what the installer said stands in its line of the table.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from bench.peers.catalogue import HERE, PINS

FOLDER = Path(__file__).parents[2] / ".bench"
_STAMP = "pins.txt"


class CannotInstall(Exception):
    """The registry, the network or the peer itself did not allow it."""


def python_of(environment: str) -> str:
    """Return the interpreter of an environment, made first if need be.

    Raises:
        CannotInstall: with the installer's last words.
    """
    if environment == HERE:
        return sys.executable
    folder = FOLDER / environment
    stamp, wanted = folder / _STAMP, "\n".join(PINS[environment])
    python = folder / "bin" / "python"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return str(python)
    _make(folder, environment)
    stamp.write_text(wanted, encoding="utf-8")
    return str(python)


def _make(folder: Path, environment: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{environment}: installing {', '.join(PINS[environment])}", file=sys.stderr)
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", *PINS[environment]],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotInstall(_last_line(done.stderr) or f"pip ended with {done.returncode}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.startswith("ERROR")]
    return lines[-1] if lines else ""
