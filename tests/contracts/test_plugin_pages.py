"""The plugins' page: every page, every plugin and every hook is on it, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import windlass.plugins
from windlass.plugins import Plugin
from windlass.ports.plugin import HOOKS

FOLDER = Path(__file__).parents[2] / "docs" / "plugins"
INDEX = "README.md"
PAGE_ROW = re.compile(
    r"^\| \[(?P<page>[\w-]+\.md)\]\((?P=page)\) \| (?P<words>.+) \|$", re.MULTILINE
)
HOOK_ROW = re.compile(r"^\| `(?P<hook>\w+)\(", re.MULTILINE)


def index() -> str:
    return (FOLDER / INDEX).read_text(encoding="utf-8")


def shipped() -> set[str]:
    """Return the names of the plugins that come with windlass."""
    found = {name: getattr(windlass.plugins, name) for name in windlass.plugins.__all__}
    return {
        name
        for name, one in found.items()
        if isinstance(one, type) and issubclass(one, Plugin) and one is not Plugin
    }


def test_every_page_is_in_the_index_and_every_entry_is_a_page() -> None:
    pages = {path.name for path in FOLDER.glob("*.md")} - {INDEX}

    assert {row["page"] for row in PAGE_ROW.finditer(index())} == pages


def test_every_plugin_is_in_the_index_and_every_name_there_is_one() -> None:
    named = set()
    for row in PAGE_ROW.finditer(index()):
        names = row["words"].partition(":")[0]
        named |= set(re.findall(r"`(\w+)`", names))

    assert named == shipped()


def test_every_hook_is_in_the_table_once() -> None:
    hooks = [row["hook"] for row in HOOK_ROW.finditer(index())]

    assert sorted(hooks) == sorted(HOOKS)
