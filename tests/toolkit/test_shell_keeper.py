"""The keeper by itself, where the system plays tricks on it: numbers used again, forks that fail, files that cannot be read."""

from __future__ import annotations

import io
import math
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


def test_a_report_that_the_command_fills_does_not_hold_it_up(tmp_path: Path) -> None:
    """Nobody reads it, as when windlass is stopped."""
    line = "while [ ! -e report ]; do sleep 0.01; done; yes >report & sleep 1000"
    with started(tmp_path, line, timeout_s=0.3) as process:
        assert process.stdout is not None
        (tmp_path / "report").symlink_to(f"/proc/{os.getpid()}/fd/{process.stdout.fileno()}")
        assert process.wait(HANGS_S) == 0


def test_who_is_not_root_reaches_no_file_of_its_keeper(tmp_path: Path) -> None:
    """The command itself can be read as ever. A change of the user hides a process, so that is undone first."""
    tmp_path.chmod(0o755)
    trick = (
        "import ctypes, json, os, resource\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "keeper._prctl(4, 1)"
    )
    line = (
        "for file in fd/0 fd/4 environ; do (: </proc/$PPID/$file) && echo open; done 2>/dev/null;"
        "cat /proc/self/oom_score_adj; cat /proc/self/environ >/dev/null && echo mine"
    )
    _, printed = keep(tmp_path, f"({line}); echo done", trick=trick)

    assert printed == "500\nmine\ndone\n"


def test_a_command_is_the_first_that_the_kernel_ends_and_never_a_later_one_than_windlass(
    tmp_path: Path,
) -> None:
    trick = "open('/proc/self/oom_score_adj', 'w').write('700')"
    _, printed = keep(tmp_path, "cat /proc/self/oom_score_adj", trick=trick)

    assert printed == "700\n"


def test_a_lower_limit_of_windlass_stays_but_for_open_files(tmp_path: Path) -> None:
    trick = (
        "import resource\n"
        "def lower(which, soft): resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))\n"
        "lower(resource.RLIMIT_FSIZE, 1 << 20)\n"
        "lower(resource.RLIMIT_CPU, 50)\n"
        "lower(resource.RLIMIT_NOFILE, 100)"
    )
    line = "awk '/Max file size/ || /cpu time/ || /open files/ { print $4, $5 }' /proc/self/limits"
    _, printed = keep(tmp_path, line, trick=trick, max_file_bytes=1 << 30)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert printed.split() == ["50", "50", "1048576", "1048576", *2 * [str(min(4_096, hard))]]


def test_what_hides_how_much_memory_it_uses_counts_with_all_of_it(tmp_path: Path) -> None:
    """As if the command might not be traced."""
    trick = (
        "def read(path, *rest):\n"
        "    if str(path).endswith('smaps_rollup'): raise PermissionError(13, 'no')\n"
        "    return open(path, *rest)\n"
        "keeper.open = read"
    )
    last, _ = keep(
        tmp_path, "head -c 2G /dev/zero | tail >/dev/null", trick=trick, memory_bytes=64 << 20
    )

    assert last["why"] == "memory"


def test_a_child_that_has_ended_and_is_about_to_be_reaped_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    me = os.getpid()
    there = {77: seen(parent=me, state="S"), 78: seen(parent=me, state="Z")}
    monkeypatch.setattr(keeper, "everybody", lambda: there)
    watching = keeper.Keeper.__new__(keeper.Keeper)
    watching.order, watching.next_look = {"max_processes": 1, "memory_bytes": 0}, 0.0
    of_the_keeper = watching.look(1.0)
    there[78] = seen(parent=77, state="Z")
    watching.next_look = 0.0

    assert (of_the_keeper, watching.look(1.0)) == ("", "processes")


def seen(*, parent: int, state: str) -> keeper.Seen:
    return keeper.Seen(
        parent, state, group=9, session=9, n_pages=0, n_threads=1, started=0, reserved=1
    )


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


# ---------------------------------------------------------------------------------- threads of the user

IN_A_CONTAINER = "os.readlink = lambda path: 'pid:[1]'"
IN_NONE = "os.readlink = lambda path: 'pid:[4026531836]'"


async def most_threads(folder: Path, monkeypatch: pytest.MonkeyPatch, trick: str) -> float:
    use_keeper(folder, monkeypatch, trick)
    line = "awk '/Max processes/ { print $3 }' /proc/self/limits"
    said = (await Scene(folder).run(line, max_processes=4)).splitlines()[0]
    return math.inf if said == "unlimited" else int(said)


def most_threads_here() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return math.inf if soft == resource.RLIM_INFINITY else soft


async def test_few_processes_may_have_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit that the kernel keeps counts all threads of the user."""
    found = await most_threads(tmp_path, monkeypatch, IN_NONE)

    assert min(1_024, most_threads_here()) <= found < math.inf


async def test_in_a_container_the_kernel_is_told_no_limit_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count the user's threads of all other containers, which are not seen from here."""
    assert await most_threads(tmp_path, monkeypatch, IN_A_CONTAINER) == most_threads_here()


async def test_in_a_container_a_fork_bomb_is_ended_by_counting_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bomb ends by itself: after nine generations nothing forks, and after five seconds nothing sleeps."""
    use_keeper(tmp_path, monkeypatch, IN_A_CONTAINER)
    bomb = (
        'bomb() { [ "$1" -gt 0 ] && { bomb $(($1 - 1)) & bomb $(($1 - 1)) & }; sleep 5; }; bomb 9'
    )
    scene = Scene(tmp_path)
    said = await scene.run(bomb, max_processes=40)

    assert scene.alive() == []
    assert said.splitlines()[-1] == "[stopped after T s: it had more than 40 processes at once]"


# ---------------------------------------------------------------------------------- what would not end


async def test_what_could_not_be_ended_is_not_told_as_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the keeper were root without the right to signal others. Its clock is fast: it gives up after ten seconds."""
    trick = (
        "import time\n"
        "os.kill = lambda *_: None\n"
        "clock = time.monotonic\n"
        "time.monotonic = lambda: 20 * clock()"
    )
    use_keeper(tmp_path, monkeypatch, trick)
    said = await Scene(tmp_path).run("sleep 1000 >/dev/null 2>&1 & echo $!", timeout=3_600)
    left, *notes = said.splitlines()
    os.kill(int(left), signal.SIGKILL)

    assert notes == [
        "[1 process of it could not be ended; tell a person]",
        "[exit code 0, T s]",
    ]
