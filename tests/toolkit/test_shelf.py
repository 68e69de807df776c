"""The shelf: a note is there whole or not at all, under its scope alone, and what goes wrong is told without a path."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from windlass.errors import ConfigError, ToolError
from windlass.toolkit.notes.shelf import FolderShelf, Scoped, Shelf, shelf_of

PROCESS = Path(__file__).with_name("shelf_process.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "notes"


def notes_in(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in files if file.name != ".gitignore")


def test_a_note_is_kept_replaced_listed_and_removed(folder: Path) -> None:
    shelf = FolderShelf(folder)

    assert (shelf.topics("s"), shelf.get("s", "tea")) == ([], None)
    shelf.put("s", "tea", "Grün, 70 °C")
    shelf.put("s", "cake", "none")
    shelf.put("s", "tea", "black")
    assert shelf.topics("s") == ["cake", "tea"]
    assert shelf.get("s", "tea") == "black"
    shelf.remove("s", "tea")
    shelf.remove("s", "tea")  # as a call does that runs again
    assert (shelf.topics("s"), shelf.get("s", "tea")) == (["cake"], None)
    assert FolderShelf(folder).get("s", "cake") == "none"


def test_notes_are_files_of_their_owner_alone(folder: Path) -> None:
    FolderShelf(folder).put("s", "tea", "black")
    (note,) = notes_in(folder)

    assert (note.name, note.read_text()) == ("tea.md", "black")
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (note, note.parent, folder)]
    assert modes == [0o600, 0o700, 0o700]


def test_notes_stay_out_of_a_repository_that_the_shelf_lies_in(folder: Path) -> None:
    folder.parent.mkdir()
    git = ("git", "-C", folder.parent)
    subprocess.run((*git, "init", "-q"), check=True)
    FolderShelf(folder).put("s", "tea", "black")
    subprocess.run((*git, "add", "-A"), check=True)

    staged = subprocess.run((*git, "ls-files"), check=True, capture_output=True, text=True)
    assert staged.stdout == ""


@pytest.mark.parametrize("found", ["", "!*\n"], ids=["removed", "changed"])
def test_a_person_who_wants_notes_in_the_repository_is_not_overruled(
    folder: Path, found: str
) -> None:
    shelf = FolderShelf(folder)
    shelf.put("s", "tea", "black")
    rules = folder / ".gitignore"
    assert rules.read_text() == "*\n"
    if found:
        rules.write_text(found)
    else:
        rules.unlink()
    shelf.put("other", "tea", "green")

    assert (rules.read_text() if rules.exists() else "") == found


@pytest.mark.parametrize(
    "scope", ["../../etc", "/etc", "", "a/b", "a\nb", "ä", "x" * 10_000, ".", "\x00", "C:\\x"]
)
def test_a_scope_of_any_name_has_a_folder_of_its_own_below_the_root(
    folder: Path, scope: str
) -> None:
    shelf = FolderShelf(folder)
    shelf.put(scope, "tea", "mine")
    shelf.put("another", "tea", "not mine")

    assert shelf.get(scope, "tea") == "mine"
    assert all(note.parent.parent == folder for note in notes_in(folder.parent.parent))


@pytest.mark.parametrize(
    "topic", ["../tea", "/etc/passwd", "", ".tea", "tea.md", "Tea", "t" * 65, "tea\n", "té", "a b"]
)
def test_a_topic_that_is_no_plain_name_is_refused(folder: Path, topic: str) -> None:
    shelf = FolderShelf(folder)

    refused = pytest.raises(ToolError, match=r"topic: wanted a short name")
    with refused:
        shelf.put("s", topic, "x")
    with refused:
        shelf.get("s", topic)
    with refused:
        shelf.remove("s", topic)
    assert not folder.exists()


def test_a_link_or_a_pipe_in_place_of_a_note_is_not_followed(folder: Path, tmp_path: Path) -> None:
    shelf = FolderShelf(folder)
    shelf.put("s", "link", "x")
    (note,) = notes_in(folder)
    secret = tmp_path / "secret"
    secret.write_text("not a note")
    note.unlink()
    note.symlink_to(secret)
    os.mkfifo(note.with_name("pipe.md"))

    with pytest.raises(ToolError, match="could not be read"):
        Scoped(shelf, "s").get("link")
    assert Scoped(shelf, "s").get("pipe") == ""
    shelf.put("s", "link", "mine again")  # replaces the link and leaves its target
    assert (shelf.get("s", "link"), secret.read_text()) == ("mine again", "not a note")


def test_a_link_in_place_of_a_scopes_folder_reaches_nothing_of_what_it_leads_to(
    folder: Path, tmp_path: Path
) -> None:
    """Law 3. A repository that was cloned may hold such a link."""
    shelf = FolderShelf(folder)
    shelf.put("s", "tea", "black")
    kept = Scoped(shelf, "s")
    home = tmp_path / "home"
    home.mkdir()
    (home / "diary.md").write_text("dear diary")
    (home / ".bashrc").write_text("alias")
    os.utime(home / ".bashrc", (0, 0))
    for place in (notes_in(folder)[0].parent, folder):
        place.rename(tmp_path / f"moved-{place.name}")
        place.symlink_to(home, target_is_directory=True)
        for act in (
            kept.topics,
            lambda: kept.get("diary"),
            lambda: kept.put("tea", "green"),
            lambda: kept.remove("diary"),
        ):
            with pytest.raises(ToolError, match=r"The notes could not be (read|written): "):
                act()
        assert sorted(each.name for each in home.iterdir()) == [".bashrc", "diary.md"]
        place.unlink()
        (tmp_path / f"moved-{place.name}").rename(place)

    assert kept.get("tea") == "black"


def test_a_folder_of_another_user_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = FolderShelf(folder)
    shelf.put("s", "tea", "black")
    own = os.geteuid()
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: own + 1)
        for act in acts(shelf):
            with pytest.raises(ToolError, match="a folder of another user"):
                act()

    assert shelf.get("s", "tea") == "black"


def test_only_what_a_write_left_is_cleared_away(folder: Path) -> None:
    """Neither a dotfile that somebody else put there, nor a folder, however old they are."""
    shelf = FolderShelf(folder)
    shelf.put("s", "tea", "black")
    own = notes_in(folder)[0].parent
    (own / ".git").mkdir()
    (own / ".tea.00000001").mkdir()
    (own / ".netrc").write_text("a secret")
    (own / ".tea.0000000g").write_text("not made here")
    for each in own.iterdir():
        os.utime(each, (0, 0))
    Scoped(shelf, "s").put("tea", "green")

    there = [".git", ".netrc", ".tea.00000001", ".tea.0000000g", "tea.md"]
    assert sorted(each.name for each in own.iterdir()) == there
    assert shelf.get("s", "tea") == "green"


@pytest.mark.parametrize(
    ("moment", "there"),
    [("opened", "a"), ("written", "a"), ("synced", "a"), ("replaced", "b")],
)
def test_a_process_killed_while_it_replaces_a_note_leaves_the_old_one_or_the_new_one(
    folder: Path, moment: str, there: str
) -> None:
    """Law 1. Who writes it again has the new one."""
    shelf = FolderShelf(folder)
    shelf.put("scope", "topic", "a" * 12_000)
    done = subprocess.run([sys.executable, PROCESS, folder, moment], timeout=HANGS_S, check=False)

    assert done.returncode == -9
    assert shelf.topics("scope") == ["topic"]
    assert shelf.get("scope", "topic") == there * 12_000
    shelf.put("scope", "topic", "b" * 12_000)
    assert shelf.get("scope", "topic") == "b" * 12_000


def test_what_a_killed_process_left_half_written_is_cleared_away_when_it_is_old(
    folder: Path,
) -> None:
    shelf = FolderShelf(folder)
    shelf.put("s", "tea", "black")
    old, new = (notes_in(folder)[0].with_name(f".tea.{name}") for name in ("00000001", "00000002"))
    for half in (old, new):
        half.write_text("ha")
    written_s = notes_in(folder)[-1].stat().st_mtime
    os.utime(old, (written_s - 7_200, written_s - 7_200))
    shelf.put("s", "cake", "none")

    assert [note.name for note in notes_in(folder)] == [".tea.00000002", "cake.md", "tea.md"]
    assert shelf.topics("s") == ["cake", "tea"]


def test_a_write_that_fails_leaves_the_old_note_and_nothing_half(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = FolderShelf(folder)
    shelf.put("s", "tea", "black")

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(ToolError) as told:
            Scoped(shelf, "s").put("tea", "green")

    assert str(told.value) == (
        "The notes could not be written: No space left on device. Nothing is wrong with the arguments: go on "
        "without, and tell the person."
    )
    assert [note.name for note in notes_in(folder)] == ["tea.md"]
    assert shelf.get("s", "tea") == "black"


def test_a_file_where_the_folder_should_be_is_told_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a file")
    kept = Scoped(FolderShelf(tmp_path / "notes"), "s")

    for act in (lambda: kept.put("tea", "x"), kept.topics, lambda: kept.get("tea")):
        with pytest.raises(ToolError, match=r"The notes could not be (read|written): ") as told:
            act()
        assert str(tmp_path) not in str(told.value)


def test_sessions_that_write_at_once_lose_nothing(folder: Path) -> None:
    """Eight shelves of one folder: each writes topics of its own, and all write one that they share."""

    def write(writer: int) -> None:
        shelf = FolderShelf(folder)
        for n in range(20):
            shelf.put("s", f"w{writer}-{n}", "own")
            shelf.put("s", "shared", str(writer) * 5_000)

    with ThreadPoolExecutor(8) as writers:
        list(writers.map(write, range(8)))
    shelf = FolderShelf(folder)
    shared = shelf.get("s", "shared") or ""

    assert len(shelf.topics("s")) == 8 * 20 + 1
    assert (len(shared), len(set(shared))) == (5_000, 1)
    assert len(notes_in(folder)) == 8 * 20 + 1


def test_a_note_that_somebody_else_wrote_is_read_as_far_as_notes_go(folder: Path) -> None:
    shelf = FolderShelf(folder)
    shelf.put("s", "tea", "x")
    (note,) = notes_in(folder)
    kept = Scoped(shelf, "s")

    note.write_bytes(b"bad \xff\x00 bytes")
    assert kept.get("tea") == "bad \ufffd\ufffd bytes"
    note.write_text("é" * 100_000)
    assert kept.get("tea") == "é" * 8_192 + "\n… (the rest is cut)"


# ------------------------------------------------------------------ shelves of one's own


class Rows:
    """A shelf in memory."""

    def __init__(self, error: Exception | None = None) -> None:
        self.rows: dict[tuple[str, str], str] = {}
        self.error = error

    def get(self, scope: str, topic: str) -> str | None:
        self._fail()
        return self.rows.get((scope, topic))

    def put(self, scope: str, topic: str, text: str) -> None:
        self._fail()
        self.rows[scope, topic] = text

    def remove(self, scope: str, topic: str) -> None:
        self._fail()
        self.rows.pop((scope, topic), None)

    def topics(self, scope: str) -> list[str]:
        self._fail()
        return [topic for held, topic in self.rows if held == scope]

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


def acts(shelf: Shelf) -> Iterator[Callable[[], object]]:
    kept = Scoped(shelf, "s")
    yield lambda: kept.get("tea")
    yield lambda: kept.put("tea", "x")
    yield lambda: kept.remove("tea")
    yield kept.topics


def test_a_shelf_of_ones_own_is_used_as_it_is() -> None:
    shelf = Rows()
    kept = Scoped(shelf_of(shelf), "s")
    kept.put("tea", "black")
    kept.put("cake", "none")

    assert shelf.rows == {("s", "tea"): "black", ("s", "cake"): "none"}
    assert (kept.topics(), kept.get("tea")) == (["cake", "tea"], "black")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RuntimeError("password=hunter2 at db.internal"), "RuntimeError"),
        (OSError(errno.EACCES, "denied", "/srv/notes"), "Permission denied"),
        (TimeoutError("db.internal"), "TimeoutError"),
        (ToolError("The notes are being moved; try again in a minute."), None),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_shelf_that_raises_is_told_by_its_class_unless_it_speaks_to_the_model(
    error: Exception, why: str | None
) -> None:
    for act in acts(Rows(error)):
        with pytest.raises(ToolError) as told:
            act()
        if why is None:
            assert told.value is error
        else:
            assert f": {why}. Nothing is wrong with the arguments" in str(told.value)
            assert "db.internal" not in str(told.value)
            assert "/srv" not in str(told.value)


class Later(Rows):
    """A shelf whose writes would be awaited by nobody."""

    async def put(self, scope: str, topic: str, text: str) -> None:  # type: ignore[override]  # the fault
        self.rows[scope, topic] = text


@pytest.mark.parametrize(
    ("shelf", "says"),
    [
        (3, "shelf: found int, wanted a folder, or a Shelf"),
        ("", "shelf: found an empty path, wanted a folder"),
        (Rows, "shelf: found type, wanted a folder, or a Shelf"),
        (Later(), "shelf: found methods that are `async def`, wanted plain methods"),
    ],
)
def test_what_is_no_shelf_is_refused_when_the_tools_are_made(shelf: object, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        shelf_of(shelf)  # type: ignore[arg-type]  # that is what is checked

    assert str(refused.value) == says


def test_where_links_cannot_be_kept_out_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_NOFOLLOW")
    with pytest.raises(ConfigError, match="wanted Linux or macOS; elsewhere give a Shelf"):
        FolderShelf(tmp_path)
