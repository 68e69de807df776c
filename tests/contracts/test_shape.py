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


def plant(folder: Path, *, small: str = "app/turn/clock.py", n_lines: int = 79) -> None:
    """A project in which one module is small and has one importer."""
    dotted = small.removesuffix(".py").replace("/", ".")
    package, _, stem = dotted.rpartition(".")
    write(folder, "src/app/__init__.py", "")
    write(folder, f"src/{small}", file_of(n_lines))
    write(folder, "src/app/engine.py", file_of(200, f"from {package} import {stem}"))
    write(folder, "src/app/other.py", file_of(200, "from app import engine"))
    write(folder, "src/app/last.py", file_of(200, "from app import engine, other"))
    write(folder, "src/app/end.py", file_of(200, "from app import engine, last, other"))
    write(folder, "src/app/door.py", file_of(200, "import app.last, app.end, app.other"))


@pytest.mark.parametrize(
    "statement",
    [
        "from app.turn.clock import x1",
        "from app.turn import clock",
        "import app.turn.clock",
        "if TYPE_CHECKING:\n    from app.turn.clock import x1",
        "from app.turn import clock\ndef f():\n    from app.turn.clock import x1",
    ],
)
def test_a_small_module_with_one_importer_is_told_where_it_belongs(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    plant(tmp_path)
    write(tmp_path, "src/app/engine.py", file_of(200, statement))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shape, "HOLDS_SMALL_ROOMS", True)

    assert shape.main([]) == 1
    assert capsys.readouterr().out.splitlines()[0] == (
        "src/app/turn/clock.py:1: 79 lines, and only app.engine imports it; it belongs there"
    )


def test_until_the_rule_is_held_a_small_module_is_only_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shape, "HOLDS_SMALL_ROOMS", False)

    assert shape.main([]) == 0
    out = capsys.readouterr().out
    assert "src/app/turn/clock.py:1: 79 lines, and only app.engine imports it" in out
    assert out.endswith("\nwithin budget\n")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("src/app/turn/clock.py", file_of(80), id="80-lines"),
        pytest.param("src/app/end.py", file_of(200, "import app.turn.clock"), id="two-importers"),
        pytest.param("src/app/engine.py", file_of(200), id="no-importer"),
        pytest.param(
            "src/app/engine.py",
            file_of(200, "async def f():\n    from app.turn.clock import x1"),
            id="loaded-when-needed",
        ),
        pytest.param("README.md", "Import it with `from app.turn.clock import x1`.", id="readme"),
        pytest.param("docs/guides/time.md", "`app.turn.clock` has the clocks.", id="docs"),
    ],
)
def test_a_small_module_may_stay_where_it_is_needed_or_known(
    name: str, source: str, tmp_path: Path
) -> None:
    plant(tmp_path)
    assert len(list(shape.small_rooms(tmp_path / "src"))) == 1
    write(tmp_path, name, source)

    assert list(shape.small_rooms(tmp_path / "src")) == []


@pytest.mark.parametrize("small", ["app/ports/clock.py", "app/turn/__main__.py"])
def test_a_port_and_a_main_may_be_small(small: str, tmp_path: Path) -> None:
    plant(tmp_path, small=small)

    assert list(shape.small_rooms(tmp_path / "src")) == []


def test_a_package_may_offer_a_small_module_that_nothing_else_imports(tmp_path: Path) -> None:
    plant(tmp_path)
    write(tmp_path, "src/app/engine.py", file_of(200))
    write(tmp_path, "src/app/turn/__init__.py", "from app.turn.clock import x1\n")

    assert list(shape.small_rooms(tmp_path / "src")) == []


def test_this_project_is_within_its_own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["shape.py"])

    with pytest.raises(SystemExit) as exit_info:
        runpy.run_path("scripts/shape.py", run_name="__main__")

    assert exit_info.value.code == 0
