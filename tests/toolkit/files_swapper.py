"""A program that swaps names in a folder as fast as it can, until its input ends; then it says how often.

    python files_swapper.py ROOT OUTSIDE

`ROOT/sub` is a folder, then a link to OUTSIDE; `ROOT/file.txt` a file, then a link to the secret, a hard link to it, a
pipe, and nothing.
"""

import contextlib
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

root, outside = Path(sys.argv[1]), Path(sys.argv[2])
SECRET = outside / "secret.txt"
FILE, SUB, REAL = root / "file.txt", root / "sub", root / "real"
made = root / "next"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def plain() -> None:
    made.write_text("inside\n")


STATES: tuple[Callable[[], object], ...] = (
    plain,
    lambda: made.symlink_to(SECRET),
    plain,
    lambda: os.link(SECRET, made),
    plain,
    lambda: os.mkfifo(made),
)
n_swaps = 0
say("swapping")
while not select.select([sys.stdin], [], [], 0)[0]:
    for at, make in enumerate(STATES):
        make()
        made.rename(FILE)
        # What a writer made in the meantime stays in the way of neither.
        if at % 2:
            with contextlib.suppress(OSError):
                SUB.rename(REAL)
            with contextlib.suppress(OSError):
                SUB.symlink_to(outside)
        else:
            if SUB.is_symlink():
                SUB.unlink()
            with contextlib.suppress(OSError):
                REAL.rename(SUB)
        n_swaps += 2
    FILE.unlink()
say(str(n_swaps))
