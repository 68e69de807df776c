"""The toolkit's page: every page and every name is on it, and its table of contracts is what the tools declare."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import windlass.toolkit
from windlass.ports import Tool
from windlass.toolkit import (
    Brave,
    ask_person,
    fetch,
    files,
    memory,
    notes,
    python,
    shell,
    todo,
    web_search,
)

FOLDER = Path(__file__).parents[2] / "docs" / "toolkit"
INDEX = "README.md"
PAGE_ROW = re.compile(
    r"^\| \[(?P<page>[\w-]+\.md)\]\((?P=page)\) \| (?P<words>.+) \|$", re.MULTILINE
)
TOOL_ROW = re.compile(
    r"^\| `(?P<tool>\w+)` \| `(?P<of>\w+)` \| `(?P<effect>\w+)` \| (?P<asks>yes|no) \|",
    re.MULTILINE,
)


def index() -> str:
    return (FOLDER / INDEX).read_text(encoding="utf-8")


def test_every_page_is_in_the_index_and_every_entry_is_a_page() -> None:
    pages = {path.name for path in FOLDER.glob("*.md")} - {INDEX}

    assert {row["page"] for row in PAGE_ROW.finditer(index())} == pages


def test_every_function_of_the_toolkit_is_in_the_index() -> None:
    named = set()
    for row in PAGE_ROW.finditer(index()):
        named |= set(re.findall(r"`(\w+)`", row["words"].partition(":")[0]))
    functions = {
        name
        for name in windlass.toolkit.__all__
        if inspect.isfunction(getattr(windlass.toolkit, name))
    }

    assert functions <= named


def test_the_table_has_the_contract_of_every_tool(tmp_path: Path) -> None:
    made: dict[str, list[Tool]] = {
        "files": list(files(tmp_path)),
        "shell": [shell(tmp_path)],
        "fetch": [fetch()],
        "web_search": [web_search(Brave("a-key-of-no-use"))],
        "python": [python()],
        "notes": list(notes(tmp_path)),
        "todo": list(todo(tmp_path)),
        "memory": list(memory(tmp_path, scope="everyone")),
        "ask_person": [ask_person()],
    }
    declared = {
        (tool.spec.name, of, tool.effect, "no" if tool.approval == "never" else "yes")
        for of, tools in made.items()
        for tool in tools
    }

    assert {row.groups() for row in TOOL_ROW.finditer(index())} == declared
