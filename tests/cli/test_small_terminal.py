"""The terminal in memory that pictures and tests look at."""

from __future__ import annotations

import pytest

from scripts.pictures import draw
from scripts.small_terminal import SmallTerminal


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("one\r\ntwo", "one\ntwo"),
        ("one\rT", "Tne"),
        ("one\x1b[2K\rtwo", "two"),
        ("one\r\ntwo\x1b[1A\r\x1b[2Kthree", "three\ntwo"),
        ("abcdefghijKL", "abcdefghij\nKL"),
        ("a\x1b[?2004hb\x1b[?25lc", "abc"),
        ("a\x1b]0;title\x07b", "ab"),
        ("abc\b\b\x1b[K", "a"),
        ("one\r\ntwo\x1b[1A\r\x1b[J", ""),
        ("宽x", "宽x"),
    ],
)
def test_it_shows_what_a_terminal_would(written: str, shown: str) -> None:
    terminal = SmallTerminal(columns=10)

    terminal.feed(written)

    assert terminal.text == shown


def test_what_steers_it_may_come_in_pieces() -> None:
    terminal = SmallTerminal()

    for char in "a\x1b]0;title\x1b\\b\x1b[?25l\x1b[31mc\x1b[0m\x1b(Bd":
        terminal.feed(char)

    assert terminal.ansi == "ab\x1b[0m\x1b[31mc\x1b[0md"


def test_it_keeps_colors_and_nothing_else() -> None:
    terminal = SmallTerminal()

    terminal.feed("a\x1b[1mb\x1b[31mc\x1b[0md\x1b[2K\r\x1b[32mok\x1b[0m.")

    assert terminal.ansi == "\x1b[0m\x1b[32mok\x1b[0m."


def test_a_picture_of_it_holds_its_words_and_fetches_nothing() -> None:
    terminal = SmallTerminal()
    terminal.feed("\x1b[32mhello\x1b[0m")

    picture = draw(terminal, "title")

    assert "hello" in picture
    assert "font-face" not in picture
    assert "url(http" not in picture
