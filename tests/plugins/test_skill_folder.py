from __future__ import annotations

import errno
import os
import socket
import threading
import tracemalloc
from pathlib import Path

import pytest

from tests.plugins.skill_maker import make_skill
from tests.plugins.skilled_turn import after, begun, may_call, read
from windlass.errors import ConfigError, LimitExceeded, PathDenied, ToolError
from windlass.plugins import skill_folder
from windlass.plugins.skill_folder import SkillFolder, look_into
from windlass.plugins.skills import Skills
from windlass.ports.tool import ToolContext

SECRET = "the secret of another folder"
LIMIT = 1024


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of skills, one of which has all that should not be read in it; and what is beyond it."""
    outside = tmp_path / "outside"
    make_skill(outside, "stolen", body=SECRET, files={"secret.txt": SECRET, ".env": SECRET})
    (tmp_path / "secret.txt").write_text(SECRET, encoding="utf-8")
    root = tmp_path / "skills"
    folder = make_skill(
        root,
        "pdf",
        files={
            "references/guide.md": "the guide",
            ".env": SECRET,
            ".git/config": SECRET,
            "references/.hidden": SECRET,
            "big.txt": "x" * (LIMIT + 1),
        },
    )
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "inner.txt").symlink_to("references/guide.md")
    (folder / "dangling.txt").symlink_to(tmp_path / "nothing")
    (folder / "round.txt").symlink_to("round.txt")
    (folder / "linked").symlink_to(outside / "stolen")
    (folder / "references" / "up").symlink_to("..")
    (root / "stolen").symlink_to(outside / "stolen")
    os.mkfifo(folder / "pipe")
    make_skill(root, "other", files={"own.txt": SECRET})
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket has to be short
        try:
            door.bind("door")
        finally:
            os.chdir(here)
    return root


HOSTILE = [
    ("../secret.txt", "leads upwards"),
    ("../../secret.txt", "leads upwards"),
    ("../other/own.txt", "leads upwards"),
    ("references/../../other/own.txt", "leads upwards"),
    ("references/../references/guide.md", "leads upwards"),
    ("./../other/own.txt", "leads upwards"),
    ("..", "leads upwards"),
    ("/etc/passwd", "an absolute path"),
    ("//etc/passwd", "an absolute path"),
    ("references/guide.md\x00.txt", "no path has"),
    ("\ud800", "no path has"),
    ("", "a folder"),
    (".", "a folder"),
    ("references/", "a folder"),
    ("references", "a folder"),
    ("a/" * 17 + "b", "too long"),
    ("a" * 1025, "too long"),
    ("a" * 300, "no such file"),
    (".env", "a hidden file"),
    (".git/config", "a hidden file"),
    ("references/.hidden", "a hidden file"),
    ("...", "a hidden file"),
    ("link.txt", "a symbolic link"),
    ("inner.txt", "a symbolic link"),
    ("dangling.txt", "a symbolic link"),
    ("round.txt", "a symbolic link"),
    ("linked", "a symbolic link"),
    ("linked/secret.txt", "a symbolic link"),
    ("linked/SKILL.md", "a symbolic link"),
    ("references/up/SKILL.md", "a symbolic link"),
    ("pipe", "not a plain file"),
    ("door", "not a plain file"),
    ("pipe/x", "no such file"),
    ("SKILL.md/x", "no such file"),
    ("nothing.md", "no such file"),
    ("..\\..\\secret.txt", "a hidden file"),
    ("%2e%2e/secret.txt", "no such file"),
    ("~/secret.txt", "no such file"),
    ("C:\\secret.txt", "no such file"),
    ("big.txt", "found 1,025 bytes, the limit is 1,024"),
]


@pytest.mark.parametrize(("path", "reason"), HOSTILE, ids=[repr(path)[:40] for path, _ in HOSTILE])
def test_no_path_leads_out_of_a_skill(hostile: Path, path: str, reason: str) -> None:
    with pytest.raises((PathDenied, LimitExceeded)) as caught:
        SkillFolder(str(hostile), "pdf").read(path, LIMIT)

    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)
    assert str(hostile.parent) not in str(caught.value)


# A model that names no file means the skill itself.
TOLD = [(path, reason) for path, reason in HOSTILE if path]


@pytest.mark.parametrize(("path", "reason"), TOLD, ids=[repr(path)[:40] for path, _ in TOLD])
async def test_the_model_is_told_of_the_path_and_of_nothing_else(
    hostile: Path, path: str, reason: str
) -> None:
    tool = Skills(hostile, max_file_bytes=LIMIT).tools()[0]
    with pytest.raises(ToolError) as caught:
        await tool.run(ToolContext(deps=None), {"name": "pdf", "file": path})

    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)
    assert str(hostile.parent) not in str(caught.value)


async def test_a_file_of_no_name_is_the_skill_itself(tmp_path: Path) -> None:
    make_skill(tmp_path, "git", "allowed-tools: Read")
    plugin = Skills(tmp_path)
    assert await read(plugin, "git", "") == await read(plugin, "git")

    turn = await begun(plugin)
    await after(plugin, turn, name="git", file="")
    assert await may_call(plugin, turn, "Write") is not None


@pytest.mark.parametrize(
    "path", ["references/guide.md", "./references/guide.md", "references//guide.md"]
)
def test_a_file_of_the_skill_is_read(hostile: Path, path: str) -> None:
    assert SkillFolder(str(hostile), "pdf").read(path, LIMIT) == b"the guide"


def test_a_folder_of_a_skill_that_is_a_link_is_no_skill(hostile: Path) -> None:
    with pytest.raises(PathDenied, match="a symbolic link"):
        SkillFolder(str(hostile), "stolen").read("secret.txt", LIMIT)

    found = look_into(str(hostile))
    assert [folder.child for folder in found.folders] == ["other", "pdf"]
    assert found.links == ["stolen"]


def test_a_skill_file_that_is_a_link_is_not_read(hostile: Path) -> None:
    (hostile / "other" / "SKILL.md").unlink()
    (hostile / "other" / "SKILL.md").symlink_to(hostile / "pdf" / "SKILL.md")

    with pytest.raises(PathDenied, match="a symbolic link"):
        SkillFolder(str(hostile), "other").read("SKILL.md", LIMIT)


def test_a_folder_that_the_host_named_may_be_a_link(hostile: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(hostile)

    assert SkillFolder(str(tmp_path / "current"), "pdf").read("references/guide.md", LIMIT)


def test_a_huge_file_is_refused_without_being_read(tmp_path: Path) -> None:
    folder = make_skill(tmp_path, "pdf")
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded, match="104,857,600 bytes, the limit is 1,048,576"):
            SkillFolder(str(tmp_path), "pdf").read("huge.bin", 1024 * 1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1024 * 1024


def test_a_file_that_grows_while_it_is_read_is_refused_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_skill(tmp_path, "pdf", files={"log.txt": "x"})
    really_read = os.read
    n_read = 0

    def growing(file: int, size: int) -> bytes:
        nonlocal n_read
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write("y" * 600)
        piece = really_read(file, size)
        n_read += len(piece)
        return piece

    monkeypatch.setattr(os, "read", growing)
    with pytest.raises(LimitExceeded):
        SkillFolder(str(tmp_path), "pdf").read("log.txt", LIMIT)

    assert n_read < 3 * LIMIT


def test_a_file_at_the_limit_is_read(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf", files={"a.txt": "x" * LIMIT})

    assert len(SkillFolder(str(tmp_path), "pdf").read("a.txt", LIMIT)) == LIMIT


def test_a_folder_that_is_swapped_for_a_link_gives_nothing_away(hostile: Path) -> None:
    """S10: what is checked is what is read, however fast somebody swaps."""
    references, aside = hostile / "pdf" / "references", hostile / "pdf" / "aside"
    (hostile.parent / "outside" / "stolen" / "guide.md").write_text(SECRET, encoding="utf-8")
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            references.rename(aside)
            references.symlink_to(hostile.parent / "outside" / "stolen")
            references.unlink()
            aside.rename(references)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[str] = set()
    try:
        for _ in range(1_000):
            try:
                seen.add(SkillFolder(str(hostile), "pdf").read("references/guide.md", 99).decode())
            except PathDenied:
                seen.add("denied")
    finally:
        is_over.set()
        swapper.join()

    assert seen <= {"the guide", "denied"}


def test_a_file_that_may_not_be_read_is_told_without_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill(tmp_path, "pdf", files={"a.txt": "x"})

    def refusing(*args: object, **kwargs: object) -> int:
        raise PermissionError(errno.EACCES, "no", str(tmp_path))

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(PathDenied) as caught:
        SkillFolder(str(tmp_path), "pdf").read("a.txt", LIMIT)

    assert str(caught.value) == "a.txt: found a file that may not be read"


def test_no_file_stays_open(hostile: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    folder = SkillFolder(str(hostile), "pdf")
    for path, _reason in HOSTILE:
        with pytest.raises((PathDenied, LimitExceeded)):
            folder.read(path, LIMIT)
    folder.read("SKILL.md", LIMIT)
    folder.files()
    look_into(str(hostile))

    assert len(list(Path("/proc/self/fd").iterdir())) == before


# ------------------------------------------------------------------------------------- listing


def test_the_listing_has_the_files_that_can_be_read(hostile: Path) -> None:
    files, has_more = SkillFolder(str(hostile), "pdf").files()

    assert files == [("big.txt", 1025), ("references/guide.md", 9)]
    assert not has_more


def test_the_listing_ends_at_500_files_and_says_so(tmp_path: Path) -> None:
    folder = make_skill(tmp_path, "pdf", files={f"f/{n:04}": "" for n in range(500)})
    at_limit = SkillFolder(str(tmp_path), "pdf").files()
    (folder / "one-more").touch()
    over = SkillFolder(str(tmp_path), "pdf").files()

    assert (len(at_limit[0]), at_limit[1]) == (500, False)
    assert (len(over[0]), over[1]) == (500, True)


def test_the_listing_of_a_very_deep_folder_ends(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf", files={"d/" * 15 + "in": "x", "e/" * 16 + "out": "x"})

    assert SkillFolder(str(tmp_path), "pdf").files() == ([("d/" * 15 + "in", 1)], True)


def test_a_name_that_cannot_be_shown_is_not_listed(tmp_path: Path) -> None:
    folder = make_skill(tmp_path, "pdf", files={"a\nb": "x", "ok": "x"})
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()

    assert SkillFolder(str(tmp_path), "pdf").files() == ([("ok", 1)], False)


def test_a_folder_with_a_skill_file_is_one_skill(hostile: Path) -> None:
    found = look_into(str(hostile / "pdf"))

    assert found.folders == [SkillFolder(str(hostile / "pdf"))]
    assert found.folders[0].read("references/guide.md", LIMIT) == b"the guide"


def test_hidden_folders_are_not_looked_into(tmp_path: Path) -> None:
    make_skill(tmp_path, "pdf")
    make_skill(tmp_path, ".git")
    (tmp_path / "README.md").touch()
    (tmp_path / "no-skill").mkdir()

    assert look_into(str(tmp_path)).folders == [SkillFolder(str(tmp_path), "pdf")]


def test_a_look_into_a_huge_folder_ends_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        make_skill(tmp_path, name)
    monkeypatch.setattr(skill_folder, "_MAX_SEEN", 3)
    assert look_into(str(tmp_path)).is_whole
    assert SkillFolder(str(tmp_path), "a").files() == ([], False)

    monkeypatch.setattr(skill_folder, "_MAX_SEEN", 2)
    assert not look_into(str(tmp_path)).is_whole
    assert Skills(tmp_path).left_out == (f"{tmp_path}: found more entries than are looked at",)


def test_a_system_that_cannot_open_beneath_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(ConfigError, match="this system cannot open files relative to a folder"):
        Skills(tmp_path)
