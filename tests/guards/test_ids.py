"""Ids are checked text: short, printable, the same on every store, file system and URL path."""

from __future__ import annotations

import string

import pytest

from windlass.errors import InvalidInput
from windlass.guards import check_id, is_id

ALLOWED = string.ascii_letters + string.digits + "._:-@+=~|"
RULE = "; an id is 1 to 128 of A-Z a-z 0-9 . _ : - @ + = ~ |"


@pytest.mark.parametrize("char", ALLOWED)
def test_each_allowed_character_is_an_id_alone_and_inside(char: str) -> None:
    for text in (char, f"a{char}b", char * 128):
        assert is_id(text)
        assert check_id(text, field="f") == text


@pytest.mark.parametrize(
    "char", [chr(code) for code in range(0x100) if chr(code) not in ALLOWED], ids=ascii
)
def test_no_other_character_may_stand_in_an_id(char: str) -> None:
    for text in (char, f"a{char}", f"{char}a", f"a{char}b"):
        assert not is_id(text)
        with pytest.raises(InvalidInput) as refused:
            check_id(text, field="Message.id")
        found = f"found the character U+{ord(char):04X}"
        assert str(refused.value) == f"Message.id: {found}{RULE}"
        assert (
            refused.value.field,
            refused.value.found,
            refused.value.wanted,
        ) == ("Message.id", found, "an id")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found empty text"),
        ("a b", "found the character U+0020"),
        ("a/b", "found the character U+002F"),
        ("../etc", "found the character U+002F"),
        ("a\n", "found the character U+000A"),
        ("a\r\n", "found the character U+000D"),
        ("😀", "found the character U+1F600"),
        ("é", "found the character U+00E9"),
        ("\ud800", "found the character U+D800"),
        ("а", "found the character U+0430"),  # noqa: RUF001 - a Cyrillic letter is the point
        ("٣", "found the character U+0663"),
        ("a\x00", "found the character U+0000"),
        ("x" * 129, "found 129 characters"),
        ("/" * 5_000, "found 5,000 characters"),
    ],
    ids=ascii,
)
def test_the_refusal_says_what_is_wrong_and_does_not_show_the_id(text: str, found: str) -> None:
    assert not is_id(text)
    with pytest.raises(InvalidInput) as refused:
        check_id(text, field="f")
    assert str(refused.value) == f"f: {found}{RULE}"


@pytest.mark.parametrize("length", [1, 2, 127, 128])
def test_one_to_128_characters_are_an_id(length: int) -> None:
    assert is_id("x" * length)


def test_a_final_newline_is_not_overlooked() -> None:
    assert not is_id("abc\n")
    assert not is_id("x" * 127 + "\n")
    assert not is_id("x" * 128 + "\n")


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "NoneType"), (7, "int"), (b"abc", "bytes"), (["a"], "list")]
)
def test_what_is_no_text_is_no_id(value: object, kind: str) -> None:
    assert not is_id(value)
    with pytest.raises(InvalidInput) as refused:
        check_id(value, field="f")
    assert str(refused.value) == f"f: found {kind}, not text{RULE}"
