"""Windows: whole lines of the beginning, the end or both, within their room, and the rest told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.plugins.windowing import (
    Gap,
    Lines,
    Room,
    Window,
    boundary,
    count_lines,
    head_of,
    shares,
    tail_of,
    window,
)
from windlass.tools.results import visible

TEN = "".join(f"line {n}\n" for n in range(1, 11))  # 9 lines of 7 bytes, one of 8
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


def mark(gap: Gap) -> str:
    return f"<{gap.n_bytes} {gap.n_lines} {gap.start}>"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 10, []),
        ("a", 10, ["a"]),
        ("a\n", 10, ["a\n"]),
        ("a\nb", 10, ["a\n", "b"]),
        ("a\n\nb\n", 10, ["a\n", "\n", "b\n"]),
        ("\n", 10, ["\n"]),
        ("abcdef", 3, ["abc", "def"]),
        ("abcdefg\nh", 3, ["abc", "def", "g\n", "h"]),
        ("abc\n", 3, ["abc\n"]),
        ("abe\u0301f", 3, ["ab", "e\u0301f"]),
    ],
)
def test_a_text_has_these_lines(text: str, width: int, lines: list[str]) -> None:
    found = Lines(text, width)

    assert [found.between(at, at + 1) for at in range(len(found))] == lines


@pytest.mark.parametrize(
    ("kind", "room", "wanted"),
    [
        ("head", Room(1_000, 4), "line 1\nline 2\nline 3\n<50 7 4>"),
        ("tail", Room(1_000, 4), "<49 7 1>\nline 8\nline 9\nline 10\n"),
        ("both", Room(1_000, 5), "line 1\nline 2\n<42 6 3>\nline 9\nline 10\n"),
        # The mark takes 10 at most and 2 for the lines' ends: 28 - 12 leaves two lines of 7.
        ("head", Room(28, 100), "line 1\nline 2\n<57 8 3>"),
        ("tail", Room(28, 100), "<56 8 1>\nline 9\nline 10\n"),
    ],
)
def test_a_window_shows_whole_lines_and_tells_the_rest(
    kind: Window, room: Room, wanted: str
) -> None:
    assert window(Lines(TEN, 80), room, kind, mark) == wanted


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("head", "a" * 20 + "\n<980 98 3>"),
        ("tail", "<980 98 1>\n" + "a" * 20),
        ("both", "a" * 10 + "\n<980 98 2>\n" + "a" * 10),
    ],
)
def test_a_line_without_an_end_counts_as_several(kind: Window, wanted: str) -> None:
    text = "a" * 1_000

    assert window(Lines(text, 10), Room(42, 50), kind, mark) == wanted


def test_where_no_line_fits_characters_do() -> None:
    text = "ä" * 100

    assert window(Lines(text, 100), Room(30, 50), "head", mark) == "äääääääää\n<182 1 1>"
    assert window(Lines(text, 100), Room(30, 50), "tail", mark) == "<182 1 1>\näääääääää"


@pytest.mark.parametrize(
    ("text", "at", "wanted"),
    [
        ("abc", 2, 2),
        ("ae\u0301", 2, 1),  # e and its accent
        ("a\r\nb", 2, 1),
        (f"a{FAMILY}", 3, 1),
        ("x\U0001f44d\U0001f3fd", 2, 1),  # a thumb and its colour
        ("\u0301" * 100, 50, 50),  # no end of accents: cut all the same
        ("abc", 3, 3),
    ],
)
def test_a_cut_is_not_inside_what_reads_as_one_character(text: str, at: int, wanted: int) -> None:
    assert boundary(text, at) == wanted


@pytest.mark.parametrize(
    ("text", "n_bytes", "head", "tail"),
    [
        ("héllo", 2, "h", "lo"),
        ("héllo", 3, "hé", "llo"),
        ("ab", 0, "", ""),
        ("ab", 9, "ab", "ab"),
        (f"{FAMILY}b", 12, "", "b"),
        ("ae\u0301", 3, "a", "e\u0301"),
        ("ae\u0301", 2, "a", ""),
    ],
)
def test_as_much_as_has_room(text: str, n_bytes: int, head: str, tail: str) -> None:
    assert (head_of(text, n_bytes), tail_of(text, n_bytes)) == (head, tail)


@pytest.mark.parametrize(
    ("sizes", "room", "wanted"),
    [
        ([10, 10], 100, [10, 10]),
        ([10, 1_000], 100, [10, 90]),
        ([1_000, 10], 100, [90, 10]),
        ([500, 500], 100, [50, 50]),
        ([500, 500, 500], 100, [33, 33, 34]),
        ([], 100, []),
        ([5], 0, [0]),
    ],
)
def test_the_small_get_all_and_the_others_equally_much(
    sizes: list[int], room: int, wanted: list[int]
) -> None:
    assert shares(sizes, room) == wanted


def test_lines_are_counted_as_people_do() -> None:
    assert [count_lines(text) for text in ("", "a", "a\n", "a\nb", "\n\n")] == [0, 1, 1, 2, 2]


def test_escape_sequences_are_written_out() -> None:
    assert visible("\x1b[31mred\x9b\t\r\n") == "\\x1b[31mred\\x9b\t\r\n"


TEXTS = st.text(st.sampled_from("ab\n\r é\u0301€\U0001f600\u200d"), max_size=400)


@given(TEXTS, st.integers(1, 40))
def test_lines_together_are_the_text(text: str, width: int) -> None:
    lines = Lines(text, width)
    pieces = [lines.between(at, at + 1) for at in range(len(lines))]

    assert "".join(pieces) == text
    assert all(0 < len(piece.removesuffix("\n")) <= width or piece == "\n" for piece in pieces)


@given(
    TEXTS,
    st.integers(1, 40),
    st.integers(60, 200),
    st.integers(3, 20),
    st.sampled_from(["head", "tail", "both"]),
)
def test_a_window_has_its_room_and_shows_ends_of_the_text(
    text: str, width: int, n_bytes: int, n_lines: int, kind: Window
) -> None:
    if len(text.encode()) <= n_bytes and count_lines(text) <= n_lines:
        return
    gaps: list[Gap] = []

    def noted(gap: Gap) -> str:
        gaps.append(gap)
        return f"<{gap.n_bytes} {gap.n_lines} {gap.start}>"

    made = window(Lines(text, width), Room(n_bytes, n_lines), kind, noted)
    head, _, tail = made.partition(f"<{gaps[-1].n_bytes} {gaps[-1].n_lines} {gaps[-1].start}>")
    # A line's end is put between what is shown and the mark, if there is none.
    head = head if text.startswith(head) else head.removesuffix("\n")
    tail = tail.removeprefix("\n")

    assert len(made.encode()) <= n_bytes
    assert count_lines(made) <= n_lines
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(text.encode()) - len(head.encode()) - len(tail.encode()) in (
        gaps[-1].n_bytes,
        gaps[-1].n_bytes - 1,  # the line's end above, when the text has one there, too
    )
    assert (kind == "tail") <= (not head)
    assert (kind == "head") <= (not tail)
