"""The pytest plugin, in suites of users: real pytest processes, with and without a plugin for async tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.contracts.test_project_files import program, text_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "testing.md"

# What pytest-asyncio does in its automatic mode, as far as it matters here: its hook comes first and runs the test.
RUNS_ASYNC = """
import asyncio, inspect, pytest
ran = []

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        print("run by the other plugin")
        return True
"""
SUITES = {
    "nothing": (),
    "anyio": ("-p", "anyio.pytest_plugin"),
    "anyio-auto": ("-p", "anyio.pytest_plugin", "-o", "anyio_mode=auto"),
    "another": ("-p", "runs_async"),
}


def suite(folder: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests, encoding="utf-8")
    (folder / "runs_async.py").write_text(RUNS_ASYNC, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "windlass.pytest_plugin", *options]
    command += ["-p", "no:cacheprovider", "-W", "error", "-rA"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", SUITES)
def test_the_tests_of_the_page_pass_in_every_suite(tmp_path: Path, kind: str) -> None:
    done = suite(tmp_path, program(text_of(PAGE)), *SUITES[kind])

    assert "5 passed" in done.stdout, done.stdout
    assert (kind == "another") is ("run by the other plugin" in done.stdout)


SCRIPTS = '''
from windlass import Agent, tool
from windlass.testing import call, say

@tool
def look() -> str:
    """Look."""
    return "seen"

async def test_too_short(runtime, scripted):
    async with runtime(Agent("a", model=scripted([call("look")]), tools=[look])) as rt:
        result = await rt.session("s").run("Look.")
    assert result.tool_calls[0].outcome.value == "seen"

async def test_too_long(runtime, scripted):
    async with runtime(Agent("a", model=scripted([say("a"), say("b")], name="tall"))) as rt:
        await rt.session("s").run("Hi.")

async def test_its_own_failure(scripted):
    scripted([say("a")])
    assert 1 == 2

async def test_played(runtime, scripted):
    async with runtime(Agent("a", model=scripted([say("a")]))) as rt:
        await rt.session("s").run("Hi.")
'''


def test_a_script_that_is_not_played_to_its_end_fails_its_test(tmp_path: Path) -> None:
    done = suite(tmp_path, SCRIPTS)

    ran_out = "scripted: the script ran out: it has 1 reply, and was asked for 1 more"
    assert f"\n{ran_out}\n" in done.stdout
    left = "tall: 1 of 2 replies were never asked for"
    assert f"\n{left}\n" in done.stdout
    assert "FAILED test_it.py::test_its_own_failure - assert 1 == 2" in done.stdout
    assert "3 failed, 1 passed" in done.stdout


OTHERS = """
import sys, pytest

@pytest.fixture
def runtime():
    return "mine"

def test_own_fixture(runtime):
    assert runtime == "mine"

def test_nothing_was_loaded():
    loaded = sorted(name for name in sys.modules if name.startswith("windlass"))
    assert loaded == ["windlass", "windlass.errors", "windlass.pytest_plugin", "windlass.release"]

async def test_left_alone(runtime):
    raise AssertionError("nobody runs this")
"""


def test_suites_that_do_not_use_it_are_left_alone(tmp_path: Path) -> None:
    done = suite(tmp_path, OTHERS)

    assert "PASSED test_it.py::test_own_fixture" in done.stdout
    assert "PASSED test_it.py::test_nothing_was_loaded" in done.stdout
    # As without the plugin: pytest itself refuses the async test.
    assert "FAILED test_it.py::test_left_alone" in done.stdout
    assert "async def functions are not natively supported" in done.stdout
    assert "nobody runs this" not in done.stdout.partition("short test summary")[2]


def test_pytest_finds_it_by_its_entry_point() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert config["project"]["entry-points"]["pytest11"] == {"windlass": "windlass.pytest_plugin"}
    assert (ROOT / "src" / "windlass" / "pytest_plugin.py").is_file()
