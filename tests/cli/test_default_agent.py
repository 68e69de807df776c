"""The default agent: its tools only look, and only where they may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from windlass.cli.agents import default_agent
from windlass.cli.default_tools import MAX_BYTES, Workspace
from windlass.errors import ToolError
from windlass.models.arithmetic import evaluate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "project"
    (inside / "src").mkdir(parents=True)
    (inside / "src" / "a.txt").write_text("hello", encoding="utf-8")
    (inside / ".env").write_text("KEY=1", encoding="utf-8")
    (inside / ".git").mkdir()
    (inside / ".git" / "config").write_text("x", encoding="utf-8")
    (tmp_path / "outside.txt").write_text("secret", encoding="utf-8")
    (inside / "way_out").symlink_to(tmp_path / "outside.txt")
    (inside / "way_in").symlink_to(inside / "src" / "a.txt")
    (inside / "binary").write_bytes(b"a\x00b")
    os.mkfifo(inside / "pipe")
    return inside


def test_files_below_the_folder_are_read(folder: Path) -> None:
    assert Workspace(folder).read("src/a.txt") == "hello"
    assert Workspace(folder).read("./src/../src/a.txt") == "hello"
    assert Workspace(folder).read("way_in") == "hello"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("../outside.txt", "outside of the folder"),
        ("/etc/passwd", "outside of the folder"),
        ("way_out", "outside of the folder"),
        (".env", "hidden"),
        (".git/config", "hidden"),
        ("src/none.txt", "no such file"),
        ("a\x00b", "no such file"),
        ("src", "directory|not a regular file"),
        ("pipe", "not a regular file"),
        ("binary", "not a text file"),
    ],
)
def test_nothing_else_is_read(folder: Path, name: str, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        Workspace(folder).read(name)


def test_a_long_file_is_cut_and_says_so(folder: Path) -> None:
    (folder / "long.txt").write_text("x" * (MAX_BYTES + 7), encoding="utf-8")

    assert Workspace(folder).read("long.txt") == "x" * MAX_BYTES + "\n[7 more bytes]"


def test_a_folder_is_listed_without_what_is_hidden(folder: Path) -> None:
    assert Workspace(folder).names() == ["binary", "pipe", "src/", "way_in", "way_out"]
    with pytest.raises(ToolError, match="outside"):
        Workspace(folder).names("..")


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("2 + 3 * 4", 14),
        ("(17 + 4) / 2", 10.5),
        ("2 ^ 10", 1024),
        ("-7 // 2", -4),
        ("sqrt(16) + max(1, 2)", 6.0),
        ("round(pi, 2)", 3.14),
    ],
)
def test_expressions_are_calculated(expression: str, result: float) -> None:
    assert evaluate(expression) == result


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "().__class__",
        "open('/etc/passwd')",
        "9 ** 9 ** 9",
        "2 ** 100000",
        "'a' * 10",
        "[1] * 10",
        "1 if True else 2",
        "lambda: 1",
        "1 / 0",
        "1e400",
        "(-1) ** 0.5",
        "sqrt(-1)",
        "1 +",
        "round(1, ndigits=2)",
        "(" * 300 + "1" + ")" * 300,
        "1" * 501,
    ],
)
def test_what_is_no_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(ToolError):
        evaluate(expression)


def test_no_tool_of_it_acts_on_the_world() -> None:
    agent = default_agent("demo")

    assert {tool.spec.name: tool.effect for tool in agent.toolbox} == {
        "clock": "pure",
        "calculate": "pure",
        "read_file": "pure",
        "list_files": "pure",
    }


def test_a_model_that_cannot_choose_between_tools_gets_none() -> None:
    assert list(default_agent("local:smollm2").toolbox) == []
