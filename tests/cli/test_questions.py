"""What a person is asked and says, as text: the answers that are offered, how one is read, and diffs that cannot be forged."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.agents.askers import SCHEMAS, TEXTS, diff
from windlass.cli.questions import answer_to, folded, whole_call, whole_question
from windlass.errors import InvalidInput
from windlass.ports import Wait


def question(schema: object, title: str = "Which?") -> Wait:
    detail: dict[str, Any] = {"tool": "ask"}
    if schema is not None:
        detail["schema"] = schema
    return Wait(key="w", kind="question", session_id="s", turn_id="t", title=title, detail=detail)


def approval(preview: str | None, order: object = None, **args: object) -> Wait:
    detail: dict[str, Any] = {"tool": "write", "args": args, "order": order}
    if preview is not None:
        detail["preview"] = preview
    return Wait(key="w", kind="approval", session_id="s", turn_id="t", detail=detail)


@pytest.mark.parametrize(
    ("what", "said", "value"),
    [
        ("colour", "light green", "light green"),
        ("colour", "2", "light green"),
        ("colour", "4", "4"),
        ("colour", "0", "0"),
        ("colour", "9" * 5_000, "9" * 5_000),
        ("colour", "red", "red"),
        ("name", "Eva", "Eva"),
        ("name", "42", "42"),
        ("name", "4", "4"),
        ("age", "42", 42),
        ("age", "-3", -3),
        ("age", "old", "old"),
        ("sure", "yes", True),
        ("sure", "N", False),
        ("sure", "true", True),
        ("sure", "maybe", "maybe"),
        ("grade", "1", 1),
        ("grade", "3", 3),
        ("date", '{"day": 3}', {"day": 3}),
        ("date", "{}", {}),
        ("any", "5", "5"),
        ("any", "yes", "yes"),
    ],
)
def test_what_is_typed_is_read_as_the_question_wants_it(
    what: str, said: str, value: object
) -> None:
    found = answer_to(question(SCHEMAS[what]), said)

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("said", "value"),
    [("5", 5), ("null", None), ("Ada", "Ada"), ('"Ada"', "Ada"), ('"5"', "5"), ("true", "true")],
)
def test_where_json_is_asked_for_it_is_read_as_json_and_else_as_text(
    said: str, value: object
) -> None:
    """Law 2: the question is shown with `as JSON`."""
    kinds = ("string", "integer", "null")
    several = question({"type": list(kinds)})
    any_of = question({"anyOf": [{"type": kind} for kind in kinds]})

    for asked in (several, any_of):
        assert "as JSON" in whole_question(asked).plain
        assert answer_to(asked, said) == value


def test_what_is_no_json_is_said_to_be_none_where_text_is_no_answer() -> None:
    with pytest.raises(InvalidInput, match="value: not valid JSON"):
        answer_to(question(SCHEMAS["date"]), '{"day": 3')


def test_a_text_is_read_as_nothing_else() -> None:
    assert answer_to(question({"type": "string"}), '"5"') == '"5"'
    assert answer_to(question({"type": ["null", "integer"]}), "5") == 5
    assert answer_to(question({"enum": ["1", 1]}), "1") == "1"
    assert answer_to(None, "5") == "5"
    assert answer_to(replace(question({"type": "integer"}), kind="deferred"), "5") == "5"


@pytest.mark.parametrize(
    ("choices", "said", "value"),
    [
        (["Delete everything", "1"], "1", "1"),
        (["Delete everything", "1"], "2", "2"),
        (["Delete everything", "1"], "Delete everything", "Delete everything"),
        ([3, 2, 1], "3", 3),
        ([1, 2, 3], "3", 3),
        (["a", "b", "9"], "2", "b"),
    ],
)
def test_answers_have_numbers_only_if_none_reads_like_the_number_of_another(
    choices: list[object], said: str, value: object
) -> None:
    """What is typed means what is shown, and one thing only."""
    asked = question({"enum": choices})
    lines = whole_question(asked).plain.split("\n")[1:]

    assert answer_to(asked, said) == value
    is_numbered = choices in ([1, 2, 3], ["a", "b", "9"])
    marks = [str(n) if is_numbered else "-" for n in range(1, len(choices) + 1)]
    assert lines == [f"  {mark}  {choice}" for mark, choice in zip(marks, choices, strict=True)]


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("colour", ["Which?", "  1  blue", "  2  light green", r"  3  \u202egnorw"]),
        ("name", ["Which?"]),
        ("any", ["Which?"]),
        ("age", ["Which?", "  a whole number"]),
        ("sure", ["Which?", "  yes or no"]),
        ("grade", ["Which?", "  -  3", "  -  2", "  -  1"]),
        (
            "date",
            [
                "Which?",
                '  as JSON: {"properties":{"day":{"type":"integer"}},"required":["day"],"type":"object"}',
            ],
        ),
    ],
)
def test_a_question_says_which_answers_it_takes(what: str, lines: list[str]) -> None:
    assert whole_question(question(SCHEMAS[what])).plain.splitlines() == lines


def test_a_question_hides_nothing() -> None:
    shown = whole_question(question(None, "a\u202eb\x1b[2J\u2028\nc")).plain

    assert shown == "a\\u202eb\\u001b[2J\\u2028\n↪ c"


def test_no_line_of_a_question_looks_like_an_answer_that_it_offers() -> None:
    """Law 3. Else `1` would not mean what the person reads first."""
    title = "  Delete the backups?\n  1  no, keep them\n  2  yes, delete them\n\n"
    asked = question({"enum": ["yes, delete them", "no, keep them"]}, title)

    assert whole_question(asked).plain.split("\n") == [
        "Delete the backups?",
        "↪   1  no, keep them",
        "↪   2  yes, delete them",
        "  1  yes, delete them",
        "  2  no, keep them",
    ]


def test_the_end_of_a_long_question_cannot_pass_for_an_answer_either() -> None:
    title = f"Delete the old backups?{' ' * 40}1  no, keep them"
    asked = question({"enum": ["yes, delete all of them", "no"]}, title)
    shown = folded(whole_question(asked), 24, at_words=True)

    assert shown.plain.split("\n") == [
        "Delete the old ",
        "↪ backups?              ",
        "↪                       ",
        "↪     1  no, keep them",
        "  1  yes, delete all ",
        "↪ of them",
        "  2  no",
    ]


def test_a_word_that_no_row_has_room_for_is_cut_and_nothing_of_it_is_lost() -> None:
    shown = folded(whole_question(question(None, f"a {'漢' * 12} b")), 12, at_words=True)

    assert shown.plain.split("\n") == ["a ", "↪ 漢漢漢漢漢", "↪ 漢漢漢漢漢", "↪ 漢漢 b"]


# ------------------------------------------------------------------ diffs


def styles(wait: Wait) -> dict[str, str]:
    """Return each line of a call with its style."""
    shown = whole_call(wait)
    return {shown.plain[span.start : span.end]: str(span.style) for span in shown.spans}


def test_the_lines_of_a_diff_have_their_colours_and_no_others() -> None:
    text = TEXTS["change"]
    found = styles(approval("- no diff yet\n" + diff({"text": text}), text=text))

    assert found["--- a/notes"] == found["+++ b/notes"] == "bold"
    assert found["@@ -1,4 +1,4 @@"] == "cyan"
    assert (found["-two"], found["+two and a half"]) == ("red", "green")
    assert found.get(" one", "") == found.get("- no diff yet", "") == ""


def test_a_text_in_a_diff_cannot_draw_another_file_or_end_the_diff() -> None:
    """Law 2. The lines begin as those of a header do, and are lines that come."""
    found = styles(approval(diff({"text": TEXTS["forge"]}), text="x"))

    assert found["+++ b/harmless"] == found["+-- a/harmless"] == "green"
    assert found["+@@ -1 +1 @@"] == "green"
    assert found["-two"] == "red"


def test_what_would_break_a_line_of_a_diff_is_written_out() -> None:
    shown = whole_call(approval(diff({"text": TEXTS["forge"]}), text="x")).plain

    assert "\n+two\\u2028-gone\\u000d\n" in shown
    assert not {"\u2028", "\r"} & set(shown)


def test_a_long_diff_is_shown_whole() -> None:
    text = "".join(f"line {n}\n" for n in range(5_000))
    shown = whole_call(approval(diff({"text": text}), text=text)).plain

    assert shown.count("\n+line ") == 5_000
    assert "  text = 5000 lines, all of them below\n" in shown


@pytest.mark.parametrize(
    ("preview", "why"),
    [
        (None, "there is none"),
        ("(no preview: KeyError)", "it failed"),
        ("It replaces the file.", "it says something else"),
        ("--- a\n+++ a\n@@ -1,2 +1,2 @@\n 1\n-x\n+2", "it shows a part"),
        ("1\n2\n3\n4", "it is no diff"),
        ("@@ -0,0 +1,3 @@\n+1\n+2\n+3\n… 2 more characters", "it is cut"),
    ],
)
def test_an_argument_that_cannot_be_read_in_the_preview_is_shown_whole(
    preview: str | None, why: str
) -> None:
    """Law 1."""
    shown = whole_call(approval(preview, text=TEXTS["whole"])).plain

    assert '  text = "1\\n\n    2\\n\n    3\\n\n    4\\n\n    "' in shown, why
    assert preview is None or shown.endswith(f"\n\n{preview}")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\ntwo", ["someone", "two"]),
        ("one\ntwo", ["one", "twofold"]),
        ("  one\ntwo", ["one", "two"]),
        ("one\ntwo  ", ["one", "two"]),
    ],
)
def test_an_argument_is_shown_unless_the_lines_of_the_diff_are_its_lines(
    text: str, lines: list[str]
) -> None:
    """Law 1. Neither as a part of them, nor without its indentation."""
    rows = "".join(f"\n+{line}" for line in lines)
    shown = whole_call(approval(f"--- a\n+++ a\n@@ -0,0 +1,2 @@{rows}", text=text)).plain

    first, second = text.split("\n")
    assert shown.startswith(f'write\n  text = "{first}\\n\n    {second}"\n\n--- a\n')


def test_arguments_are_in_the_order_of_the_tool_and_defaults_among_them() -> None:
    wait = approval(None, ["path", "old", "places", "new"], new="b", old="a", path="c", more=1)
    detail: dict[str, Any] = {**wait.detail, "defaults": {"places": 1}}

    assert whole_call(replace(wait, detail=detail)).plain.splitlines() == [
        "write",
        '  path = "c"',
        '  old = "a"',
        "  places = 1  (default)",
        '  new = "b"',
        "  more = 1",
    ]
    assert whole_call(replace(wait, detail=detail), {"old": "x", "path": "c"}).plain == (
        'write\n  path = "c"\n  old = "x"'
    )


def test_an_argument_of_one_line_is_shown_beside_the_diff() -> None:
    shown = whole_call(approval(diff({"text": TEXTS["change"]}), path="notes")).plain

    assert shown.startswith('write\n  path = "notes"\n\n--- a/notes\n')


def test_of_other_arguments_there_is_no_preview() -> None:
    wait = approval(diff({"text": TEXTS["change"]}), text=TEXTS["change"])

    assert whole_call(wait, {"text": "mine"}).plain == 'write\n  text = "mine"'


def test_the_end_of_a_long_line_cannot_pass_for_another_line() -> None:
    """Law 3. In 20 columns the part behind the blanks would begin a row, and look like a line that goes."""
    come = "return x;" + " " * 10 + "-evil()"
    preview = f"--- a\n+++ a\n@@ -1 +1 @@\n-return y\n+{come}"
    shown = folded(whole_call(approval(preview, path="漢" * 12)), 20)

    assert shown.plain.split("\n") == [
        "write",
        '  path = "漢漢漢漢漢',
        '↪ 漢漢漢漢漢漢漢"',
        "",
        "--- a",
        "+++ a",
        "@@ -1 +1 @@",
        "-return y",
        "+return x;          ",
        "↪ -evil()",
    ]
    evil = shown.plain.index("-evil()")
    assert {str(span.style) for span in shown.spans if span.start <= evil < span.end} == {"green"}
