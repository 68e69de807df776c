"""What users need every day comes from `windlass`: the pages for them import nothing from its insides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import windlass

DOCS = Path(__file__).parents[2] / "docs"
# These two are about the insides: the bare machine, and a store of one's own.
ABOUT_INSIDES = {"drive-a-machine.md", "write-a-store.md"}
FOLDERS = ("guides", "models", "plugins")
PAGES = [
    page
    for folder in FOLDERS
    for page in sorted((DOCS / folder).glob("*.md"))
    if page.name not in ABOUT_INSIDES
]
INSIDE = re.compile(r"^\s*(?:from|import) windlass\.(?:kernel|ports)\b.*$", re.MULTILINE)


def imports_from_inside(text: str) -> list[str]:
    return INSIDE.findall(text)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_for_users_imports_nothing_from_the_insides(page: Path) -> None:
    assert imports_from_inside(page.read_text(encoding="utf-8")) == []


def test_an_import_from_the_insides_is_seen() -> None:
    planted = "```python\nfrom windlass import Agent\nfrom windlass.kernel import Usage\n```\n"

    assert imports_from_inside(planted) == ["from windlass.kernel import Usage"]


def test_what_people_match_on_is_there() -> None:
    assert windlass.events.TextDelta(text="hi").preview
    assert windlass.Usage().input_tokens == 0
    assert windlass.ModelReply(text="hi").text == "hi"
    message = windlass.Message(id="m", role="user", parts=(windlass.Text(text="hi"),))
    assert message.role == "user"
