"""Starts workers quickly: a process that has loaded everything, opened nothing, and forks.

A life that lasts a fifth of a second should not cost another third for its imports. Each child begins as a freshly
started interpreter would after its imports; the first life of a round is a real start all the same.

Reads `FOLDER [MUTANT]` from its input, answers with the child's pid, then with how it ended.
"""

from __future__ import annotations

import os
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
    for line in sys.stdin:
        pid = bear(line.split())
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
