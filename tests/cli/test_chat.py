"""A conversation in a real pseudo-terminal: words as they come, questions, Ctrl-C, kill -9."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.started import Begin, Chat, lines, values, windlass
from windlass import Runtime
from windlass.kernel import ToolResult


def committed(folder: Path) -> list[str]:
    """The roles and words of the session, as the store has them."""

    async def read() -> list[str]:
        async with Runtime(store=f"sqlite:///{folder / 'windlass.db'}") as runtime:
            history = await runtime.session("s").history()
            return [f"{m.role}: {getattr(p, 'text', '')}" for m in history for p in m.parts]

    return asyncio.run(read())


def told_to_the_model(folder: Path) -> list[str]:
    """The status of each result that the session has, as the store has them."""

    async def read() -> list[str]:
        async with Runtime(store=f"sqlite:///{folder / 'windlass.db'}") as runtime:
            history = await runtime.session("s").history()
            return [p.status for m in history for p in m.parts if isinstance(p, ToolResult)]

    return asyncio.run(read())


def test_words_appear_one_by_one_and_end_as_markdown(begin: Begin) -> None:
    chat = begin(TALKER_PAUSE_S="0.2")

    chat.say("letter please")
    chat.until("one item")
    assert "That is all of it." not in chat.screen
    chat.until("1 call · 10 in · 5 out")
    chat.until_asked()

    shown = [line.strip() for line in chat.screen.splitlines() if line.strip()]
    assert shown[3:] == [
        "A letter",
        "It has two blocks.",
        "• one item",
        "• another item",
        "That is all of it.",
        "1 call · 10 in · 5 out",
        ">",
    ]


def test_it_says_which_agent_model_store_and_session(begin: Begin) -> None:
    chat = begin()
    chat.until_asked()

    assert chat.screen.splitlines()[:2] == [
        "windlass chat · agent talkers:talker, model talker · sqlite:///windlass.db · /help",
        "new session; to continue it: windlass chat -m talkers:talker --session s",
    ]
    chat.press_ctrl_d()
    assert chat.end() == 0


def test_an_approval_is_asked_with_its_arguments_and_the_call_shown(
    begin: Begin, tmp_path: Path
) -> None:
    chat = begin("--by", "eva")

    chat.say("pay the rent")
    chat.until("[s]ession >")
    assert "Run pay?" in chat.screen
    assert "cents = 90000" in chat.screen
    assert 'to = "landlord"' in chat.screen
    assert "risk high" in chat.screen
    assert lines(tmp_path, "payments.txt") == []
    chat.answer("y")
    chat.until("It ended: paid 90000 to landlord")

    assert '→ pay(cents=90000, to="landlord")' in chat.screen
    assert "✓ pay paid 90000 to landlord (" in chat.screen
    assert lines(tmp_path, "payments.txt") == ["landlord 90000"]


def test_no_with_a_reason_reaches_the_model(begin: Begin, tmp_path: Path) -> None:
    chat = begin()

    chat.say("pay the rent")
    chat.until("[s]ession >")
    chat.answer("n it is paid already")
    chat.until("It ended: Denied: it is paid already")

    assert "✗ pay denied:" in chat.screen
    assert lines(tmp_path, "payments.txt") == []


def test_arguments_can_be_edited_before_they_are_allowed(begin: Begin, tmp_path: Path) -> None:
    chat = begin()

    chat.say("pay the rent")
    chat.until("[s]ession >")
    chat.answer("maybe")
    chat.until("e edits the arguments first")
    chat.answer("e")
    chat.until('arguments > {"cents":90000,"to":"landlord"}')
    chat.type("\x15")  # ctrl-u: the line is empty again
    chat.answer('{"cents": 45000, "to": "landlord"}')
    chat.until("✓ pay paid 45000 to landlord")

    assert lines(tmp_path, "payments.txt") == ["landlord 45000"]


def test_a_yes_for_the_session_is_not_asked_for_again(begin: Begin, tmp_path: Path) -> None:
    chat = begin()

    chat.say("pay may")
    chat.until("[s]ession >")
    chat.answer("s")
    chat.until("It ended:")
    chat.say("pay june")
    chat.until("It ended:", count=2)

    assert chat.screen.count("Run pay?") == 1
    assert lines(tmp_path, "payments.txt") == ["landlord 90000"] * 2


def test_ctrl_c_cancels_the_turn_and_keeps_the_session(begin: Begin, tmp_path: Path) -> None:
    chat = begin()

    chat.say("endless")
    chat.until("still talking")
    chat.press_ctrl_c()
    chat.until("■ stopped: cancelled (Ctrl-C)")
    assert "still talking" not in chat.screen
    chat.say("hello again")
    chat.until("You said: hello again")
    chat.until_asked()
    chat.press_ctrl_d()

    assert chat.end() == 0
    assert committed(tmp_path)[-2:] == ["user: hello again", "assistant: You said: hello again"]


def test_ctrl_c_twice_leaves_with_130(begin: Begin) -> None:
    chat = begin()

    chat.until_asked()

    assert chat.leave_with_ctrl_c() == 130
    assert chat.screen.count("press Ctrl-C again, or Ctrl-D, to leave") == 1


def test_after_kill_9_in_mid_stream_the_turn_goes_on_and_the_words_are_taken_back(
    begin: Begin, tmp_path: Path
) -> None:
    first = begin(TALKER_PAUSE_S="0.5")
    first.say("tell me a long story")
    first.until("You said: tell")
    first.kill()

    second = begin()
    second.until("You said: tell me a long story")
    second.until_asked()

    screen = second.screen
    assert "session s: no finished turn yet" in screen
    assert ": tell me a long story" in screen
    assert "↩ taken back: anything else it showed was not recorded" in screen
    second.press_ctrl_d()
    assert second.end() == 0
    assert len(lines(tmp_path, "model_calls.txt")) == 2
    assert committed(tmp_path) == [
        "user: tell me a long story",
        "assistant: You said: tell me a long story",
    ]


def test_after_kill_9_at_a_question_it_is_asked_again_and_the_reply_is_kept(
    begin: Begin, tmp_path: Path
) -> None:
    first = begin()
    first.say("pay the rent")
    first.until("[s]ession >")
    first.kill()

    second = begin()
    second.until("[s]ession >")
    screen = second.screen
    assert "recorded:" in screen
    assert screen.count("I will pay.") == 1
    assert "taken back" not in screen
    second.answer("y")
    second.until("It ended: paid 90000 to landlord")

    assert lines(tmp_path, "payments.txt") == ["landlord 90000"]
    said = [line.partition(" ")[2] for line in lines(tmp_path, "model_calls.txt")]
    assert said == ["pay the rent"] * 2  # one before the question, one after it: none twice


def test_the_recorded_call_of_a_parked_turn_is_shown_when_it_is_resumed(tmp_path: Path) -> None:
    """A reply may be a call and no words: it is recorded all the same."""
    words = ('cast_off {"port": "Lisbon"}', "-m", "crew:deck", "--session", "s")
    assert windlass("run", *words, cwd=tmp_path).returncode == 3
    chat = Chat(tmp_path, "-m", "crew:deck", "--session", "s")
    try:
        chat.until("[s]ession >")
        screen = chat.screen
    finally:
        chat.close()

    assert "recorded yet" not in screen
    assert 'recorded:\n  → cast_off(port="Lisbon")\n' in screen


def test_after_kill_9_in_a_tool_it_says_what_is_done_about_the_call(
    begin: Begin, tmp_path: Path
) -> None:
    first = begin()
    first.say("linger")
    first.until("→ linger()")
    while not lines(tmp_path, "begun.txt"):
        first.until("→ linger()")
    first.kill()

    second = begin()
    second.until("It ended:")

    assert "? linger(): started, no result (once: it is not run again" in second.screen
    second.until_asked()
    assert told_to_the_model(tmp_path) == ["unknown"]
    assert lines(tmp_path, "begun.txt") == ["begun"]


def test_a_turn_that_waits_for_a_provider_is_kept_and_can_be_tried_again(
    begin: Begin, tmp_path: Path
) -> None:
    chat = begin()

    chat.say("shaky line")
    chat.until("the turn waits (provider)")
    chat.until("/retry tries again")
    (tmp_path / "up.txt").touch()
    chat.say("/retry")
    chat.until("You said: shaky line")
    chat.until_asked()

    assert committed(tmp_path) == ["user: shaky line", "assistant: You said: shaky line"]


def test_an_unfinished_turn_can_be_cancelled_from_the_prompt(begin: Begin, tmp_path: Path) -> None:
    chat = begin()

    chat.say("pay the rent")
    chat.until("[s]ession >")
    chat.press_ctrl_d()
    chat.until("the question stays open")
    chat.say("/cancel not today")
    chat.until("stopped: cancelled (not today)")
    chat.say("hello")
    chat.until("You said: hello")

    assert lines(tmp_path, "payments.txt") == []


def test_a_turn_that_another_process_drives_is_shown_as_that_one_records_it(begin: Begin) -> None:
    first = begin(TALKER_PAUSE_S="0.6")
    first.say("a b c d e f g h")
    first.until("You said: a b")

    second = begin()
    second.until("it runs in another process")
    second.until("You said: a b c d e f g h")
    second.until_asked()

    assert "taken back" not in second.screen


def test_without_a_terminal_each_line_is_a_turn(tmp_path: Path) -> None:
    done = windlass(
        *("chat", "-m", "talkers:talker", "--session", "s"), cwd=tmp_path, said="one\ntwo\n"
    )

    assert done.returncode == 0
    said = [line for line in done.stdout.splitlines() if line.startswith("You said")]
    assert [line.rstrip() for line in said] == ["You said: one", "You said: two"]
    assert "\x1b" not in done.stdout


def test_with_json_each_line_is_a_turn_until_one_waits(tmp_path: Path) -> None:
    done = windlass(
        *("chat", "-m", "talkers:talker", "--session", "s", "--json"),
        cwd=tmp_path,
        said="one\n\npay\ntwo\n",
    )

    found = values(done)
    assert done.returncode == 3
    assert [each["status"] for each in found] == ["done", "parked"]
    assert found[0]["text"] == "You said: one"
    assert found[1]["waits"][0]["kind"] == "approval"


def test_a_question_left_open_can_be_answered_later(begin: Begin, tmp_path: Path) -> None:
    chat = begin()

    chat.say("pay the rent")
    chat.until("[s]ession >")
    chat.press_ctrl_d()
    chat.until("the question stays open: windlass approve w_")
    chat.say("something else")
    chat.until("/wait asks again")
    chat.say("/wait")
    chat.until("[s]ession >", count=2)
    chat.answer("y")
    chat.until("It ended: paid")

    assert lines(tmp_path, "payments.txt") == ["landlord 90000"]


def test_several_lines_are_one_message(begin: Begin, tmp_path: Path) -> None:
    chat = begin()

    chat.say("one \\")
    chat.answer("two")
    chat.until("1 call")
    chat.say('"""three')
    chat.answer("four")
    chat.answer('five"""')
    chat.until("1 call", count=2)
    chat.until_asked()
    chat.type("\x1b[200~six\nseven\x1b[201~\r")
    chat.until("1 call", count=3)

    users = [line for line in committed(tmp_path) if line.startswith("user")]
    assert users == ["user: one \ntwo", "user: three\nfour\nfive", "user: six\nseven"]


def test_what_a_model_writes_does_not_steer_the_terminal(begin: Begin) -> None:
    chat = begin()

    chat.say("escape")
    chat.until("1 call")

    assert r"\u001b]0;owned\u0007\u001b[31mred\u001b[0m plain" in chat.screen
    assert "\x1b]0;" not in chat.raw
    assert "\x1b[31m" not in chat.raw


def test_slash_commands_are_not_sent_to_the_model(begin: Begin, tmp_path: Path) -> None:
    chat = begin()

    chat.say("/help")
    chat.until("Ctrl-C cancels a running turn")
    chat.say("/dance")
    chat.until("unknown command /dance; /help lists the commands")
    chat.say("/wait")
    chat.until("there is no unfinished turn")
    chat.say("/quit")

    assert chat.end() == 0
    assert lines(tmp_path, "model_calls.txt") == []
