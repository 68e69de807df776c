"""A program that swaps names in a folder as fast as it can, until its input ends. Then it says how often it swapped names,
and how often the folder for a link.

    python files_swapper.py ROOT OUTSIDE ENOUGH N_ENOUGH

`ROOT/sub` is a folder, then a link to OUTSIDE; `ROOT/file.txt` a file, then a link to the secret, a hard link to it, a
pipe, and nothing. After N_ENOUGH swaps there is a file ENOUGH.
"""

import contextlib
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

root, outside, enough = map(Path, sys.argv[1:4])
n_enough = int(sys.argv[4])
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
n_swaps = n_links = 0
say("swapping")
while not select.select([sys.stdin], [], [], 0)[0]:
    for at, make in enumerate(STATES):
        make()
        made.rename(FILE)
        if at % 2:
            # A writer made a folder while there was none: out of the way with it, or both stay folders for ever.
            SUB.rename(root / f"made-{n_swaps}" if REAL.exists() else REAL)
            with contextlib.suppress(FileExistsError):
                SUB.symlink_to(outside)
                n_links += 1
        else:
            if SUB.is_symlink():
                SUB.unlink()
            # Nor does this replace the folder of a writer that has something in it.
            with contextlib.suppress(OSError):
                REAL.rename(SUB)
        n_swaps += 2
    FILE.unlink()
    if n_swaps > n_enough:
        enough.touch()
say(f"{n_swaps} {n_links}")
