"""Ways out of the folder: none of them reads, lists or writes what is outside, and none is told about it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.toolkit.files_scene import (
    CANARY,
    Answer,
    FileTools,
    Place,
    make_file,
    picture_of,
)
from windlass.errors import ConfigError
from windlass.ports.tool import ToolContext

TERA = 1 << 40


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ------------------------------------------------------------------------- what the path says

NO_SETUP: Callable[[Place], object] = lambda place: None  # noqa: E731 - a row of the table


def links(place: Place) -> None:
    place.link("to_file", place.outside / "secret.txt")
    place.link("to_folder", place.outside)
    place.link("to_above", "..")
    place.link("to_here", ".")
    place.link("loop", "loop")
    place.link("dangling", place.outside / "new.txt")
    place.link("to_git", ".git")
    place.link("sub/relative", "../../outside/secret.txt")
    place.link("to_proc", "/proc/self/root")


def hard_link(place: Place) -> None:
    os.link(place.outside / "secret.txt", place.root / "hard.txt")


def pipe(place: Place) -> None:
    os.mkfifo(place.root / "pipe")


def huge(place: Place) -> None:
    os.truncate(make_file(place.root / "huge.txt"), TERA)


TRIES: list[tuple[str, Callable[[Place], object], str]] = [
    ("../outside/secret.txt", NO_SETUP, "leads upwards"),
    ("sub/../../outside/secret.txt", NO_SETUP, "leads upwards"),
    ("sub/../inside.txt", NO_SETUP, "leads upwards"),
    ("..", NO_SETUP, "leads upwards"),
    ("/etc/passwd", NO_SETUP, "an absolute path"),
    ("//etc/passwd", NO_SETUP, "an absolute path"),
    ("/proc/self/cwd/passwd", NO_SETUP, "an absolute path"),
    ("/dev/stdin", NO_SETUP, "an absolute path"),
    ("~/secret.txt", NO_SETUP, "home folder"),
    ("~", NO_SETUP, "home folder"),
    ("~root/.ssh/id_rsa", NO_SETUP, "protected name .ssh"),
    ("..\\outside\\secret.txt", NO_SETUP, "a backslash"),
    ("sub\\..\\..\\outside", NO_SETUP, "a backslash"),
    ("C:\\secret.txt", NO_SETUP, "a backslash"),
    ("inside.txt\0.png", NO_SETUP, "found NUL"),
    ("inside.txt\n", NO_SETUP, "cannot be seen"),
    ("in\u202eside.txt", NO_SETUP, "cannot be seen"),
    ("sub//deep.txt", NO_SETUP, "an empty name"),
    ("sub/./deep.txt", NO_SETUP, "an empty name"),
    ("inside.txt/", NO_SETUP, "an empty name"),
    ("", NO_SETUP, "an empty name"),
    ("inside.txt/x", NO_SETUP, "found a file, wanted a folder"),
    ("a/" * 40 + "x", NO_SETUP, "a path of 41 names"),
    ("a" * 300, NO_SETUP, "a name of 300 bytes"),
    ("é" * 200, NO_SETUP, "a name of 400 bytes"),
    ("a/" * 2_000, NO_SETUP, "a path of 4,000 characters"),
    ("to_file", links, "a symbolic link"),
    ("to_folder/secret.txt", links, "a symbolic link"),
    ("to_folder/folder/secret.txt", links, "a symbolic link"),
    ("to_above/outside/secret.txt", links, "a symbolic link"),
    ("to_here/inside.txt", links, "a symbolic link"),
    ("loop", links, "a symbolic link"),
    ("loop/x", links, "a symbolic link"),
    ("dangling", links, "a symbolic link"),
    ("to_git/config", links, "a symbolic link"),
    ("sub/relative", links, "a symbolic link"),
    ("to_proc/etc/passwd", links, "a symbolic link"),
    ("hard.txt", hard_link, "a file with 2 names"),
    ("pipe", pipe, "a pipe"),
    ("huge.txt", huge, "found 1,099,511,627,776 bytes, the limit is"),
    (".git/config", NO_SETUP, "protected name .git"),
    (".GIT/config", NO_SETUP, "protected name .GIT"),
    (".git./config", NO_SETUP, "protected name .git."),
    (".git /config", NO_SETUP, "protected name .git"),
    (".g\u200dit/config", NO_SETUP, "cannot be seen"),
    ("\uff0egit/config", NO_SETUP, "protected name"),
    (".\uff47it/config", NO_SETUP, "protected name"),
    (".git::$INDEX_ALLOCATION/config", NO_SETUP, "protected name"),
    (".git:x/config", NO_SETUP, "protected name"),
    ("git~1/config", NO_SETUP, "protected name git~1"),
    ("sub/.git/hooks/pre-commit", NO_SETUP, "protected name .git"),
    (".windlass/notes/n.md", NO_SETUP, "protected name .windlass"),
    (".Windlass/calls/00/00", NO_SETUP, "protected name .Windlass"),
    (".env", NO_SETUP, "protected name .env"),
    (".hidden/x", NO_SETUP, "a hidden name"),
    ("\u2024hidden", NO_SETUP, "a hidden name"),
    ("...", NO_SETUP, "a hidden name"),
]

CALLS: dict[str, Callable[[str], dict[str, object]]] = {
    "read_file": lambda path: {"path": path},
    "write_file": lambda path: {"path": path, "text": "written\n", "version": ""},
    "edit_file": lambda path: {"path": path, "old": CANARY, "new": "changed"},
    "list_files": lambda path: {"folder": path},
    "search_files": lambda path: {"query": CANARY, "folder": path},
    "find_files": lambda path: {"pattern": "*", "folder": path},
}


PATCHES = (
    "--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{canary}\n+x\n",
    "--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{canary}\n",
    "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n",
)
REFUSED = ("path_denied", "tool_error", "args_invalid")
IDS = [f"{n}-{found[:20]}" for n, (_, _, found) in enumerate(TRIES)]


def answers_about(path: str, tools: FileTools) -> dict[str, Answer]:
    """Return what each tool answers to a path."""
    found = {name: tools.call(name, args(path)) for name, args in CALLS.items()}
    for n, patch in enumerate(PATCHES):
        given = patch.format(path=path, canary=CANARY)
        found[f"patch {n}"] = tools.call("apply_patch", {"patch": given})
    # What a call itself says about the secret is no news.
    return {name: a._replace(text=a.text.replace(f"`{CANARY}`", "")) for name, a in found.items()}


def check_kept_in(place: Place, answers: dict[str, Answer]) -> None:
    for name, answer in answers.items():
        assert CANARY not in answer.text, name
        assert str(place.root.parent) not in answer.text, name
    assert picture_of(place.outside) == place.before


@pytest.mark.parametrize(("path", "setup", "told"), TRIES, ids=IDS)
def test_no_path_leads_out(
    path: str, setup: Callable[[Place], object], told: str, place: Place
) -> None:
    setup(place)
    inside = picture_of(place.root)

    answers = answers_about(path, FileTools(place.root))

    check_kept_in(place, answers)
    assert picture_of(place.root) == inside
    assert told in answers["read_file"].text
    for name, answer in answers.items():
        # A list of the root is asked for by some of these.
        if name not in ("list_files", "search_files", "find_files"):
            assert answer.status in REFUSED, (name, answer)


@pytest.mark.parametrize(("path", "setup", "told"), TRIES, ids=IDS)
def test_nor_if_hidden_names_are_open(
    path: str, setup: Callable[[Place], object], told: str, place: Place
) -> None:
    setup(place)

    answers = answers_about(path, FileTools(place.root, hidden=True))

    check_kept_in(place, answers)
    if "hidden" not in told:
        assert told in answers["read_file"].text


def test_what_is_kept_by_git_and_windlass_is_not_listed_found_or_searched(place: Place) -> None:
    links(place)
    hard_link(place)
    pipe(place)
    tools = FileTools(place.root, hidden=True)

    listed = tools.ok("list_files", depth=5)
    found = tools.ok("find_files", pattern="**")
    searched = tools.ok("search_files", query="i")

    for answer in (listed, found, searched):
        assert CANARY not in answer
        assert "config" not in answer
        assert ".windlass" not in answer
    assert "to_folder@ (a link, not followed)" in listed
    assert "pipe (not a plain file)" in listed
    assert "secret" not in listed
    assert found.splitlines()[0] == "3 files found"  # inside.txt, deep.txt, and the name hard.txt
    assert "(Not searched: hard.txt: too large, or not a file to be opened" in searched


def test_devices_are_neither_read_nor_written() -> None:
    tools = FileTools(Path("/dev"))
    preview = tools.by_name["write_file"].preview
    assert preview is not None
    args = {"path": "null", "text": "x", "version": ""}

    async def asked() -> str:
        return await preview(ToolContext(deps=None), args)

    shown = asyncio.run(asked())

    assert tools.refused("read_file", path="zero").startswith("zero: found a device, wanted")
    assert tools.refused("list_files", folder="null").startswith("null: found a file, wanted a fol")
    assert "null: found a device" in shown


def test_a_socket_is_not_opened(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.root)  # a socket's path has room for a hundred characters only
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("talk")
        tools = FileTools(place.root)

        assert "talk: found a socket" in tools.refused("read_file", path="talk")
        assert "talk: found a socket" in tools.refused("write_file", path="talk", text="x")
        assert "talk (not a plain file)" in tools.ok("list_files")


def test_a_hard_link_is_opened_if_the_host_allows_it_and_the_other_name_keeps_its_text(
    place: Place,
) -> None:
    hard_link(place)
    tools = FileTools(place.root, hard_links=True)

    assert CANARY in tools.ok("read_file", path="hard.txt")
    tools.ok("edit_file", path="hard.txt", old=CANARY, new="mine")

    assert (place.root / "hard.txt").read_text() == "mine\n"
    assert picture_of(place.outside) == place.before


def test_a_huge_file_is_refused_before_a_byte_of_it_is_read(place: Place) -> None:
    huge(place)
    tools = FileTools(place.root)
    tracemalloc.start()
    try:
        tools.refused("read_file", path="huge.txt")
        tools.refused("edit_file", path="huge.txt", old="a", new="b")
        searched = tools.ok("search_files", query="inside")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert most < 4_000_000
    assert "huge.txt: too large" in searched
    assert "inside.txt:1: inside" in searched


# ------------------------------------------------------------------------------- the root itself


def test_a_deleted_root_is_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    tools = FileTools(root)
    root.rmdir()

    for name, args in CALLS.items():
        path = "." if "folder" in args("") else "x"
        assert "was deleted; nothing was done" in tools.call(name, args(path)).text
    assert not root.exists()


def test_what_takes_the_place_of_the_root_is_not_opened(place: Place) -> None:
    tools = FileTools(place.root)
    moved = place.root.rename(place.root.with_name("moved"))
    place.root.symlink_to(place.outside)

    tools.ok("write_file", path="new.txt", text="new\n")

    assert (moved / "new.txt").read_text() == "new\n"
    assert "secret.txt" not in tools.ok("list_files")
    assert picture_of(place.outside) == place.before


def test_a_root_that_is_a_link_is_the_folder_that_it_leads_to(place: Place, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place.root)

    assert "inside" in FileTools(tmp_path / "link").ok("read_file", path="inside.txt")


@pytest.mark.parametrize(
    ("root", "found"),
    [
        ("/", "the whole file system"),
        ("/proc/self/root", "the whole file system"),
        ("missing", "no such file or directory"),
        ("file", "not a directory"),
        ("a\0b", "ValueError"),
    ],
)
def test_a_root_that_is_none_is_refused_when_the_tools_are_made(
    root: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_file(tmp_path / "file")

    with pytest.raises(ConfigError) as refused:
        FileTools(Path(root))

    assert refused.value.field == "files.root"
    assert str(refused.value.found).lower() == found.lower()


# ---------------------------------------------------------------------- what the tools keep there


@pytest.mark.parametrize("name", [".windlass", ".windlass/halves", ".windlass/calls"])
def test_their_own_folder_is_never_a_link(name: str, tmp_path: Path) -> None:
    place, own = Place(tmp_path), tmp_path / "root" / ".windlass"
    shutil.rmtree(own)
    if name != ".windlass":
        own.mkdir(mode=0o700)
    (place.root / name).symlink_to(place.outside / "folder")
    (place.outside / "folder").chmod(0o700)
    before = picture_of(place.outside)

    told = FileTools(place.root, key="k").refused("write_file", path="new.txt", text="x")

    assert told == ".windlass: found a link or a file in its place, wanted a folder"
    assert not (place.root / "new.txt").exists()
    assert picture_of(place.outside) == before


def test_nor_one_that_other_users_may_write_to(place: Place) -> None:
    halves = place.root / ".windlass" / "halves"
    halves.mkdir()
    halves.chmod(0o777)

    told = FileTools(place.root).refused("write_file", path="new.txt", text="x")

    assert told == ".windlass: found a folder that other users may write to"


@pytest.mark.parametrize("name", [".windlass", "halves", "calls"])
def test_nor_one_of_another_user(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    FileTools(place.root, key="k").ok("write_file", path="made_before.txt", text="x")
    own = place.root / ".windlass"
    inode = (own if name == ".windlass" else own / name).stat().st_ino
    fstat = os.fstat

    def of_another(file: int) -> os.stat_result:
        found = fstat(file)
        # The fifth field is the number of the owner.
        return (
            os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))
            if found.st_ino == inode
            else found
        )

    monkeypatch.setattr(os, "fstat", of_another)
    told = FileTools(place.root, key="k2").refused("write_file", path="new.txt", text="x")

    assert told == ".windlass: found a folder of another user, wanted one of our own"
    assert not (place.root / "new.txt").exists()


def test_a_pipe_in_place_of_the_lock_holds_nothing_up(place: Place) -> None:
    os.mkfifo(place.root / ".windlass" / "lock")

    told = FileTools(place.root).refused("write_file", path="new.txt", text="x")

    assert told == ".windlass: found something else in place of its lock, wanted a file"


def test_it_can_be_read_by_its_owner_only_and_stays_out_of_repositories(tmp_path: Path) -> None:
    FileTools(tmp_path, key="k").ok("write_file", path="new.txt", text="x")
    own = tmp_path / ".windlass"

    assert [oct(each.stat().st_mode & 0o777) for each in (own, own / "halves", own / "calls")] == [
        "0o700"
    ] * 3
    assert (own / ".gitignore").read_text() == "*\n"
    assert list((own / "halves").iterdir()) == []
