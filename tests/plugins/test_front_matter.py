from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.plugins.front_matter import FrontMatter, Unreadable, read_front_matter
from windlass.plugins.skill import SkillHead, read_skill


def top(*lines: str) -> FrontMatter:
    return read_front_matter("\n".join(["---", *lines, "---", "the body"]))


def skill(*lines: str, folder: str = "pdf") -> SkillHead:
    text = "\n".join(["---", *lines, "---", "the body"])
    return read_skill(text.encode(), folder=folder)[0]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["d: plain text"], "plain text"),
        (["d:   plain   text   "], "plain   text"),
        (["d: text # a comment"], "text"),
        (["d: C# and a#b"], "C# and a#b"),
        (["d: http://a.b/c:d"], "http://a.b/c:d"),
        (["d: Use when: asked"], "Use when: asked"),
        (["d: it's \"so\""], 'it\'s "so"'),
        (["d: first", "  second", "", "  third"], "first second\nthird"),
        (["d:", "  on the next line", "  and the next"], "on the next line and the next"),
        (["d: # a comment", "  text"], "text"),
        (['d: "quoted: # text"  # a comment'], "quoted: # text"),
        (['d: "a \\"b\\" \\\\ \\n \\u00e9 \\t \\/"'], 'a "b" \\ \n é \t /'),
        (['d: "two', '  lines"'], "two lines"),
        (['d: "two', "", '  paragraphs"'], "two\nparagraphs"),
        (["d: 'it''s # so'"], "it's # so"),
        (["d: 'two", "  lines'"], "two lines"),
        (["d:", "  'below'"], "below"),
        (["d: |", "  one", "    two", "", "  # three"], "one\n  two\n\n# three"),
        (["d: |-", "  one", "  two", "e: x"], "one\ntwo"),
        (["d: >", "  one", "  two", "", "  three", "    kept", "  four"], "one two\nthree\n  kept\nfour"),
        (["d: >-  # folded", "  one: two", "  three"], "one: two three"),
        (["d: >+", "  one", "", "e: x"], "one"),
        (["d: |"], ""),
        (["d: 1.0"], "1.0"),
        (["d: true"], "true"),
        (["d: -1"], "-1"),
        (["d:"], None),
        (["d: ~"], None),
        (["d: null"], None),
        (["e: x"], None),
    ],
)  # fmt: skip
def test_text_is_read_as_yaml_has_it(lines: list[str], wanted: str | None) -> None:
    assert top(*lines).text("d") == wanted


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["a: Read Bash(git:*)"], "Read Bash(git:*)"),
        (["a: [Read, 'Ba,sh', \"W]rite\"]"], ["Read", "Ba,sh", "W]rite"]),
        (["a: []"], []),
        (["a: [one, # first", "  two,", "]"], ["one", "two"]),
        (["a:", "  - Read", "  # between", "  - 'Write'", "", '  - "Edit" # last'], ["Read", "Write", "Edit"]),
        (["a:", "- Read", "- Write", "b: x"], ["Read", "Write"]),
        (["a:"], None),
    ],
)  # fmt: skip
def test_a_list_is_read_in_all_its_forms(lines: list[str], wanted: object) -> None:
    assert top(*lines).words("a") == wanted


def test_one_level_of_keys_is_read_and_what_is_deeper_is_left_out_with_a_note() -> None:
    read = top(
        "metadata:",
        "  author: me",
        '  version: "1.0"',
        "  tags: [a, b]",
        "  deep:",
        "    er: x",
        "  none:",
        "after: x",
    )

    assert read.mapping("metadata") == {"author": "me", "version": "1.0", "none": ""}
    assert read.notes == [
        "line 5: metadata.tags is left out: found a list or keys for tags, wanted text",
        "line 7: metadata.deep is left out: found keys below deep, wanted text",
    ]


def test_keys_in_braces_are_left_out_with_a_note() -> None:
    read = top("metadata:", "  {", '    "bins": ["x"]', "  }", "m: {a: b}")

    assert (read.mapping("metadata"), read.mapping("m"), read.mapping("n")) == ({}, {}, {})
    assert read.notes == [
        "line 2: metadata is written in braces and left out",
        "line 6: m is written in braces and left out",
    ]


def test_a_colon_without_quotes_is_text_and_is_noted() -> None:
    read = top("d: Use this: now")

    assert read.text("d") == "Use this: now"
    assert read.notes == ["line 2: d has a colon and no quotes"]


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        (["d: &anchor x"], 2, "beginning with &"),
        (["d: *alias"], 2, "beginning with *"),
        (["d: !!python/object x"], 2, "beginning with !"),
        (["d: @x"], 2, "beginning with @"),
        (["d: [a, b]"], 2, "a list or keys"),
        (["d: {a: b}"], 2, "a list or keys"),
        (["d: - a"], 2, "a list or keys"),
        (["d:", "  - a"], 3, "a list or keys"),
        (["d:", "  a: b"], 3, "keys below d"),
        (["d: ? x"], 2, "beginning with ?"),
        (["d: |x", "  y"], 2, "beginning with |x"),
        (["d: |", "    one", "  two"], 4, "left of the text"),
        (['d: "open'], 2, "not closed"),
        (["d: 'open", "  still"], 2, "not closed"),
        (['d: "x" y'], 2, "behind the quotes"),
        (['d: "x"', "  y"], 3, "behind the quotes"),
        (['d: "\\q"'], 2, "the escape \\q"),
        (['d: "\\x41"'], 2, "the escape \\x"),
        (['d: "\\U0001F600"'], 2, "the escape \\U"),
        (['d: "\\u00e"'], 2, "the escape \\u"),
        (['d: "joi\\', '  ned"'], 2, "the escape"),
        (["d: |2-", "    one", "  two"], 2, "beginning with |2-"),
        (["d: one # a comment", "  two"], 3, "behind a comment"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(lines: list[str], line: int, reason: str) -> None:
    read = top(*lines)
    with pytest.raises(Unreadable) as caught:
        read.text("d")

    assert caught.value.line == line
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        (["a: [x, [y]]"], 2, "not text"),
        (["a: [x, , y]"], 2, "not text"),
        (["a: [x"], 2, "wanted ]"),
        (["a: ['x]"], 2, "not text"),
        (["a:", "  - x: y"], 3, "not text"),
        (["a:", "  - - x"], 3, "not text"),
        (["a:", "  - x", "    y"], 4, "not `- item`"),
        (["a:", "  - *x"], 3, "not text"),
    ],
)
def test_what_is_no_list_is_refused_with_its_line(lines: list[str], line: int, reason: str) -> None:
    read = top(*lines)
    with pytest.raises(Unreadable) as caught:
        read.words("a")

    assert caught.value.line == line
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "no front matter"),
        ("# Title\n", 1, "no front matter"),
        (" ---\nname: x\n---\n", 1, "no front matter"),
        ("---\nname: x\n", 1, "no end"),
        ("---\nname:x\n---\n", 2, "not `key: value`"),
        ("---\njust words\n---\n", 2, "not `key: value`"),
        ("---\n  name: x\n---\n", 2, "indented line before any key"),
        ("---\nname: x\n\tdescription: y\n---\n", 3, "a tab"),
        ("---\nname: x\nother: z\nname: y\n---\n", 4, "name again, the first is in line 2"),
        ("---\n" + "a: b\n" * 1 + "c: " + "d" * 40_000 + "\n---\n", 1, "over 32,768 characters"),
    ],
)
def test_a_file_without_right_front_matter_is_refused(text: str, line: int, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_front_matter(text)

    assert caught.value.line == line
    assert reason in caught.value.reason


def test_the_body_is_what_comes_after_and_may_have_lines_of_dashes() -> None:
    read = read_front_matter("\ufeff---\r\na: b\r\n--- \r\n\r\n# T\r\n\r\n---\r\nx\x0cy\r\n")

    assert (read.text("a"), read.body) == ("b", "# T\n\n---\nx\x0cy")


@given(st.text(alphabet="ab:#-'\"[]{}|>&*! \n\t\\,", max_size=80))
def test_any_text_is_read_or_refused_with_a_line_that_is_there(text: str) -> None:
    whole = f"---\n{text}\n---\n"
    refused = []
    try:
        read = read_front_matter(whole)
        for key in read.entries:
            for reading in (read.text, read.words, read.mapping):
                with suppress(Unreadable):
                    reading(key)
    except Unreadable as error:
        refused.append(error.line)

    assert all(1 <= line <= whole.count("\n") + 1 for line in refused)


# ------------------------------------------------------------------------------------- a skill


@pytest.mark.parametrize("name", ["pdf", "a", "pdf-2-text", "9", "a" * 64])
def test_a_name_of_lowercase_words_is_taken(name: str) -> None:
    assert skill(f"name: {name}", "description: d", folder=name).name == name


@pytest.mark.parametrize(
    ("lines", "folder", "line", "reason"),
    [
        (["description: d"], "pdf", 1, "no name"),
        (["name:", "description: d"], "pdf", 2, "no name"),
        (["description: d", "name: PDF"], "PDF", 3, "another kind of name"),
        (["name: -pdf", "description: d"], "-pdf", 2, "another kind of name"),
        (["name: pdf-", "description: d"], "pdf-", 2, "another kind of name"),
        (["name: p--f", "description: d"], "p--f", 2, "another kind of name"),
        (["name: p_f", "description: d"], "p_f", 2, "another kind of name"),
        (["name: ../pdf", "description: d"], "pdf", 2, "another kind of name"),
        (["name: " + "a" * 65, "description: d"], "a" * 65, 2, "another kind of name"),
        (["name: doc", "description: d"], "pdf", 2, "name doc, wanted that of its folder, pdf"),
        (["name: pdf"], "pdf", 1, "no description"),
        (["name: pdf", 'description: " "'], "pdf", 3, "no description"),
        (["name: pdf", 'description: "a\\0b"'], "pdf", 3, "escape"),
        (["name: pdf", 'description: "\\ud800"'], "pdf", 3, "cannot be stored"),
        (["name: pdf", "description: d", 'allowed-tools: ["\\ud800"]'], "pdf", 4, "cannot be stored"),
        (["name: pdf", "description: d", "metadata: x"], "pdf", 4, "found text for metadata"),
        (["name: pdf", "description: d", "allowed-tools: {a: b}"], "pdf", 4, "a list or keys"),
    ],
)  # fmt: skip
def test_a_skill_against_the_convention_is_refused_with_its_line(
    lines: list[str], folder: str, line: int, reason: str
) -> None:
    with pytest.raises(Unreadable) as caught:
        skill(*lines, folder=folder)

    assert caught.value.line == line
    assert reason in caught.value.reason


def test_bytes_that_are_no_text_are_refused_with_their_line() -> None:
    for data, reason in ((b"---\nname: \xff\n---\n", "UTF-8"), (b"---\nname: \x00\n---\n", "NUL")):
        with pytest.raises(Unreadable, match=f"line 2.*{reason}"):
            read_skill(data, folder="pdf")


def test_a_description_is_one_line_whatever_its_form() -> None:
    read = skill("name: pdf", "description: |", "  One.", "", "  ## System", "  Two.")

    assert read.description == "One. ## System Two."


def test_a_description_over_the_limit_is_cut_and_noted() -> None:
    at_limit = skill("name: pdf", "description: " + "x" * 1024)
    over = skill("name: pdf", "description: " + "x" * 1025)

    assert (len(at_limit.description), at_limit.notes) == (1024, ())
    assert over.description == "x" * 1023 + "…"
    assert over.notes == ("line 3: description has 1,025 characters and is cut at 1,024",)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("Read Write", ("Read", "Write")),
        ("Read, Write,Edit", ("Read", "Write", "Edit")),
        ("Bash(git add:*) Bash(jq:*) Read", ("Bash", "Read")),
        ("Bash(git commit -m, x), Read", ("Bash", "Read")),
        ('["Bash(*)", "Read"]', ("Bash", "Read")),
        ("mcp__github__list_issues", ("mcp__github__list_issues",)),
        ("[]", ()),
        ("", None),
        ('""', None),
    ],
)
def test_allowed_tools_are_names_without_what_is_in_brackets(
    said: str, wanted: tuple[str, ...] | None
) -> None:
    assert skill("name: pdf", "description: d", f"allowed-tools: {said}").allowed_tools == wanted


def test_too_many_allowed_tools_are_refused() -> None:
    many = ", ".join(f"t{n}" for n in range(129))
    with pytest.raises(Unreadable, match="line 4: found allowed-tools beyond 128"):
        skill("name: pdf", "description: d", f"allowed-tools: {many}")


def test_keys_that_are_not_known_are_noted_and_may_hold_anything() -> None:
    read = skill(
        "name: pdf", "description: d", "hint: [a] [b]", "hooks:", "  - *x", "compatibility: c"
    )

    assert read.notes == ("line 4: hint is ignored", "line 5: hooks is ignored")
    assert read.compatibility == "c"
