"""Writing: what a call changes, what it leaves as it was, and what a person sees of it before."""

from __future__ import annotations

import asyncio
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.toolkit.files_scene import FileTools, make_file, picture_of
from windlass.errors import ConfigError
from windlass.ports.tool import ToolContext
from windlass.toolkit import files

CTX: ToolContext[Any] = ToolContext(deps=None)
PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n"


def version_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_file(tmp_path / "a.txt", "a\nb\n")
    make_file(tmp_path / "b.txt", "one\n")
    return tmp_path


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


# ------------------------------------------------------------------------------ what they declare


def test_what_changes_files_is_keyed_and_asks_and_what_reads_is_pure(root: Path) -> None:
    asking = {each.name: each for each in files(root)}

    assert list(asking) == [
        "read_file", "list_files", "find_files", "search_files", "write_file", "edit_file", "apply_patch",
    ]  # fmt: skip
    for name, each in asking.items():
        writes = name in ("write_file", "edit_file", "apply_patch")
        assert each.effect == ("keyed" if writes else "pure")
        assert each.approval == ("ask" if writes else "never")
        assert each.risk == ("medium" if writes else "low")
        assert each.sequential is writes
    assert [each.approval for each in files(root, write="allow")] == ["never"] * 7
    assert [each.effect for each in files(root, write="never")] == ["pure"] * 4


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"write": "yes"}, "files.write: found 'yes', wanted 'ask', 'allow' or 'never'"),
        ({"hidden": 1}, "files.hidden: found int, wanted True or False"),
        ({"hard_links": "no"}, "files.hard_links: found str, wanted True or False"),
        ({"protected": ["a/b"]}, "files.protected: found 'a/b', wanted names without a slash"),
        ({"max_read_bytes": 0}, "files.max_read_bytes: found 0, wanted at least 1"),
        ({"max_read_bytes": "1"}, "files.max_read_bytes: found str, wanted a number"),
    ],
)
def test_wrong_options_are_refused_when_the_tools_are_made(
    options: dict[str, Any], told: str, root: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        files(root, **options)

    assert str(refused.value) == told


# --------------------------------------------------------------------------------- what they do


def test_a_new_file_is_made_with_its_folders(root: Path, tools: FileTools) -> None:
    told = tools.ok("write_file", path="new/folder/c.txt", text="c\nd\n")

    assert told == "new/folder/c.txt: made, +2 -0, version " + version_of("c\nd\n")
    assert (root / "new" / "folder" / "c.txt").read_text() == "c\nd\n"


def test_a_file_that_exists_is_replaced_only_by_who_has_read_it(
    root: Path, tools: FileTools
) -> None:
    without = tools.refused("write_file", path="a.txt", text="x\n")
    stale = tools.refused("write_file", path="a.txt", text="x\n", version="000000000000")
    told = tools.ok("write_file", path="a.txt", text="x\n", version=version_of("a\nb\n"))

    assert without.startswith(
        "a.txt: this file exists. Read it with read_file and give the version"
    )
    assert stale.endswith(", wanted 000000000000: it changed since you read it; read it again")
    assert told == "a.txt: changed, +1 -2, version " + version_of("x\n")
    assert (root / "a.txt").read_text() == "x\n"


def test_the_same_text_again_is_no_change(root: Path, tools: FileTools) -> None:
    before = (root / "a.txt").stat()

    told = tools.ok("write_file", path="a.txt", text="a\nb\n", version=version_of("a\nb\n"))

    assert told == "a.txt: unchanged, it had this text already, version " + version_of("a\nb\n")
    assert (root / "a.txt").stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("content", "old", "new", "places", "then"),
    [
        (b"a\nb\n", "b", "bb", 1, b"a\nbb\n"),
        (b"a\nb\na\n", "a", "x", 2, b"x\nb\nx\n"),
        (b"a\nb\n", "a\n", "", 1, b"b\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", 1, b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", 1, b"a\r\nx\r\ny\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", 1, b"x\r\ny\r\n"),
        (b"a\nb\r\nc\r\nd\n", "b\nc", "x\ny", 1, b"a\nx\r\ny\r\nd\n"),
        (b"a\nb\nc\r\n", "a\nb", "x\ny", 1, b"x\ny\nc\r\n"),
        (b"a\nb\nc\n", "a\r\nb", "x\r\ny", 1, b"x\ny\nc\n"),
        (b"\xef\xbb\xbfa\nb\n", "a", "x", 1, b"\xef\xbb\xbfx\nb\n"),
        ("é\n".encode(), "é", "ü", 1, "ü\n".encode()),
        (b"x.y(z)*\n", "x.y(z)*", "done", 1, b"done\n"),
    ],
)
def test_an_edit_changes_what_it_names_and_no_other_byte(  # noqa: PLR0917 - a row of the table
    content: bytes, old: str, new: str, places: int, then: bytes, root: Path, tools: FileTools
) -> None:
    make_file(root / "f", content)

    tools.ok("edit_file", path="f", old=old, new=new, places=places)

    assert (root / "f").read_bytes() == then


@pytest.mark.parametrize(
    ("before", "text", "then"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n"),
        (b"\xef\xbb\xbfa\r\n", "x\n", b"\xef\xbb\xbfx\r\n"),
        (b"a\n", "x\r\n", b"x\r\n"),
        (b"caf\xe9\r\n", "x\n", b"x\r\n"),
        (b"caf\xe9\n", "x\n", b"x\n"),
        (b"\0\r\n", "x\n", b"x\n"),
    ],
)
def test_a_whole_text_keeps_the_mark_and_the_ends_of_the_lines_that_it_replaces(
    before: bytes, text: str, then: bytes, root: Path, tools: FileTools
) -> None:
    make_file(root / "f", before)

    tools.ok("write_file", path="f", text=text, version=sha256(before).hexdigest()[:12])

    assert (root / "f").read_bytes() == then


def test_a_file_of_as_many_lines_as_allowed_is_edited(root: Path, tools: FileTools) -> None:
    make_file(root / "long", "\n" * 199_999 + "last\n")

    told = tools.ok("edit_file", path="long", old="last", new="end")

    assert told.startswith("long: changed, +1 -1, version ")


def test_a_patch_changes_makes_and_deletes_files(root: Path, tools: FileTools) -> None:
    patch = (
        f"{PATCH}--- /dev/null\n+++ b/new/c.txt\n@@ -0,0 +1 @@\n+c\n"
        "--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    )

    told = tools.ok("apply_patch", patch=patch)

    assert told.splitlines() == [
        "a.txt: changed, +1 -1, version " + version_of("a\nB\n"),
        "new/c.txt: made, +1 -0, version " + version_of("c\n"),
        "b.txt: deleted, +0 -1",
    ]
    assert (root / "a.txt").read_text() == "a\nB\n"
    assert (root / "new" / "c.txt").read_text() == "c\n"
    assert not (root / "b.txt").exists()


def test_a_patch_of_which_one_part_does_not_fit_changes_nothing(
    root: Path, tools: FileTools
) -> None:
    before = picture_of(root)

    told = tools.refused("apply_patch", patch=PATCH + "--- a/b.txt\n+++ b/b.txt\n@@\n-two\n+2\n")

    assert told.startswith("patch, line 9: found a line that is not in b.txt: `two`; read b.txt")
    assert picture_of(root) == before


def test_a_call_that_is_refused_leaves_nothing_behind(root: Path, tools: FileTools) -> None:
    tools.refused("write_file", path="a.txt", text="x")
    tools.refused("edit_file", path="nowhere.txt", old="a", new="b")
    tools.refused("apply_patch", patch="nonsense")

    assert sorted(each.name for each in root.iterdir()) == ["a.txt", "b.txt"]


# --------------------------------------------------------------------------- permissions, places


def test_a_file_keeps_its_permissions_but_not_those_of_another_user(
    root: Path, tools: FileTools
) -> None:
    (root / "a.txt").chmod(0o4751)
    (root / "b.txt").chmod(0o600)

    tools.ok("edit_file", path="a.txt", old="b", new="c")
    tools.ok("edit_file", path="b.txt", old="one", new="two")

    assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("a.txt", "b.txt")] == [
        0o751, 0o600,
    ]  # fmt: skip


def test_a_new_file_has_the_permissions_of_any_new_file(root: Path, tools: FileTools) -> None:
    (root / "by_hand").touch()

    tools.ok("write_file", path="by_tool", text="")

    assert (root / "by_tool").stat().st_mode == (root / "by_hand").stat().st_mode


def test_a_file_that_is_marked_read_only_stays(root: Path, tools: FileTools) -> None:
    (root / "a.txt").chmod(0o444)

    told = tools.refused("edit_file", path="a.txt", old="b", new="c")

    assert told == "a.txt: found a file that is read-only here, wanted one that may be changed"
    assert (root / "a.txt").read_text() == "a\nb\n"


# ----------------------------------------------------------------------------- what a person sees


def preview(root: Path, name: str, **args: Any) -> str:
    made = {each.name: each for each in files(root)}[name]
    shown = made.preview
    assert shown is not None

    async def asked() -> str:
        return await shown(CTX, made.check(args))

    return asyncio.run(asked())


def test_a_person_sees_the_change_as_a_diff(root: Path) -> None:
    before = picture_of(root)

    assert preview(root, "edit_file", path="a.txt", old="b", new="B") == PATCH
    assert preview(root, "apply_patch", patch=PATCH) == PATCH
    assert preview(root, "write_file", path="new.txt", text="n\n") == (
        "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,1 @@\n+n\n"
    )
    assert picture_of(root) == before
    assert not (root / ".windlass").exists()


def test_of_several_files_a_person_sees_first_what_becomes_of_each(root: Path) -> None:
    name = "@@ -1,9 +1,9 @@ --- a"
    make_file(root / name, "x\n")
    patch = (
        f"{PATCH}--- /dev/null\n+++ b/new/c.txt\n@@ -0,0 +1,2 @@\n+c\n+d\n"
        "--- a/b.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-one\n"
        f"--- a/{name}\n+++ b/{name}\n@@ -1,1 +1,1 @@\n-x\n+x\n"
    )

    head, _, diff = preview(root, "apply_patch", patch=patch).partition("\n\n")

    assert head.splitlines() == [
        "4 files:",
        "  changed: a.txt, +1 -1",
        "  made: new/c.txt, +2 -0",
        "  deleted: b.txt, +0 -1",
        f"  unchanged: {name}, +0 -0",
    ]
    assert diff == patch.removesuffix("@@ -1,1 +1,1 @@\n-x\n+x\n")


def test_a_person_sees_that_a_call_would_fail(root: Path) -> None:
    assert preview(root, "write_file", path="a.txt", text="x").startswith(
        "As the files are now, this call would be refused: a.txt: this file exists."
    )
    assert "refused: ../x: found a path that leads upwards" in preview(
        root, "edit_file", path="../x", old="a", new="b"
    )


def test_a_person_sees_what_of_a_file_that_is_not_text_is_replaced(root: Path) -> None:
    data = b"\x89PNG\0\0"
    make_file(root / "logo.png", data)
    version = sha256(data).hexdigest()[:12]

    assert preview(root, "write_file", path="logo.png", text="x\n", version=version) == (
        "--- a/logo.png\n+++ b/logo.png\n@@ -1,1 +1,1 @@\n-(6 bytes that are not text)\n+x\n"
    )
