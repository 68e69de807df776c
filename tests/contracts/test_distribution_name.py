"""The distribution is `windlass-runtime`: the project that registries call `windlass` is somebody else's.

A text that names the bare package in a command, or with an extra, makes its reader install that one over this.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.contracts.test_project_files import project_files, text_of
from windlass.release import DISTRIBUTION, install_hint

ROOT = Path(__file__).parents[2]
NAME = "wind" + "lass"  # so that this file contains none of what it looks for

# The bare name, as a whole word: not windlass-runtime, not windlass.db, not a path.
_BARE = rf"(?<![\w./-]){NAME}(?![\w./-])"
_COMMAND = (
    r"\b(?:(?:pip3?|pipx|conda|uv pip|uv tool|python3? -m pip) (?:install|download|uninstall)"
    r"|(?:uv|poetry|pdm|rye) add|uvx|pipx run)\b"
)
BARE = re.compile(
    rf"{_COMMAND}(?:[ \t]+[\w.=/'\"-]+)*?[ \t]+['\"]?{_BARE}"  # a command
    rf"|(?<![\w./-]){NAME}\[[a-z]"  # an extra
    rf"|(?<![\w./-]){NAME} ?[=<>~]=? ?\d"  # a requirement
    rf"|(?<![\w./-]){NAME}-\d"  # a version, as pip says it
)


def bare_names(text: str) -> list[str]:
    return [match[0] for match in BARE.finditer(text)]


def test_no_text_of_the_project_names_the_bare_package() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in project_files()
        if path.suffix != ".svg" and (names := bare_names(text_of(path)))
    }

    assert found == {}


@pytest.mark.parametrize(
    "planted",
    [
        f"run `pip install {NAME}` first",
        f"pip install '{NAME}[openai]'",
        f"python3 -m pip install --upgrade {NAME}",
        f"uv add {NAME}",
        f"pipx install {NAME}",
        f"uv tool install {NAME}",
        f"pip download {NAME} --no-deps",
        f'needs the extra "{NAME}[cli]"',
        f'all = ["{NAME}[anthropic,cli]"]',
        f"{NAME}>=0.1",
        f"Successfully installed msgspec-0.22.0 {NAME}-0.1.0",
    ],
)
def test_a_planted_bare_name_is_seen(planted: str) -> None:
    assert len(bare_names(planted)) == 1


@pytest.mark.parametrize(
    "fine",
    [
        "pip install '.[cli]' in a checkout",
        f"pip install '{NAME}-runtime[openai]'",
        f"pip install . && {NAME} chat",
        f"pip install -r requirements/dev.lock; {NAME} is installed next",
        f"{NAME} run 'hello' --store {NAME}.db",
        f"[tool.{NAME}]",
        f"{NAME}-runtime-0.1.0",
    ],
)
def test_other_uses_of_the_word_are_left_alone(fine: str) -> None:
    assert bare_names(fine) == []


def test_the_project_is_published_under_that_name_and_imported_under_its_own() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    extras = project["optional-dependencies"]

    assert project["name"] == DISTRIBUTION == "windlass-runtime"
    assert project["scripts"] == {"windlass": "windlass.cli.main:main"}
    assert extras["all"] == [
        "windlass-runtime[anthropic,bedrock,cli,code,google,local,openai,prices,schedules,vertex,web]"
    ]
    assert {extra for extra in extras if extra != "all"} == {
        "anthropic", "bedrock", "cli", "code", "google", "local", "openai", "prices", "schedules", "vertex", "web",
    }  # fmt: skip


def test_an_install_hint_shows_the_way_that_works_today() -> None:
    assert install_hint("openai") == (
        "pip install '.[openai]' in a checkout of windlass (windlass-runtime is not published yet)"
    )


@pytest.mark.parametrize("page", ["README.md", "docs/guides/first-agent.md", "docs/guides/cli.md"])
def test_a_page_that_installs_says_that_nothing_is_published(page: str) -> None:
    text = " ".join(text_of(ROOT / page).split())

    assert "windlass-runtime" in text
    assert "not published yet" in text.replace("**", "")
