"""Text that every store, wire and provider can carry: no lone surrogate, no NUL."""

from __future__ import annotations

import json

import pytest

from windlass.errors import InvalidInput
from windlass.guards import check_text, clean_text, is_clean
from windlass.guards.text import from_utf8, is_hidden, utf8_length, visible, words_of

CLEAN = [
    "",
    "plain",
    "naïve",
    "✓",
    "😀",
    "\ufffd",
    "\uffff",
    "\U0010ffff",
    "\x01\x1f\x7f\x85",
    "line\nline\r\n\tend",
    "\u202e right to left",
    "\ufeffbom",
    "\ud7ff",
    "\ue000",
]
UNCLEAN = [
    ("\x00", 0, "NUL", "\ufffd"),
    ("a\x00b\x00", 1, "NUL", "a\ufffdb\ufffd"),
    ("\ud800", 0, "a lone surrogate", "\ufffd"),
    ("\udbff", 0, "a lone surrogate", "\ufffd"),
    ("\udc00", 0, "a lone surrogate", "\ufffd"),
    ("é\udfff!", 1, "a lone surrogate", "é\ufffd!"),
    ("😀\ud83d", 1, "a lone surrogate", "😀\ufffd"),
    ("ab\ud800\x00", 2, "a lone surrogate", "ab\ufffd\ufffd"),
    ("é\x00\ud800", 1, "NUL", "é\ufffd\ufffd"),
]


@pytest.mark.parametrize("text", CLEAN, ids=ascii)
def test_clean_text_is_taken_as_it_is(text: str) -> None:
    assert is_clean(text)
    assert text is check_text(text, field="f")
    assert text is clean_text(text)


@pytest.mark.parametrize(("text", "place", "found", "_repaired"), UNCLEAN, ids=ascii)
def test_what_people_hand_in_unclean_is_refused_by_the_place(
    text: str, place: int, found: str, _repaired: str
) -> None:
    assert not is_clean(text)
    with pytest.raises(InvalidInput) as refused:
        check_text(text, field="Text.text")
    assert (
        str(refused.value)
        == f"Text.text: found {found} at character {place}, wanted text without it"
    )
    assert (
        refused.value.field,
        refused.value.found,
        refused.value.wanted,
    ) == ("Text.text", found, "text without NUL and lone surrogates")


@pytest.mark.parametrize(("text", "_place", "_found", "repaired"), UNCLEAN, ids=ascii)
def test_what_a_model_or_a_tool_produced_unclean_is_repaired(
    text: str, _place: int, _found: str, repaired: str
) -> None:
    assert clean_text(text) == repaired
    assert is_clean(repaired)
    repaired.encode()


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "NoneType"), (7, "int"), (b"x", "bytes"), (["x"], "list")]
)
def test_what_is_no_text_is_refused(value: object, kind: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_text(value, field="f")
    assert str(refused.value) == f"f: found {kind}, wanted text"
    assert (
        refused.value.field,
        refused.value.found,
        refused.value.wanted,
    ) == ("f", kind, "text")


def test_two_halves_written_apart_are_two_lone_surrogates() -> None:
    assert clean_text("\ud83d" + "\ude00") == "\ufffd\ufffd"


class Mute(Exception):
    """An error that cannot say what it is about."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("plain"), "plain"),
        (ValueError("a\x00b\udcff"), "a\ufffdb\ufffd"),
        (ValueError(), ""),
        (Mute(), ""),
    ],
    ids=["plain", "unclean", "empty", "mute"],
)
def test_what_an_error_says_can_always_be_kept(error: Exception, words: str) -> None:
    assert words_of(error) == words


@pytest.mark.parametrize(
    ("char", "written"),
    [
        ("\x00", r"\u0000"),
        ("\x1b", r"\u001b"),
        ("\x7f", r"\u007f"),
        ("\x9b", r"\u009b"),
        ("\xa0", r"\u00a0"),
        ("\xad", r"\u00ad"),
        ("\u034f", r"\u034f"),
        ("\u061c", r"\u061c"),
        ("\u115f", r"\u115f"),
        ("\u200b", r"\u200b"),
        ("\u200d", r"\u200d"),
        ("\u2028", r"\u2028"),
        ("\u202e", r"\u202e"),
        ("\u2066", r"\u2066"),
        ("\u2800", r"\u2800"),
        ("\u3164", r"\u3164"),
        ("\ufe0f", r"\ufe0f"),
        ("\ufeff", r"\ufeff"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\udb40\udc41"),
        ("\U000e0100", r"\udb40\udd00"),
    ],
    ids=ascii,
)
def test_a_character_that_nobody_sees_is_written_out(char: str, written: str) -> None:
    assert is_hidden(char)
    assert visible(f"a{char}b") == f"a{written}b"
    if is_clean(char):
        assert json.loads(f'"{written}"') == char


@pytest.mark.parametrize("text", ["", "plain", "Grüße", "日本語", "عربي", "😀", "a b", "\\u202e"])
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_what_is_to_be_kept_is_kept() -> None:
    assert visible("a\n\tb\u202e", keep="\n\t") == "a\n\tb\\u202e"


@pytest.mark.parametrize("text", ["", "a" * 3_000_000, "aé" * 1_000_000, "x😀" * 400_000])
def test_long_text_is_measured_and_read_as_short_text_is(text: str) -> None:
    assert utf8_length(text) == len(text.encode())
    assert from_utf8(text.encode()) == text


def test_bytes_that_are_not_utf8_are_replaced_also_between_two_pieces() -> None:
    """A piece has 1 MiB: a character and a broken one lie across the end of the first."""
    whole = b"a" * (1024 * 1024 - 1)
    assert from_utf8(whole + "é".encode() + b"\xff").endswith("aé\ufffd")
    assert from_utf8(whole + b"\xc3") == whole.decode() + "\ufffd"
