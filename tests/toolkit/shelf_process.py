"""A process that replaces a note and kills itself with SIGKILL in the middle: `python shelf_process.py FOLDER MOMENT`.

opened    the file for the new text is open and empty
written   the text is in the file, and not synced
synced    it is synced, and has not taken the place of the old one
replaced  it has, and the folder is not synced
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from windlass.toolkit.notes.shelf import FolderShelf

N_CHARS = 12_000


def dying(act: Callable[..., Any], *, first: bool) -> Callable[..., Any]:
    """Return a function that kills the process before it acts, or once it has acted."""

    def die(*args: Any, **more: Any) -> None:
        if not first:
            act(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    return die


def main(folder: str, moment: str) -> None:
    shelf = FolderShelf(folder)
    if moment == "opened":
        os.fdopen = dying(os.fdopen, first=True)
    elif moment == "written":
        os.fsync = dying(os.fsync, first=True)
    else:
        os.replace = dying(os.replace, first=moment == "synced")
    shelf.put("scope", "topic", "b" * N_CHARS)


if __name__ == "__main__":
    main(*sys.argv[1:])
