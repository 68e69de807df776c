"""What a model gets wrong: each answer names the argument, what was found, and what to do instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.toolkit.files_scene import CANARY, FileTools, Place, make_file, picture_of

LONG = "z" * 300_000
ROWS: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {}, "args.path: found nothing, wanted a value: this argument is required"),
    ("read_file", {"path": 3}, "args.path: found int, wanted str"),
    ("read_file", {"path": ["a"]}, "args.path: found array, wanted str"),
    ("read_file", {"path": "a.txt", "mode": "r"}, "args.mode: found an argument that does not exi"),
    ("read_file", {"path": "a.txt", "start": 0}, "args.start: found"),
    ("read_file", {"path": "a.txt", "lines": -1}, "args.lines: found"),
    ("read_file", {"path": "a.txt", "start": "2"}, "args.start: found str, wanted int"),
    ("read_file", {"path": "a.txt", "start": 9}, "start: found 9, wanted at most 2: a.txt has no mo"),
    ("read_file", {"path": "sub"}, "sub: found a folder, wanted a file; list_files lists it"),
    ("read_file", {"path": "gone.txt"}, "gone.txt: no such file; list_files shows what is there"),
    ("read_file", {"path": "gone/x"}, "gone: no such folder; list_files shows what is there"),
    ("list_files", {"folder": "a.txt"}, "a.txt: found a file, wanted a folder"),
    ("list_files", {"depth": 0}, "args.depth: found"),
    ("list_files", {"depth": 99}, "args.depth: found"),
    ("find_files", {"pattern": ""}, "pattern: found ``, wanted one such as *.py or src/**/*.md"),
    ("find_files", {"pattern": "/etc/*"}, "pattern: found `/etc/*`, wanted one such as"),
    ("find_files", {"pattern": "../*"}, "pattern: found `../*`, wanted one such as"),
    ("find_files", {"pattern": "*" * 400}, "…`, wanted one such as *.py"),
    ("search_files", {"query": ""}, "query: found no text, wanted what to search for"),
    ("search_files", {"query": "a\nb"}, "query: found several lines, wanted text of one line"),
    ("search_files", {"query": "x" * 1_001}, "query: found 1,001 characters, wanted at most 1,000"),
    ("search_files", {"query": "[", "regex": True}, "query: found a regular expression that cann"),
    ("search_files", {"query": "a", "regex": "yes"}, "args.regex: found str, wanted bool"),
    ("write_file", {"path": "new.txt"}, "args.text: found nothing, wanted a value"),
    ("write_file", {"path": "sub", "text": "x"}, "sub: found a folder, wanted a file"),
    ("write_file", {"path": "a.txt/x", "text": "x"}, "a.txt: found a file, wanted a folder"),
    ("write_file", {"path": "a.txt", "text": "x"}, "this file exists. Read it with read_file and g"),
    ("write_file", {"path": "new.txt", "text": "x", "version": "1"}, "no such file any more; leave"),
    ("write_file", {"path": "new.txt", "text": LONG}, "args: found 300,0"),
    ("write_file", {"path": "new.txt", "text": "a\0b"}, "NUL"),
    ("edit_file", {"path": "a.txt", "old": "", "new": "x"}, "old: found no text, wanted what stand"),
    ("edit_file", {"path": "a.txt", "old": "a", "new": "a"}, "new: found the same text as `old`"),
    ("edit_file", {"path": "gone.txt", "old": "a", "new": "b"}, "no such file; write_file makes one"),
    ("edit_file", {"path": "code.py", "old": "return  1", "new": "x"},
     "found `old` 0 times, wanted 1; line 2 differs from its first line only in white space: `    return 1`"),
    ("edit_file", {"path": "code.py", "old": "retrun 1", "new": "x"},
     "; the nearest to its first line is line 2: `    return 1`"),
    ("edit_file", {"path": "code.py", "old": "def f():\n  return 1", "new": "x"},
     "; its first line is line 1, but the lines after that differ: read the file from there"),
    ("edit_file", {"path": "code.py", "old": "%%%%", "new": "x"}, "no line is like its first one; read"),
    ("edit_file", {"path": "code.py", "old": "1", "new": "2"},
     "found `old` 2 times (lines 2, 5), wanted 1: give more text around it, or places=2 to replace each"),
    ("edit_file", {"path": "code.py", "old": "1", "new": "2", "places": 3},
     "found `old` 2 times (lines 2, 5), wanted 3: give more text around it, or places=2 to replace each"),
    ("edit_file", {"path": "code.py", "old": "1", "new": "2", "places": 0}, "args.places: found"),
    ("edit_file", {"path": "code.py", "old": "1", "new": "2", "all": True}, "args.all: found an argument that"),
    ("edit_file", {"path": "aaa.txt", "old": "aa", "new": "b", "places": 2},
     "found `old` 2 times (lines 1, 1), wanted 2 that do not overlap: give more text around it"),
    ("edit_file", {"path": "many.txt", "old": "m", "new": "b"},
     "found `old` over 1,000 times (lines 1, 2, 3, 4, 5, …), wanted 1: give more text around it"),
    ("edit_file", {"path": "logo.png", "old": "a", "new": "b"}, "found a file that is not UTF-8 text,"),
    ("edit_file", {"path": "latin.txt", "old": "a", "new": "b"}, "which these tools read but do not"),
    ("apply_patch", {"patch": "please"}, "patch: found no file in it, wanted a unified diff, whose f"),
    ("apply_patch", {"patch": "--- a/gone\n+++ b/gone\n@@\n-a\n+b\n"}, "gone: no such file; to make it"),
    ("apply_patch", {"patch": "--- /dev/null\n+++ b/a.txt\n@@\n+b\n"}, "this file exists; begin its part"),
    ("apply_patch", {"patch": "--- a/a.txt\n+++ /dev/null\n@@\n-a\n"}, "deletes this file, but does not"),
    ("apply_patch", {"patch": "--- /dev/null\n+++ b/q\n@@\n+b\n--- /dev/null\n+++ b/q/r\n@@\n+b\n"},
     "q: found as a file and as a folder, wanted one of the two"),
    ("apply_patch", {"patch": "--- a/../outside/secret.txt\n+++ b/../outside/secret.txt\n@@\n-a\n+b\n"},
     "../outside/secret.txt: found a path that leads upwards, wanted a path below the folder"),
    ("apply_patch", {"patch": "--- a/a.txt\n+++ b/a.txt\n@@\n-a\n+x\n--- a/./a.txt\n+++ b/./a.txt\n@@\n-b\n+y\n"},
     "a.txt: found twice in one call, wanted all its changes together"),
    ("edit_file", {"path": "long.txt", "old": "last", "new": "x"},
     "long.txt: found 200,001 lines, wanted at most 200,000 in a file that is changed"),
    ("edit_file", {"path": "full.txt", "old": "last", "new": "la\nst"},
     "full.txt: found 200,001 lines, wanted at most 200,000 in a file that is changed"),
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    make_file(place.root / "a.txt", "a\nb\n")
    make_file(place.root / "aaa.txt", "aaa\n")
    make_file(place.root / "code.py", "def f():\n    return 1\n\ndef g():\n    return 1 + f()\n")
    make_file(place.root / "many.txt", "m\n" * 1_001)
    make_file(place.root / "long.txt", "\n" * 200_000 + "last\n")
    make_file(place.root / "full.txt", "\n" * 199_999 + "last\n")
    make_file(place.root / "logo.png", b"\x89PNG\0\0")
    make_file(place.root / "latin.txt", b"caf\xe9 a\n")
    return place


@pytest.mark.parametrize(("name", "args", "told"), ROWS)
def test_a_mistake_is_answered_with_what_to_do(
    name: str, args: dict[str, Any], told: str, place: Place
) -> None:
    before = picture_of(place.root)

    answer = FileTools(place.root, key="k").refused(name, **args)

    assert told in answer
    assert len(answer) < 600
    assert str(place.root) not in answer
    assert picture_of(place.root) == before


def test_an_answer_shows_what_is_hidden_in_a_file(place: Place) -> None:
    make_file(place.root / "odd.txt", "the \u202e\x1b[2J end of it\n")

    told = FileTools(place.root).refused("edit_file", path="odd.txt", old="the end of it", new="x")

    assert "line 1: `the \\u202e\\u001b[2J end of it`" in told


NAMES = ["read_file", "list_files", "find_files", "search_files", "write_file", "edit_file", "apply_patch"]  # fmt: skip
WORDS = st.sampled_from(["a.txt", "sub", "../outside/secret.txt", "/etc", ".git/config", "--- a/a.txt\n+++ b/a.txt\n", ""])  # fmt: skip
JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=20) | WORDS
KEYS = st.sampled_from(["path", "text", "old", "new", "patch", "folder", "query", "pattern", "regex", "version", "start"])  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(NAMES), args=st.dictionaries(KEYS, JSON, max_size=5))
def test_junk_is_answered_and_never_leads_out(
    name: str, args: dict[str, Any], place: Place
) -> None:
    answer = FileTools(place.root, key=json.dumps(args, sort_keys=True)).call(name, args)

    assert answer.status in ("ok", "args_invalid", "tool_error", "path_denied", "tool_uncertain")
    assert CANARY not in answer.text
    assert picture_of(place.outside) == place.before
