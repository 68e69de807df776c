"""What a model reads of a command: its output in order, its exit code, and what to do next."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.toolkit.shell_scene import Scene
from windlass.errors import ConfigError, ToolError
from windlass.guards import Secret
from windlass.ports.tool import ToolContext
from windlass.toolkit import shell
from windlass.toolkit.shell.command import Bounds, Command
from windlass.toolkit.shell.transcript import Transcript


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo out; echo err >&2; echo more", "out\nerr\nmore\n[exit code 0, T s]"),
        ("echo no newline | tr -d '\\n'; exit 3", "no newline\n[exit code 3, T s]"),
        ("true", "(no output)\n[exit code 0, T s]"),
        ("kill -SEGV $$", "(no output)\n[ended by signal 11 (SIGSEGV), T s]"),
        ("cat; echo end of input", "end of input\n[exit code 0, T s]"),
        ("[ -t 0 ] || [ -t 1 ] || echo no terminal", "no terminal\n[exit code 0, T s]"),
        (r"printf '10%%\r50%%\r100%%\r\nready\r\n'", "100%\nready\n[exit code 0, T s]"),
        (r"printf '\033[1;31mred\033[0m \033]0;title\007\n'", "red \n[exit code 0, T s]"),
        (r"printf '\377\376\000\001ok\200\n'", "\ufffdok\ufffd\n[exit code 0, T s]"),
        (r"printf 'a\tb\n'", "a\tb\n[exit code 0, T s]"),
        (r"printf 'gr\303\274n \342\200\256 txt\n'", "grün \ufffd txt\n[exit code 0, T s]"),
        ("cd / && pwd", "/\n[exit code 0, T s]"),
        ("grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1\n[exit code 0, T s]"),
    ],
)
async def test_a_command_that_ran_is_told_with_its_output(
    scene: Scene, command: str, said: str
) -> None:
    assert await scene.run(command) == said


async def test_a_command_that_is_not_there_is_told_by_the_shell(scene: Scene) -> None:
    said = await scene.run("no-such-program")

    assert said.splitlines()[0].endswith("no-such-program: command not found") or (
        said.splitlines()[0].endswith("no-such-program: not found")
    )
    assert said.splitlines()[-1] == "[exit code 127, T s]"


async def test_long_output_keeps_its_beginning_and_its_end(scene: Scene) -> None:
    said = await scene.run("head -c 100000 /dev/zero | tr '\\0' x; echo; echo the end")

    head, note, tail, last, code = said.splitlines()
    assert (head, tail, last) == ("x" * 16_384, "x" * (16_384 - 9), "the end")
    assert note == "[67,241 of 100,009 bytes are not shown here]"
    assert code == "[exit code 0, T s]"


async def test_output_that_just_fits_is_whole(scene: Scene) -> None:
    said = await scene.run("head -c 32768 /dev/zero | tr '\\0' x")

    assert said == "x" * 32_768 + "\n[exit code 0, T s]"


async def test_one_file_and_one_process_are_bounded(scene: Scene) -> None:
    limits = {"max_file_bytes": 1 << 20, "memory_bytes": 64 << 20}
    said = await scene.run("head -c 100M /dev/zero > big", **limits)
    hog = await scene.run("head -c 8G /dev/zero | tail", **limits)

    assert (scene.folder / "big").stat().st_size == 1 << 20
    assert said.splitlines()[-1] in {"[exit code 153, T s]", "[ended by signal 25 (SIGXFSZ), T s]"}
    assert hog == (
        "(no output)\n[stopped after T s: its processes used more than 64 MiB of memory]"
    )


async def test_memory_that_is_reserved_and_not_touched_does_not_count(scene: Scene) -> None:
    """As address sanitizers, garbage collectors and stacks of many threads do."""
    private, anonymous, without_room = 0x02, 0x20, 0x4000
    flags = private | anonymous | without_room
    code = f"import mmap; mmap.mmap(-1, 8 << 30, flags={flags}); print('reserved')"
    said = await scene.run(f'{sys.executable} -S -c "{code}"', memory_bytes=1 << 30)

    assert said == "reserved\n[exit code 0, T s]"


async def test_a_command_sees_a_minimal_environment_and_no_key_of_the_host(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-host")
    said = await scene.run("env")
    of_the_keeper = await scene.run("tr '\\0' '\\n' </proc/$PPID/environ; echo read")

    names = {line.partition("=")[0] for line in said.splitlines()[:-1]}
    of_the_shell = {"_", "OLDPWD", "PWD", "SHLVL"}
    assert names - of_the_shell == {
        "HOME", "LANG", "LC_ALL", "PATH", "SCENE", "TERM", "WINDLASS_COMMAND",
    }  # fmt: skip
    assert "read\n" in of_the_keeper
    assert "sk-of-the-host" not in said + of_the_keeper
    assert "TERM=dumb\n" in said


async def test_a_secret_of_the_environment_is_used_and_not_shown(scene: Scene) -> None:
    token = Secret("correct horse", name="VAULT")
    runner = shell(scene.folder, env={"TOKEN": token, "PLAIN": "battery staple"})
    said = await runner.run(
        ToolContext(deps=None), {"command": "echo $TOKEN ${#TOKEN}; echo $PLAIN | tee kept"}
    )

    assert str(said).startswith("[VAULT] 13\nbattery staple\n[exit code 0")


async def test_an_environment_of_windlass_that_is_no_text_is_left_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/nowhere/\udcff:{os.defpath}")
    monkeypatch.setenv("HOME", "/srv/\udcff")
    said = await scene.run("echo $PATH $HOME")

    assert said == f"{os.defpath} /\n[exit code 0, T s]"


async def test_what_it_printed_is_read_off_the_event_loop(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    text = Transcript.text

    def look(self: Transcript) -> str:
        threads.append(threading.get_ident())
        return text(self)

    monkeypatch.setattr(Transcript, "text", look)

    assert await scene.run("echo a") == "a\n[exit code 0, T s]"
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_what_runs_is_shown_while_it_runs(tmp_path: Path) -> None:
    shown: list[str] = []

    def look(output: str) -> None:
        shown.append(output)
        (tmp_path / "seen").touch()

    command = Command(
        "echo working; while [ ! -e seen ]; do sleep 0.01; done; echo ready",
        folder=tmp_path,
        env={"PATH": os.defpath},
        bounds=Bounds(
            timeout_s=60, output_bytes=1000, memory_bytes=1 << 30, processes=9, file_bytes=0
        ),
        on_output=look,
    )
    ended = await asyncio.to_thread(command.run)

    assert shown[0] == "working\n"
    assert (ended.why, ended.code) == ("exit", 0)
    assert command.transcript.text() == "working\nready\n"


# ---------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"command": " \n"}, "command: found no text, wanted a command line. Nothing was run."),
        ({"command": "a\0b"}, "command: found NUL at character 1"),
        ({"command": "a\ud800"}, "command: found a lone surrogate at character 1"),
        ({"command": "x" * 102_401}, "command: found 102,401 bytes, wanted at most 102,400."),
        ({"command": "ls", "timeout": 0}, "timeout: found 0, wanted seconds above 0, up to 120."),
        ({"command": "ls", "timeout": -1.5}, "timeout: found -1.5, wanted seconds above 0"),
        ({"command": "ls", "timeout": 121}, "timeout: found 121, wanted seconds above 0"),
    ],
)
async def test_a_wrong_argument_is_told_and_nothing_is_run(
    tmp_path: Path, args: dict[str, Any], words: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await shell(tmp_path).run(ToolContext(deps=None), args)

    assert str(caught.value).startswith(words)
    assert "Nothing was run." in str(caught.value)
    assert caught.value.not_started


async def test_the_longest_command_runs(tmp_path: Path) -> None:
    command = f"echo {'x' * 102_000} | wc -c"
    said = await shell(tmp_path).run(ToolContext(deps=None), {"command": command})

    assert str(said).startswith("102001\n")


async def test_the_largest_variable_is_handed_on(scene: Scene) -> None:
    said = await shell(scene.folder, env={"A": "é" * 65_534 + "x"}).run(
        ToolContext(deps=None), {"command": "echo $A | wc -c"}
    )

    assert str(said).startswith("131070\n")


async def test_a_folder_that_is_gone_is_told_without_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    runner = shell(folder)
    folder.rmdir()
    with pytest.raises(ToolError) as caught:
        await runner.run(ToolContext(deps=None), {"command": "ls"})

    assert str(caught.value) == (
        "The folder in which commands run is gone. Nothing was run; tell the person you work for."
    )
    assert caught.value.not_started


async def test_a_folder_that_goes_while_the_command_runs_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    runner = shell(tmp_path / "work")
    said = await runner.run(ToolContext(deps=None), {"command": 'rmdir "$PWD" && echo gone'})

    assert str(said).startswith("gone\n[exit code 0")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "shell: timeout: found 0, wanted seconds above 0, up to a week"),
        ({"timeout": float("nan")}, "shell: timeout: found nan, wanted seconds"),
        ({"timeout": "1"}, "shell: timeout: found str, wanted seconds"),
        ({"memory_bytes": 1}, "shell: memory_bytes: found 1, wanted a whole number, 67,108,864"),
        ({"max_processes": True}, "shell: max_processes: found bool, wanted a whole number"),
        ({"max_output_bytes": 0}, "shell: max_output_bytes: found 0, wanted"),
        ({"max_file_bytes": -1}, "shell: max_file_bytes: found -1, wanted"),
        ({"env": ["A=b"]}, "shell: env: found list, wanted a mapping of names to texts"),
        ({"env": {"A=": "b"}}, "shell: env: found a name that is empty or has a `=`"),
        ({"env": {"A": 1}}, "shell: env: found int, wanted text"),
        ({"env": {"A": "\0"}}, "shell: env: found NUL at character 0"),
        ({"env": {"A": Secret("a\0long one")}}, "shell: env: found NUL at character 1"),
        (
            {"env": {"A": "é" * 65_535}},
            "shell: env: found a variable of 131,072 bytes, wanted at most 131,071 for name, `=` and value",
        ),
    ],
)
def test_a_wrong_option_is_refused_when_the_tool_is_made(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        shell(tmp_path, **options)

    assert str(caught.value).startswith(words)


def test_a_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shell: root: found no folder there"):
        shell(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="shell: root: found no folder there"):
        shell("a\0b")
    with pytest.raises(ConfigError, match="shell: root: found int, wanted a path"):
        shell(1)  # type: ignore[arg-type]  # what is refused


def test_a_platform_without_subreapers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="shell: found darwin, wanted Linux with /proc"):
        shell(tmp_path)


def test_by_default_a_person_is_asked_and_a_crash_leaves_it_unknown(tmp_path: Path) -> None:
    runner = shell(tmp_path)

    assert (runner.effect, runner.approval, runner.risk) == ("once", "ask", "high")
    assert runner.sequential
    # The body ends a command in time by itself: the tool's own limit comes later.
    assert runner.timeout is not None
    assert runner.timeout > 120 + 2 + 5
