"""The file tools in turns: a change waits for a person, survives every crash, and is made once."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.toolkit.files_scene import make_file
from windlass import Agent, Runtime, TurnResult
from windlass.testing import Scenario, ScriptedModel, call, calls, kill_everywhere, say
from windlass.testing.crashing.kill_everywhere import StoreKind
from windlass.toolkit import files
from windlass.toolkit.files.writing import Writer

EDIT = call("edit_file", path="a.txt", old="b", new="bb")
DIFF = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+bb\n"
PATCH = (
    "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n a\n bb\n+c\n"
    "--- /dev/null\n+++ b/new/d.txt\n@@ -0,0 +1 @@\n+d\n"
)


def coder(root: Path, *script: Any, write: Any = "allow") -> Agent[None, str]:  # noqa: ANN401 - replies
    return Agent("coder", model=ScriptedModel(list(script)), tools=files(root, write=write))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("twice", [False, True])
async def test_a_turn_that_changes_files_survives_a_crash_at_every_point(
    tmp_path: Path, store: StoreKind, *, twice: bool
) -> None:
    n_worlds = 0

    def scenario() -> Scenario:
        nonlocal n_worlds
        n_worlds += 1
        root = make_file(tmp_path / str(n_worlds) / "a.txt", "a\nb\n").parent

        def check(result: TurnResult[str]) -> None:
            assert result.text == "Done."
            assert [each.outcome.status for each in result.tool_calls] == ["ok", "ok", "ok"]
            assert (root / "a.txt").read_text() == "a\nbb\nc\n"
            assert (root / "new" / "d.txt").read_text() == "d\n"
            assert list((root / ".windlass" / "halves").iterdir()) == []
            shutil.rmtree(root)

        script = (call("read_file", path="a.txt"), EDIT, call("apply_patch", patch=PATCH))
        return Scenario(
            agents=lambda: coder(root, *script, say("Done.")),
            run=lambda rt: rt.session("s").run("Change it.", turn_id="t"),
            check=check,
            allow_unknown=False,
        )

    report = await kill_everywhere(
        scenario, store=store, twice=twice, max_points=24 if twice else None
    )

    assert len(report.points) > 10


async def test_a_tool_that_forgets_its_key_does_not_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The red proof: without records, an edit that ran is made twice."""
    from windlass.testing import CrashFound  # noqa: PLC0415 - of this one
    from windlass.toolkit.files.state import State  # noqa: PLC0415 - as above

    monkeypatch.setattr(State, "record", lambda state, key: None)

    def scenario() -> Scenario:
        root = make_file(tmp_path / "a.txt", "a\nb\n").parent

        def check(result: TurnResult[str]) -> None:
            assert (root / "a.txt").read_text() == "a\nbb\n"

        return Scenario(
            agents=lambda: coder(root, EDIT, say("Done.")),
            run=lambda rt: rt.session("s").run("Change it.", turn_id="t"),
            check=check,
        )

    with pytest.raises(CrashFound, match="after edit_file"):
        await kill_everywhere(scenario)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_file(tmp_path / "root" / "a.txt", "a\nb\n").parent


async def asked(
    root: Path,
    store: str,
    act: Callable[[], object],
    *,
    allow: bool = True,
    edit: Any = EDIT,  # noqa: ANN401 - a reply
) -> tuple[str, TurnResult[str]]:
    """Ask for an edit, act while it waits, answer in another runtime; return what was shown and how it ended."""
    async with Runtime(coder(root, edit, say("Done."), write="ask"), store=store) as rt:
        parked = await rt.session("s").run("Change it.", turn_id="t")
        wait = parked.waits[0]
    act()
    async with Runtime(coder(root, edit, say("Done."), write="ask"), store=store) as rt:
        await (rt.approve(wait.key, by="eva") if allow else rt.deny(wait.key, by="eva"))
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
    assert isinstance(wait.detail, dict)
    return str(wait.detail["preview"]), result


async def test_a_person_sees_the_diff_and_the_change_is_made_after_their_yes(
    root: Path, tmp_path: Path
) -> None:
    def act() -> None:
        assert (root / "a.txt").read_text() == "a\nb\n"

    shown, result = await asked(root, f"sqlite:///{tmp_path}/s.db", act)

    assert shown == DIFF
    assert result.text == "Done."
    assert (root / "a.txt").read_text() == "a\nbb\n"


async def test_however_long_a_patch_is_they_see_which_files_it_changes(
    root: Path, tmp_path: Path
) -> None:
    """A preview is cut, and the rest of it may be what matters."""
    rows = "".join(f"+row {n}, {n * n}\n" for n in range(5_000))
    long = f"--- /dev/null\n+++ b/data.csv\n@@ -0,0 +1,5000 @@\n{rows}"
    edit = call("apply_patch", patch=long + DIFF)

    shown, result = await asked(root, f"sqlite:///{tmp_path}/s.db", lambda: None, edit=edit)

    assert shown.startswith("2 files:\n  made: data.csv, +5000 -0\n  changed: a.txt, +1 -1\n\n--- ")
    assert shown.endswith(" more characters")
    assert [each.outcome.status for each in result.tool_calls] == ["ok"]


async def test_after_their_no_nothing_is_changed(root: Path, tmp_path: Path) -> None:
    _, result = await asked(root, f"sqlite:///{tmp_path}/s.db", lambda: None, allow=False)

    assert [each.outcome.status for each in result.tool_calls] == ["denied"]
    assert (root / "a.txt").read_text() == "a\nb\n"
    assert not (root / ".windlass").exists()


async def test_what_they_allowed_is_not_done_to_a_file_that_is_another_by_then(
    root: Path, tmp_path: Path
) -> None:
    _, result = await asked(
        root, f"sqlite:///{tmp_path}/s.db", lambda: make_file(root / "a.txt", "mine\n")
    )

    assert [each.outcome.status for each in result.tool_calls] == ["error"]
    assert (root / "a.txt").read_text() == "mine\n"


async def test_what_they_allowed_is_not_done_in_more_places_than_they_saw(
    root: Path, tmp_path: Path
) -> None:
    def act() -> None:
        make_file(root / "a.txt", "b\nb\nb\nb\n")

    make_file(root / "a.txt", "b\nb\n")
    both = call("edit_file", path="a.txt", old="b", new="bb", places=2)
    shown, result = await asked(root, f"sqlite:///{tmp_path}/s.db", act, edit=both)

    assert shown == "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-b\n-b\n+bb\n+bb\n"
    assert [each.outcome.status for each in result.tool_calls] == ["error"]
    assert (root / "a.txt").read_text() == "b\nb\nb\nb\n"


async def test_a_call_that_waits_for_others_changes_nothing_once_its_turn_is_cancelled(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for, is_over = threading.Event(), threading.Event()
    flock, write = fcntl.flock, Writer.write

    def noted_flock(file: int, how: int) -> None:
        asked_for.set()
        flock(file, how)

    def noted_write(*args: Any) -> Any:  # noqa: ANN401 - as the function has it
        try:
            return write(*args)
        finally:
            is_over.set()

    lock = make_file(root / ".windlass" / "lock")
    lock.parent.chmod(0o700)
    monkeypatch.setattr(Writer, "write", noted_write)
    async with Runtime(coder(root, EDIT, say("never")), store="memory:") as rt:
        with lock.open("rb") as held:
            flock(held, fcntl.LOCK_EX)
            monkeypatch.setattr(fcntl, "flock", noted_flock)
            turn = asyncio.create_task(rt.session("s").run("Change it.", turn_id="t"))
            assert await asyncio.to_thread(asked_for.wait, HANGS_S)
            await rt.cancel("s", "t")
            result = await asyncio.wait_for(turn, HANGS_S)
        assert await asyncio.to_thread(is_over.wait, HANGS_S)

    assert [each.outcome.status for each in result.tool_calls] == ["unknown"]
    assert (root / "a.txt").read_text() == "a\nb\n"


async def test_changes_of_one_reply_are_made_one_after_the_other(root: Path) -> None:
    edits = calls(
        ("edit_file", {"path": "a.txt", "old": "a", "new": "x"}),
        ("edit_file", {"path": "a.txt", "old": "b", "new": "y"}),
    )
    result = await coder(root, edits, say("Done.")).run("Change both.")

    assert [each.outcome.status for each in result.tool_calls] == ["ok", "ok"]
    assert (root / "a.txt").read_text() == "x\ny\n"
