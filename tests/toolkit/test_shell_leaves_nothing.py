"""When a command has a result, nothing of it is left: not in the background, not detached, not deaf to signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.toolkit.shell_scene import UP, Scene
from windlass import Agent, Runtime
from windlass.ports.tool import ToolContext
from windlass.testing import ScriptedModel, call, say
from windlass.toolkit import shell
from windlass.toolkit.shell import keeper

# It detaches as daemons do: two forks, a session of its own, no open files, deaf to signals.
DAEMON = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
open("up", "w").close()
os.closerange(0, 100)
time.sleep(1000)
"""
# Its first thread ends and another goes on: the kernel then shows the process as a zombie.
HEADLESS = """
import ctypes, os, threading, time
os.setsid()
threading.Thread(target=time.sleep, args=(1000,)).start()
open("up", "w").close()
ctypes.CDLL(None).pthread_exit(None)
"""
WAIT = "while [ ! -e up ]; do sleep 0.01; done"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1000 & touch up",
        "nohup sleep 1000 >/dev/null 2>&1 & touch up",
        "setsid sleep 1000 & touch up",
        "(setsid nohup sleep 1000 & ) ; touch up",
        "env -i setsid sh -c 'sleep 1000; :' $SCENE & touch up",
        "(trap '' TERM HUP INT; touch up; while :; do sleep 1000; done) & :",
        "sleep 1000 & kill -STOP $!; touch up",
        f"{sys.executable} -c '{DAEMON}' $SCENE",
    ],
    ids=["background", "nohup", "setsid", "orphan", "clean", "deaf", "stopped", "daemon"],
)
async def test_what_a_command_leaves_running_is_ended_and_told(scene: Scene, command: str) -> None:
    said = await scene.run(f"{command}\n{WAIT}\necho done")

    assert scene.alive() == []
    lines = said.splitlines()
    assert lines[0] == "done"
    assert lines[1] in {
        "[1 process that the command left running, ended now]",
        "[2 processes that the command left running, ended now]",  # a shell and what it waits for
    }
    assert lines[2:] == ["[exit code 0, T s]"]


async def test_a_process_without_its_first_thread_is_ended_like_any_other(scene: Scene) -> None:
    (scene.folder / "headless.py").write_text(HEADLESS)
    line = (
        f"exec 9>pipe; {sys.executable} -S headless.py >/dev/null 2>&1 & \n"
        f"{WAIT}; while ! grep -q zombie /proc/$!/status; do sleep 0.01; done; {UP}"
    )
    said, _ = await asyncio.gather(scene.run(line), asyncio.to_thread(scene.wait_until_up))
    await asyncio.to_thread(scene.wait_until_gone)

    assert said == (
        "(no output)\n[1 process that the command left running, ended now]\n[exit code 0, T s]"
    )


async def test_a_filter_that_still_writes_may_finish(scene: Scene) -> None:
    said = await scene.run("echo first > >(sleep 0.02; cat; echo last)")

    assert said == "first\nlast\n[exit code 0, T s]"


async def test_a_fork_bomb_is_ended_as_a_whole(scene: Scene) -> None:
    """The bomb ends by itself: after nine generations nothing forks, and after five seconds nothing sleeps."""
    bomb = (
        'bomb() { [ "$1" -gt 0 ] && { bomb $(($1 - 1)) & bomb $(($1 - 1)) & }; sleep 5; }; bomb 9'
    )
    said = await scene.run(bomb, max_processes=40)

    assert scene.alive() == []
    assert said.splitlines()[-1] == "[stopped after T s: it had more than 40 processes at once]"


async def test_processes_that_have_ended_and_are_not_waited_for_count_too(scene: Scene) -> None:
    """Each has a number of the machine, until its parent ends."""
    breeder = "import os, time; [os.fork() or os._exit(0) for _ in range(60)]; time.sleep(20)"
    said = await scene.run(f"{sys.executable} -S -c '{breeder}'", max_processes=40)

    assert said == ("(no output)\n[stopped after T s: it had more than 40 processes at once]")


def test_all_stand_still_before_the_first_is_killed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The top is not below itself: it stands still because its group does."""
    tell, states = keeper.tell, set[str]()

    def look(pids: Iterable[int], number: int) -> None:
        pids = list(pids)
        if number == signal.SIGKILL and pids:
            until = time.monotonic() + HANGS_S
            while set(scene.states()) != {"T"} and time.monotonic() < until:
                pass
            states.update(scene.states())
        tell(pids, number)

    monkeypatch.setattr(keeper, "tell", look)
    command = f"exec 9>pipe; sleep 1000 & setsid sleep 1001 & {UP}; wait"
    env = {"PATH": os.defpath, "SCENE": scene.token}
    with subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=scene.folder, env=env, start_new_session=True
    ) as top:
        scene.wait_until_up()
        keeper.freeze_and_kill(top.pid, until=keeper.give_up_at(HANGS_S))
    scene.wait_until_gone()

    assert states == {"T"}
    assert top.returncode == -signal.SIGKILL
    assert scene.alive() == []


def test_a_process_that_goes_over_to_another_program_is_found_by_its_mark(scene: Scene) -> None:
    """Meanwhile it has no environment, and so no mark. Here that takes longer than in an `exec`."""
    later = f"exec 9>pipe; {UP}; sleep 0.2; SCENE={scene.token} MARK=7 exec sleep 1000"
    with subprocess.Popen(["/usr/bin/env", "-i", "/bin/sh", "-c", later], cwd=scene.folder) as late:
        scene.wait_until_up()
        until = keeper.give_up_at(HANGS_S)
        keeper.freeze_and_kill(1_000_000_000, until=until, mark=b"MARK=7")
        late.terminate()

    assert late.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("n_lines", "step"), [(1, "pass"), (60, "os.setsid(); time.sleep(0.02)")], ids=["fast", "apart"]
)
async def test_what_flees_by_forking_and_exiting_is_caught(
    scene: Scene, n_lines: int, step: str
) -> None:
    """One line forks as fast as it can; the other ones leave their session each time. They end after twenty seconds."""
    flight = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "end = time.monotonic() + 20\n"
        f"for _ in range({n_lines}):\n"
        "    if os.fork(): continue\n"
        "    while time.monotonic() < end:\n"
        "        if os.fork(): os._exit(0)\n"
        f"        {step}\n"
        "    os._exit(0)\n"
    )
    said = await scene.run(f"{sys.executable} -S -c '{flight}' $SCENE; echo away")

    assert scene.alive() == []
    assert said.splitlines()[0] == "away"
    assert "could not be ended" not in said


async def test_the_time_limit_ends_what_ignores_every_signal_that_can_be_ignored(
    scene: Scene,
) -> None:
    deaf = "trap '' TERM HUP INT; echo deaf; while :; do sleep 1000 & wait; done"
    said = await scene.run(deaf, seconds=0.3)

    assert scene.alive() == []
    assert said == (
        "deaf\n[stopped after 0.3 s, the time limit; its work may be half done; `timeout` may be up to 120]"
    )


async def test_what_is_stopped_may_first_clear_up(scene: Scene) -> None:
    tidy = "trap 'echo cleared; exit' TERM; touch lock; sleep 1000 & wait"
    said = await scene.run(tidy, seconds=1, approval="never")

    assert said.startswith("cleared\n[stopped after 1 s")


async def test_a_cancelled_call_returns_when_its_command_is_gone(scene: Scene) -> None:
    runner = shell(scene.folder, env={"SCENE": scene.token})
    command = f"exec 9>pipe; setsid sleep 1000 & {UP}; trap '' TERM; while :; do sleep 1000; done"
    task = asyncio.create_task(runner.run(ToolContext(deps=None), {"command": command}))
    await asyncio.to_thread(scene.wait_until_up)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert scene.alive() == []
    await asyncio.to_thread(scene.wait_until_gone)


async def test_a_cancelled_turn_ends_the_command_and_its_outcome_is_unknown(scene: Scene) -> None:
    command = f"exec 9>pipe; setsid sleep 1000 & {UP}; sleep 1001"
    agent = Agent(
        "a",
        model=ScriptedModel([call("run_command", command=command), say("never")]),
        tools=[shell(scene.folder, approval="never", env={"SCENE": scene.token})],
    )
    async with Runtime(agent, store="memory:") as rt:
        turn = asyncio.create_task(rt.session("s").run("go", turn_id="t"))
        await asyncio.to_thread(scene.wait_until_up)
        await rt.cancel("s", "t")
        result = await asyncio.wait_for(turn, HANGS_S)
        await asyncio.to_thread(scene.wait_until_gone)

    assert getattr(result.outcome, "reason", None) == "cancelled"
    assert [one.outcome.status for one in result.tool_calls] == ["unknown"]
    assert scene.alive() == []


async def test_a_command_costs_no_file_and_leaves_no_zombie(scene: Scene) -> None:
    def mine() -> tuple[int, list[int]]:
        children = [pid for pid, one in keeper.everybody().items() if one.parent == os.getpid()]
        return len(list(Path("/proc/self/fd").iterdir())), children

    await scene.run("true")
    before = mine()
    await scene.run("sleep 1000 & echo a")
    await scene.run("yes", max_output_bytes=100_000)
    await scene.run("sleep 1000", seconds=0.1)

    assert mine() == before


def test_commands_run_in_any_thread_and_several_at_once(scene: Scene) -> None:
    said: list[str] = []

    async def several() -> None:
        said.extend(await asyncio.gather(*[scene.run(f"echo {n}") for n in range(5)]))

    thread = threading.Thread(target=lambda: asyncio.run(several()))
    thread.start()
    thread.join(HANGS_S)

    assert said == [f"{n}\n[exit code 0, T s]" for n in range(5)]


async def test_endless_output_ends_the_command(scene: Scene) -> None:
    said = await scene.run("yes", max_output_bytes=1_000_000)

    assert scene.alive() == []
    assert said.startswith("y\ny\ny\n")
    assert said.endswith(
        "[stopped after T s: it printed more than 976.6 KiB; write long output to a file]"
    )


async def test_processes_that_use_too_much_memory_together_are_ended(scene: Scene) -> None:
    hog = f"{sys.executable} -S -c 'import time; hog = bytearray(40 << 20); time.sleep(20)'"
    said = await scene.run(" & ".join([hog] * 5) + " & wait", memory_bytes=100 << 20)

    assert scene.alive() == []
    assert (
        said == "(no output)\n[stopped after T s: its processes used more than 100 MiB of memory]"
    )
