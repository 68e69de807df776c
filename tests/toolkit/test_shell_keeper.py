"""The keeper by itself, where the system plays tricks on it: numbers used again, forks that fail, files that cannot be read."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from tests.limits import HANGS_S
from tests.toolkit.shell_scene import Scene
from windlass.errors import ToolError, ToolUncertain
from windlass.toolkit.shell import keeper


def started(folder: Path, line: str, *, trick: str = "", **limits: Any) -> subprocess.Popen[bytes]:
    """Start a keeper after a trick."""
    script = f"from windlass.toolkit.shell import keeper\n{trick}\nkeeper.main()\n"
    order = {
        "parent": os.getpid(),
        "shell": "/bin/sh",
        "line": line,
        "env": {"PATH": os.defpath},
        "timeout_s": 60,
        "memory_bytes": 1 << 30,
        "max_file_bytes": 0,
        "max_processes": 9,
        **limits,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(order) + b"\n")
    process.stdin.flush()
    return process


def keep(folder: Path, line: str, **options: Any) -> tuple[dict[str, Any], str]:
    """Let a keeper run to its end; return its last report, and what the command printed."""
    with started(folder, line, **options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = process.stdout.read().splitlines()[-1]
        printed = process.stderr.read().decode()
    return msgspec.json.decode(told), printed


def test_what_proc_does_not_show_is_told_as_not_ended(tmp_path: Path) -> None:
    """As if the command had covered /proc: nobody is seen, and the kernel still says that a child is there."""
    trick = "keeper.everybody, keeper.newcomers, keeper.KILL_S = dict, lambda *_: iter(()), 0.1"
    last, printed = keep(tmp_path, "sleep 1000 >/dev/null 2>&1 & echo $!", trick=trick)
    os.kill(int(printed), signal.SIGKILL)

    assert (last["why"], last["code"], last["left"], last["stuck"]) == ("exit", 0, 1, 1)


def test_orders_that_were_there_and_are_gone_do_not_hold_it_up(tmp_path: Path) -> None:
    """Another process read them between the look and the reading."""
    trick = (
        "from types import SimpleNamespace\n"
        "select = keeper.select.select\n"
        "def look(reads, *rest):\n"
        "    ready, *_ = select(reads, *rest)\n"
        "    return sorted({*ready, *({0} & {*reads})}), [], []\n"
        "keeper.select = SimpleNamespace(select=look)"
    )
    last, _ = keep(tmp_path, "sleep 1000", trick=trick, timeout_s=0.3)

    assert last["why"] == "time"


@pytest.mark.skipif(os.getuid() != 0, reason="only root reaches its pipes")
def test_a_report_that_the_command_fills_does_not_hold_it_up(tmp_path: Path) -> None:
    """Nobody reads it, as when windlass is stopped."""
    line = "yes >/proc/$PPID/fd/4 & sleep 1000"
    with started(tmp_path, line, timeout_s=0.3) as process:
        assert process.wait(HANGS_S) == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_who_is_not_root_reaches_no_file_of_its_keeper(tmp_path: Path) -> None:
    """The command itself can be read as ever. A change of the user hides a process, so that is undone first."""
    tmp_path.chmod(0o755)
    trick = (
        "import ctypes, json, os, resource\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "keeper._prctl(4, 1)"
    )
    line = (
        "for file in fd/0 fd/4 environ; do (: </proc/$PPID/$file) && echo open; done 2>/dev/null;"
        "cat /proc/self/oom_score_adj; cat /proc/self/environ >/dev/null && echo mine"
    )
    _, printed = keep(tmp_path, f"({line}); echo done", trick=trick)

    assert printed == "500\nmine\ndone\n"


def test_the_first_end_of_the_command_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be used again, by another child that ends later."""
    ended = iter([(77, 3 << 8), (77, 9), (0, 0)])
    monkeypatch.setattr(os, "waitpid", lambda *_: next(ended))
    watching = keeper.Keeper.__new__(keeper.Keeper)
    watching.command, watching.status = 77, None
    watching.reap()

    assert watching.status == 3 << 8


def test_a_process_that_got_the_number_of_another_is_not_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is first seen as the child of the top that had its number before."""
    signals: list[int] = []
    tell = keeper.tell

    def look(pids: Iterable[int], number: int) -> None:
        signals.append(number)
        if number != signal.SIGSTOP:
            tell(pids, number)

    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as innocent:
        told = Path(f"/proc/{innocent.pid}/stat").read_bytes().split()
        told[3], told[21] = b"1000000000", b"1"
        before = [b" ".join(told)]

        def read(path: str, mode: str) -> BinaryIO:
            if path == f"/proc/{innocent.pid}/stat" and before:
                return io.BytesIO(before.pop())
            return Path(path).open("rb")

        monkeypatch.setattr(keeper, "open", read, raising=False)
        monkeypatch.setattr(keeper, "tell", look)
        keeper.freeze_and_kill(1_000_000_000, until=keeper.give_up_at(HANGS_S))
        is_alive = innocent.poll() is None
        innocent.kill()

    assert not before
    assert signals[0] == signal.SIGSTOP
    assert is_alive


# ---------------------------------------------------------------------------------- its start


def use_keeper(folder: Path, monkeypatch: pytest.MonkeyPatch, trick: str) -> None:
    script = folder / "tricked.py"
    script.write_text(
        f"import os, runpy\n{trick}\nrunpy.run_path({keeper.__file__!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(keeper, "__file__", str(script))


async def test_a_keeper_that_cannot_fork_has_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trick = "def fork(): raise BlockingIOError(11, 'no')\nos.fork = fork"
    use_keeper(tmp_path, monkeypatch, trick)
    with pytest.raises(ToolError) as caught:
        await Scene(tmp_path).run("touch acted")

    assert caught.value.not_started
    assert str(caught.value) == (
        "The command could not be started: the system has no room for another process. Nothing was run."
    )
    assert not (tmp_path / "acted").exists()


async def test_a_keeper_that_dies_before_the_command_starts_takes_it_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trick = (
        "real = os.fork\n"
        "gone = os.open('gone', os.O_RDWR)\n"
        "def fork():\n"
        "    keeper = os.getpid()\n"
        "    if pid := real(): return pid\n"
        "    os.kill(keeper, 9)\n"
        "    while os.getppid() == keeper: pass\n"
        "    return 0\n"
        "os.fork = fork"
    )
    os.mkfifo(tmp_path / "gone")
    reads = os.open(tmp_path / "gone", os.O_RDONLY | os.O_NONBLOCK)
    use_keeper(tmp_path, monkeypatch, trick)
    with pytest.raises(ToolUncertain):
        await Scene(tmp_path).run("touch acted")
    os.set_blocking(reads, True)
    assert os.read(reads, 1) == b""  # nobody is left who could act
    os.close(reads)

    assert not (tmp_path / "acted").exists()


async def test_few_processes_may_have_many_threads(tmp_path: Path) -> None:
    """The limit that the kernel keeps counts all threads of the user."""
    said = await Scene(tmp_path).run(
        "awk '/Max processes/ { print $3 }' /proc/self/limits", max_processes=4
    )
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = 1 << 62 if hard == resource.RLIM_INFINITY else hard

    assert int(said.splitlines()[0]) >= min(1_024, most)
