"""What is kept of output: bounded, without half of a secret."""

from __future__ import annotations

import re
from time import process_time

import pytest

from tests.limits import times
from windlass.guards.secret import REGISTERED, Secret
from windlass.toolkit.shell.transcript import SHOWN_BYTES, Transcript, tidy

KEY = "αβγδεζηθικλμνξοπ"  # letters that stand nowhere else
KEPT = 64 * 1024  # of what is printed, at each end


def transcript(data: bytes, step: int = 4_096) -> Transcript:
    made = Transcript()
    for at in range(0, len(data), step):
        made.add(data[at : at + step])
    return made


@pytest.mark.parametrize("at", [*range(16_340, 16_400), *range(83_500, 83_700, 7)])
def test_no_cut_shows_half_a_secret(at: int) -> None:
    """100,000 bytes: the beginning is cut at 16,384, the end begins at 83,616."""
    REGISTERED.know((Secret(KEY, name="key"),))
    data = b"." * at + KEY.encode() + b"." * (100_000 - at - len(KEY.encode()))
    shown = transcript(data).text()

    assert not set(shown) & set(KEY)
    assert len(shown) < SHOWN_BYTES + 200


@pytest.mark.parametrize("n_kept", range(1, len(KEY)))
@pytest.mark.parametrize("at", ["\x1b[1;31m", ""], ids=["colored", "plain"])
def test_nor_does_a_cut_of_what_is_kept(n_kept: int, at: str) -> None:
    """Colors make so much of both ends that they are shown to where they were cut."""
    REGISTERED.know((Secret(KEY, name="key"),))
    key, color = KEY.encode(), b"\x1b[1;38;5;250m"
    begin, end = key[: 2 * n_kept] + at[: n_kept % 7].encode(), key[2 * n_kept :] + b"\n"
    line = color * 7 + b"." * 8 + b"\n"
    n_lines, rest = divmod(KEPT - len(begin), len(line))
    head = b"." * rest + line * n_lines + begin
    n_lines, rest = divmod(KEPT - len(end), len(line))
    tail = end + line * n_lines + b"." * rest
    made = Transcript()
    made.add(head + b"-" * 200_000 + tail)
    shown = made.text()

    assert not set(shown) & set(KEY)
    assert shown.count("." * 8) > 1_250  # of 1,310


def test_nor_do_the_newest_lines() -> None:
    REGISTERED.know((Secret(KEY, name="key"),))
    for n_chars in range(1, len(KEY)):
        made = transcript(b"line\n" + KEY[:n_chars].encode())
        assert made.newest() == "line\n"


@pytest.mark.parametrize("n_lines", range(1, 12))
def test_nor_the_first_lines_of_a_secret_that_has_many(n_lines: int) -> None:
    lines = ["-----BEGIN-----\n", *(f"MIIEvQIBADANBgk{n}\n" for n in range(10)), "-----END-----"]
    REGISTERED.know((Secret("".join(lines), name="pem"),))

    assert transcript("".join(["line\n", *lines[:n_lines]]).encode()).newest() == "line\n"
    assert transcript("".join(["line\n", *lines, "\n"]).encode()).newest() == "line\n[pem]\n"


@pytest.mark.parametrize("n_lost", range(1, len(KEY)))
def test_nor_does_what_is_left_of_a_beginning_that_is_gone(n_lost: int) -> None:
    """Behind the rest of the secret stands only what nobody sees, so the newest characters reach back to it."""
    REGISTERED.know((Secret(KEY, name="key"),))
    end = KEY[n_lost:].encode() + b"\n"
    colors = b"\x1b[m" * KEPT
    made = Transcript()
    made.add(b"." * 200_000 + KEY[:n_lost].encode() + end + colors[: KEPT - len(end)])

    assert not set(made.newest()) & set(KEY)
    assert not set(made.text()) & set(KEY)


def test_a_secret_that_spans_what_is_kept_is_found_whole() -> None:
    REGISTERED.know((Secret(KEY, name="key"),))
    for at in range(KEPT - 40, KEPT + 3):
        made = transcript(b"." * at + KEY.encode() + b"\n" + b"\x1b[m" * 4_000)
        assert made.newest() == "." * 1_994 + "[key]\n"
        assert made.text().endswith("." * 1_994 + "[key]\n")


@pytest.mark.parametrize("hidden", ["\u200d", "\ufe0f", "\x1b[m"])
def test_what_nobody_sees_hides_no_secret(hidden: str) -> None:
    REGISTERED.know((Secret(KEY, name="key"), Secret("pass\u00a0phrase", name="phrase")))

    assert tidy(f"{KEY[:5]}{hidden}{KEY[5:]}\n".encode()) == "[key]\n"
    assert tidy(f"pass\u00a0{hidden}phrase pass\u00a0phrase\n".encode()).endswith(" [phrase]\n")


def test_a_secret_with_returns_is_found_although_they_are_dropped() -> None:
    REGISTERED.know((Secret("first line\r\nsecond line", name="lines"),))

    assert tidy(b"it is first line\r\nsecond line\r\n") == "it is [lines]\n"


@pytest.mark.parametrize(
    "odd",
    ["\r", "a\r\r\r\r", "\x1b[", "\x1b]", "\x1b[0", "\x1b ", "\x08", "a\x08", "\ufffd", "\r\n"],
)
@pytest.mark.parametrize("start", ["", "\x1b[", "\x1b]"])
def test_odd_output_takes_no_longer_than_its_length(start: str, odd: str) -> None:
    """By the time of this process, against another text with hidden characters; what is quadratic is 1,000 times as slow."""
    n_bytes = 120_000

    def seconds(text: str) -> float:
        began = process_time()
        tidy(text.encode()[:n_bytes])
        return process_time() - began

    plain = min(seconds("wörds\x07 of a line\n" * n_bytes) for _ in range(3))
    assert min(seconds(start + odd * n_bytes) for _ in range(3)) < 10 * plain


def test_many_returns_before_a_line_feed_are_one_end_of_line() -> None:
    assert tidy(b"one\r\r\r\ntwo\r\n\r\nthree\r\r") == "one\ntwo\n\nthree"


def test_memory_is_bounded_and_the_missing_are_counted() -> None:
    made = Transcript()
    n = 5_000 * times(1)
    for _ in range(n):
        made.add(b"0123456789" * 100)

    assert len(made._head) + len(made._tail) < 200_000
    total = n * 1_000
    assert f"\n[{total - SHOWN_BYTES:,} of {total:,} bytes are not shown here]\n" in made.text()


@pytest.mark.parametrize(
    "n_bytes",
    [32_768, 32_769, 40_000, 60_000, 131_072, 131_073, 150_000, 196_608, 196_609, 200_000, 400_000],
)
@pytest.mark.parametrize("form", ["%07d", "\x1b[32m%07d\x1b[0m \x1b[1m.\x1b[0m", "行%07d日本語"])
@pytest.mark.parametrize("secret", ["", "it is printed nowhere"], ids=["none", "secret"])
def test_head_and_tail_meet_without_a_gap_or_a_repeat(n_bytes: int, form: str, secret: str) -> None:
    REGISTERED.know((Secret(secret),) if secret else ())
    data = b"".join(f"{form}\n".encode() % n for n in range(n_bytes // 8 + 1))
    data = data[: data.rindex(b"\n", 0, n_bytes) + 1]
    plain = re.sub(rb"\x1b\[[0-9]*m", b"", data)
    shown = transcript(data, 1_000).text().encode()

    if len(plain) <= SHOWN_BYTES:
        assert shown == plain
    else:
        head, _, rest = shown.partition(b"\n[")
        note, _, tail = rest.partition(b" bytes are not shown here]\n")
        missing, total = (int(number.replace(b",", b"")) for number in note.split(b" of "))
        assert len(head) + len(tail) <= SHOWN_BYTES
        assert len(head) + len(tail) > SHOWN_BYTES - 5
        assert plain.startswith(head)
        assert plain.endswith(tail)
        assert total - missing in {len(head) + len(tail), len(head) + 1 + len(tail)}
        assert len(plain) <= total <= len(data)


@pytest.mark.parametrize("n_seen", [0, 60, 8 * 1024])
@pytest.mark.parametrize("hidden", ["\x1b[m", "\u200d"])
def test_a_beginning_of_little_that_is_seen_shows_no_half_secret(hidden: str, n_seen: int) -> None:
    """What is kept of the beginning ends in the secret, and may be shorter than what is left out for that."""
    REGISTERED.know((Secret(KEY, name="key"),))
    for n_kept in range(2, len(KEY)):
        seen = b"." * n_seen + KEY[:n_kept].encode()
        n_hidden, n_left = divmod(KEPT - len(seen), len(hidden.encode()))
        data = b"\r" * n_left + hidden.encode() * n_hidden + seen + KEY[n_kept:].encode()
        shown = transcript(data + b"." * 200_000).text()
        assert not set(shown) & set(KEY)
        assert shown.startswith("." * (n_seen - 200))


def test_what_is_shown_is_no_longer_than_the_limit() -> None:
    """What cannot be read takes more room when it is shown than when it was printed."""
    for data in (b"\xff." * 16_000, "日".encode() * 100_000):
        assert len(transcript(data).text().encode()) < SHOWN_BYTES + 60


def test_overstruck_letters_are_plain() -> None:
    assert tidy(b"N\x08NA\x08AM\x08ME\n_\x08x") == "NAME\nx"
