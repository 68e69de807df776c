"""One measurement, one process: a workload of a peer in its own environment, or a turn of it that is killed."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from time import monotonic, sleep

from bench.peers.catalogue import Peer
from bench.peers.environments import FOLDER, python_of
from bench.workloads.children import Figures, finish, last_words, start
from bench.workloads.script import Diary

SECONDS = {"basics": 150.0, "long": 300.0, "many": 240.0}
_SECONDS = 60.0
_SETTLE_S = 0.5
_POLL_S = 0.02


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """Give a folder on the disk of the repository: the system's temporary one may be memory."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=FOLDER))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(peer: Peer, workload: str, folder: Path, **settings: str) -> Popen[str]:
    return start(
        f"bench.peers.{peer.module}",
        peer.variant,
        workload,
        str(folder),
        python=python_of(peer.environment),
        **settings,
    )


def run(peer: Peer, workload: str, folder: Path, **settings: str) -> Figures:
    """Run a workload in a process; what went wrong is a figure, too, under `error`."""
    return finish(_start(peer, workload, folder, **settings), SECONDS.get(workload, _SECONDS))


def crash(peer: Peer, plan: str, hang_at: int, *, at_once: bool) -> Figures:
    """Kill a process while its call `hang_at` runs, start another, and count what was done twice.

    `at_once`: as the call starts; otherwise half a second later, when writers in the background are done.
    """
    with fresh_folder() as folder:
        before, after = folder / "before.txt", folder / "after.txt"
        settings = {"plan": plan, "diary": str(before), "hang_at": str(hang_at)}
        if at_once:
            settings["dies"] = "1"
        child = _start(peer, "crash", folder, **settings)
        is_there = _wait_for_call(child, before, hang_at, at_once=at_once)
        child.kill()
        _, err = child.communicate()
        if not is_there or child.returncode != -signal.SIGKILL:
            return {"error": last_words(err) or "the call never started"}
        resumed = run(peer, "resume", folder, plan=plan, diary=str(after))
        return {**_what_ran_twice(Diary(before), Diary(after), hang_at), **resumed}


def _wait_for_call(child: Popen[str], diary: Path, hang_at: int, *, at_once: bool) -> bool:
    deadline = monotonic() + _SECONDS
    while child.poll() is None and monotonic() < deadline:
        seen = Diary(diary)
        if hang_at in seen.numbers("start") and len(seen.numbers("end")) >= hang_at:
            if not at_once:
                sleep(_SETTLE_S)
            return True
        sleep(_POLL_S)
    return hang_at in Diary(diary).numbers("start")


def _what_ran_twice(before: Diary, after: Diary, hang_at: int) -> Figures:
    finished, again = set(before.numbers("end")), after.numbers("start")
    bought = set(before.numbers("model"))
    return {
        "finished": len(finished),
        "finished_again": sum(number in finished for number in again),
        "in_flight_again": again.count(hang_at),
        "replies_again": sum(number in bought for number in after.numbers("model")),
    }
