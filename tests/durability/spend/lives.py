"""Lives of a worker on a budget, each ended by a kill at a random moment of its work."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.durability.soak.lives import Nursery, begins
from tests.durability.spend.worker import ledger_of

# How long a worker may work before it is killed.
SHORTEST_S, LONGEST_S = 0.0, 0.120


def rounds(folder: Path, seed: int, kills: int, mutant: str = "") -> Iterator[tuple[Path, int]]:
    """Kill workers so many times; yield each file whose turns are all done, and how many kills it took."""
    random = Random(seed)
    done = number = 0
    with Nursery(folder / "stderr", "tests.durability.spend.nursery") as nursery:
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
        pid = nursery.start(str(place), mutant)
        if done < kills:
            begins(ledger, size, pid)
            time.sleep(random.uniform(SHORTEST_S, LONGEST_S))
            nursery.kill()
        code = nursery.ended()
        if any(line.pid == pid for line in ledger.lines("over")):
            return done
        assert code == -signal.SIGKILL, f"{place}: a worker ended with {code}"
        done += 1
