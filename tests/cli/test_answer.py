"""`windlass answer`: a person reads a question and answers it from any process; a wrong answer uses nothing up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.agents.askers import asker
from tests.cli.started import values, windlass
from tests.limits import HANGS_S
from windlass import Runtime


def asked(folder: Path, what: str) -> str:
    """Have a turn ask; return the key of its wait. The process that asked is gone, as far as the store knows."""

    async def ask() -> str:
        async with Runtime(asker, store=f"sqlite:///{folder}/windlass.db") as rt:
            result = await rt.session("s").run(what, turn_id="t")
            return result.waits[0].key

    return asyncio.run(ask())


def ended(folder: Path) -> str:
    """Drive the turn to its end; return what the model was told, in its own words."""

    async def end() -> str:
        async with Runtime(asker, store=f"sqlite:///{folder}/windlass.db") as rt:
            return (await rt.turn("s", "t").result(timeout=HANGS_S)).text

    return asyncio.run(end())


def open_keys(folder: Path) -> list[str]:
    async def look() -> list[str]:
        async with Runtime(store=f"sqlite:///{folder}/windlass.db") as rt:
            return [wait.key for wait in await rt.waits()]

    return asyncio.run(look())


@pytest.mark.parametrize(
    ("what", "words", "told"),
    [
        ("colour", ["2"], "light green"),
        ("age", ["42"], "42"),
        ("any", ["5", "--json"], "5"),
        ("any", ["--value", "[1, 2]"], "[1,2]"),
        ("defer", ["--value", '{"pages": 3}'], '{"pages":3}'),
    ],
)
def test_an_answer_is_taken_and_it_is_said_what_happens_next(
    tmp_path: Path, what: str, words: list[str], told: str
) -> None:
    done = windlass("answer", asked(tmp_path, what)[:12], *words, "--by", "eva", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    if "--json" in words:
        (said,) = values(done)
        assert said == {"status": "accepted", "answer": said["answer"]}
        assert (said["answer"]["value"], said["answer"]["by"]) == ("5", "eva")
    else:
        assert "accepted: the answer is recorded (by eva)" in done.stdout
        assert "it continues when one with the agent asker runs" in done.stdout
    assert ended(tmp_path) == f"It is ok: {told}"


@pytest.mark.parametrize(
    ("what", "words", "says"),
    [
        ("colour", ["red"], 'value: found another value, wanted one of: "blue", "light green"'),
        ("age", ["-3"], "value: found another number, wanted a number of at least 0"),
        ("name", ["--value", "42"], "value: found integer, wanted string"),
        ("any", [], "answer: found 0 answers, wanted an answer, --value JSON or --reject REASON"),
        ("any", ["a", "--reject", "b"], "answer: found 2 answers, wanted an answer"),
        ("any", ["--value", "{"], "value: not valid JSON"),
    ],
)
def test_a_wrong_answer_is_refused_in_one_line_and_the_question_stays_open(
    tmp_path: Path, what: str, words: list[str], says: str
) -> None:
    key = asked(tmp_path, what)
    done = windlass("answer", key, *words, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert open_keys(tmp_path) == [key]


def test_who_will_not_answer_says_why_and_the_model_reads_it(tmp_path: Path) -> None:
    key = asked(tmp_path, "colour")
    done = windlass("answer", key, "--reject", "Ask the painter.", cwd=tmp_path)

    assert done.returncode == 0
    assert ended(tmp_path) == "It is error: Ask the painter."


def test_a_second_answer_comes_too_late_and_says_so_with_its_exit_code(tmp_path: Path) -> None:
    key = asked(tmp_path, "colour")
    first = windlass("answer", key, "blue", "--by", "eva", "--json", cwd=tmp_path)
    second = windlass("answer", key, "light green", "--json", cwd=tmp_path)
    read = windlass("answer", key, "light green", cwd=tmp_path)

    assert (first.returncode, second.returncode, read.returncode) == (0, 1, 1)
    (accepted,), (already,) = values(first), values(second)
    assert (accepted["status"], already["status"]) == ("accepted", "already")
    assert (already["answer"]["value"], already["answer"]["by"]) == ("blue", "eva")
    assert read.stdout == ('already: another answer came first (by eva)\nanswered: "blue"\n')


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", "found '', 0 characters, wanted at least 10"),
        ("w_", "found 'w_', 2 characters, wanted at least 10"),
        ("w_0123456", "found 'w_0123456', 9 characters, wanted at least 10"),
        ("w_nobodyhas", "no open wait has a key that begins so; perhaps it was answered"),
    ],
)
@pytest.mark.parametrize("command", ["approve", "deny"])
def test_what_means_no_wait_for_certain_answers_none(
    tmp_path: Path, command: str, given: str, found: str
) -> None:
    """`approve "$KEY"` without a KEY is not a yes to whatever is open."""
    key = asked(tmp_path, "change")
    done = windlass(command, given, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert f"key: {found}" in done.stderr
    assert "(windlass waits --json lists them)" in done.stderr
    assert open_keys(tmp_path) == [key]


def test_a_question_of_a_turn_that_was_cancelled_says_that_it_is_over(tmp_path: Path) -> None:
    key = asked(tmp_path, "colour")
    assert windlass("cancel", "s", "t", cwd=tmp_path).returncode == 0
    ended(tmp_path)

    done = windlass("answer", key, "blue", cwd=tmp_path)

    assert done.returncode == 1
    assert "superseded: too late: the turn has ended, or went on without this answer" in done.stdout


def test_a_call_that_waits_for_permission_is_not_answered(tmp_path: Path) -> None:
    key = asked(tmp_path, "change")
    done = windlass("answer", key, "yes", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "key: it is a wait of kind approval; use windlass approve or deny, or runtime"
        in done.stderr
    )
    assert open_keys(tmp_path) == [key]


@pytest.mark.parametrize("command", ["approve", "deny"])
def test_a_question_is_not_approved_and_the_right_command_is_named(
    tmp_path: Path, command: str
) -> None:
    done = windlass(command, asked(tmp_path, "colour"), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert "kind question; use windlass answer, or runtime.resolve() or reject()" in done.stderr


def test_what_comes_by_itself_is_not_answered_in_its_place(tmp_path: Path) -> None:
    key = asked(tmp_path, "again")
    done = windlass("answer", key, "now", cwd=tmp_path)

    assert done.returncode == 2
    wanted = "wanted one of kind question, deferred, unknown_outcome"
    assert f"key: found a wait of kind timer, {wanted}" in done.stderr
    assert open_keys(tmp_path) == [key]


def test_the_list_shows_a_question_whole_and_what_to_type(tmp_path: Path) -> None:
    key = asked(tmp_path, "hostile")
    shown = windlass("waits", "--kind", "question", cwd=tmp_path).stdout

    assert shown.partition("\n\n")[2].splitlines() == [
        r"Pay\u202e eva?\u001b[2J\u001b]0;owned\u0007",
        "↪ Second line.",
        f"windlass answer {key[:14]} ANSWER",
    ]
    assert not set("\u202e\x1b\x07") & set(shown)
    assert windlass("waits", "--kind", "timer", cwd=tmp_path).stdout == "no open waits\n"


def test_the_command_in_the_list_names_the_store_that_was_named(tmp_path: Path) -> None:
    key = asked(tmp_path, "colour")
    (tmp_path / "windlass.db").rename(tmp_path / "other place.db")
    shown = windlass("waits", "--store", "other place.db", cwd=tmp_path).stdout

    again = f"windlass answer {key[:14]} ANSWER --store 'sqlite:///other place.db'"
    assert shown.splitlines()[-1] == again


# ------------------------------------------------------------------ diffs


def test_a_diff_stands_for_an_argument_that_can_be_read_in_it(tmp_path: Path) -> None:
    asked(tmp_path, "change")
    shown = windlass("waits", cwd=tmp_path).stdout

    assert shown.partition(" · write\n")[2] == (
        "  text = 3 lines, all of them below\n"
        "\n"
        "--- a/notes\n"
        "+++ b/notes\n"
        "@@ -1,4 +1,4 @@\n"
        " one\n"
        "-two\n"
        "+two and a half\n"
        " three\n"
        " \n"
    )


def test_other_arguments_than_the_models_are_shown_without_its_diff(tmp_path: Path) -> None:
    key = asked(tmp_path, "change")
    edit = '{"text": "mine\\nalone"}'
    shown = windlass("approve", key, "--edit", edit, cwd=tmp_path).stdout

    assert '  text = "mine\\n\n    alone"\n' in shown
    assert "two and a half" not in shown
    assert "+++" not in shown
