"""The table: what the terminal can show, and never wider than it should be."""

from __future__ import annotations

import sys

import pytest

from windlass.cli.timeline import COLUMNS, Style, Timeline

ESCAPE = "\x1b"


class Terminal:
    """A stream that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("env", "plain", "color"),
    [
        pytest.param({}, False, True, id="a-terminal"),
        pytest.param({}, True, False, id="plain"),
        pytest.param({"NO_COLOR": "1"}, False, False, id="NO_COLOR"),
        pytest.param({"NO_COLOR": ""}, False, True, id="empty-NO_COLOR"),
        pytest.param({"TERM": "dumb"}, False, False, id="dumb"),
    ],
)
def test_colors_are_for_terminals_that_want_them(
    env: dict[str, str], plain: bool, color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    style = Style.of(Terminal(), plain=plain)  # type: ignore[arg-type] # all of a stream it looks at

    assert style.color is color
    assert (ESCAPE in style.paint("x", "red")) is color


def test_signs_are_for_terminals_that_can_show_them() -> None:
    assert Style(color=False, unicode=True).sign("✗", "x") == "✗"
    assert Style(color=False, unicode=False).sign("✗", "x") == "x"


def test_a_cell_that_is_too_long_is_cut_where_one_can_see_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Timeline(sys.stdout, Style(color=False, unicode=False))

    screen.row("book", "a" * 31, "b" * 37, "ran")

    assert capsys.readouterr().out == f"book     {'a' * 27}... {'b' * 37} ran\n"


def test_the_widest_line_fits(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Timeline(sys.stdout, Style(color=False, unicode=True))

    screen.row(*["w" * 200] * 4)
    screen.head()
    screen.tell("Answer", "word " * 60)

    widths = [len(line) for line in capsys.readouterr().out.splitlines()]
    assert max(widths) == COLUMNS == 100


def test_words_under_a_label_are_wrapped_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Timeline(sys.stdout, Style(color=False, unicode=False))

    screen.tell("Answer", "word " * 20)

    first, second = capsys.readouterr().out.splitlines()
    assert first == "Answer     " + " ".join(["word"] * 18)
    assert second == "           word word"
