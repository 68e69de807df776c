"""What a model reads of the Python it ran."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.limits import HANGS_S
from windlass import Agent, Runtime
from windlass.errors import ConfigError, ToolError
from windlass.guards.text import visible
from windlass.testing import ScriptedModel, call, say
from windlass.toolkit import run_python
from windlass.toolkit.run_python import python

LACKS = (
    "[This Python has no inheritance (so no exceptions, enums or typed dicts of your own), @property, @staticmethod or "
    "@classmethod, yield, del, async with, async for, except* or re.sub with a function. Use plain functions, lists, dicts "
    "and dataclasses.]"
)
DIVIDED = """before
Traceback (most recent call last):
  File "<python-input-0>", line 3, in <module>
    print(1 / 0)
          ~~~~~
ZeroDivisionError: division by zero"""
INHERITED = f"""Traceback (most recent call last):
  File "<python-input-0>", line 1, in <module>
    class A(list): pass
    ~~~~~~~~~~~~~~~~~~~
NotImplementedError: The monty syntax parser does not yet support class inheritance and metaclasses
{LACKS}"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('a', 1)\n[1, 'b']", "a 1\n=> [1, 'b']"),
        ("print('only printed')", "only printed"),
        ("6 * 7", "=> 42"),
        (
            "x = 1",
            "(It ran. Nothing was printed, and the last line is no expression with a value.)",
        ),
        ("2 ** (10**7)", "=> <int of 10,000,001 bits>"),
        ("'a\\x1b[31m\\u202eb'", "=> 'a\\x1b[31m\\u202eb'"),
        ("print('\\x1b[31mred\\x1b[0m \\u202e')", "red \ufffd"),
        ("'nothing \\u3164 to be seen'", "=> 'nothing \\u3164 to be seen'"),
        ("while True: pass", "[stopped after 0.5 s of running: do less at once]"),
        ("print('before')\n\nprint(1 / 0)", DIVIDED),
        ("class A(list): pass", INHERITED),
    ],
)
def test_what_it_prints_its_value_or_its_traceback(code: str, said: str) -> None:
    assert python(timeout=0.5)(code) == said


@pytest.mark.parametrize(
    ("code", "last"),
    [
        ("open('/etc/passwd')", "[This Python reaches no files, no network and no environment. Put the data into the code.]"),
        ("import os\nos.environ", "[This Python reaches no files, no network and no environment. Put the data into the code.]"),
        ("[0] * 10**9", "[the limit is 16 MiB of memory: work on less at once]"),
        ("print('x' * 10_000_000)", "[stopped: it printed more than 262,144 bytes: print less]"),
    ],
)  # fmt: skip
def test_what_it_cannot_have_is_said(code: str, last: str) -> None:
    assert python(memory_bytes=16 << 20)(code).splitlines()[-1] == last


def test_a_module_that_is_not_there_is_told_with_those_that_are() -> None:
    said = python()("import numpy").splitlines()

    assert said[-2] == "ModuleNotFoundError: No module named 'numpy'"
    told = said[-1].removeprefix("[Modules: ").partition(".")[0].split(", ")
    assert "json" in told
    for name in told:
        assert python()(f"import {name}\nprint(1)") == "1"


def test_a_long_traceback_and_long_output_are_cut() -> None:
    raised = python()("raise ValueError('x' * 1_000_000)")
    printed = python()("print('x' * 100_000)")

    assert raised.startswith("Traceback")
    assert len(raised) < 4_200
    assert "bytes are not shown here]" in printed
    assert len(printed) < 33_000


def test_a_huge_traceback_is_cut_before_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at each character of it would take seconds."""
    looked_at: list[int] = []

    def look(text: str, *, keep: str = "") -> str:
        looked_at.append(len(text))
        return visible(text, keep=keep)

    monkeypatch.setattr(run_python, "visible", look)
    said = python()("raise ValueError('\\u202e' * 1_000_000)")

    assert said.startswith("Traceback")
    assert said.endswith("\\u202e")
    assert len(said) < 4_200
    assert max(looked_at) < 5_000


def test_the_tool_is_pure_and_its_own_limit_comes_after_the_sandboxes() -> None:
    runner = python(timeout=10)

    assert (runner.effect, runner.approval, runner.risk) == ("pure", "never", "low")
    assert runner.timeout is not None
    assert runner.timeout > 10 + 5


async def test_a_turn_runs_it_like_any_tool() -> None:
    model = ScriptedModel([call("run_python", code="print(1)\n2"), say("ok")])
    async with Runtime(Agent("a", model=model, tools=[python()]), store="memory:") as rt:
        result = await rt.session("s").run("go")

    assert [one.outcome.value for one in result.tool_calls] == ["1\n=> 2"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("  \n", "code: found no text, wanted Python code"),
        ("a\0", "code: found NUL at character 1, wanted text without it"),
        ("\ud800", "code: found a lone surrogate at character 0, wanted text without it"),
        ("#" * 102_401, "code: found 102,401 bytes, wanted at most 102,400"),
    ],
)
def test_a_wrong_argument_is_told(code: str, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        python()(code)

    assert str(caught.value) == words
    assert caught.value.not_started


@pytest.mark.parametrize("options", [{"timeout": -1}, {"memory_bytes": 0}])
def test_a_wrong_option_is_refused_when_the_tool_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="sandbox: "):
        python(**options)


def test_making_the_tool_loads_no_interpreter() -> None:
    script = "import sys; from windlass.toolkit.run_python import python; python(); assert 'pydantic_monty' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=HANGS_S)
