"""Settings: flags, then the environment, then pyproject.toml, then defaults; typos are refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.started import windlass
from windlass.cli.settings import (
    Settings,
    checked_store,
    existing_store,
    settle,
    store_address,
    store_file,
)
from windlass.errors import ConfigError


def project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def test_without_anything_there_are_defaults(tmp_path: Path) -> None:
    found = settle({}, {}, tmp_path)

    assert (found.store, found.model, found.agent, found.durability) == (
        "sqlite:///windlass.db",
        None,
        None,
        "power",
    )
    assert found.sources == {}


def test_a_flag_beats_the_environment_and_that_beats_the_file(tmp_path: Path) -> None:
    project(tmp_path, '[tool.windlass]\nmodel = "file"\nagent = "file:a"\nby = "file"\n')
    environ = {"WINDLASS_MODEL": "environment", "WINDLASS_AGENT": "environment:a"}

    found = settle({"model": "flag", "agent": None}, environ, tmp_path)

    assert (found.model, found.agent, found.by) == ("flag", "environment:a", "file")
    assert dict(found.sources) == {
        "model": "--model",
        "agent": "environment",
        "by": "pyproject.toml",
    }


def test_an_empty_value_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    """`WINDLASS_STORE=$UNSET` must not write to another store than the one that was meant."""
    with pytest.raises(ConfigError, match="environment: store is empty"):
        settle({}, {"WINDLASS_STORE": ""}, tmp_path)
    with pytest.raises(ConfigError, match="--store: store is empty"):
        settle({"store": ""}, {}, tmp_path)
    project(tmp_path, '[tool.windlass]\nstore = ""\n')
    with pytest.raises(ConfigError, match=r"pyproject\.toml: store is empty"):
        settle({}, {}, tmp_path)
    assert settle({"store": "x.db"}, {}, tmp_path).store == "sqlite:///x.db"


def test_the_file_is_found_above_and_its_store_stands_beside_it(tmp_path: Path) -> None:
    project(tmp_path, '[tool.windlass]\nstore = "kept/app.db"\n')
    below = tmp_path / "src" / "app"
    below.mkdir(parents=True)

    found = settle({}, {}, below)

    assert found.store == f"sqlite:///{tmp_path}/kept/app.db"
    assert found.folders == (str(below), str(tmp_path))


def test_an_unknown_key_of_the_file_is_refused_with_the_nearest(tmp_path: Path) -> None:
    project(tmp_path, '[tool.windlass]\nmodle = "demo"\n')

    with pytest.raises(
        ConfigError, match=r"tool\.windlass\.modle is not known; did you mean model\?"
    ):
        settle({}, {}, tmp_path)


def test_a_misspelt_safety_switch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="WINDLASS_EGRES is not known; did you mean WINDLASS_EGRESS"
    ):
        settle({}, {"WINDLASS_EGRES": "closed"}, tmp_path)


def test_a_misspelt_variable_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="WINDLASS_STROE is not known; did you mean WINDLASS_STORE"
    ):
        settle({}, {"WINDLASS_STROE": "x"}, tmp_path)


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    environ = {"WINDLASS_DEBUG": "1", "WINDLASS_CI_RUNNER_LABELS": "x"}

    assert settle({}, environ, tmp_path).sources == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[tool.windlass]\nstore = 3\n", "tool.windlass.store: found int, wanted text"),
        ("[tool]\nwindlass = 3\n", "tool.windlass: wanted a table"),
        ("tool = 3\n", "tool: wanted a table"),
        ("[tool.windlass\n", "cannot be read"),
        ('[tool.windlass]\ndurability = "never"\n', "found 'never', wanted power or process"),
    ],
)
def test_a_value_that_cannot_be_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    project(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        settle({}, {}, tmp_path)
    assert complaint in str(caught.value)


def test_a_file_name_stands_for_sqlite() -> None:
    assert store_address("a/b.db") == "sqlite:///a/b.db"
    assert store_address("memory:") == "memory:"
    assert store_address("postgres://x/y") == "postgres://x/y"
    assert store_file("sqlite:////tmp/x.db") == Path("/tmp/x.db")
    assert store_file("memory:") is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("sqlite://x.db", "found 'sqlite://x.db', which is one slash short, wanted 'sqlite:///x.db' or 'x.db'"),
        ("sqlite:x.db", "found 'sqlite:x.db', which is short of slashes, wanted 'sqlite:///x.db' or 'x.db'"),
        ("sqlite:/a/x.db", "which is short of slashes, wanted 'sqlite:////a/x.db' or '/a/x.db'"),
    ],
)  # fmt: skip
def test_an_address_without_all_its_slashes_is_refused_with_the_right_one(
    given: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        checked_store(settle({"store": given}, {}, tmp_path))
    for command in (["run", "hi", "--model", "demo"], ["sessions"], ["work", "-m", "crew:deck"]):
        done = windlass(*command, "--store", given, cwd=tmp_path)
        assert (done.returncode, told in done.stderr) == (2, True), command


def test_who_only_reads_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.db does not exist"):
        existing_store(Settings(store=f"sqlite:///{tmp_path}/none.db"))
    assert list(tmp_path.iterdir()) == []
