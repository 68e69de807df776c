"""Workers that drive a tree of agents are killed and stopped: the tree ends, and its figures are those of its replies."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.durability.family.worker import LEASE_S, lead_of
from tests.durability.soak.member_process import pause
from tests.limits import HANGS_S
from tests.scenarios.family import TOKENS
from windlass import Runtime
from windlass.journal import ModelAnswered
from windlass.kernel import Finished
from windlass.runtime.child_host import begun_below

CHILDREN = 20


class Workers:
    """The worker processes of one test."""

    def __init__(self, folder: Path, n: int) -> None:
        self.file, self.ledger = folder / "family.db", folder / "ledger"
        self._n = n
        self.running: list[subprocess.Popen[str]] = []

    def begin(self) -> subprocess.Popen[str]:
        """Begin one, and wait until it works."""
        module = "tests.durability.family.worker"
        command = [sys.executable, "-m", module, str(self.file), str(self.ledger), str(self._n)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.running.append(worker)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        return worker

    def end(self, worker: subprocess.Popen[str]) -> None:
        """Kill one as a power cut would."""
        worker.send_signal(signal.SIGCONT)
        worker.kill()
        worker.wait()
        assert worker.stdout is not None
        worker.stdout.close()
        self.running.remove(worker)

    def acts(self) -> Counter[str]:
        """Return how often each call acted."""
        return Counter(self.ledger.read_text().split() if self.ledger.exists() else ())


@contextmanager
def workers(folder: Path, n: int) -> Iterator[Workers]:
    made = Workers(folder, n)
    try:
        yield made
    finally:
        for worker in tuple(made.running):
            made.end(worker)


async def recorded_replies(rt: Runtime[Any], session_id: str) -> int:
    """Return how many replies the journals of a tree hold."""
    store, found = rt._services.store, 0
    for one in (session_id, *await begun_below(store, session_id)):
        for turn in await rt.turns(session_id=one):
            view = await store.load_turn(one, turn.turn_id)
            assert view is not None
            found += sum(isinstance(row.outcome, ModelAnswered) for row in view.journal().rows())
    return found


@pytest.mark.slow
async def test_twenty_children_on_three_workers_survive_that_one_is_killed_and_one_is_stopped(
    tmp_path: Path,
) -> None:
    with workers(tmp_path, CHILDREN) as gang:
        first, second, _third = gang.begin(), gang.begin(), gang.begin()
        lead = lead_of(gang.ledger, CHILDREN)
        async with Runtime(lead, store=str(gang.file), worker=False) as rt:
            async with asyncio.timeout(HANGS_S):
                handle = await rt.session("s").submit("Go", turn_id="t")
                while len(gang.acts()) < CHILDREN // 4:  # noqa: ASYNC110 - other processes write it
                    await asyncio.sleep(LEASE_S / 100)
                gang.end(first)
                pause(second.pid, gang.file)
                result = await handle.result()
            usage = await rt.session("s").usage(tree=True)
            n_replies = await recorded_replies(rt, "s")
            outcomes = [one.outcome for one in await rt.session("s").children()]
    assert result.text == "Done."
    assert outcomes == [Finished(text="Child.")] * CHILDREN
    assert [one.outcome.value for one in result.tool_calls] == ["Child."] * CHILDREN
    # Each call acted, under one key, however often it was begun again.
    assert len(gang.acts()) == CHILDREN
    # Two replies each, and two of the lead: what was recorded counts, and counts once.
    assert n_replies == 2 * CHILDREN + 2
    assert (result.usage.calls, result.child_usage.calls) == (2, 2 * CHILDREN)
    assert usage.calls == n_replies
    assert usage.total_tokens == n_replies * TOKENS
    assert result.child_usage.total_tokens == 2 * CHILDREN * TOKENS


@pytest.mark.slow
async def test_an_approval_three_levels_below_is_answered_after_everything_was_killed(
    tmp_path: Path,
) -> None:
    with workers(tmp_path, 0) as gang:
        first = gang.begin()
        lead = lead_of(gang.ledger, 0)
        async with Runtime(lead, store=str(gang.file), worker=False) as rt:
            async with asyncio.timeout(HANGS_S):
                handle = await rt.session("s").submit("Go", turn_id="t")
                parked = await handle.result()
        (wait,) = parked.waits
        assert (wait.kind, parked.child_usage.calls) == ("approval", 0)
        gang.end(first)
        assert gang.acts() == Counter()
        # A process without any agents answers, while no worker lives.
        async with Runtime(store=str(gang.file)) as rt:
            await rt.approve(wait.key, by="ann")
        gang.begin()
        async with Runtime(lead, store=str(gang.file), worker=False) as rt:
            async with asyncio.timeout(HANGS_S):
                result = await rt.turn("s", "t").result()
            usage = await rt.session("s").usage(tree=True)
    assert result.text == "Done."
    assert list(gang.acts().values()) == [1]
    assert {line.source: line.calls for line in result.child_usage.lines} == {
        "child:middle": 2,
        "child:middle/low": 2,
        "child:middle/low/leaf": 2,
    }
    assert (usage.calls, usage.total_tokens) == (8, 8 * TOKENS)
