"""What a kill costs: until a new process acts, until a stopped worker is replaced, and how many replies."""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path
from time import monotonic_ns, sleep

from bench.progress import progress
from bench.samples import Figure, figure
from bench.store_file import measured_folder
from bench.workloads.children import WINDLASS, Figures, finish, last_words, start, wait_for
from bench.workloads.script import Diary, loop

RESTART_BAR_S = 1.0
LEASE_S = 3
TAKEOVER_MARGIN_S = 2.0
RECOVERY_BAR_S = 0.3
LOST_BAR = 1
EFFECTS = 500
_SECONDS = 60.0
_ACTS = ("model", "start")
_N_KILLS = 8
_THINK_S = "0.004"
_LONG_TURN = 120


class ChildFailed(Exception):
    """A process of the benchmark did not get as far as it should have."""


def measure_kills(rounds: int) -> list[Figure]:
    """Kill and stop workers in the middle of a call, a few times."""
    restarts: list[float] = []
    recoveries: list[float] = []
    for _ in progress("kills", rounds):
        restarts.append(_restart(5)[0])
        recoveries.append(_restart(EFFECTS // 2)[1])
    takeovers = [_take_over() for _ in progress("stops", min(2, rounds))]
    lost, twice = _kill_often()
    return [
        figure("kill to first new effect, process start included", "s", restarts, bar=RESTART_BAR_S),
        figure(f"recovery of a turn with {EFFECTS} effects", "s", recoveries, bar=RECOVERY_BAR_S),
        figure(
            f"takeover from a stopped worker, lease of {LEASE_S} s",
            "s",
            takeovers,
            bar=LEASE_S + TAKEOVER_MARGIN_S,
        ),
        figure(f"replies bought again, per kill of {len(lost)}", "", lost, bar=LOST_BAR),
        figure("  worst of them", "", [max(lost)] * 2, bar=LOST_BAR),
        figure("  once calls that ran twice, of all", "", [twice] * 2, bar=0),
        *(
            figure(f"  killed the moment a {variant} call starts", "", lost_at_once, bar=LOST_BAR)
            for variant in ("once", "pure")
            if (lost_at_once := [_kill_at_once(variant) for _ in range(rounds)])
        ),
    ]  # fmt: skip


def _hanging(folder: Path, hang_at: int, **settings: str) -> subprocess.Popen[str]:
    """Return a process that is in the middle of its call `hang_at`, of one more."""
    diary = folder / "before.txt"
    child = start(
        WINDLASS, "pure", "crash", str(folder),
        plan=loop(hang_at + 1), diary=str(diary), hang_at=str(hang_at), **settings,
    )  # fmt: skip
    if not wait_for(child, diary, "start", hang_at, _SECONDS):
        child.kill()
        _, err = child.communicate()
        raise ChildFailed(last_words(err))
    sleep(0.05)  # what is written when the loop is idle is written now
    return child


def _restart(hang_at: int) -> tuple[float, float]:
    """Return seconds from kill to the first new effect, and from opening the store to it."""
    with measured_folder() as folder:
        child = _hanging(folder, hang_at)
        after = folder / "after.txt"
        killed_ns = monotonic_ns()
        child.kill()
        child.communicate()
        plan = loop(hang_at + 1)
        resumed = start(WINDLASS, "pure", "resume", str(folder), plan=plan, diary=str(after))
        _see_answer(finish(resumed, _SECONDS))
        diary = Diary(after)
        acted_ns = diary.moment_ns(*_ACTS)
        return (acted_ns - killed_ns) / 1e9, (acted_ns - diary.moment_ns("opening")) / 1e9


def _take_over() -> float:
    """Return seconds from stopping a worker to the first effect of one that was running beside it."""
    with measured_folder() as folder:
        stopped = _hanging(folder, 5, lease_s=str(LEASE_S))
        after = folder / "after.txt"
        other = start(
            WINDLASS, "pure", "resume", str(folder),
            plan=loop(6), diary=str(after), lease_s=str(LEASE_S),
        )  # fmt: skip
        try:
            if not wait_for(other, after, "opening", 0, _SECONDS):
                raise ChildFailed("the other worker did not start")
            sleep(LEASE_S / 2)  # the first renews its lease meanwhile; nobody may take its turn
            assert not set(_ACTS) & {kind for kind, _, _ in Diary(after).lines}
            stopped.send_signal(signal.SIGSTOP)
            stopped_ns = monotonic_ns()
            _see_answer(finish(other, _SECONDS))
            return (Diary(after).moment_ns(*_ACTS) - stopped_ns) / 1e9
        finally:
            stopped.kill()
            stopped.communicate()


def _kill_often() -> tuple[list[float], int]:
    """Kill a long turn at random moments; return replies bought again per kill, and calls run twice."""
    moments = random.Random(7)
    lost: list[float] = []
    with measured_folder() as folder:
        diaries: list[Diary] = []
        for at in progress("lost replies", _N_KILLS + 1):
            path = folder / f"{at}.txt"
            child = start(
                WINDLASS, "once", "resume" if at else "crash", str(folder),
                plan=loop(_LONG_TURN), diary=str(path), think_s=_THINK_S,
            )  # fmt: skip
            if at < _N_KILLS:
                _let_act(child, path)
                sleep(moments.uniform(0.02, 0.08))
                child.kill()
                child.communicate()
            else:
                _see_answer(finish(child, _SECONDS))
            known = {number for diary in diaries for number in diary.numbers("model")}
            diaries.append(Diary(path))
            if at:
                lost.append(sum(number in known for number in diaries[-1].numbers("model")))
    started = [number for diary in diaries for number in diary.numbers("start")]
    return lost, len(started) - len(set(started))


def _kill_at_once(variant: str) -> float:
    """Let a process kill itself as a call starts; return how many replies are bought again."""
    with measured_folder() as folder:
        before, after = folder / "before.txt", folder / "after.txt"
        dying = start(
            WINDLASS, variant, "crash", str(folder),
            plan=loop(10), diary=str(before), hang_at="5", dies="1",
        )  # fmt: skip
        dying.communicate()
        resumed = start(WINDLASS, variant, "resume", str(folder), plan=loop(10), diary=str(after))
        _see_answer(finish(resumed, _SECONDS))
        known = Diary(before).numbers("model")
        assert len(known) == 6
        return sum(number in known for number in Diary(after).numbers("model"))


def _let_act(child: subprocess.Popen[str], diary: Path) -> None:
    while not set(_ACTS) & {kind for kind, _, _ in Diary(diary).lines}:
        if child.poll() is not None:
            _, err = child.communicate()
            raise ChildFailed(last_words(err))
        sleep(0.002)


def _see_answer(figures: Figures) -> None:
    if not figures.get("answered"):
        raise ChildFailed(str(figures.get("error", "the answer was another one")))
