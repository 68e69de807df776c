"""What the command's exit codes mean. They are part of what scripts may rely on."""

from __future__ import annotations

import signal
from typing import Final

OK: Final = 0
NOT_FINISHED: Final = 1
USAGE: Final = 2
PARKED: Final = 3
STORE: Final = 4
BUG: Final = 70
OUTPUT: Final = 74
INTERRUPTED: Final = 128 + signal.SIGINT
PIPE_CLOSED: Final = 128 + signal.SIGPIPE
TERMINATED: Final = 128 + signal.SIGTERM

MEANINGS: Final = (
    (OK, "done"),
    (NOT_FINISHED, "the turn ended without an answer, or a check found something wrong"),
    (USAGE, "wrong arguments or settings, or no such session"),
    (PARKED, "the turn waits for an answer from outside"),
    (STORE, "the store cannot be read or written"),
    (BUG, "a defect in windlass"),
    (OUTPUT, "the output could not be written"),
    (INTERRUPTED, "interrupted with Ctrl-C; a turn that was accepted continues later"),
    (PIPE_CLOSED, "the program that read the output closed it"),
    (TERMINATED, "ended by SIGTERM; a turn that was accepted continues later"),
)
