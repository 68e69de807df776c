"""The size budget, and the faults that turn it red."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from scripts import shape

ROOT = Path(__file__).parents[2]


def write(folder: Path, name: str, source: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return path


def file_of(n_lines: int, docstring: str = '"""A noun."""') -> str:
    n_doc = len(docstring.splitlines())
    return "\n".join([docstring, *(f"x{i} = {i}" for i in range(n_lines - n_doc))]) + "\n"


def function_of(n_lines: int, indent: str = "", word: str = "def") -> str:
    body = "\n".join(f"{indent}    x{i} = {i}" for i in range(n_lines - 1))
    return f"{indent}{word} f():\n{body}\n"


REASONED = '"""A noun.\n\nLength: one table, read from top to bottom.\n"""'


@pytest.mark.parametrize(
    ("name", "source", "wanted"),
    [
        pytest.param("noun.py", file_of(401), "over 400 the module docstring says why", id="long"),
        pytest.param("noun.py", file_of(601), "over 600 no reason helps", id="too-long"),
        pytest.param("noun.py", file_of(601, REASONED), "over 600 no reason helps", id="reasoned"),
        pytest.param("noun.py", file_of(400, REASONED), "has done its work", id="stale-reason"),
        pytest.param(
            "noun.py",
            file_of(401, '"""A noun. Length: hidden in a sentence."""'),
            "over 400 the module docstring says why",
            id="reason-not-on-its-own-line",
        ),
        pytest.param(
            "noun.py",
            file_of(401, '"""A noun."""\n# Length: a comment is no docstring.'),
            "over 400 the module docstring says why",
            id="reason-in-a-comment",
        ),
        pytest.param(
            "noun.py", function_of(61), "f() has 61 lines; 60 is the limit", id="function"
        ),
        pytest.param(
            "noun.py", function_of(61, word="async def"), "f() has 61 lines", id="async-function"
        ),
        pytest.param(
            "noun.py", "class A:\n" + function_of(61, "    "), "f() has 61 lines", id="method"
        ),
        *(
            pytest.param(f"{stem}.py", "", f"'{stem}' could hold anything", id=stem)
            for stem in ("utils", "helpers", "common", "manager", "base", "data", "info")
        ),
        pytest.param("utils/noun.py", "", "'utils' could hold anything", id="package"),
    ],
)
def test_a_file_over_budget_is_refused_and_told_why(
    name: str, source: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    write(tmp_path, f"src/{name}", source)
    monkeypatch.chdir(tmp_path)

    assert shape.main(["src"]) == 1

    out = capsys.readouterr().out
    assert out.startswith(f"src/{name}:")
    assert wanted in out
    assert out.endswith("\n1 over budget\n")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="empty"),
        pytest.param(file_of(400), id="400"),
        pytest.param(file_of(401, REASONED), id="401-reasoned"),
        pytest.param(file_of(600, REASONED), id="600-reasoned"),
        pytest.param(function_of(60), id="function-60"),
    ],
)
def test_a_file_at_the_edge_of_the_budget_passes(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "src/noun.py", source)
    monkeypatch.chdir(tmp_path)

    assert shape.main(["src"]) == 0
    assert capsys.readouterr().out.endswith("\nwithin budget\n")


def test_every_breach_is_reported_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "src/b.py", "x = 1\n\n" + function_of(61) + function_of(62))
    write(tmp_path, "src/a.py", file_of(601))
    monkeypatch.chdir(tmp_path)

    assert shape.main([]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "src/a.py:1: 601 lines; over 600 no reason helps, split it",
        "src/b.py:3: f() has 61 lines; 60 is the limit",
        "src/b.py:64: f() has 62 lines; 60 is the limit",
        "2 files; largest src/a.py (601 lines); longest f() in src/b.py (62 lines)",
        "3 over budget",
    ]


def test_an_empty_folder_is_within_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shape.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "within budget\n"


def test_this_project_is_within_its_own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["shape.py"])

    with pytest.raises(SystemExit) as exit_info:
        runpy.run_path("scripts/shape.py", run_name="__main__")

    assert exit_info.value.code == 0
