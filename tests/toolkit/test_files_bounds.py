"""Paths: how many characters of them are shown, and that each one that is shown can be opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolkit.files_scene import FileTools, make_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


def test_a_list_of_long_names_is_bounded_by_its_characters(root: Path, tools: FileTools) -> None:
    folder = root / ("m" * 99)
    for n in range(400):
        make_file(folder / f"{n:03}{'x' * 197}")

    listed = tools.ok("list_files", folder=folder.name)
    found = tools.ok("find_files", pattern=f"{folder.name}/*")

    # A path has 300 characters, and an end of line: 199 of them are 59,899.
    assert [len(answer.splitlines()) for answer in (listed, found)] == [201, 201]
    assert listed.splitlines()[-1] == "(Not listed: 201 more names.)"
    assert found.splitlines()[-1].startswith("(Not listed: 201 more; use a narrower pattern")


def test_a_path_that_is_too_long_to_be_opened_is_not_shown(root: Path, tools: FileTools) -> None:
    inner = "/".join(["n" * 250] * 4)
    make_file(root / inner / ("y" * 20))  # 1,024 characters, which are allowed
    make_file(root / inner / ("z" * 21))
    make_file(root / "/".join("d" * 31) / "e" / "f")

    found = tools.ok("find_files", pattern="**")
    deep = tools.ok("find_files", pattern="**", folder="d")

    assert f"{inner}/{'y' * 20}\n" in found
    assert "zzz" not in found
    assert "1 name that may not be opened" in found
    assert deep == "0 files found\n(Not listed: 1 name that may not be opened.)"
    assert tools.refused("read_file", path=f"{inner}/{'z' * 21}").endswith("wanted at most 1,024")
    assert "a path of 33 names" in tools.refused("read_file", path="d/" * 31 + "e/f")
