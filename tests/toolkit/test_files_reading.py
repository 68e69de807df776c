"""Reading, listing, finding and searching: what a model is shown, and what it is told was left out."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.toolkit.files_scene import FileTools, make_file
from windlass.toolkit.files import search as file_search
from windlass.toolkit.files.folder import Folder
from windlass.toolkit.files.walk import Pattern, Walk

# A program that searches, and says when the process that it searches with has all that it needs. That process holds
# the pipe whose number comes first.
SEARCHING = """
import subprocess, sys, threading
from pathlib import Path
from tests.toolkit.files_scene import FileTools

class Told(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, pass_fds=(int(sys.argv[1]),), **options)
        threading.Thread(target=self.tell, daemon=True).start()

    def tell(self):
        while not self.stdin.closed:
            pass
        print("up", flush=True)

subprocess.Popen = Told
FileTools(Path(sys.argv[2])).refused("search_files", query="(a+)+$", regex=True)
"""
# The first twelve digits of the SHA-256 of "a\nb\nc\n", by sha256sum.
ABC = "880553fca8fc"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_file(tmp_path / "abc.txt", "a\nb\nc\n")
    make_file(tmp_path / "src" / "app.py", "import os\n\ndef main():\n    return os\n")
    make_file(tmp_path / "src" / "deep" / "test_app.py", "def test():\n    main()\n")
    make_file(tmp_path / "node_modules" / "x" / "index.js", "main()\n")
    make_file(tmp_path / "logo.png", b"\x89PNG\0\0")
    return tmp_path


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


# ------------------------------------------------------------------------------------ reading


def test_a_file_is_shown_plain_below_a_line_that_names_its_version(tools: FileTools) -> None:
    assert tools.ok("read_file", path="abc.txt") == (
        f"abc.txt: lines 1 to 3 of 3, version {ABC}\na\nb\nc"
    )
    assert tools.ok("read_file", path="./abc.txt").endswith("\na\nb\nc")


def test_a_part_of_it_says_how_to_go_on(tools: FileTools) -> None:
    assert tools.ok("read_file", path="abc.txt", start=2, lines=1) == (
        f"abc.txt: lines 2 to 2 of 3, version {ABC} (go on with start=3)\nb"
    )


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", "f: empty, version"),
        (b"\n", "f: lines 1 to 1 of 1, version"),
        (b"a", "(no line feed at its end)\na"),
        (b"a\r\nb\r\n", "(its lines end with CRLF; write them with plain line feeds)\na\nb"),
        (b"\xef\xbb\xbfa\n", "\na"),
        (b"caf\xe9\n", "it cannot be edited)\ncaf\ufffd"),
        (
            b"a\x0cb\n",
            "(control characters in it are shown as \\x0c and the like; write_file writes that as plain text)\na",
        ),
        (b"a\x1b\xc2\x85\r\n", "plain line feeds; control characters in it are shown as"),
        (b"a\tb\rc\n", "version d8493ad7f744\na"),
        (b"a\0b", "f: 3 bytes, version"),
        (b"a\0b", ". It is not text, so it is not shown."),
    ],
)
def test_what_is_special_about_a_file_is_said(content: bytes, shown: str, root: Path) -> None:
    make_file(root / "f", content)

    assert shown in FileTools(root).ok("read_file", path="f")


def test_a_long_file_is_shown_as_far_as_it_fits(root: Path, tools: FileTools) -> None:
    make_file(root / "long", ("x" * 99 + "\n") * 5_000)
    make_file(root / "wide", "y" * 100_000 + "\nz\n")

    long, wide = (tools.ok("read_file", path=p, lines=5_000) for p in ("long", "wide"))

    assert "lines 1 to 600 of 5,000" in long
    assert "(go on with start=601)" in long
    assert len(long) < 61_000
    assert wide.endswith("y… (cut: this line has 100,000 characters)")
    assert "(line 1 is cut, and its rest cannot be read; go on with start=2)" in wide


def test_a_file_over_the_limit_is_refused_by_its_size(root: Path) -> None:
    tools = FileTools(root, max_read_bytes=6)

    assert tools.ok("read_file", path="abc.txt").endswith("\na\nb\nc")
    assert tools.refused("read_file", path="src/app.py") == (
        "src/app.py: found 37 bytes, the limit is 6"
    )


def test_a_file_that_grows_while_it_is_read_is_refused_when_it_is_over_the_limit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.read

    def grown(file: int, n_bytes: int) -> bytes:
        monkeypatch.setattr(os, "read", read)
        with (root / "abc.txt").open("a") as growing:
            growing.write("d\n" * 50)
        return read(file, n_bytes)

    tools = FileTools(root, max_read_bytes=6)
    monkeypatch.setattr(os, "read", grown)

    assert tools.refused("read_file", path="abc.txt") == (
        "abc.txt: found 106 bytes, the limit is 6"
    )


# ------------------------------------------------------------------------------------ listing


def test_a_list_shows_the_levels_asked_for_and_what_is_below_them(tools: FileTools) -> None:
    assert tools.ok("list_files", depth=1).splitlines() == [
        ".: 4 names; … stands for more in a folder",
        "abc.txt",
        "logo.png",
        "node_modules/",
        "src/ …",
        "(Not listed: what is in node_modules; begin there to look into it.)",
    ]
    assert tools.ok("list_files", folder="src", depth=3).splitlines() == [
        "src: 3 names", "src/app.py", "src/deep/", "src/deep/test_app.py",
    ]  # fmt: skip
    assert tools.ok("list_files", folder="node_modules/x") == (
        "node_modules/x: 1 name\nnode_modules/x/index.js"
    )


def test_a_list_is_bounded_and_says_so(root: Path, tools: FileTools) -> None:
    for n in range(510):
        make_file(root / "many" / f"{n:03}")

    listed = tools.ok("list_files", folder="many").splitlines()

    assert len(listed) == 502
    assert listed[0] == "many: 510 names"
    assert listed[-1] == "(Not listed: 10 more names.)"


def test_a_walk_looks_at_so_many_names_and_says_that_there_are_more(root: Path) -> None:
    walk = Walk(Folder(root), (), seen=3)

    assert len(list(walk)) == 3
    assert "all after the first 3 names; begin in a folder further down" in walk.left_out()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["src/app.py", "src/deep/test_app.py"]),
        ("src/*.py", ["src/app.py"]),
        ("src/**/*.py", ["src/app.py", "src/deep/test_app.py"]),
        ("**/test_*", ["src/deep/test_app.py"]),
        ("**/deep/**", ["src/deep/test_app.py"]),
        ("[a-c]*.txt", ["abc.txt"]),
        ("app.py", ["src/app.py"]),
        ("nothing", []),
        ("[", []),
    ],
)
def test_names_are_found_by_patterns(pattern: str, found: list[str], tools: FileTools) -> None:
    n = len(found)

    assert tools.ok("find_files", pattern=pattern).splitlines()[:-1] == [
        f"{n} file{'' if n == 1 else 's'} found",
        *found,
    ]


def test_a_pattern_counts_from_the_folder_that_is_asked_for(tools: FileTools) -> None:
    assert tools.ok("find_files", pattern="deep/*", folder="src").splitlines()[1:] == [
        "src/deep/test_app.py"
    ]


def test_a_pattern_full_of_stars_is_answered_at_once(root: Path, tools: FileTools) -> None:
    make_file(root / ("a" * 200))

    assert tools.ok("find_files", pattern="*a" * 120 + "b").startswith("0 files found")
    assert tools.ok("find_files", pattern="**/" * 31 + "b").startswith("0 files found")


def test_folders_of_any_number_asked_for_again_and_again_cost_no_more_than_once() -> None:
    names = ("a",) * 32

    def cost(pattern: str) -> int:
        looked = 0

        def count(*_: object) -> None:
            nonlocal looked
            looked += 1

        wanted = Pattern(pattern, "pattern")
        assert wanted.fits(names)  # the first time, names are compiled
        sys.setprofile(count)
        try:
            wanted.fits(names)
        finally:
            sys.setprofile(None)
        return looked

    assert cost("**/" * 90 + "*a") == cost("**/*a")


# ---------------------------------------------------------------------------------- searching


def test_lines_are_found_with_their_places(tools: FileTools) -> None:
    assert tools.ok("search_files", query="main()").splitlines() == [
        "2 lines found; 3 of 4 files searched",
        "src/app.py:3: def main():",
        "src/deep/test_app.py:2:     main()",
        "(Not searched: logo.png: not text; what is in node_modules; begin there to look into it.)",
    ]


def test_a_search_may_be_narrowed(tools: FileTools) -> None:
    found = tools.ok("search_files", query="MAIN", pattern="test_*", ignore_case=True)

    assert found.splitlines()[:2] == [
        "1 line found; 1 of 1 file searched",
        "src/deep/test_app.py:2:     main()",
    ]


def test_a_regular_expression_finds_the_same_lines(tools: FileTools) -> None:
    found = tools.ok("search_files", query=r"^def (main|TEST)\(\)", regex=True, ignore_case=True)

    assert found.splitlines()[1:3] == [
        "src/app.py:3: def main():",
        "src/deep/test_app.py:1: def test():",
    ]


def test_one_that_cannot_be_read_is_told(tools: FileTools) -> None:
    assert tools.refused("search_files", query="(", regex=True).startswith(
        "query: found a regular expression that cannot be read (missing )"
    )


async def test_one_that_would_take_for_ever_is_stopped_and_the_loop_goes_on(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_search, "_REGEX_S", 0.5)
    make_file(root / "evil", "a" * 60 + "!\n")
    beats = 0

    searching = asyncio.get_running_loop().run_in_executor(
        None, lambda: tools.refused("search_files", query="(a+)+$", regex=True)
    )
    async with asyncio.timeout(HANGS_S):
        while not searching.done():
            await asyncio.sleep(0)
            beats += 1

    assert await searching == (
        "query: found a pattern that takes longer than 0.5 s, "
        "wanted a simpler one, a narrower folder, or plain text"
    )
    assert beats > 100


def test_one_goes_on_no_longer_when_its_program_is_killed(root: Path) -> None:
    make_file(root / "evil", "a" * 60 + "!\n")
    ours, theirs = os.pipe()
    command = [sys.executable, "-c", SEARCHING, str(theirs), str(root)]
    with subprocess.Popen(
        command, cwd=ROOT, pass_fds=(theirs,), stdout=subprocess.PIPE
    ) as searching:
        os.close(theirs)
        assert searching.stdout is not None
        assert searching.stdout.readline() == b"up\n"
        searching.kill()
        assert searching.wait(HANGS_S) == -signal.SIGKILL
    with os.fdopen(ours, "rb") as pipe:
        ready, _, _ = select.select((pipe,), (), (), HANGS_S)
        assert ready, "the process goes on"
        assert pipe.read() == b""


def test_one_that_takes_too_much_memory_is_told(root: Path, tools: FileTools) -> None:
    make_file(root / "long", "abcd" * 2_000_000)

    told = tools.refused("search_files", query="((a)|(b)|(c)|(d))*(?:e)", regex=True)

    assert told == (
        "query: found a pattern that takes more than 512 MiB of memory, "
        "wanted a simpler one, a narrower folder, or plain text"
    )


def test_hits_are_bounded_for_each_file_and_for_all(root: Path, tools: FileTools) -> None:
    make_file(root / "many" / "a", "hit\n" * 30)
    few = tools.ok("search_files", query="hit", folder="many").splitlines()
    for n in range(8):
        make_file(root / "many" / f"b{n}", "hit\n" * 30)
    many = tools.ok("search_files", query="hit", folder="many").splitlines()

    assert len(few) == 22
    assert few[-1] == "(Not searched: more than 20 lines each of many/a.)"
    assert many[0].startswith("100 lines found at least; ")
    assert len(many) == 102
    assert "the rest; use a narrower query, folder or pattern" in many[-1]


def test_a_search_stops_after_so_many_bytes(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_search, "_MAX_SEARCHED_BYTES", 10)

    found = tools.ok("search_files", query="import", folder="src")

    assert found.splitlines()[0] == "1 line found at least; 1 of 2 files searched"


def test_a_line_is_shown_cut_and_with_what_is_hidden_in_it(root: Path, tools: FileTools) -> None:
    make_file(root / "odd", "needle \u202e\x1b[31m" + "x" * 500 + "\n")

    (line,) = tools.ok("search_files", query="needle", pattern="odd").splitlines()[1:2]

    assert line.startswith("odd:1: needle \\u202e\\u001b[31mxxx")
    assert line.endswith("x…")
    assert len(line) < 270


@pytest.mark.parametrize(
    ("line", "query", "ignore_case", "shown"),
    [
        ("x" * 70_000 + "needle" + "y" * 500, "needle", False, "needle"),
        ("x" * 70_000 + "needle", "needle", False, "needle"),
        ("ß" * 70_000 + "NEEDLE" + "y" * 500, "needle", True, "NEEDLE"),
        ("x" * 236 + "needle", "needle", False, "needle"),
    ],
    ids=["far", "at the end", "ignoring case", "half cut"],
)
def test_of_a_long_line_the_part_that_fits_is_shown_with_its_column(
    line: str,
    query: str,
    ignore_case: bool,
    shown: str,
    root: Path,
    tools: FileTools,
) -> None:
    make_file(root / "long", f"{line}\n")
    at = line.index(shown)

    (told,) = tools.ok(
        "search_files", query=query, pattern="long", ignore_case=ignore_case
    ).splitlines()[1:2]

    assert told.startswith(f"long:1: (from column {at - 59:,}) …" + line[at - 60 : at] + shown)
    assert len(told) < 300
    assert told.endswith("…") is line.endswith("yyy")
