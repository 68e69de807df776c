from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.models.local.prompt import AnswerReader, read_object


def fed(pieces: list[str]) -> tuple[list[str], AnswerReader]:
    reader = AnswerReader()
    return [reader.feed(piece) for piece in pieces], reader


def test_words_are_shown_as_they_come_without_the_json_around_them() -> None:
    shown, reader = fed(['{"ans', 'wer":"', "Hel", "lo", ' you"', "}"])
    assert shown == ["", "", "Hel", "lo", " you", ""]
    assert "".join(shown) == "Hello you"
    assert reader.written == '{"answer":"Hello you"}'


def test_blanks_around_the_opening_do_not_matter() -> None:
    shown, _ = fed([' {\n  "answer" : "', "Hi"])
    assert shown == ["", "Hi"]


def test_a_call_shows_nothing() -> None:
    shown, _ = fed(['{"tool":"add",', '"arguments":{"answer":"no"}}'])
    assert shown == ["", ""]


def test_what_stands_behind_the_answer_is_not_shown() -> None:
    shown, _ = fed(['{"answer":"Hi","more":"x"}', "trailing"])
    assert shown == ["Hi", ""]


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        (["a\\", "nb"], ["a", "\nb"]),
        (["a\\u00", "e9b"], ["a", "éb"]),
        (["\\ud83d", "\\ude00!"], ["", "😀!"]),
        (["\\ud83d", "\\u0041"], ["", "\ufffdA"]),  # half of a pair, alone
        (["\\ud83d", "x"], ["", "\ufffdx"]),
        (["\\ude00x"], ["\ufffdx"]),
        (["a\\u0000b"], ["a\ufffdb"]),  # no store takes NUL
        (['say \\"hi\\" \\\\'], ['say "hi" \\']),
    ],
)
def test_an_escape_is_shown_when_it_is_whole(pieces: list[str], wanted: list[str]) -> None:
    shown, _ = fed(['{"answer":"', *pieces])
    assert shown[1:] == wanted


@given(st.text(st.characters(exclude_categories=["Cs"])), st.data(), st.booleans())
def test_however_it_is_cut_the_words_are_the_same(
    words: str, data: st.DataObject, ensure_ascii: bool
) -> None:
    written = json.dumps({"answer": words}, ensure_ascii=ensure_ascii)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=6)))
    places = [0, *cuts, len(written)]
    pieces = [written[a:b] for a, b in pairwise(places)]
    shown, _ = fed(pieces)
    # JSON allows DEL and C1 controls to stand for themselves; NUL is what no store takes.
    assert "".join(shown) == words.replace("\x00", "\ufffd")


@pytest.mark.parametrize("text", ['{"a":1', "[1]", "", "word", '{"a":1,"a":2}', '{"a":NaN}'])
def test_what_is_no_whole_object_is_none(text: str) -> None:
    assert read_object(text) is None


def test_a_whole_object_is_read() -> None:
    assert read_object(' {"a": [1, 2.5, "x"]} ') == {"a": [1, 2.5, "x"]}
