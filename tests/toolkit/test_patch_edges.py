"""Where the parts of a patch end, and where the text does: nothing that a patch says is left out in silence."""

from __future__ import annotations

import pytest

from tests.toolkit.files_patches import HEAD, applied, only, refusal_of
from windlass.toolkit.files.applying import apply

MARK = "\\ No newline at end of file\n"


# ------------------------------------------------------------------------ lines outside of hunks


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("@@ -1,2 +1,2 @@\n a\n-b\n+B\n...\n-y\n+Y\n", 8),
        ("@@ -1,2 +1,2 @@\n a\n-b\n+B\n...\n+Y\n", 8),
        ("@@ -1,2 +1,2 @@\n a\n-b\n+B\n```\n-y\n+Y\n", 8),
        # The blank before an indented line was lost.
        ("@@ -1 +1 @@\n-b\n+B\n\tx\n-y\n+Y\n", 7),
        # So it was, and an empty line stands before it.
        ("@@ -1 +1 @@\n-b\n+B\n\n\tx\n-y\n+Y\n", 8),
        ("@@ -1,2 +1,2 @@\n a\n-b\n+B\nThen:\n-- x\n", 8),
        ("@@ -1,2 +1,2 @@\n a\n-b\n+B\nThen:\n--- x\n", 8),
    ],
)
def test_a_change_outside_of_a_hunk_is_not_passed_over(body: str, line: int) -> None:
    told = f"patch, line {line}: found a line of a change outside of a hunk, wanted `@@` before it"

    assert refusal_of("a\nb\n\tx\ny\n", HEAD + body) == told
    made = "--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+g\n"
    assert refusal_of("a\nb\n\tx\ny\n", HEAD + body + "\n" + made) == told


@pytest.mark.parametrize(
    "words",
    [
        "\nI changed:\n- the first line\n- the second one\n",
        "Done.\n\n+ more to come\n",
        "Done.\n\n-1 is what it returned before.\n",
        "-- \n2.47.0\n",
        "-- \n2.47.0\n\nFrom 0123 Mon Sep 17\nSubject: x\n\n- as said\n---\n f | 2 +-\n",
    ],
)
def test_words_after_a_patch_may_be_a_list(words: str) -> None:
    assert applied("a\nb\n", HEAD + "@@ -1,2 +1,2 @@\n a\n-b\n+B\n" + words) == "a\nB\n"


def test_words_before_a_patch_may_be_a_list() -> None:
    assert applied("a\n", "- the first line\n+ more\n" + HEAD + "@@ -1 +1 @@\n-a\n+b\n") == "b\n"


@pytest.mark.parametrize("blank", ["\n", "\n\n"])
@pytest.mark.parametrize("sign", ["-", "+"])
@pytest.mark.parametrize("counts", ["-1,2 +1,2", "-1,3 +1,3"])
def test_a_line_below_an_empty_one_that_the_hunk_or_the_words_may_have_is_refused(
    counts: str, sign: str, blank: str
) -> None:
    patch = HEAD + f"@@ {counts} @@\n a\n-b\n+B\n{blank}{sign} I changed b.\n"

    assert refusal_of("a\nb\n\n\nc\n", patch) == (
        f"patch, line {7 + len(blank)}: found a line of the hunk above or of words below it, "
        "wanted `@@` without numbers if it is of the hunk, another sign before it if not"
    )


def test_a_hunk_that_counts_its_lines_or_none_goes_on_below_an_empty_one() -> None:
    body = " a\n-b\n+B\n\n-c\n+C\n"

    for head in ("@@ -1,4 +1,4 @@\n", "@@\n"):
        assert applied("a\nb\n\nc\n", HEAD + head + body) == "a\nB\n\nC\n"


@pytest.mark.parametrize(
    "after", ["", "\n", "```\n", "\n```\n", "\n\nThat is all.\n", "\n@@ -5 +5 @@\n-e\n+e\n+E\n"]
)
def test_a_count_that_is_one_too_large_does_no_harm(after: str) -> None:
    made = applied("a\nb\nc\nd\ne\n", HEAD + "@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n" + after)

    assert made.removesuffix("E\n") == "a\nB\nc\nd\ne\n"
    assert made.endswith("E\n") is ("+E" in after)


def test_nor_where_a_file_is_made_or_deleted() -> None:
    made = only("--- /dev/null\n+++ b/f\n@@ -0,0 +1,3 @@\n+a\n+b\n")
    gone = only("--- a/f\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-a\n-b\n")

    assert apply("", made) == "a\nb\n"
    assert apply("a\nb\n", gone) == ""


# ------------------------------------------------------------------------------ the end of a text


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("a\nb\nd\n", f"@@ -1,2 +1,3 @@\n a\n-b\n{MARK}+b\n+c\n{MARK}"),
        ("a\nb\nd\n", f"@@ -1,2 +1 @@\n a\n-b\n{MARK}"),
        ("a\nb\nd\n", f"@@ -1,2 +1,2 @@\n-a\n+A\n b\n{MARK}"),
        ("a\nb\nd\n", f"@@ -1,2 +1,3 @@\n a\n b\n+c\n{MARK}"),
        ("a\nb\nd", f"@@ -1,2 +1,2 @@\n-a\n+A\n b\n{MARK}"),
    ],
)
def test_a_hunk_for_the_end_of_a_text_is_not_applied_before_its_end(text: str, body: str) -> None:
    assert refusal_of(text, HEAD + body) == (
        "patch, line 3: found more lines in f after those of the hunk, which says that f ends there "
        "(`\\ No newline at end of file`); read f again"
    )


def test_nor_where_the_last_line_has_an_end() -> None:
    told = (
        "patch, line 3: found a line feed at the end of f, which the hunk says is not there "
        "(`\\ No newline at end of file`); read f again"
    )

    assert refusal_of("a\nb\n", HEAD + f"@@ -1,2 +1,2 @@\n-a\n+A\n b\n{MARK}") == told
    assert refusal_of("a\nb\n", HEAD + f"@@ -1,2 +1,2 @@\n a\n-b\n{MARK}+b\n") == told


def test_a_hunk_for_the_end_of_a_text_is_applied_there_and_nowhere_else() -> None:
    assert applied("b\na\nb", HEAD + f"@@ -3 +3,2 @@\n-b\n{MARK}+b\n+c\n{MARK}") == "b\na\nb\nc"
    assert applied("b\na\nb", HEAD + f"@@ -3 +3 @@\n-b\n{MARK}+b\n") == "b\na\nb\n"
    assert applied("b\na\nb\n", HEAD + f"@@ -2,2 +2,2 @@\n a\n-b\n+c\n{MARK}") == "b\na\nc"
    assert applied("a\nx\na", HEAD + f"@@ -2,2 +2,2 @@\n-x\n+X\n a\n{MARK}") == "a\nX\na"


def test_lines_that_are_not_there_are_named_also_at_the_end_of_a_text() -> None:
    told = refusal_of("a\nb", HEAD + f"@@ -2 +2 @@\n-z\n{MARK}+c\n")

    assert told == "patch, line 3: found a line that is not in f: `z`; read f again"


@pytest.mark.parametrize(
    "body", [f"@@ -1,2 +1 @@\n-a\n{MARK}-b\n+c\n", f"@@ -1 +1,2 @@\n-a\n+b\n{MARK}+c\n"]
)
def test_a_line_after_the_last_one_is_refused(body: str) -> None:
    assert refusal_of("a\nb", HEAD + body) == (
        "patch, line 3: found a line after `\\ No newline at end of file`, wanted that mark after the last one"
    )


def test_a_carriage_return_at_the_very_end_of_a_text_is_kept() -> None:
    assert applied("a\nx\r", HEAD + f"@@ -1,2 +1,2 @@\n-a\n+A\n x\r\n{MARK}") == "A\nx\r"
    assert applied("a\nb", HEAD + f"@@ -2 +2 @@\n-b\n{MARK}+x\r\n{MARK}") == "a\nx\r"
    # In a patch whose own lines all end with CRLF, it is the end of a line.
    crlf = (HEAD + f"@@ -2 +2 @@\n-b\n{MARK}+x\n{MARK}").replace("\n", "\r\n")
    assert applied("a\nb", crlf) == "a\nx"


# -------------------------------------------------------------------- files that are made or deleted

EPOCHS = [
    "1970-01-01 00:00:00.000000000 +0000",
    "1970-01-01 00:00:00 +0000",
    "1970-01-01 05:30:00.000000000 +0530",
    "1969-12-31 19:00:00.000000000 -0500",
]
NOW = "2031-01-01 00:00:00.000000000 +0000"


@pytest.mark.parametrize("epoch", EPOCHS)
def test_a_file_that_diff_shows_as_of_the_year_1970_is_not_there(epoch: str) -> None:
    gone = only(f"--- a/f\t{NOW}\n+++ b/f\t{epoch}\n@@ -1 +0,0 @@\n-a\n")
    made = only(f"--- a/f\t{epoch}\n+++ b/f\t{NOW}\n@@ -0,0 +1 @@\n+a\n")

    assert (gone.path, gone.creates, gone.deletes) == ("f", False, True)
    assert (made.path, made.creates, made.deletes) == ("f", True, False)


@pytest.mark.parametrize(
    "time", [NOW, "1970-01-01 00:00:01 +0000", "1970-01-01 00:00:00 +0100", ""]
)
def test_a_file_of_another_time_is_only_emptied(time: str) -> None:
    emptied = only(f"--- a/f\t{NOW}\n+++ b/f\t{time}\n@@ -1 +0,0 @@\n-a\n")

    assert (emptied.creates, emptied.deletes) == (False, False)


def test_nor_is_a_file_of_1970_that_has_lines() -> None:
    changed = only(f"--- a/f\t{EPOCHS[0]}\n+++ b/f\t{EPOCHS[0]}\n@@ -1 +1 @@\n-a\n+b\n")

    assert (changed.creates, changed.deletes) == (False, False)
