"""Reads the same page on many threads at once, as the first thing that this process ever reads.

python -m tests.durability.first_read
"""

from __future__ import annotations

import sys
import threading

from tests.durability.workload import commit, entries
from windlass.journal import HistoryPage, JournalPage
from windlass.kernel import canonical
from windlass.stores.sqlite import SqliteStore

N_THREADS = 8
READER = SqliteStore  # a process that reads pages on threads has imported the store


def read_everywhere(data: bytes, type_: type[HistoryPage | JournalPage]) -> None:
    """Read a page on all threads at the same moment."""
    together = threading.Barrier(N_THREADS)

    def read() -> None:
        together.wait()
        canonical.read(data, type_)

    threads = [threading.Thread(target=read) for _ in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    # As often as the interpreter can change from one thread to another.
    sys.setswitchinterval(1e-6)
    end = commit("s0", 0)
    history = HistoryPage(format=1, turn_id="t0", nodes=end.nodes, outcome=end.outcome)
    journal = JournalPage(format=1, generation=1, entries=entries("s0", 0, 1))
    read_everywhere(canonical.encode(history), HistoryPage)
    read_everywhere(canonical.encode(journal), JournalPage)


if __name__ == "__main__":
    main()
