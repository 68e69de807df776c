"""A command that disturbs its keeper: windlass ends what it finds, is held up by nothing, and calls the outcome unknown."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.toolkit.shell_scene import UP, Scene
from windlass.errors import ToolUncertain
from windlass.ports.tool import ToolContext
from windlass.toolkit import shell
from windlass.toolkit.shell import command as command_module
from windlass.toolkit.shell import keeper
from windlass.toolkit.shell.command import Bounds, Command

LOST = (
    "The process that watches over the command was killed or disturbed. What was found of the command was ended, but it is "
    "not known how far it came. Its last output:\nsaid\n"
)
BOUNDS = Bounds(
    timeout_s=3_600, output_bytes=100_000, memory_bytes=1 << 30, processes=99, file_bytes=0
)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """In its folder, `orders` and `report` lead to the ends of the keeper's pipes that windlass holds: any command may open them."""
    real = subprocess.Popen

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started = real(*args, **options)
        for name, end in (("orders", started.stdin), ("report", started.stdout)):
            assert end is not None
            (tmp_path / name).symlink_to(f"/proc/{os.getpid()}/fd/{end.fileno()}")
        return started

    monkeypatch.setattr(subprocess, "Popen", start)
    return Scene(tmp_path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windlass gives up soon on a keeper that does not answer."""
    monkeypatch.setattr(command_module, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(command_module, "_PROGRESS_S", 0.1)
    monkeypatch.setattr(keeper, "KILL_S", 0.1)
    monkeypatch.setitem(keeper.GRACE_S, "time", 0.1)


def a_command(scene: Scene, line: str, *, on_output: Callable[[str], None]) -> Command:
    env = {"PATH": os.defpath, "SCENE": scene.token}
    return Command(line, folder=scene.folder, env=env, bounds=BOUNDS, on_output=on_output)


async def test_a_killed_keeper_is_noticed_and_what_is_found_is_ended(scene: Scene) -> None:
    command = (
        "echo said; setsid sleep 1000 & exec 9>pipe; env -i sh -c 'sleep 1001; :' $SCENE & "
        f"{UP}; sleep 0.1; kill -9 $PPID; sleep 1002"
    )
    looking = asyncio.to_thread(scene.wait_until_up)
    with pytest.raises(ToolUncertain) as caught:
        await asyncio.gather(scene.run(command), looking)
    await asyncio.to_thread(scene.wait_until_gone)

    assert scene.alive() == []
    assert str(caught.value) == LOST


@pytest.mark.parametrize(
    "words",
    [
        "echo foreign",
        "printf 'foreign\\377\\n'",
        "echo '\"foreign\\xff\"'",
        'echo \'{"why": "foreign"}\'',
        'echo \'{"failed": "foreign"}\'',
        "echo '{\"session\": 1}'",
        "tr '\\0' f </dev/zero",
    ],
    ids=["words", "bytes", "text", "reason", "failed", "session", "endless"],
)
async def test_foreign_words_in_the_report_leave_the_outcome_unknown(
    scene: Scene, words: str
) -> None:
    """The command acted, so no words of it may make that an error."""
    with pytest.raises(ToolUncertain) as caught:
        await scene.run(f"touch acted; echo said; {words} >report; sleep 1000")

    assert (scene.folder / "acted").exists()
    assert scene.alive() == []
    assert str(caught.value) == LOST


@pytest.mark.parametrize("why", ['"why": "exit", "code": 0', '"why": "exit", "failed": "foreign"'])
@pytest.mark.parametrize(
    "then",
    ["sleep 1000", "true", "kill -9 $PPID; sleep 1000", "kill -STOP $PPID; sleep 1000"],
    ids=["goes on", "ends", "kills", "stops"],
)
async def test_a_false_report_that_it_has_ended_leaves_the_outcome_unknown(
    scene: Scene, impatient: None, why: str, then: str
) -> None:
    """It reads as a report of the keeper does. The process in a session of its own is found by its mark."""
    line = f"setsid sleep 1001 & echo said; echo '{{{why}}}' >report; {then}"
    with pytest.raises(ToolUncertain) as caught:
        await scene.run(line, timeout=3_600)

    assert scene.alive() == []
    assert str(caught.value) == LOST


async def test_the_number_of_a_keeper_is_not_free_while_its_command_is_searched(
    scene: Scene, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets signals meanwhile. As a zombie it takes none, and no other process has its number."""
    states: list[str] = []
    search = keeper.freeze_and_kill

    def look(of: int, **options: Any) -> None:
        states.append(keeper.everybody()[of].state)
        search(of, **options)

    monkeypatch.setattr(keeper, "freeze_and_kill", look)
    line = """echo '{"why": "exit"}' >report; kill -9 $PPID; sleep 1000"""
    with pytest.raises(ToolUncertain):
        await scene.run(line)

    assert states == ["Z"]
    assert scene.alive() == []


async def test_where_the_kernel_reaps_every_child_a_command_has_its_result(
    scene: Scene, impatient: None
) -> None:
    """Then the exit code of the keeper is lost."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        said = await scene.run("echo said; exit 3")
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert said == "said\n[exit code 3, T s]"


@pytest.mark.parametrize("quiet", ["exec >log 2>&1", "exec >&- 2>&-"], ids=["log", "closed"])
async def test_a_command_that_gives_its_output_away_is_not_taken_for_lost(
    scene: Scene, impatient: None, quiet: str
) -> None:
    """It runs longer than windlass waits for a keeper that does not answer."""
    assert await scene.run(f"{quiet}; sleep 1; exit 3") == "(no output)\n[exit code 3, T s]"


async def test_foreign_words_among_the_orders_are_ignored(scene: Scene) -> None:
    words = r"echo foreign; echo exit; echo time; printf '\377\n'; printf foreign"
    said = await scene.run(f"({words}) >orders; cat pipe & sleep 0.2; echo on; kill $!")

    assert said == "on\n[exit code 0, T s]"


async def test_foreign_words_before_an_order_do_not_hide_it(scene: Scene) -> None:
    said = await scene.run("printf foreign >orders; yes", max_output_bytes=100_000)

    assert said.endswith("it printed more than 97.66 KiB; write long output to a file]")


async def test_a_stopped_keeper_holds_nothing_up(scene: Scene, impatient: None) -> None:
    with pytest.raises(ToolUncertain):
        await scene.run(
            "env -i setsid sh -c 'sleep 1000; :' $SCENE & kill -STOP $PPID; sleep 1001", timeout=0.3
        )

    assert scene.alive() == []


def test_orders_that_cannot_be_delivered_do_not_hold_up_who_stops_it(
    scene: Scene, impatient: None
) -> None:
    line = "kill -STOP $PPID; yes >orders"
    command = a_command(scene, line, on_output=lambda _: None)
    raised: list[Exception] = []

    def run() -> None:
        try:
            command.run()
        except ToolUncertain as error:
            raised.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    wait_until(lambda: command._orders is not None)
    orders = command._orders
    assert orders is not None
    wait_until(lambda: not select.select((), (orders,), (), 0)[1])
    stopping = threading.Thread(target=command.stop, daemon=True)
    stopping.start()
    stopping.join(HANGS_S)
    assert not stopping.is_alive()
    running.join(HANGS_S)

    assert len(raised) == 1
    assert scene.alive() == []


async def test_an_order_that_cannot_be_delivered_does_not_hold_up_who_reads_the_output(
    scene: Scene, impatient: None
) -> None:
    line = "kill -STOP $PPID; (yes >orders &); sleep 0.3; yes"
    with pytest.raises(ToolUncertain):
        await asyncio.wait_for(scene.run(line, max_output_bytes=100_000, timeout=3_600), HANGS_S)

    assert scene.alive() == []


@pytest.mark.parametrize("n_taken", [1, 1_000], ids=["once", "always"])
async def test_an_order_that_the_command_takes_away_is_told_again(
    scene: Scene, impatient: None, monkeypatch: pytest.MonkeyPatch, n_taken: int
) -> None:
    """As if a process of the command had read the pipe first."""
    thief = (
        "import os, runpy\n"
        "read, taken = os.read, []\n"
        "def take(fd, n):\n"
        "    told = read(fd, n)\n"
        f"    if b'\\nstop' not in told or len(taken) >= {n_taken}: return told\n"
        "    taken.append(told)\n"
        "    return b'\\n'\n"
        "os.read = take\n"
        f"runpy.run_path({keeper.__file__!r}, run_name='__main__')\n"
    )
    (scene.folder / "thief.py").write_text(thief)
    monkeypatch.setattr(keeper, "__file__", str(scene.folder / "thief.py"))
    runner = shell(scene.folder, env={"SCENE": scene.token}, timeout=3_600)
    line = f"exec 9>pipe; {UP}; sleep 1000"
    task = asyncio.create_task(runner.run(ToolContext(deps=None), {"command": line}))
    await asyncio.to_thread(scene.wait_until_up)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert scene.alive() == []
    await asyncio.to_thread(scene.wait_until_gone)


def test_an_error_of_windlass_itself_leaves_the_outcome_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command runs already, so it is no error that lets a model try again."""
    monkeypatch.setattr(command_module, "_PROGRESS_S", 0)

    def fail(output: str) -> None:
        raise OSError(24, "Too many open files")

    with pytest.raises(ToolUncertain) as caught:
        a_command(scene, "touch acted; echo said; sleep 1000", on_output=fail).run()

    assert (scene.folder / "acted").exists()
    assert scene.alive() == []
    assert str(caught.value) == (
        "windlass failed while the command ran (OSError). What was found of the command was ended, but it is not "
        "known how far it came. Its last output:\nsaid\n"
    )


def test_a_report_that_waits_is_read_although_the_time_is_over(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if windlass had been stopped while the command ended."""
    late, others = 0.0, keeper.descendants(os.getpid())
    clock = command_module._clock
    monkeypatch.setattr(command_module, "_clock", lambda: clock() + late)
    monkeypatch.setattr(command_module, "_PROGRESS_S", 0)

    def wait_for_the_end(output: str) -> None:
        nonlocal late
        (scene.folder / "seen").touch()
        wait_until(lambda: keeper.descendants(os.getpid()) <= others)
        late = 100_000

    line = "echo first; while [ ! -e seen ]; do sleep 0.01; done; echo last"
    command = a_command(scene, line, on_output=wait_for_the_end)
    ended = command.run()

    assert (ended.why, ended.code) == ("exit", 0)
    assert command.transcript.text() == "first\nlast\n"


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + HANGS_S
    while not holds():
        assert time.monotonic() < until
