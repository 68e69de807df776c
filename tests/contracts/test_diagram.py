"""The diagram in the docs is the table in the code, and a changed table turns the check red."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from scripts import diagrams
from windlass.kernel import TRANSITIONS

ROOT = Path(__file__).parents[2]

SMALL = {"closed": {"push": ("open",), "stop": ("gone",)}, "open": {"stop": ("gone",)}, "gone": {}}
DRAWN = """\
Before.

<!-- drawn by scripts/diagrams.py: begin -->

```mermaid
stateDiagram-v2
    [*] --> closed
    closed --> open: push
    closed --> gone: stop
    open --> gone: stop
    gone --> [*]
```

| state | input | next |
|---|---|---|
| `closed` | `push` | `open` |
| `closed` | `stop` | `gone` |
| `open` | `stop` | `gone` |
| `gone` | any | stays |

<!-- drawn by scripts/diagrams.py: end -->

After.
"""
EMPTY = f"Before.\n\n{diagrams.BEGIN}\n{diagrams.END}\n\nAfter.\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(EMPTY, encoding="utf-8")
    return path


def check(page: Path, table: diagrams.Table = SMALL) -> int:
    return diagrams.main(["--check", "--page", str(page)], table=table)


def test_a_table_is_drawn_between_the_markers_and_the_rest_is_left(page: Path) -> None:
    assert diagrams.main(["--page", str(page)], table=SMALL) == 0

    assert page.read_text(encoding="utf-8") == DRAWN
    assert check(page) == 0


def test_two_inputs_between_the_same_states_share_an_edge() -> None:
    table = {"closed": {"push": ("gone",), "stop": ("gone",)}, "gone": {}}

    assert "    closed --> gone: push, stop" in diagrams.draw_picture(table).splitlines()


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({**SMALL, "open": {"stop": ("gone", "closed")}}, id="next-added"),
        pytest.param({**SMALL, "open": {"stop": ()}}, id="next-removed"),
        pytest.param({**SMALL, "open": {**SMALL["open"], "pull": ("closed",)}}, id="input-added"),
        pytest.param({**SMALL, "ajar": {"stop": ("gone",)}}, id="state-added"),
        pytest.param({"closed": SMALL["closed"], "gone": {}}, id="state-removed"),
    ],
)
def test_a_changed_table_turns_the_check_red_until_it_is_drawn_again(
    changed: diagrams.Table, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page.write_text(DRAWN, encoding="utf-8")

    assert check(page, changed) == 1
    assert capsys.readouterr().err == (
        f"{page}: the diagram is not that of TRANSITIONS; python scripts/diagrams.py draws it\n"
    )
    assert page.read_text(encoding="utf-8") == DRAWN, "a check changes nothing"

    assert diagrams.main(["--page", str(page)], table=changed) == 0
    assert check(page, changed) == 0


def test_a_drawing_that_was_touched_by_hand_is_not_current(page: Path) -> None:
    page.write_text(DRAWN.replace("`push` | `open`", "`push` | `gone`"), encoding="utf-8")

    assert check(page) == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("nothing", id="none"),
        pytest.param(f"{diagrams.END}\n{diagrams.BEGIN}", id="wrong-way-round"),
        pytest.param(f"{EMPTY}{EMPTY}", id="twice"),
        pytest.param(f"{EMPTY}{diagrams.END}", id="a-second-end"),
    ],
)
def test_a_page_without_its_markers_is_refused(
    text: str, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page.write_text(text, encoding="utf-8")

    assert check(page) == 1
    assert diagrams.main(["--page", str(page)], table=SMALL) == 1
    assert "wanted once each, in this order" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == text


def test_a_page_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path / "gone.md") == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'gone.md'}: ")


def test_the_docs_show_the_machine_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["diagrams.py", "--check"])

    with pytest.raises(SystemExit) as exit_info:
        runpy.run_path("scripts/diagrams.py", run_name="__main__")

    assert exit_info.value.code == 0


def test_the_table_names_no_state_that_it_does_not_have() -> None:
    named = {
        other for row in TRANSITIONS.values() for following in row.values() for other in following
    }

    assert named <= set(TRANSITIONS)
