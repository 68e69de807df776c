"""Phrases that readers stumbled over stay out of pages and messages: each has a plain form beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contracts.test_project_files import project_files, text_of

ROOT = Path(__file__).parents[2]
INSTEAD = {
    r"gone on with": "continued",
    r"(?<!here )is no (?:JSON|tool|number|cursor|store|text|agent|model|file)\b": "is not a …, is not valid JSON",
    r"(?:n|N)obody (?:is|here|named)\b": "no model is called …",
    r"(?:w|W)hoever": "the process that …, anyone who …",
    r"iteration of grace": "one more iteration",
    r"\ba wish (?:in|to|for)\b": "a request",
    r"\bas meant\b|that is meant\b": "expected, verified",
    r"\bwas_here\b": "was_cached",
    r"a parked one neither": "nor does a parked one",
    r"stronger than leave": "permission",
    r"no chance in it": "no randomness",
    r"has to bear that": "must tolerate that",
    r"stands there for good": "is recorded",
}
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def odd_phrases(text: str) -> list[str]:
    joined = " ".join(text.split())
    return [match[0] for phrase in INSTEAD for match in re.finditer(phrase, joined)]


def _pages() -> list[Path]:
    kept = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return kept + [
        path
        for path in project_files()
        if path.suffix == ".md" and "docs" in (parts := path.relative_to(ROOT).parts) and "adr" not in parts
    ]  # fmt: skip


def _messages() -> list[Path]:
    source = ROOT / "src" / "windlass"
    # What a model is told is part of recorded requests, and does not change for its style.
    return [path for path in sorted(source.rglob("*.py")) if path.name != "summary.py"]


def test_pages_are_free_of_them() -> None:
    found = {str(page.relative_to(ROOT)): odd_phrases(text_of(page)) for page in _pages()}

    assert {name: phrases for name, phrases in found.items() if phrases} == {}


def test_texts_in_the_source_are_free_of_them() -> None:
    found = {
        str(path.relative_to(ROOT)): odd_phrases(" ".join(_QUOTED.findall(text_of(path))))
        for path in _messages()
    }

    assert {name: phrases for name, phrases in found.items() if phrases} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "Turns under way are gone on with.",
        "model: nobody here is called 'gpt-4o'",
        "edit: the text is no JSON",
        "Nobody is no.",
        "found 3, which is no tool",
        "SHA-256 b179… as meant",
        '{"was_here": true}',
        "A question is stronger than leave.",
        "a wish in\nthe inbox",
    ],
)
def test_a_planted_phrase_is_seen(planted: str) -> None:
    assert len(odd_phrases(planted)) == 1
