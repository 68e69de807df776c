"""Lives of a worker, most of them ended by a kill at a random moment of its work, some by its leaving."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.durability.queue.worker import ledger_of
from tests.durability.soak.lives import Nursery, begins

# How long a worker may work before it is killed, from its first act on; or leaves, from its opening on.
SHORTEST_S, LONGEST_S = 0.0, 0.160
_LEAVES_AFTER_S = 0.5
# One life in so many ends by leaving.
_LEAVES = 3


def rounds(folder: Path, seed: int, kills: int, mutant: str = "") -> Iterator[tuple[Path, int]]:
    """Kill workers so many times; yield each file on which all was done, and how many kills it took."""
    random = Random(seed)
    done = number = 0
    folder.mkdir(exist_ok=True)
    with Nursery(folder / "stderr", "tests.durability.queue.nursery") as nursery:
        while done < kills:
            place = folder / str(number)
            place.mkdir()
            spent = _play(nursery, place, random, kills - done, mutant)
            done, number = done + spent, number + 1
            yield place, spent
    complaints = (folder / "stderr").read_text()
    assert not complaints, complaints


def _play(nursery: Nursery, place: Path, random: Random, kills: int, mutant: str) -> int:
    ledger = ledger_of(place)
    done = 0
    while True:
        size = ledger.size()
        work_s = random.uniform(SHORTEST_S, LONGEST_S)
        leaves = done < kills and not random.randrange(_LEAVES)
        leaves_s = random.uniform(SHORTEST_S, _LEAVES_AFTER_S) if leaves else 0
        pid = nursery.start(str(place), str(leaves_s), mutant)
        if done < kills and not leaves:
            begins(ledger, size, pid)
            time.sleep(work_s)
            nursery.kill()
        code = nursery.ended()
        if any(line.pid == pid for line in ledger.lines("over")):
            return done
        if leaves:
            complaints = (place.parent / "stderr").read_text()
            assert code == 0, f"{place}: a worker that left ended with {code}: {complaints}"
        else:
            assert code == -signal.SIGKILL, f"{place}: a worker ended with {code}"
            done += 1
