"""Questions in a conversation: what is asked and which answers it takes is on the screen, and a wrong one uses nothing up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.started import Chat, windlass

Talk = Callable[[str], Chat]


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    begun: list[Chat] = []

    def start(said: str) -> Chat:
        chat = Chat(tmp_path, "-m", "askers:asker", "--session", "s", "--by", "eva")
        begun.append(chat)
        chat.say(said)
        return chat

    yield start
    for chat in begun:
        chat.close()


def test_one_of_the_answers_that_are_offered_is_picked_by_its_number(talk: Talk) -> None:
    chat = talk("colour")
    chat.until("answer >")

    assert "A question for you" in chat.screen
    for row in ("Which colour?", "1  blue", "2  light green", r"3  \u202egnorw"):
        assert row in chat.screen
    assert "\u202e" not in chat.raw
    chat.answer("2")
    chat.until("It is ok: light green")


def test_an_answer_that_does_not_fit_is_refused_and_the_person_asked_again(talk: Talk) -> None:
    chat = talk("age")
    chat.until("answer >")
    assert "a whole number" in chat.screen
    chat.answer("old")
    chat.until("value: found string, wanted integer")
    chat.until("answer >", count=2)
    chat.answer("")
    chat.until("answer >", count=3)
    chat.answer("42")
    chat.until("It is ok: 42")


def test_yes_is_an_answer_to_a_question_of_yes_or_no(talk: Talk) -> None:
    chat = talk("sure")
    chat.until("answer >")
    assert "yes or no" in chat.screen
    chat.answer("yes")
    chat.until("It is ok: true")


def test_json_is_typed_where_a_question_wants_an_object(talk: Talk) -> None:
    chat = talk("date")
    chat.until("answer >")
    chat.answer('{"day": 3}')
    chat.until('It is ok: {"day":3}')


def test_any_words_are_an_answer_where_any_will_do(talk: Talk) -> None:
    chat = talk("any")
    chat.until("answer >")
    chat.answer("the blue one, please")
    chat.until("It is ok: the blue one, please")


def test_ctrl_d_leaves_the_question_open_and_says_how_to_answer_it_later(
    talk: Talk, tmp_path: Path
) -> None:
    chat = talk("name")
    chat.until("answer >")
    chat.press_ctrl_d()
    chat.until("the question stays open: windlass answer w_")
    command = chat.screen.partition("the question stays open: windlass ")[2].split()[:2]
    chat.until_asked()
    done = windlass(*command, "Ada", cwd=tmp_path)

    assert (command[0], done.returncode) == ("answer", 0)
    chat.say("/wait")
    chat.until("It is ok: Ada")


@pytest.mark.parametrize(
    ("said", "asks", "command"),
    [
        ("name", "answer >", "answer {key} ANSWER --store sqlite:///other.db"),
        ("change", "[s]ession >", "approve {key} --store sqlite:///other.db"),
        ("defer", "it is kept", "answer {key} RESULT --store sqlite:///other.db"),
    ],
)
def test_the_command_for_later_names_the_store_that_was_named(
    tmp_path: Path, said: str, asks: str, command: str
) -> None:
    chat = Chat(tmp_path, "-m", "askers:asker", "--session", "s", "--store", "other.db")
    try:
        chat.say(said)
        chat.until(asks)
        if asks.endswith(">"):
            chat.press_ctrl_d()
        chat.until_asked()
        shown = " ".join(chat.screen.split())
    finally:
        chat.close()

    (key,) = set(re.findall(r"windlass a\w+ (w_\w{12})", shown))
    assert f"windlass {command.format(key=key)}" in shown
    typed = command.format(key=key).replace("ANSWER", "Ada").replace("RESULT", "done")
    assert windlass(*typed.split(), cwd=tmp_path).returncode == 0


def test_a_question_of_a_conversation_that_was_killed_is_asked_again(
    talk: Talk, tmp_path: Path
) -> None:
    chat = talk("name")
    chat.until("answer >")
    chat.kill()
    again = Chat(tmp_path, "-m", "askers:asker", "--session", "s")
    try:
        again.until("answer >")
        assert "Which name?" in again.screen
        again.answer("Ada")
        again.until("It is ok: Ada")
    finally:
        again.close()


def test_a_question_steers_no_terminal(talk: Talk) -> None:
    chat = talk("hostile")
    chat.until("answer >")

    assert r"Pay\u202e eva?\u001b[2J\u001b]0;owned\u0007" in chat.screen
    assert "↪ Second line." in chat.screen
    for hidden in ("\u202e", "\x1b]0;owned", "\x1b[2J"):
        assert hidden not in chat.raw


def test_a_diff_is_shown_in_its_colours_before_a_call_is_allowed(talk: Talk) -> None:
    chat = talk("change")
    chat.until("[s]ession >")

    assert "text = 3 lines, all of them below" in chat.screen
    assert "\x1b[31m-two" in chat.raw
    assert "\x1b[32m+two and a half" in chat.raw
    chat.answer("y")
    chat.until("It is ok: wrote 25")


def test_what_was_typed_before_a_question_was_shown_does_not_answer_it(talk: Talk) -> None:
    chat = talk("change\ny")
    chat.until("[s]ession >")
    chat.answer("n not yet")
    chat.until("It is denied")


def test_a_yes_with_a_condition_is_none(talk: Talk) -> None:
    chat = talk("change")
    chat.until("[s]ession >")
    chat.answer("yes but rename it first")
    chat.until("y allows it")
    chat.until("[s]ession >", count=2)
    chat.answer("y")
    chat.until("It is ok: wrote 25")


def test_the_end_of_a_long_line_of_a_diff_does_not_look_like_another_line(talk: Talk) -> None:
    chat = talk("long")
    chat.until("[s]ession >")

    rows = [row.strip("│").strip() for row in chat.screen.splitlines()]
    assert "+two;" in rows
    (gone,) = [row for row in rows if row.endswith("-gone()")]
    assert gone.startswith("↪ ")


def test_what_cannot_be_asked_here_is_told_with_the_command_that_answers_it(
    talk: Talk, tmp_path: Path
) -> None:
    chat = talk("defer")
    chat.until("the turn waits (deferred)")
    chat.until("RESULT")
    command = chat.screen.partition("windlass answer ")[2].split()[:2]
    chat.until_asked()

    assert command[1] == "RESULT"
    assert windlass("answer", command[0], "done", cwd=tmp_path).returncode == 0
    chat.say("/wait")
    chat.until("It is ok: done")
