"""Starts workers quickly: a process that has loaded everything, opened nothing, and forks.

A life that lasts a fifth of a second should not cost another third for its imports. Each child begins as a freshly
started interpreter would after its imports.

Reads the worker's arguments from its input, quoted as for a shell, and answers with the child's pid; an empty line asks
how it ended. Until then the pid is the child's, dead or alive, so that no other process can be killed in its place.
"""

from __future__ import annotations

import os
import shlex
import sys
import traceback

import windlass.api.runtime
import windlass.stores.sqlite  # noqa: F401 - loaded here, once
from tests.durability.soak import worker


def bear(arguments: list[str]) -> int:
    """Fork a worker and return its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        worker.main(*arguments)
        code = 0
    except BaseException:  # noqa: BLE001 - nothing of the parent may run in the child
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Bear one child after another."""
    pid = 0
    for line in sys.stdin:
        if arguments := shlex.split(line):
            answer = pid = bear(arguments)
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
