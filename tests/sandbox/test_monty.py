"""The sandbox: what code may not reach, what it may not use up, and what comes back of it."""

from __future__ import annotations

import datetime
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from windlass.errors import ConfigError
from windlass.sandbox import Monty, Ran, written
from windlass.toolkit.shell.keeper import descendants


@pytest.fixture
def sandbox() -> Monty:
    return Monty(timeout=0.5, memory_bytes=32 << 20, output_bytes=100_000)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1 + 1", 2),
        ("[n * n for n in range(4)]", [0, 1, 4, 9]),
        ("{'a': (1, None), 'b': {2}}", {"a": (1, None), "b": {2}}),
        ("x = 3", None),
        ("sum(prices) / len(prices)", 2.5),
        ("import datetime\ndatetime.date(2024, 2, 28) + datetime.timedelta(days=2)", datetime.date(2024, 3, 1)),
        ("import re\nre.findall(r'\\d+', 'a1b22')", ["1", "22"]),
        ("import json\njson.loads('[1, {\"a\": 2.5}]')", [1, {"a": 2.5}]),
        ("def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(15)", 610),
        ("import time\nbegan = time.time()\ntime.sleep(5)\ntime.time() - began < 5", True),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(1000)\n    return 7\nawait f()", 7),
    ],
)  # fmt: skip
def test_plain_programs_give_their_value(sandbox: Monty, code: str, value: object) -> None:
    ran = sandbox.run(code, {"prices": [2, 3]})

    assert ran == Ran(output="", value=value)


def test_what_was_printed_comes_back_also_before_an_error(sandbox: Monty) -> None:
    ran = sandbox.run("print('one', 1)\nprint('two')\n1 / 0")

    assert ran.output == "one 1\ntwo\n"
    assert ran.ending == "raised"
    assert ran.error is not None
    assert ran.error.splitlines()[1:4] == [
        '  File "<python-input-0>", line 3, in <module>',
        "    1 / 0",
        "    ~~~~~",
    ]


def test_one_piece_of_code_knows_nothing_of_another(sandbox: Monty) -> None:
    sandbox.run("kept = 1")

    assert "NameError: name 'kept' is not defined" in str(sandbox.run("kept").error)


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "open('/tmp/planted', 'w').write('x')",
        "import os\nos.environ['HOME']",
        "import os\nos.getenv('HOME')",
        "import os\nos.listdir('/')",
        "import os\nos.system('id')",
        "import os\nos.kill(1, 9)",
        "import pathlib\npathlib.Path('/etc/passwd').read_text()",
        "import pathlib\nlist(pathlib.Path('/').iterdir())",
        "import subprocess",
        "import socket",
        "import ctypes",
        "import urllib.request",
        "import sys\nsys.modules['os']",
        "import sys\nsys._getframe()",
        "__import__('os')",
        "__builtins__",
        "globals()",
        "().__class__.__bases__[0].__subclasses__()",
        "(lambda: 0).__globals__",
        "(lambda: 0).__code__.co_consts",
        "try:\n    1 / 0\nexcept Exception as error:\n    error.__traceback__.tb_frame",
        "eval('open(\"/etc/passwd\")')",
        "exec('import socket')",
    ],
)
def test_code_reaches_nothing_outside(sandbox: Monty, code: str) -> None:
    ran = sandbox.run(code)

    assert ran.ending == "raised", ran
    assert ran.value is None
    assert not Path("/tmp/planted").exists()


@pytest.mark.parametrize(
    ("code", "endings"),
    [
        ("while True:\n    pass", {"time"}),
        ("while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass", {"time"}),
        ("n = 0\nfor _ in range(10**12):\n    n += 1", {"time"}),
        ("import time\nwhile time.time() > 0:\n    time.sleep(1)", {"time", "raised"}),
        ("x = [0] * 10**9", {"memory"}),
        ("x = 'x' * 10**10", {"memory"}),
        ("x = []\nwhile True:\n    x.append('x' * 1000)", {"memory"}),
        ("f'{1:>1000000000}'", {"memory"}),
        ("x = 10 ** 10**9", {"memory", "time", "raised"}),
        ("x = list(range(10**9))", {"memory", "time"}),
        ("x = {}\nfor n in range(10**9):\n    x[n] = str(n)", {"memory", "time"}),
        ("a = 'x' * 20_000_000\na", {"memory"}),
        ("def f():\n    return f()\nf()", {"raised"}),
        ("(" * 10_000 + ")" * 10_000, {"refused"}),
        ("-" * 100_000 + "1", {"refused"}),
        ("import json\njson.loads('[' * 100_000)", {"raised"}),
        ("while True:\n    print('x' * 1000)", {"flood", "time"}),
        ("print('x' * 10_000_000)", {"flood"}),
        ("raise SystemExit", {"raised"}),
        ("raise KeyboardInterrupt", {"raised"}),
        ("raise ValueError('x' * 1_000_000)", {"raised"}),
        ("class Error(Exception):\n    pass", {"refused"}),
        ("\0", {"refused"}),
        ("\ud800", {"refused"}),
    ],
)  # fmt: skip
def test_a_bomb_is_an_answer_and_harms_nobody(sandbox: Monty, code: str, endings: set[str]) -> None:
    ran = sandbox.run(code)

    assert ran.ending in endings, ran.error
    assert ran.error
    assert len(ran.output) <= 100_000 + 65_536
    assert sandbox.run("1 + 1").value == 2


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("2 ** (10**7)", "<int of 10,000,001 bits>"),
        ("a = []\na.append(a)\na", "['[...]']"),
        ("a = []\nfor _ in range(100_000):\n    a = [a]\na", "[" * 51 + "…" + "]" * 51),
        ("('x',), set(), frozenset([1]), {}", "(('x',), set(), frozenset({1}), {})"),
        ("from collections import namedtuple\nnamedtuple('P', 'x y')(1, [2])", "P(x=1, y=[2])"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: str\nP(1, 'a')", "P(x=1, y='a')"),
        ("class A:\n    pass\nA()", "<A object>"),
        ("ValueError('no')", "ValueError('no')"),
        ("[1.5, True, None, b'a', 'it\\'s']", "[1.5, True, None, b'a', \"it's\"]"),
    ],
)  # fmt: skip
def test_a_value_is_written_as_python_would(sandbox: Monty, code: str, shown: str) -> None:
    assert written(sandbox.run(code).value) == shown


@pytest.mark.parametrize(
    "value",
    ["x" * 1_000_000, [0] * 1_000_000, {n: n for n in range(100_000)}, {"x" * 100_000: 1}],
)
def test_a_long_value_is_cut(value: object) -> None:
    shown = written(value, most=100)

    assert len(shown) == 101
    assert shown.endswith("…")


def test_a_value_that_shares_its_parts_is_not_written_out(sandbox: Monty) -> None:
    """Forty lists that hold the one before twice: written out, a million million of them."""
    ran = sandbox.run("a = [1]\nfor _ in range(40):\n    a = [a, a]\na")
    shown = written(ran.value, most=1_000)

    assert len(shown) == 1_001
    assert shown.startswith("[" * 41 + "1], [1]]")


def test_a_worker_that_is_killed_is_an_answer(sandbox: Monty, tmp_path: Path) -> None:
    """Another process kills every worker of the first, which waits for one."""
    script = (
        "import os, signal, sys, threading\n"
        "from windlass.sandbox import Monty\n"
        "from windlass.toolkit.shell.keeper import descendants\n"
        "def kill():\n"
        "    while not done.wait(0.01):\n"
        "        for pid in descendants(os.getpid()):\n"
        "            os.kill(pid, signal.SIGKILL)\n"
        "done = threading.Event()\n"
        "threading.Thread(target=kill).start()\n"
        "ran = Monty(timeout=20).run('while True: pass')\n"
        "done.set()\n"
        "print(ran.ending)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=HANGS_S, check=True
    )

    assert ended.stdout == "crashed\n"


def test_a_sandbox_that_cannot_start_is_an_answer(
    sandbox: Monty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONTY_BIN", "/nowhere/monty")
    ran = sandbox.run("1")

    assert (ran.ending, ran.value) == ("crashed", None)
    assert ran.error


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "a, b = [1], [1]\nfor _ in range(45):\n    a, b = [a, a], [b, b]\na == b"],
    ids=["loop", "builtin"],
)
def test_a_worker_is_gone_soon_after_its_host_was_killed(code: str) -> None:
    """Also if it is in a function that does not look at the time: then the kernel ends it."""
    script = (
        "import os, threading\n"
        "from pathlib import Path\n"
        "from windlass.sandbox import Monty\n"
        "from windlass.toolkit.shell.keeper import descendants\n"
        "def ticks(pid):\n"
        "    return int(Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[11])\n"
        f"thread = threading.Thread(target=lambda: Monty(timeout=1).run({code!r}))\n"
        "thread.start()\n"
        "while not (found := descendants(os.getpid())): pass\n"
        "while not all(ticks(pid) > 10 for pid in found): pass\n"
        "print(*found, flush=True)\n"
        "thread.join()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        workers = [os.pidfd_open(int(pid)) for pid in host.stdout.readline().split()]
        host.kill()
    assert len(workers) == 1
    for worker in workers:
        ready, _, _ = select.select([worker], [], [], HANGS_S)  # readable when it has ended
        if not ready:
            signal.pidfd_send_signal(worker, signal.SIGKILL)
        os.close(worker)
        assert ready


@pytest.mark.parametrize("has_prlimit", [True, False], ids=["linux", "elsewhere"])
def test_the_kernel_limits_the_processor_time_of_a_worker(
    monkeypatch: pytest.MonkeyPatch, has_prlimit: bool
) -> None:
    """Its limit is a little above what the code has; also where only a process itself can set it."""
    if not has_prlimit:
        monkeypatch.delattr(resource, "prlimit")
    before, limits = descendants(os.getpid()), set[str]()
    running = threading.Thread(target=Monty(timeout=0.5).run, args=("while True: pass",))
    running.start()
    while running.is_alive():
        for worker in descendants(os.getpid()) - before:
            with suppress(OSError):
                told = Path(f"/proc/{worker}/limits").read_text()
                limits.add(next(one for one in told.splitlines() if one.startswith("Max cpu")))

    assert {tuple(each.split()[3:5]) for each in limits} - {("unlimited",) * 2} == {("3", "3")}


# ---------------------------------------------------------------------------------- made


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "sandbox: timeout: found 0, wanted seconds above 0, up to 600"),
        ({"timeout": float("inf")}, "sandbox: timeout: found inf"),
        ({"timeout": None}, "sandbox: timeout: found NoneType"),
        ({"memory_bytes": 1_000}, "sandbox: memory_bytes: found 1000, wanted a whole number of 1,048,576"),
        ({"output_bytes": True}, "sandbox: output_bytes: found bool"),
        ({"recursion": 100_000}, "sandbox: recursion: found 100000, wanted a whole number of 1 to 1,000"),
    ],
)  # fmt: skip
def test_a_wrong_limit_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Monty(**options)

    assert str(caught.value).startswith(words)


def test_without_the_library_it_is_refused_when_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(ConfigError) as caught:
        Monty()

    assert str(caught.value).startswith("sandbox: pydantic-monty is not installed: pip")
    assert "[code]" in str(caught.value)


def test_the_library_is_not_loaded_before_code_runs() -> None:
    script = (
        "import sys\n"
        "from windlass.sandbox import Monty\n"
        "sandbox = Monty()\n"
        "assert 'pydantic_monty' not in sys.modules\n"
        "assert sandbox.run('1').value == 1\n"
        "assert 'pydantic_monty' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=HANGS_S)
