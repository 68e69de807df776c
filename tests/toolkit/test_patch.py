"""Patches: what a model writes is applied where it fits, exactly, or refused with the line that is wrong.

Length: each form in which a patch comes, and each that is refused.
"""

from __future__ import annotations

import difflib
import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.toolkit.files_patches import HEAD, applied, only, refusal_of
from windlass.errors import ToolError
from windlass.toolkit.files.applying import apply
from windlass.toolkit.files.diff import diff_of, stat_of
from windlass.toolkit.files.patch import MAX_HUNKS, FilePatch, parse

# ------------------------------------------------------------------------------ properties

# Lines that look like parts of a patch are the hard ones.
LINES = st.sampled_from([
    "", "a", "b", " c", "}", "-- x", "++ y", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "\\ No", "diff --git", "\u2028",
])  # fmt: skip


@st.composite
def texts(draw: st.DrawFn) -> str:
    text = "".join(f"{line}\n" for line in draw(st.lists(LINES, max_size=12)))
    return text.removesuffix("\n") if draw(st.booleans()) else text


def by_difflib(before: str, after: str, n: int) -> str:
    kept = [[f"{line}\n" for line in text.split("\n")] for text in (before, after)]
    for lines in kept:
        lines[-1] = lines[-1][:-1]
    old, new = ([line for line in lines if line] for lines in kept)
    made = difflib.unified_diff(old, new, "a/f", "b/f", n=n)
    mark = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + mark for line in made)


def is_ambiguous(told: str | None) -> bool:
    return told is not None and " places of f (lines " in told


@given(before=texts(), after=texts())
@example(before="-- x\n", after="++ y\n")
@example(before="a", after="a\n")
def test_what_difflib_says_of_a_whole_text_makes_the_other(before: str, after: str) -> None:
    assume(before != after)

    assert applied(before, by_difflib(before, after, 12)) == after


@given(before=texts(), after=texts(), n=st.integers(1, 3))
@example(before="a\nb\n\n\n\na\nb\n", after="a\nB\n\n\n\na\nb\n", n=1)
def test_what_difflib_says_makes_the_other_text_or_fits_in_several_places(
    before: str, after: str, n: int
) -> None:
    assume(before != after)
    patch = by_difflib(before, after, n)

    assert is_ambiguous(refusal_of(before, patch)) or applied(before, patch) == after


@given(before=texts(), after=texts())
def test_the_diff_that_a_person_sees_is_what_happens(before: str, after: str) -> None:
    assume(before != after)
    patch = diff_of("f", before, after)

    assert is_ambiguous(refusal_of(before, patch)) or applied(before, patch) == after


@given(text=texts(), patch=st.text(st.sampled_from("-+ @\\\nab/1,") | st.characters(), max_size=80))
def test_junk_is_refused_with_words(text: str, patch: str) -> None:
    for junk in (patch, HEAD + patch, HEAD + "@@ -1 +1 @@\n" + patch):
        told = refusal_of(text, junk)
        assert told is None or told.startswith("patch")


# -------------------------------------------------------------------------- what it forgives


def test_wrong_numbers_do_no_harm() -> None:
    patch = HEAD + "@@ -90,1 +7,44 @@\n b\n-c\n+C\n d\n"

    assert applied("a\nb\nc\nd\ne\n", patch) == "a\nb\nC\nd\ne\n"


def test_a_hunk_may_come_without_numbers() -> None:
    assert applied("a\nb\n", HEAD + "@@\n a\n-b\n+B\n") == "a\nB\n"


def test_words_around_a_patch_and_a_fence_are_passed_over() -> None:
    patch = f"Here it is:\n```diff\n{HEAD}@@ -1 +1 @@\n-a\n+b\n```\nThat is all.\n"

    assert applied("a\n", patch) == "b\n"


def test_an_empty_line_may_have_lost_its_blank() -> None:
    assert applied("a\n\nb\n", HEAD + "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n") == "a\n\nB\n"


def test_what_git_writes_is_read() -> None:
    patch = (
        "diff --git a/f b/f\nindex 7898192..6178079 100644\n"
        "--- a/f\t2031-01-01\n+++ b/f\t2031-01-02\n@@ -1 +1 @@ def f():\n-a\n+b\n"
        "diff --git a/g b/g\nnew file mode 100644\nindex 0000000..7898192\n"
        "--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+a\n"
        "diff --git a/h b/h\ndeleted file mode 100644\nindex 7898192..0000000\n"
        "--- a/h\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n-- \n2.47.0\n"
    )

    assert [(f.path, f.creates, f.deletes) for f in parse(patch)] == [
        ("f", False, False),
        ("g", True, False),
        ("h", False, True),
    ]


def test_paths_may_come_without_a_and_b() -> None:
    assert only("--- src/f\n+++ src/f\n@@ -1 +1 @@\n-a\n+b\n").path == "src/f"


def test_lines_end_as_those_of_the_file_do() -> None:
    assert applied("a\r\nb\r\n", HEAD + "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n") == "a\r\nB\r\nc\r\n"


@pytest.mark.parametrize(
    ("body", "then"),
    [
        ("-a\n+A\n b\n", "A\r\nb\nc\nd\n"),
        ("-a\n-b\n+A\n+B\n+C\n c\n", "A\r\nB\nC\nc\nd\n"),
        ("-a\n+A\n+B\n b\n+x\n", "A\r\nB\r\nb\nx\nc\nd\n"),
        (" a\n+x\n b\n", "a\r\nx\nb\nc\nd\n"),
    ],
)
def test_in_a_file_with_both_ends_a_changed_line_keeps_its_own(body: str, then: str) -> None:
    assert applied("a\r\nb\nc\nd\n", HEAD + "@@\n" + body) == then


def test_a_last_line_without_an_end_gets_one_when_lines_follow() -> None:
    assert applied("a", HEAD + "@@ -1 +1,2 @@\n a\n+b\n") == "a\nb\n"


def test_words_before_a_patch_may_begin_like_those_of_git() -> None:
    words = "rename the function,\ncopy the value.\nold mode is gone.\nBinary files stay.\n"

    assert applied("a\n", words + HEAD + "@@ -1 +1 @@\n-a\n+b\n") == "b\n"


# ---------------------------------------------------------------------------- what git writes


def git(path: str, *lines: str, to: str = "") -> str:
    """Return what `git diff` writes, below the line that names a file."""
    return "".join(f"{line}\n" for line in (f"diff --git {path} {to or path}", *lines))


A_CHANGE = git("a/f", "--- a/f", "+++ b/f", "@@ -1 +1 @@", "-a", "+b", to="b/f")


@pytest.mark.parametrize("path", ["pkg/__init__.py", "with a blank.py"])
@pytest.mark.parametrize("after", ["", A_CHANGE, "\nThat is all.\n"])
def test_an_empty_file_is_made_and_deleted(path: str, after: str) -> None:
    made = git(f"a/{path}", "new file mode 100644", "index 0000000..e69de29", to=f"b/{path}")
    gone = git(f"a/{path}", "deleted file mode 100644", "index e69de29..0000000", to=f"b/{path}")

    assert parse(made + after)[0] == FilePatch(path, (), creates=True, deletes=False)
    assert parse(gone + after)[0] == FilePatch(path, (), creates=False, deletes=True)
    assert len(parse(A_CHANGE + made + after.replace("/f", "/g"))) == (
        3 if after == A_CHANGE else 2
    )


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (("new file mode 100755",), "line 8: found a new file with permissions of its own, wanted"),
        (("new file mode 120000",), "line 8: found a new file with permissions of its own, wanted"),
        (("index 7898192..6178079 100644",), "line 7: found no change below `diff --git`, wanted"),
        (("new file mode 100644", "index 0000000..7898192"), "line 7: found no change below"),
        (("new file mode 100644", "@@ -0,0 +1 @@", "+a"), "line 7: found no change below"),
        (
            ("index 7898192..6178079", "Binary files a/g and b/g differ"),
            "line 9: found a binary file",
        ),
        (("similarity index 100%", "copy from f", "copy to g"), "line 9: found a copied file"),
    ],
)
def test_what_is_not_done_to_a_file_beside_others_is_refused(
    header: tuple[str, ...], told: str
) -> None:
    assert told in (refusal_of("a\n", A_CHANGE + git("a/g", *header, to="b/g")) or "applied")


def test_a_path_that_git_quotes_is_read() -> None:
    hunk = ("@@ -1 +1 @@", "-a", "+b")
    name = r'dir x/\303\274 \"\\.txt"'
    changed = git(f'"a/{name}', f'--- "a/{name}\t', f'+++ "b/{name}\t', *hunk, to=f'"b/{name}')
    made = git(r'"a/\303\251.py"', "new file mode 100644", to=r'"b/\303\251.py"')

    assert [file.path for file in parse(changed + made)] == ['dir x/ü "\\.txt', "é.py"]


@pytest.mark.parametrize("escape", [r"\n", r"\t", r"\012", r"\377", r"\q", r"\9"])
def test_a_path_of_letters_that_cannot_be_seen_is_refused(escape: str) -> None:
    patch = f'--- "a/f{escape}"\n+++ "b/f{escape}"\n@@ -1 +1 @@\n-a\n+b\n'

    assert (refusal_of("a\n", patch) or "").startswith('patch, line 1: found the path `"a/f')


def test_a_folder_that_is_called_a_or_b_is_not_lost() -> None:
    body = ("@@ -0,0 +1 @@", "+x")
    made = git("b/new", "new file mode 100644", "--- /dev/null", "+++ b/new", *body)
    gone = git(
        "a/old", "deleted file mode 100644", "--- a/old", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"
    )
    empty = git("b/empty", "new file mode 100644", "index 0000000..e69de29")
    prefixed = git("a/b/c", "new file mode 100644", "--- /dev/null", "+++ b/b/c", *body, to="b/b/c")

    paths = [file.path for file in parse(made + gone + empty + prefixed)]

    assert paths == ["b/new", "a/old", "b/empty", "b/c"]
    assert only("--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n").path == "new"


def test_the_mark_that_git_shows_at_the_beginning_fits_and_stays_out_of_the_text() -> None:
    head = HEAD + "@@ -1,2 +1,2 @@\n"

    assert applied("a\nb\n", head + "-\ufeffa\n+\ufeffA\n b\n") == "A\nb\n"
    assert applied("a\nb\n", head + " \ufeffa\n-b\n+B\n") == "a\nB\n"
    assert applied("a\nb\n", head + "-\ufeffa\n b\n") == "b\n"
    # A letter of the text, where it is one.
    assert applied("a\n\ufeffb\n", HEAD + "@@ -2 +2 @@\n-\ufeffb\n+b\n") == "a\nb\n"
    with pytest.raises(ToolError, match="line 3: found a change of the mark"):
        applied("a\nb\n", head + "-\ufeffa\n+a\n b\n")
    with pytest.raises(ToolError, match="line 3: found a line that is not in f"):
        applied("a\nb\n", HEAD + "@@ -2 +2 @@\n-\ufeffb\n+B\n")


# ------------------------------------------------------------------------------ what it refuses

TEXT = "a\nb\nc\na\nb\n"


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("", "patch: found no file in it, wanted a unified diff"),
        ("change a to b, please", "patch: found no file in it"),
        ("*** Begin Patch\n*** Update File: f\n", "patch, line 2: found another kind of patch"),
        ("--- a/f\n@@ -1 +1 @@\n-a\n+b\n", "patch, line 1: found `---` without `+++`"),
        ("@@ -1 +1 @@\n-a\n+b\n", "patch, line 1: found a hunk without a file"),
        (HEAD, "patch, line 1: found no hunk for f"),
        (HEAD + "@@ -1 +1 @@\n a\n", "patch, line 3: found a hunk that changes nothing"),
        (HEAD + "@@ -1 +1 @@\n-a\nb\n", "patch, line 5: found `b`, wanted a line that begins"),
        (HEAD + "@@ -1 +1 @@\n-z\n+y\n", "patch, line 3: found a line that is not in f: `z`"),
        (HEAD + "@@ -1 +1 @@\n- c\n+y\n", "; line 3 differs from it only in white space; read f"),
        (HEAD + "@@ -1,2 +1 @@\n-a\n-c\n+y\n", "patch, line 3: found lines that are all in f, but"),
        (HEAD + "@@\n-a\n+y\n", "patch, line 3: found its lines in 2 places of f (lines 1, 4)"),
        (HEAD + "@@ -1,0 +2 @@\n+y\n", "patch, line 3: found no lines around what is added"),
        (HEAD + "@@ -3 +3 @@\n-c\n+C\n@@ -1 +1 @@\n-c\n+D\n", "`c` only before the hunk above"),
        (HEAD + "@@ -99999999999 +1 @@\n-a\n+b\n", "patch, line 3: found a number that no file"),
        ("--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "patch, line 1: found a renamed file, wanted"),
        ("diff --git a/f b/g\nrename from f\nrename to g\n", "patch, line 2: found a renamed file"),
        ("diff --git a/f b/f\nGIT binary patch\n", "patch, line 2: found a binary file, wanted"),
        ("diff --git a/f b/f\nold mode 100644\n", "patch, line 2: found a change of permissions"),
        ("--- /dev/null\n+++ /dev/null\n", "patch, line 1: found /dev/null twice"),
        ((HEAD + "@@ -1 +1 @@\n-a\n+b\n") * 2, "patch: found f twice, wanted all its hunks toget"),
        (
            "".join(f"--- /dev/null\n+++ b/{n}\n@@ -0,0 +1 @@\n+a\n" for n in range(51)),
            "patch: found 51 files, wanted at most 50",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(patch: str, told: str) -> None:
    assert told in (refusal_of(TEXT, patch) or "applied")


@pytest.mark.parametrize("at", [1, 2, 6, 7, 90])
def test_no_number_chooses_between_two_places(at: int) -> None:
    text = "x\ny\n1\n2\n3\n4\nx\ny\n"
    told = refusal_of(text, HEAD + f"@@ -{at},2 +{at},2 @@\n x\n-y\n+Y\n") or "applied"

    assert told.endswith(
        "found its lines in 2 places of f (lines 1, 7), wanted more lines around, so that one is left"
    )


def test_a_change_that_a_person_saw_is_not_made_elsewhere_when_lines_come_before() -> None:
    rules = "admin:\n  rules\n  deny\n  end\nguest:\n  rules\n  deny\n  end\n"
    patch = HEAD + "@@ -6,3 +6,3 @@\n   rules\n-  deny\n+  allow\n   end\n"

    assert is_ambiguous(refusal_of(rules, patch))
    assert is_ambiguous(refusal_of("#\n#\n#\n#\n" + rules, patch))
    clear = patch.replace("   rules", " guest:\n   rules", 1)
    assert applied("#\n" + rules, clear) == "#\n" + rules.replace("deny", "allow").replace(
        "allow", "deny", 1
    )


def test_a_place_before_the_hunk_above_does_not_count() -> None:
    patch = HEAD + "@@ -3 +3 @@\n-c\n+C\n@@ -4,2 +4,2 @@\n-a\n+A\n b\n"

    assert applied(TEXT, patch) == "a\nb\nC\nA\nb\n"


def test_more_hunks_than_a_patch_may_have_are_refused() -> None:
    hunks = [f"@@ -{n} +{n} @@\n-{n}\n+x\n" for n in range(1, MAX_HUNKS + 2)]
    text = "".join(f"{n}\n" for n in range(1, MAX_HUNKS + 2))

    assert MAX_HUNKS == 500
    assert applied(text, HEAD + "".join(hunks[:-1])) == "x\n" * 500 + "501\n"
    told = refusal_of(text, HEAD + "".join(hunks))
    # Two lines of the head, three of each of the 500 hunks before it.
    assert (
        told == "patch, line 1503: found more than 500 hunks, wanted at most 500: apply it in parts"
    )


# ------------------------------------------------------------------------------------ showing


def test_a_diff_is_written_as_git_writes_it() -> None:
    assert diff_of("f", "a\nb\nc\n", "a\nB\nc") == (
        "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n"
    )
    assert diff_of("f", None, "a\n") == "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a\n"
    assert diff_of("f", "a\r\nb\r\n", "a\r\n") == "--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n a\n-b\n"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb\r\nc\r\n", "(Lines that end with LF now, not CRLF: 1.)\n"),
        ("a\nb\r\nc\r\n", "a\r\nb\r\nc\r\n", "(Lines that end with CRLF now, not LF: 1.)\n"),
    ],
)
def test_a_change_of_nothing_but_the_ends_of_lines_is_said(
    before: str, after: str, told: str
) -> None:
    assert diff_of("f", before, after) == HEAD + told
    assert stat_of(before, after) == (1, 1)


def test_a_change_of_the_ends_of_lines_beside_others_is_said() -> None:
    before = "a\r\nb\r\nc\r\nd\n" + "\r\n" * 9
    after = "a\nB\r\nx\nc\r\nd\n" + "\r\n" * 9
    hunk = "@@ -1,5 +1,6 @@\n a\n-b\n+B\n+x\n c\n d\n \n"

    assert (
        diff_of("f", before, after) == HEAD + hunk + "(Lines that end with LF now, not CRLF: 2.)\n"
    )
    # Where most lines end with LF afterwards, each end is shown.
    assert diff_of("f", "a\r\n", "a\n") == HEAD + "@@ -1,1 +1,1 @@\n-a\r\n+a\n"


def test_lines_are_counted() -> None:
    assert stat_of("a\nb\nc\n", "a\nB\nc\nd\n") == (2, 1)
    assert stat_of("", "a\nb") == (2, 0)


def test_a_large_change_is_shown_as_removed_and_added() -> None:
    before = "".join(f"{n}\n{n % 7}\n" for n in range(3_000))
    after = "".join(f"{n % 7}\n{n}\n" for n in range(3_000))

    # The first and the last line differ; in between thousands are the same, and are not looked for.
    assert stat_of(before, "x\n" + after) == (6_001, 6_000)


def test_a_patch_of_many_equal_lines_is_placed_without_comparing_each_with_each() -> None:
    n = 60_000
    patch = HEAD + f"@@ -7,{n} +7,{n} @@\n" + " \n" * n + "-end\n+END\n"

    assert applied("\n" * (4 * n) + "end\n", patch) == "\n" * (4 * n) + "END\n"


def processor_s(text: str, patch: FilePatch) -> float:
    """Return the least processor time of three tries."""
    took = list[float]()
    for _ in range(3):
        start = time.process_time()
        apply(text, patch)
        took.append(time.process_time() - start)
    return min(took)


def test_many_hunks_in_a_long_text_are_not_many_times_the_work_of_one() -> None:
    n_lines, n_hunks = 100_000, 300
    text = "".join(f"line {n}\n" for n in range(n_lines))
    places = range(0, n_lines, n_lines // n_hunks)[:n_hunks]
    hunks = [f"@@\n-line {n}\n+{n}\n" for n in places]
    one, many = only(HEAD + hunks[0]), only(HEAD + "".join(hunks))

    assert apply(text, many).count("line ") == n_lines - n_hunks
    # Each hunk is searched for, which is far less than taking the text apart again for each.
    assert processor_s(text, many) < 6 * processor_s(text, one)


def test_a_count_that_reaches_into_the_next_file_is_not_believed() -> None:
    patch = """\
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
--- a/b.txt
+++ b/b.txt
@@ -1 +1 @@
-b
+B
"""

    first, second = parse(patch)

    assert (first.path, apply("one\ntwo\n", first)) == ("a.txt", "one\nTWO\n")
    assert (second.path, apply("b\n", second)) == ("b.txt", "B\n")
