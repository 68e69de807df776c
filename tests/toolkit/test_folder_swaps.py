"""Names that are swapped while the tools work: nothing outside is read or written, however the race ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.limits import HANGS_S, times
from tests.toolkit.files_scene import CANARY, Answer, FileTools, Place, make_file, picture_of
from windlass.toolkit.files import folder as folder_module


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ------------------------------------------------------------------------------- between two looks


class Swap:
    """Acts once, between the look at a name and its opening."""

    def __init__(self, name: str, act: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
        self.name, self.act, self.is_done = name, act, False
        self._stat = os.stat
        patch.setattr(os, "stat", self)

    def __call__(self, path: str | int, **options: Any) -> os.stat_result:
        found = self._stat(path, **options)
        if path == self.name and not self.is_done:
            self.is_done = True
            self.act()
        return found


def swapped_folder(place: Place) -> Callable[[], object]:
    def act() -> None:
        (place.root / "sub").rename(place.root / "gone")
        place.link("sub", place.outside)

    return act


def swapped_file(place: Place) -> Callable[[], object]:
    def act() -> None:
        (place.root / "inside.txt").unlink()
        place.link("inside.txt", place.outside / "secret.txt")

    return act


def read_swapped(place: Place, patch: pytest.MonkeyPatch) -> list[str]:
    """Return what is read where a link takes a place between a look and the opening: of a folder, of a file."""
    make_file(place.root / "sub" / "secret.txt", "inside\n")
    answers = []
    tools = FileTools(place.root)
    for name, path, swap in (
        ("sub", "sub/secret.txt", swapped_folder(place)),
        ("inside.txt", "inside.txt", swapped_file(place)),
    ):
        with patch.context() as inner:
            tried = Swap(name, swap, inner)
            answers.append(tools.call("read_file", {"path": path}).text)
        assert tried.is_done
    return answers


def test_a_link_that_takes_a_place_after_the_look_is_not_followed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = read_swapped(place, monkeypatch)

    for answer in answers:
        assert "something else in its place since it was looked at; try again" in answer
        assert CANARY not in answer


@pytest.mark.parametrize("kind", ["a pipe", "a file with 2 names"])
def test_what_takes_the_place_of_a_file_after_the_look_is_looked_at_again(
    kind: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No link, so no flag keeps it out. Opening a pipe waits for a writer, unless it is told not to."""
    file, tools = place.root / "inside.txt", FileTools(place.root)

    def act() -> None:
        file.unlink()
        os.mkfifo(file) if kind == "a pipe" else os.link(place.outside / "secret.txt", file)

    with monkeypatch.context() as inner, ThreadPoolExecutor(1) as pool:
        tried = Swap("inside.txt", act, inner)
        reading = pool.submit(tools.call, "read_file", {"path": "inside.txt"})
        try:
            answer = reading.result(HANGS_S)
        finally:
            os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))  # a writer, for one that waits
    assert tried.is_done
    assert answer.status == "path_denied"
    assert f"inside.txt: found {kind}" in answer.text


def test_the_flag_that_keeps_links_out_is_what_keeps_them_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The red proof: without it, both reads give the secret away."""
    monkeypatch.setattr(folder_module, "_FOLDER", folder_module._FOLDER & ~os.O_NOFOLLOW)
    monkeypatch.setattr(folder_module, "_FILE", folder_module._FILE & ~os.O_NOFOLLOW)

    answers = read_swapped(place, monkeypatch)

    assert [CANARY in answer for answer in answers] == [True, True]


def test_listings_at_once_each_see_all_names(tmp_path: Path) -> None:
    """They do not share a place in the folder: each opens it anew."""
    for n in range(400):
        make_file(tmp_path / f"f{n:03}")
    tools = FileTools(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        heads = {
            each.result().split("\n")[0]
            for each in [pool.submit(tools.ok, "list_files", depth=1) for _ in range(60)]
        }

    assert heads == {".: 400 names"}


# -------------------------------------------------------------------------------- as it comes

N_CALLS = times(1_200)
SWAPPER = Path(__file__).with_name("files_swapper.py")


def raced(tools: FileTools, n: int) -> list[Answer]:
    """Make three kinds of calls, on names that are swapped."""
    read = tools.call("read_file", {"path": ("sub/secret.txt", "file.txt")[n % 2]})
    version = re.search(r"version (\w+)", read.text)
    known = {"version": version[1]} if version else {}
    answers = [read, tools.call("write_file", {"path": "file.txt", "text": f"{n}\n", **known})]
    if n % 2:
        answers.append(tools.call("write_file", {"path": f"sub/{n}.txt", "text": "x\n"}))
    else:
        answers.append(tools.call("search_files", {"query": CANARY}))
    return answers


def test_nothing_outside_is_touched_while_another_process_swaps_names(place: Place) -> None:
    make_file(place.root / "file.txt", "inside\n")
    make_file(place.root / "sub" / "secret.txt", "inside\n")
    tools = FileTools(place.root)
    enough = place.root.with_name("enough")
    command = [
        sys.executable, str(SWAPPER), str(place.root), str(place.outside), str(enough), str(N_CALLS),
    ]  # fmt: skip
    answers: list[Answer] = []
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == "swapping\n"
        n = 0
        # On a busy machine it may be slower than the calls.
        while swapper.poll() is None and (n < N_CALLS // 3 or not enough.exists()):
            answers += raced(tools, n)
            n += 1
        said, _ = swapper.communicate("stop\n", timeout=HANGS_S)

    n_swaps, n_links = map(int, said.split())
    assert n_swaps > N_CALLS
    # A quarter of all swaps, but for those that a writer was in the way of.
    assert n_links > n_swaps // 8, "the folder stayed a folder"
    # Both sides won: some calls were done, and some met what they refuse.
    statuses = Counter(answer.status for answer in answers)
    assert statuses["ok"] > N_CALLS // 20, statuses
    assert statuses["path_denied"] > N_CALLS // 20, statuses
    assert statuses.keys() <= {"ok", "path_denied", "tool_error"}
    assert [answer for answer in answers if CANARY in answer.text] == []
    assert picture_of(place.outside) == place.before
